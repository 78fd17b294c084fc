//! The error body of either dialect.

use crate::wire::Dialect;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// What an error body says.
pub(super) struct ErrorBody<'a> {
    /// The HTTP status it goes with.
    #[expect(dead_code, reason = "problem+json wants it in the body; the two dialects of today do not")]
    pub(super) status: u16,
    /// `type` of the error.
    pub(super) kind: &'a str,
    /// `code` of the error.
    pub(super) code: Option<&'a str>,
    /// The field at fault.
    pub(super) param: Option<&'a str>,
    /// The sentence.
    pub(super) message: &'a str,
    /// Our id of the request.
    pub(super) request_id: &'a str,
    /// Members of our own.
    pub(super) extra: Map<String, Value>,
}

/// Writes it in the route's format. Our own members stand inside `error`: the SDKs hand that object to the app.
pub(super) fn render(dialect: Dialect, body: &ErrorBody<'_>) -> Bytes {
    let ErrorBody { status: _, kind, code, param, message, request_id, extra } = body;
    let mut error = extra.clone();
    let mut put = |name: &str, value: Value| drop(error.insert(name.to_owned(), value));
    put("type", (*kind).into());
    put("message", (*message).into());
    put("code", (*code).into());
    put("param", (*param).into());
    put("request_id", (*request_id).into());
    let whole = match dialect {
        Dialect::OpenAi => json!({ "error": error }),
        Dialect::Anthropic => json!({ "type": "error", "error": error, "request_id": request_id }),
    };
    whole.to_string().into()
}
