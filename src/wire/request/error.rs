//! Why a request body is refused, in words a client can act on.
//!
//! A message never repeats the body: at most a short escaped piece of a key's name, so that neither a prompt nor a secret in broken JSON
//! travels into an error or a log.

use crate::wire::cursor::MAX_DEPTH;
use std::borrow::Cow;

/// The name of a field, as a path a client recognises: `n`, `stream_options.include_usage`, `messages[3]`.
pub type FieldName = Cow<'static, str>;

/// How many characters of a client's own key an error repeats.
const SNIPPET_CHARS: usize = 48;

/// Why a body is refused; always a 400. The text is a full sentence, under 1 KB.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Nothing, or only white space.
    #[error("The request body is empty; it must be a JSON object.")]
    Empty,
    /// Some other encoding, or broken bytes.
    #[error("The request body is not valid UTF-8 from byte {at} on.")]
    NotUtf8 {
        /// Offset of the first wrong byte.
        at: usize,
    },
    /// Not JSON.
    #[error("The request body is not valid JSON: {what} at byte {at}.")]
    Syntax {
        /// What is wrong.
        what: &'static str,
        /// Where, as a byte offset.
        at: usize,
    },
    /// JSON, but not an object.
    #[error("The request body must be a JSON object.")]
    NotAnObject,
    /// Something follows the object.
    #[error("The request body holds more than one JSON object: unexpected data at byte {at}.")]
    TrailingData {
        /// Offset of the first byte too many.
        at: usize,
    },
    /// Deeper than any parser has to follow.
    #[error("The request body is nested too deeply: at most {MAX_DEPTH} levels of objects and arrays are allowed.")]
    TooDeep,
    /// An escape such as `\ud83d` that is half a character. Half of the providers' parsers refuse it, the others replace it.
    #[error("The request body holds half of a surrogate pair at byte {at}; probably a text was cut in the middle of an emoji.")]
    LoneSurrogate {
        /// Offset of the escape.
        at: usize,
    },
    /// A field given twice. Parsers differ in which one wins, so the gateway might meter one and the provider run the other.
    #[error("The field `{field}` is given twice.")]
    Duplicate {
        /// The field.
        field: FieldName,
    },
    /// A metered field in other letter case, which some providers' parsers take for the field itself.
    #[error("The field `{field}` must be spelled exactly so, in lower case.")]
    Misspelled {
        /// How it must be spelled.
        field: FieldName,
    },
    /// More fields than any API has.
    #[error("The request body has more than {max} fields.")]
    TooManyFields {
        /// The most allowed.
        max: usize,
    },
    /// A list beyond what any provider takes.
    #[error("`{field}` has too many elements: at most {max} are allowed.")]
    TooManyItems {
        /// The list.
        field: FieldName,
        /// The most allowed.
        max: usize,
    },
    /// A required field is absent or null.
    #[error("The required field `{field}` is missing.")]
    Missing {
        /// The field.
        field: FieldName,
    },
    /// Another type than the API's.
    #[error("`{field}` must be {expected}.")]
    WrongType {
        /// The field.
        field: FieldName,
        /// The right type, with its article.
        expected: &'static str,
    },
    /// Less than the API allows.
    #[error("`{field}` must be at least {min}.")]
    TooSmall {
        /// The field.
        field: FieldName,
        /// The least allowed.
        min: u64,
    },
    /// More than any provider allows.
    #[error("`{field}` must be at most {max}.")]
    TooLarge {
        /// The field.
        field: FieldName,
        /// The most allowed.
        max: u64,
    },
    /// A text that may not be empty.
    #[error("`{field}` must not be empty.")]
    EmptyText {
        /// The field.
        field: FieldName,
    },
    /// A text that is longer than any provider takes there.
    #[error("`{field}` must not be longer than {max} bytes.")]
    TextTooLong {
        /// The field.
        field: FieldName,
        /// The most allowed, in bytes of UTF-8.
        max: usize,
    },
    /// A name with control characters, which would end up in headers and logs.
    #[error("`{field}` must not hold control characters.")]
    ControlCharacter {
        /// The field.
        field: FieldName,
    },
}

impl BodyError {
    /// The `code` of the error body; OpenAI's own word where it has one.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty | Self::NotUtf8 { .. } | Self::Syntax { .. } | Self::NotAnObject | Self::TrailingData { .. } => {
                "invalid_json"
            }
            Self::TooDeep => "nesting_too_deep",
            Self::LoneSurrogate { .. } => "lone_surrogate",
            Self::Duplicate { .. } => "duplicate_parameter",
            Self::Misspelled { .. } => "unknown_parameter",
            Self::TooManyFields { .. } => "too_many_parameters",
            Self::TooManyItems { .. } => "array_above_max_length",
            Self::Missing { .. } => "missing_required_parameter",
            Self::WrongType { .. } => "invalid_type",
            Self::TooSmall { .. } => "integer_below_min_value",
            Self::TooLarge { .. } => "integer_above_max_value",
            Self::EmptyText { .. } => "empty_string",
            Self::TextTooLong { .. } => "string_above_max_length",
            Self::ControlCharacter { .. } => "invalid_value",
        }
    }

    /// The field at fault, where it is one: the `param` of the error body.
    #[must_use]
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::Duplicate { field }
            | Self::Misspelled { field }
            | Self::TooManyItems { field, .. }
            | Self::Missing { field }
            | Self::WrongType { field, .. }
            | Self::TooSmall { field, .. }
            | Self::TooLarge { field, .. }
            | Self::EmptyText { field }
            | Self::TextTooLong { field, .. }
            | Self::ControlCharacter { field } => Some(field),
            Self::Empty
            | Self::NotUtf8 { .. }
            | Self::Syntax { .. }
            | Self::NotAnObject
            | Self::TrailingData { .. }
            | Self::TooDeep
            | Self::LoneSurrogate { .. }
            | Self::TooManyFields { .. } => None,
        }
    }
}

/// A short, printable piece of a name that the client chose.
pub(super) fn snippet(name: &str) -> FieldName {
    let mut short: String = name.chars().take(SNIPPET_CHARS).flat_map(char::escape_default).collect();
    if name.chars().nth(SNIPPET_CHARS).is_some() {
        short.push_str("...");
    }
    Cow::Owned(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_or_unprintable_key_is_cut_and_escaped() {
        assert_eq!(snippet("top_k"), "top_k");
        assert_eq!(snippet("a\u{1b}[2J\n"), "a\\u{1b}[2J\\n");
        let worst = BodyError::Duplicate { field: snippet(&"\u{10ffff}".repeat(100_000)) };
        assert!(worst.to_string().len() < 1_000, "{worst}");
        assert!(worst.to_string().is_ascii());
    }
}
