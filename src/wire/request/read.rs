//! Typed readers for the fields the gateway needs. `null` is the same as absent everywhere.

use super::error::{BodyError, FieldName, snippet};
use super::number::{MAX_COUNT, Whole, whole};
use crate::wire::cursor::{Cursor, Kind, ObjectSpan};
use std::borrow::Cow;

/// The most fields at the top of a body; the APIs have about forty.
const MAX_FIELDS: usize = 256;

/// The longest text that is kept from a body, bytes: ids, tiers, efforts. Prompts are never kept.
const MAX_TEXT: usize = 1_024;

/// Fields at the top whose value decides what a request costs or who pays. In other letter case they are refused: parsers that ignore case
/// (Go's, for one) would take `"MODEL"` for the model.
const METERED: [&str; 36] = [
    "audio",
    "background",
    "best_of",
    "conversation",
    "function_call",
    "functions",
    "inference_geo",
    "input",
    "instructions",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "output_config",
    "prediction",
    "previous_response_id",
    "prompt",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "service_tier",
    "speed",
    "stream",
    "stream_options",
    "suffix",
    "system",
    "thinking",
    "tools",
    "user",
    "web_search_options",
];

/// The keys at the top of a body so far.
#[derive(Default)]
pub(super) struct Keys<'a>(Vec<Cow<'a, str>>);

impl<'a> Keys<'a> {
    /// Takes note of a key and gives it back.
    ///
    /// # Errors
    /// Given twice, too many, or a metered field in other letter case.
    pub(super) fn admit(&mut self, key: Cow<'a, str>) -> Result<&str, BodyError> {
        if self.0.contains(&key) {
            return Err(BodyError::Duplicate { field: snippet(&key) });
        }
        if self.0.len() == MAX_FIELDS {
            return Err(BodyError::TooManyFields { max: MAX_FIELDS });
        }
        if let Some(field) = misspelled(&key, &METERED) {
            return Err(BodyError::Misspelled { field: field.into() });
        }
        self.0.push(key);
        Ok(self.0.last().expect("just pushed"))
    }
}

/// The name that a key would be if letter case did not count.
fn misspelled(key: &str, names: &[&'static str]) -> Option<&'static str> {
    if !key.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        return None;
    }
    // Unicode has two more letters that fold to ASCII ones: the long s and the Kelvin sign.
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    names.iter().copied().find(|name| key.chars().map(folded).eq(name.chars()))
}

/// `true`, `false` or `null`.
pub(super) fn boolean(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<bool>, BodyError> {
    match cursor.kind()? {
        Kind::Null => cursor.skip().map(|_| None),
        Kind::Bool => cursor.skip().map(|range| Some(cursor.slice(&range) == "true")),
        _ => Err(BodyError::WrongType { field: field.into(), expected: "true, false or null" }),
    }
}

/// A whole number from `min` up, or `null`.
pub(super) fn count(cursor: &mut Cursor<'_>, field: &'static str, min: u64) -> Result<Option<u64>, BodyError> {
    let field = FieldName::Borrowed(field);
    match cursor.kind()? {
        Kind::Null => cursor.skip().map(|_| None),
        Kind::Number => {
            let range = cursor.skip()?;
            match whole(cursor.slice(&range)) {
                Whole::Count(value) if value >= min => Ok(Some(value)),
                Whole::Count(_) | Whole::Negative => Err(BodyError::TooSmall { field, min }),
                Whole::TooLarge => Err(BodyError::TooLarge { field, max: MAX_COUNT }),
                Whole::Fraction => Err(BodyError::WrongType { field, expected: "a whole number" }),
            }
        }
        _ => Err(BodyError::WrongType { field, expected: "a whole number or null" }),
    }
}

/// A short text, or `null`.
pub(super) fn text(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<String>, BodyError> {
    match cursor.kind()? {
        Kind::Null => cursor.skip().map(|_| None),
        Kind::String => short(cursor, field.into(), MAX_TEXT).map(Some),
        _ => Err(BodyError::WrongType { field: field.into(), expected: "a string or null" }),
    }
}

/// A string of at most `max` bytes.
pub(super) fn short(cursor: &mut Cursor<'_>, field: FieldName, max: usize) -> Result<String, BodyError> {
    let text = cursor.string()?;
    if text.len() > max {
        return Err(BodyError::TextTooLong { field, max });
    }
    Ok(text.into_owned())
}

/// Whether the value is anything but `null`.
pub(super) fn present(cursor: &mut Cursor<'_>) -> Result<bool, BodyError> {
    let present = cursor.kind()? != Kind::Null;
    cursor.skip().map(|_| present)
}

/// An object or `null`. `read` is called before the value of each of the `names` and must move past it; other members are passed over.
pub(super) fn fields<'a>(
    cursor: &mut Cursor<'a>,
    path: impl Into<FieldName>,
    names: &[&'static str],
    read: impl FnMut(&mut Cursor<'a>, &'static str) -> Result<(), BodyError>,
) -> Result<Option<ObjectSpan>, BodyError> {
    match cursor.kind()? {
        Kind::Null => cursor.skip().map(|_| None),
        Kind::Object => members(cursor, || path.into(), names, read).map(Some),
        _ => Err(BodyError::WrongType { field: path.into(), expected: "an object or null" }),
    }
}

/// Like [`fields`], for a value known to be an object; `path` is only called for an error.
pub(super) fn members<'a>(
    cursor: &mut Cursor<'a>,
    path: impl FnOnce() -> FieldName,
    names: &[&'static str],
    mut read: impl FnMut(&mut Cursor<'a>, &'static str) -> Result<(), BodyError>,
) -> Result<ObjectSpan, BodyError> {
    enum Fault {
        Twice(&'static str),
        Case(&'static str),
    }
    let mut fault = None;
    let mut seen = 0_u64;
    let span = cursor.object(|cursor, key| {
        let Some(index) = names.iter().position(|name| *name == key) else {
            fault = fault.take().or_else(|| misspelled(&key, names).map(Fault::Case));
            return cursor.skip().map(drop);
        };
        if seen & 1 << index != 0 {
            fault = fault.take().or(Some(Fault::Twice(names[index])));
            return cursor.skip().map(drop);
        }
        seen |= 1 << index;
        read(cursor, names[index])
    })?;
    match fault {
        None => Ok(span),
        Some(Fault::Twice(name)) => Err(BodyError::Duplicate { field: format!("{}.{name}", path()).into() }),
        Some(Fault::Case(name)) => Err(BodyError::Misspelled { field: format!("{}.{name}", path()).into() }),
    }
}
