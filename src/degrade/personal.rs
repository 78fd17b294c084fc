//! Looks for personal data in a request body. It can only veto: what it finds is reason enough to keep a request with its provider; that it
//! finds nothing proves nothing, least of all the absence of names and addresses, which no pattern knows. So it is asked only about
//! requests that their app has marked as free of personal data.
//!
//! Every string of the body is read, whatever its field (ids and file names tell as much as prompts), every key, and every number. Content
//! that is no text (images, audio, files, or a kind of content that is not known here) is a veto by itself, since nobody looked inside.
//! Rather too often than too seldom: an order number of ten digits looks like a telephone number, and is taken for one.

mod digits;
mod words;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// An e-mail address.
    Email,
    /// Digits that may be a telephone number, an account or a national id.
    Number,
    /// The number of a payment card.
    Card,
    /// An international bank account number.
    Iban,
    /// A national id of letters and digits.
    NationalId,
    /// An IP address.
    Ip,
    /// Content that is no text.
    NotText,
    /// The body could not be read.
    Unreadable,
}

impl Found {
    /// The spelling in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Number => "number",
            Self::Card => "card",
            Self::Iban => "iban",
            Self::NationalId => "national_id",
            Self::Ip => "ip",
            Self::NotText => "not_text",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Fields that stand for content kept elsewhere or encoded.
const FILES: [&str; 12] = [
    "audio",
    "file",
    "file_data",
    "file_id",
    "file_ids",
    "file_url",
    "image",
    "image_url",
    "input_audio",
    "input_image",
    "vector_store_ids",
    "video_url",
];

/// What a `type` may say without meaning content that is not read here: text, tools, formats, thinking, and the types of JSON schemas.
const TEXT_TYPES: [&str; 36] = [
    "adaptive",
    "any",
    "array",
    "auto",
    "between_tools",
    "boolean",
    "content",
    "custom",
    "disabled",
    "enabled",
    "ephemeral",
    "function",
    "function_call",
    "function_call_output",
    "input_text",
    "integer",
    "json_object",
    "json_schema",
    "message",
    "none",
    "null",
    "number",
    "object",
    "output_text",
    "reasoning",
    "reasoning_text",
    "redacted_thinking",
    "refusal",
    "string",
    "summary_text",
    "text",
    "thinking",
    "tool",
    "tool_result",
    "tool_use",
    "custom_tool_call",
];

/// Scans a JSON body; `None` when nothing was found.
#[must_use]
pub fn scan(body: &[u8]) -> Option<Found> {
    let mut found = None;
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Scan { found: &mut found, field: Field::Other }.deserialize(&mut json).and_then(|()| json.end());
    // The walk ends with an error at the first find, too.
    found.or(read.err().map(|_| Found::Unreadable))
}

/// Scans one text.
#[must_use]
pub fn scan_text(text: &str) -> Option<Found> {
    words::scan(text).or_else(|| digits::scan(text))
}

/// Which field a value stands in, as far as that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    /// `type`
    Type,
    /// One of [`FILES`].
    File,
    Other,
}

/// Reads one value.
struct Scan<'f> {
    found: &'f mut Option<Found>,
    field: Field,
}

impl Scan<'_> {
    /// Ends the walk where something was found.
    fn note<E: Error>(self, found: Option<Found>) -> Result<(), E> {
        match found {
            None => Ok(()),
            Some(found) => {
                *self.found = Some(found);
                Err(E::custom("found"))
            }
        }
    }

    fn number<E: Error>(self, text: &str) -> Result<(), E> {
        let found = digits::scan(text);
        self.note(found)
    }
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(&number.unsigned_abs().to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        // Only a whole number can be one of those looked for; beyond 2^53 it is none anyway.
        if number.fract() == 0.0 { self.number(&format!("{number:.0}")) } else { Ok(()) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let found = match self.field {
            Field::File => Some(Found::NotText),
            Field::Type if !TEXT_TYPES.contains(&text) => Some(Found::NotText),
            Field::Type => None,
            Field::Other => scan_text(text),
        };
        self.note(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        // A list of types, as JSON schemas have it, is one of types; a list of files one of files.
        while seq.next_element_seed(Scan { found: &mut *self.found, field: self.field })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.field == Field::File {
            return self.note(Some(Found::NotText));
        }
        while let Some(key) = map.next_key::<String>()? {
            let field = match key.as_str() {
                "type" => Field::Type,
                key if FILES.contains(&key) => Field::File,
                key => {
                    if let Some(found) = scan_text(key) {
                        *self.found = Some(found);
                        return Err(A::Error::custom("found"));
                    }
                    Field::Other
                }
            };
            map.next_value_seed(Scan { found: &mut *self.found, field })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
