//! What a whole reply says, for a person who reads it; and a request that asks for a whole one.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The text of a whole reply, of whichever API; of tool calls and the like, what they are.
#[must_use]
pub fn text_of(json: &Value) -> String {
    let choice = &json["choices"][0];
    let plain = [&choice["message"]["content"], &choice["text"]].into_iter().find_map(Value::as_str);
    if let Some(text) = plain {
        return text.to_owned();
    }
    let parts = |list: &Value| -> String {
        let parts = list.as_array().into_iter().flatten();
        let words = parts.filter_map(|part| {
            part["text"].as_str().map(str::to_owned).or_else(|| Some(format!("[{}]", part["type"].as_str()?)))
        });
        words.collect::<Vec<_>>().join(" ")
    };
    if json["output"].is_array() {
        let items = json["output"].as_array().into_iter().flatten();
        let texts = items.map(|item| {
            if item["content"].is_array() {
                parts(&item["content"])
            } else {
                format!("[{}]", item["type"].as_str().unwrap_or("item"))
            }
        });
        return texts.collect::<Vec<_>>().join(" ");
    }
    if choice["message"]["tool_calls"].is_array() { "[tool call]".to_owned() } else { parts(&json["content"]) }
}

/// The same request, asking for its reply at once and not as a stream. The values of its fields keep their bytes. `None` for what is no
/// JSON object.
#[must_use]
pub fn unstreamed(body: &[u8]) -> Option<Bytes> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    // Both are refused beside a reply that is no stream, or have no meaning there.
    fields.remove("stream");
    fields.remove("stream_options");
    serde_json::to_vec(&fields).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_reply_says_is_found_in_every_api() {
        for (reply, right) in [
            (json!({ "choices": [{ "message": { "content": "a" } }] }), "a"),
            (json!({ "choices": [{ "message": { "content": null, "tool_calls": [{}] } }] }), "[tool call]"),
            (json!({ "choices": [{ "text": "a" }] }), "a"),
            (json!({ "content": [{ "type": "text", "text": "a" }, { "type": "tool_use" }] }), "a [tool_use]"),
            (
                json!({ "output": [{ "type": "reasoning" }, { "content": [{ "type": "output_text", "text": "a" }] }] }),
                "[reasoning] a",
            ),
            (json!({}), ""),
        ] {
            assert_eq!(text_of(&reply), right, "{reply}");
        }
    }

    #[test]
    fn a_request_for_a_stream_becomes_one_for_a_whole_reply_and_nothing_else_changes() {
        for (body, right) in [
            (r#"{"stream":true,"seed":1e2,"a":[ "\u00e9" ]}"#, Some(r#"{"a":[ "\u00e9" ],"seed":1e2}"#)),
            (r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#, Some(r#"{"model":"m"}"#)),
            ("\u{feff}{\"model\":\"m\"}", Some(r#"{"model":"m"}"#)),
            ("[]", None),
        ] {
            assert_eq!(unstreamed(body.as_bytes()).as_deref(), right.map(str::as_bytes), "{body}");
        }
    }
}
