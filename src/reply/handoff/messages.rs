//! Anthropic messages.

use super::{HANDOFF_MODEL, Handoff, event};
use serde_json::{Value, json};

pub(super) fn whole(handoff: &Handoff<'_>) -> Value {
    message(handoff, &json!([{ "type": "text", "text": handoff.message, "citations": null }]), &json!("end_turn"))
}

pub(super) fn stream(handoff: &Handoff<'_>) -> String {
    let mut stream = String::new();
    for data in [
        json!({ "type": "message_start", "message": message(handoff, &json!([]), &Value::Null) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": handoff.message } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta",
            "delta": { "stop_reason": "end_turn", "stop_sequence": null },
            "usage": { "output_tokens": 0 },
        }),
        json!({ "type": "message_stop" }),
    ] {
        event(&mut stream, data["type"].as_str(), &data);
    }
    stream
}

fn message(handoff: &Handoff<'_>, content: &Value, stop_reason: &Value) -> Value {
    json!({
        "id": handoff.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": HANDOFF_MODEL,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {
            "input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "cache_creation": { "ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0 },
            "output_tokens": 0, "service_tier": "standard",
        },
    })
}
