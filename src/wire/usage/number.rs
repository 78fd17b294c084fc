//! Token numbers as providers spell them.

/// The most tokens that are believed of one request: fifty times the largest context window sold.
///
/// Whatever is above is a broken provider; it is taken as this many, with an alarm, so that one lie cannot empty a whole month's budget
/// beyond repair or overflow a sum.
pub const MAX_TOKENS: u64 = 100_000_000;

/// What a token number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// So many; a fraction counts as a whole one.
    Tokens(u64),
    /// More than [`MAX_TOKENS`].
    TooMany,
    /// Negative, or no number at all.
    Garbage,
}

/// Reads the raw text of a JSON value: `12`, `12.0`, `1.2e1` and `"12"` are all 12.
#[must_use]
pub fn number(json: &str) -> Number {
    let spelled = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json).trim();
    // What Rust reads as a number beyond JSON ("inf", "NaN", "+1") is none here.
    if !spelled.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return Number::Garbage;
    }
    if let Ok(tokens) = spelled.parse::<u64>() {
        return if tokens > MAX_TOKENS { Number::TooMany } else { Number::Tokens(tokens) };
    }
    match spelled.parse::<f64>() {
        Ok(value) if value > MAX_TOKENS as f64 => Number::TooMany,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and MAX_TOKENS, checked here and above"
        )]
        Ok(value) if value >= 0.0 => Number::Tokens(value.ceil() as u64),
        _ => Number::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_leniently_and_lies_are_not() {
        for (json, want) in [
            ("12", Number::Tokens(12)),
            ("12.0", Number::Tokens(12)),
            ("1.2e1", Number::Tokens(12)),
            ("\"12\"", Number::Tokens(12)),
            ("12.3", Number::Tokens(13)),
            ("0", Number::Tokens(0)),
            ("-0.0", Number::Tokens(0)),
            ("100000000", Number::Tokens(MAX_TOKENS)),
            ("100000001", Number::TooMany),
            ("1e12", Number::TooMany),
            ("1e999", Number::TooMany),
            ("99999999999999999999999", Number::TooMany),
            ("-5", Number::Garbage),
            ("-1e999", Number::Garbage),
            ("\"many\"", Number::Garbage),
            ("\"inf\"", Number::Garbage),
            ("\"NaN\"", Number::Garbage),
            ("\"\"", Number::Garbage),
            ("true", Number::Garbage),
            ("{}", Number::Garbage),
            ("[1]", Number::Garbage),
        ] {
            assert_eq!(number(json), want, "{json}");
        }
    }
}
