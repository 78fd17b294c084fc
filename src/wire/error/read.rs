//! A provider's error body, read leniently: compatible servers send numbers as codes, bare strings, lists, other members, or HTML.

use crate::wire::Dialect;
use serde_json::Value;

/// Larger bodies are not looked into.
const MAX_BODY: usize = 256 * 1_024;

/// The longest text that is kept of each member, bytes.
const MAX_TEXT: usize = 1_024;

/// What a provider said went wrong. Each text is cut at 1 KB; `None` where the body does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// The HTTP status.
    pub status: u16,
    /// OpenAI's `error.code` (numbers as digits), Anthropic's `error.details.error_code`.
    pub code: Option<String>,
    /// `error.type`.
    pub kind: Option<String>,
    /// `error.param`.
    pub param: Option<String>,
    /// The message. For operators and for recognising what is meant; the client gets the provider's own body.
    pub message: Option<String>,
}

impl UpstreamError {
    /// Whether the error is about a field of the request: named as `param`, as a part of one (`stream_options.include_usage`), or as a word
    /// of the message.
    #[must_use]
    pub fn names_field(&self, field: &str) -> bool {
        let within = |param: &str| param.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        self.param.as_deref().is_some_and(within) || self.message.as_deref().is_some_and(|message| has_word(message, field))
    }

    /// Whether it says that a quota or the account's money is used up: a 429 that no wait of seconds cures.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        [&self.code, &self.kind].into_iter().flatten().any(|word| is_used_up(word))
    }
}

/// Whether a code or type says that a quota or the account's money is used up.
pub(super) fn is_used_up(word: &str) -> bool {
    const CODES: [&str; 10] = [
        "insufficient_quota",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "usage_limit_reached",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "linked_organization_spend_limit_reached",
    ];
    CODES.contains(&word)
}

/// Reads an error body. Never fails: what cannot be read is absent.
#[must_use]
pub fn read(dialect: Dialect, status: u16, body: &[u8]) -> UpstreamError {
    let mut error = UpstreamError { status, ..UpstreamError::default() };
    if body.len() > MAX_BODY {
        return error;
    }
    let Ok(mut root) = serde_json::from_slice::<Value>(body) else {
        error.message = std::str::from_utf8(body).ok().map(str::trim).filter(|text| !text.is_empty()).map(cut);
        return error;
    };
    // Gemini's compatible endpoint wraps the object in a list.
    if let Some(first) = root.as_array_mut().filter(|list| list.len() == 1).map(|list| list[0].take()) {
        root = first;
    }
    let inner = match root.get("error") {
        Some(Value::Null) | None => &root,
        Some(inner) => inner,
    };
    let code = match dialect {
        Dialect::OpenAi => inner.get("code"),
        Dialect::Anthropic => inner.pointer("/details/error_code").or_else(|| inner.get("code")),
    };
    error.code = code.and_then(scalar);
    error.kind = inner.get("type").or_else(|| inner.get("status")).and_then(scalar).filter(|kind| kind != "error");
    error.param = inner.get("param").and_then(scalar);
    // A bare string, or `detail` of FastAPI (a string, or a list that names the fields).
    let message = ["message", "detail", "msg"].into_iter().find_map(|member| inner.get(member)).unwrap_or(inner);
    error.message = scalar(message).or_else(|| message.is_array().then(|| cut(&message.to_string())));
    error
}

/// A text or number as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(cut(text)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn cut(text: &str) -> String {
    super::cut(text, MAX_TEXT).to_owned()
}

