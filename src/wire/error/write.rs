//! Error bodies and error events, as the route's provider would send them.

use crate::wire::{Api, Dialect};
use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// The longest message that is sent, bytes.
const MAX_MESSAGE: usize = 1_000;

/// An error, independent of whose format it is sent in.
#[derive(Clone, Debug)]
pub struct ErrorBody<'a> {
    /// The HTTP status. In the Anthropic format it decides `error.type`.
    pub status: u16,
    /// OpenAI's `error.type`; the Anthropic format does not show it.
    pub kind: &'a str,
    /// `error.code`, in the Anthropic format `error.details.error_code`.
    pub code: Option<&'a str>,
    /// The field at fault, in the Anthropic format `error.details.param`.
    pub param: Option<&'a str>,
    /// A sentence for the caller, cut at 1,000 bytes.
    pub message: &'a str,
    /// Our id of the request.
    pub request_id: &'a str,
    /// More members of `error` (`limit`, `customer_id`, `upgrade_url`). They never replace a member that the format itself has.
    pub extra: Map<String, Value>,
}

/// The error as a JSON body.
#[must_use]
pub fn render(dialect: Dialect, body: &ErrorBody<'_>) -> Bytes {
    match dialect {
        Dialect::OpenAi => json(&OpenAi(body)),
        Dialect::Anthropic => json(&Anthropic(body)),
    }
}

/// The error as the last event of a stream that has already begun. `sequence` is the next `sequence_number`; only Responses has one.
#[must_use]
pub fn render_event(api: Api, body: &ErrorBody<'_>, sequence: u64) -> Bytes {
    let (name, data) = match api {
        Api::Responses => ("event: error\n", json(&ResponsesEvent(body, sequence))),
        _ => match api.dialect() {
            Dialect::OpenAi => ("", json(&OpenAi(body))),
            Dialect::Anthropic => ("event: error\n", json(&Anthropic(body))),
        },
    };
    [name.as_bytes(), b"data: ", &data, b"\n\n"].concat().into()
}

/// The `error.type` that Anthropic sends with a status; its SDKs know no others.
const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        408 | 504 => "timeout_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// `{"error":{...}}`
struct OpenAi<'a>(&'a ErrorBody<'a>);

impl Serialize for OpenAi<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Inner<'a>(&'a ErrorBody<'a>);
        impl Serialize for Inner<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let body = self.0;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("message", message(body))?;
                map.serialize_entry("type", body.kind)?;
                // The SDKs' types require both, as strings or null.
                map.serialize_entry("param", &body.param)?;
                map.serialize_entry("code", &body.code)?;
                extra(&mut map, body, &["message", "type", "param", "code", "request_id"])?;
                map.serialize_entry("request_id", body.request_id)?;
                map.end()
            }
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("error", &Inner(self.0))?;
        map.end()
    }
}

/// `{"type":"error","error":{...},"request_id":...}`
struct Anthropic<'a>(&'a ErrorBody<'a>);

impl Serialize for Anthropic<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Inner<'a>(&'a ErrorBody<'a>);
        impl Serialize for Inner<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let body = self.0;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", anthropic_type(body.status))?;
                map.serialize_entry("message", message(body))?;
                if body.code.is_some() || body.param.is_some() {
                    map.serialize_entry("details", &Details(body))?;
                }
                extra(&mut map, body, &["type", "message", "details"])?;
                map.end()
            }
        }
        struct Details<'a>(&'a ErrorBody<'a>);
        impl Serialize for Details<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                if let Some(code) = self.0.code {
                    map.serialize_entry("error_code", code)?;
                }
                if let Some(param) = self.0.param {
                    map.serialize_entry("param", param)?;
                }
                map.end()
            }
        }
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("type", "error")?;
        map.serialize_entry("error", &Inner(self.0))?;
        map.serialize_entry("request_id", self.0.request_id)?;
        map.end()
    }
}

/// The flat form of the Responses API: no `error` around it, and `type` names the event.
struct ResponsesEvent<'a>(&'a ErrorBody<'a>, u64);

impl Serialize for ResponsesEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "error")?;
        map.serialize_entry("sequence_number", &self.1)?;
        map.serialize_entry("code", &body.code)?;
        map.serialize_entry("message", message(body))?;
        map.serialize_entry("param", &body.param)?;
        extra(&mut map, body, &["type", "sequence_number", "code", "message", "param", "request_id"])?;
        map.serialize_entry("request_id", body.request_id)?;
        map.end()
    }
}