/// Whether `word` stands in `text` and is not a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(error: &UpstreamError) -> [Option<&str>; 4] {
        [&error.code, &error.kind, &error.param, &error.message].map(Option::as_deref)
    }

    #[test]
    fn every_spelling_of_an_error_is_read() {
        for (dialect, body, right) in [
            (
                Dialect::OpenAi,
                r#"{"error":{"message":"Rate limit","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
                [Some("rate_limit_exceeded"), Some("tokens"), None, Some("Rate limit")],
            ),
            (Dialect::OpenAi, r#"{"error":{"message":"m","code":429}}"#, [Some("429"), None, None, Some("m")]),
            (Dialect::OpenAi, r#"{"error":"model not found"}"#, [None, None, None, Some("model not found")]),
            (Dialect::OpenAi, r#"{"error":null,"message":"m","type":"t"}"#, [None, Some("t"), None, Some("m")]),
            (
                Dialect::OpenAi,
                r#"{"object":"error","message":"m","type":"BadRequestError","param":"n","code":400}"#,
                [Some("400"), Some("BadRequestError"), Some("n"), Some("m")],
            ),
            (
                Dialect::OpenAi,
                r#"[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]"#,
                [Some("400"), Some("INVALID_ARGUMENT"), None, Some("m")],
            ),
            (Dialect::OpenAi, r#"{"detail":"Not here"}"#, [None, None, None, Some("Not here")]),
            (
                Dialect::OpenAi,
                r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}"#,
                [None, None, None, Some(r#"[{"loc":["body","stream_options"],"msg":"extra"}]"#)],
            ),
            (
                Dialect::Anthropic,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"ramp_limit_exceeded"}},"request_id":"r"}"#,
                [Some("ramp_limit_exceeded"), Some("rate_limit_error"), None, Some("m")],
            ),
            (
                Dialect::Anthropic,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                [None, Some("overloaded_error"), None, Some("Overloaded")],
            ),
            (Dialect::Anthropic, r#"{"type":"error"}"#, [None; 4]),
            (Dialect::OpenAi, "<html>413</html>\n", [None, None, None, Some("<html>413</html>")]),
            (Dialect::OpenAi, "", [None; 4]),
            (Dialect::OpenAi, "null", [None; 4]),
            (Dialect::OpenAi, "[]", [None, None, None, Some("[]")]),
            (Dialect::OpenAi, "{\"error\":{\"message\":{},\"code\":[],\"type\":true}}", [None; 4]),
        ] {
            assert_eq!(members(&read(dialect, 400, body.as_bytes())), right, "{body}");
        }
        assert_eq!(read(Dialect::OpenAi, 502, b"\xff\xfe"), UpstreamError { status: 502, ..UpstreamError::default() });
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "é".repeat(100_000));
        assert_eq!(read(Dialect::OpenAi, 400, body.as_bytes()).message.map(|m| m.len()), Some(1_024));
        let huge = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(MAX_BODY));
        assert_eq!(read(Dialect::OpenAi, 400, huge.as_bytes()).message, None);
        let deep = "[".repeat(100_000);
        assert_eq!(read(Dialect::OpenAi, 400, deep.as_bytes()).code, None);
    }

    #[test]
    fn a_quota_that_is_used_up_is_told_from_a_rate() {
        for (dialect, body, right) in [
            (Dialect::OpenAi, r#"{"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded"}}"#, true),
            (Dialect::OpenAi, r#"{"error":{"type":"insufficient_quota","code":"a_newer_one"}}"#, true),
            (Dialect::OpenAi, r#"{"error":{"type":null,"code":"insufficient_quota"}}"#, true),
            (Dialect::OpenAi, r#"{"error":{"type":"tokens","code":"rate_limit_exceeded"}}"#, false),
            (Dialect::OpenAi, r#"{"error":{"type":"rate_limit_error","code":"slow_down"}}"#, false),
            (
                Dialect::Anthropic,
                r#"{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
                true,
            ),
            (
                Dialect::Anthropic,
                r#"{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"ramp_limit_exceeded"}}}"#,
                false,
            ),
            (Dialect::Anthropic, "insufficient_quota", false),
        ] {
            assert_eq!(read(dialect, 429, body.as_bytes()).is_used_up(), right, "{body}");
        }
    }

    #[test]
    fn an_error_about_a_field_is_recognised() {
        for (body, right) in [
            (r#"{"error":{"message":"no","param":"stream_options"}}"#, true),
            (r#"{"error":{"message":"no","param":"stream_options.include_usage"}}"#, true),
            (r#"{"error":{"message":"unknown field stream_options"}}"#, true),
            (r#"{"error":"Unrecognized request argument supplied: 'stream_options'."}"#, true),
            (r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#, true),
            ("unknown field \"stream_options\"", true),
            (r#"{"error":{"message":"no","param":"stream_options_2"}}"#, false),
            (r#"{"error":{"message":"my_stream_options is wrong"}}"#, false),
            (r#"{"error":{"message":"no","param":"stream"}}"#, false),
            ("", false),
        ] {
            assert_eq!(read(Dialect::OpenAi, 400, body.as_bytes()).names_field("stream_options"), right, "{body}");
        }
    }
}