fn extra<M: SerializeMap>(map: &mut M, body: &ErrorBody<'_>, taken: &[&str]) -> Result<(), M::Error> {
    body.extra
        .iter()
        .filter(|(name, _)| !taken.contains(&name.as_str()))
        .try_for_each(|(name, value)| map.serialize_entry(name, value))
}

fn message<'a>(body: &ErrorBody<'a>) -> &'a str {
    super::cut(body.message, MAX_MESSAGE)
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("strings and JSON values always serialise").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal() -> ErrorBody<'static> {
        let extra = json!({"limit": {"name": "spend", "used": 5}, "customer_id": "cust_42", "message": "not this one", "type": "nor this"});
        ErrorBody {
            status: 402,
            kind: "insufficient_quota",
            code: Some("spend_cap_exceeded"),
            param: None,
            message: "The daily budget is used up.\nIt resets at midnight.",
            request_id: "tg_1",
            extra: extra.as_object().cloned().unwrap_or_default(),
        }
    }

    fn parsed(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn openai_bodies_have_all_four_members_and_ours_beside_them() {
        let body = render(Dialect::OpenAi, &refusal());
        assert!(body.starts_with(b"{\"error\":{\"message\":\"The daily"), "the message comes first for human readers");
        assert_eq!(
            parsed(&body),
            json!({"error": {"message": "The daily budget is used up.\nIt resets at midnight.", "type": "insufficient_quota", "param": null,
                "code": "spend_cap_exceeded", "limit": {"name": "spend", "used": 5}, "customer_id": "cust_42", "request_id": "tg_1"}})
        );
        let plain = ErrorBody { code: None, param: Some("n"), extra: Map::new(), ..refusal() };
        assert_eq!(parsed(&render(Dialect::OpenAi, &plain))["error"]["code"], Value::Null);
        assert_eq!(parsed(&render(Dialect::OpenAi, &plain))["error"]["param"], "n");
    }

    #[test]
    fn anthropic_bodies_carry_our_code_in_their_details() {
        assert_eq!(
            parsed(&render(Dialect::Anthropic, &refusal())),
            json!({"type": "error", "error": {"type": "billing_error", "message": "The daily budget is used up.\nIt resets at midnight.",
                "details": {"error_code": "spend_cap_exceeded"}, "limit": {"name": "spend", "used": 5}, "customer_id": "cust_42"},
                "request_id": "tg_1"})
        );
        let plain = ErrorBody { code: None, extra: Map::new(), ..refusal() };
        assert_eq!(parsed(&render(Dialect::Anthropic, &plain))["error"].get("details"), None);
        let param = ErrorBody { param: Some("max_tokens"), ..refusal() };
        assert_eq!(
            parsed(&render(Dialect::Anthropic, &param))["error"]["details"],
            json!({"error_code": "spend_cap_exceeded", "param": "max_tokens"})
        );
    }

    #[test]
    fn anthropic_types_follow_the_status() {
        for (status, right) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (402, "billing_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (409, "conflict_error"),
            (413, "request_too_large"),
            (415, "invalid_request_error"),
            (422, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (502, "api_error"),
            (503, "overloaded_error"),
            (504, "timeout_error"),
            (529, "overloaded_error"),
        ] {
            let body = parsed(&render(Dialect::Anthropic, &ErrorBody { status, ..refusal() }));
            assert_eq!(body["error"]["type"], right, "{status}");
        }
    }

    #[test]
    fn events_have_the_form_of_their_api() {
        let event = |api| String::from_utf8(render_event(api, &refusal(), 7).to_vec()).expect("UTF-8");
        for (api, prefix, member) in [
            (Api::Chat, "data: ", "/error/code"),
            (Api::Completions, "data: ", "/error/code"),
            (Api::Responses, "event: error\ndata: ", "/code"),
            (Api::Messages, "event: error\ndata: ", "/error/details/error_code"),
        ] {
            let event = event(api);
            let data = event.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("\n\n")).expect("one event");
            assert!(!data.contains('\n'), "one data line: {data}");
            assert_eq!(parsed(data.as_bytes()).pointer(member), Some(&json!("spend_cap_exceeded")), "{api:?}");
        }
        let responses = event(Api::Responses);
        let data = parsed(responses.trim_start_matches("event: error\ndata: ").trim_end().as_bytes());
        assert_eq!(
            (&data["type"], &data["sequence_number"], &data["param"], data.get("error")),
            (&json!("error"), &json!(7), &Value::Null, None)
        );
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = format!("x{}", "é".repeat(100_000));
        let body = ErrorBody { message: &long, extra: Map::new(), ..refusal() };
        let sent = parsed(&render(Dialect::OpenAi, &body));
        assert_eq!(sent["error"]["message"].as_str().map(str::len), Some(999));
    }
}
