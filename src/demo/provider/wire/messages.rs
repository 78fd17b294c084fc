//! Anthropic messages.

use serde_json::{Value, json};

use super::{Event, Role};
use crate::demo::provider::answer::{Answer, Content, UsageStyle};

pub(in crate::demo::provider) fn whole(answer: &Answer) -> Value {
    let block = match &answer.content {
        Content::Text(_) => json!({ "type": "text", "text": answer.text(), "citations": null }),
        Content::Tool { name, .. } => {
            // A cap may have cut the arguments short; the real API then reports what it has.
            let input: Value = serde_json::from_str(&answer.text()).unwrap_or_else(|_| json!({}));
            json!({ "type": "tool_use", "id": tool_id(answer), "name": name, "input": input })
        }
    };
    let mut message = message(answer, answer.usage.output);
    message["content"] = json!([block]);
    message["stop_reason"] = stop_reason(answer).into();
    message
}

pub(in crate::demo::provider) fn stream(answer: &Answer) -> Vec<Event> {
    let mut events = Vec::new();
    let mut push = |name: &str, mut data: Value, role: Role, tokens: u64| {
        data["type"] = name.into();
        events.push(Event::named(name, &data, role, tokens));
    };
    push("message_start", json!({ "message": message(answer, 1) }), Role::Other, 0);
    let block = match &answer.content {
        Content::Text(_) => json!({ "type": "text", "text": "" }),
        Content::Tool { name, .. } => json!({ "type": "tool_use", "id": tool_id(answer), "name": name, "input": {} }),
    };
    push("content_block_start", json!({ "index": 0, "content_block": block }), Role::Other, 0);
    push("ping", json!({}), Role::Other, 0);
    for piece in answer.content.pieces() {
        let delta = match &answer.content {
            Content::Text(_) => json!({ "type": "text_delta", "text": piece.text }),
            Content::Tool { .. } => json!({ "type": "input_json_delta", "partial_json": piece.text }),
        };
        push("content_block_delta", json!({ "index": 0, "delta": delta }), Role::Delta, piece.tokens);
    }
    push("content_block_stop", json!({ "index": 0 }), Role::Other, 0);
    let mut delta = json!({ "delta": { "stop_reason": stop_reason(answer), "stop_sequence": null } });
    match answer.style {
        UsageStyle::Missing => {}
        UsageStyle::Garbage => delta["usage"] = json!({ "output_tokens": -12, "input_tokens": "many" }),
        UsageStyle::Honest | UsageStyle::EveryChunk => delta["usage"] = json!({ "output_tokens": answer.usage.output }),
    }
    push("message_delta", delta, Role::Other, 0);
    push("message_stop", json!({}), Role::Done, 0);
    events
}

/// A message without content, as a stream begins with it.
fn message(answer: &Answer, output: u64) -> Value {
    let mut message = json!({
        "id": format!("msg_{}", answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    let used = &answer.usage;
    match answer.style {
        UsageStyle::Missing => {}
        UsageStyle::Garbage => message["usage"] = json!({ "input_tokens": -5, "output_tokens": "12" }),
        UsageStyle::Honest | UsageStyle::EveryChunk => {
            message["usage"] = json!({
                "input_tokens": used.uncached_input,
                "cache_creation_input_tokens": used.cache_write + used.cache_write_long,
                "cache_read_input_tokens": used.cache_read,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": used.cache_write, "ephemeral_1h_input_tokens": used.cache_write_long,
                },
                "output_tokens": output,
                "service_tier": "standard",
            });
        }
    }
    message
}

fn tool_id(answer: &Answer) -> String {
    format!("toolu_{}", answer.id)
}

const fn stop_reason(answer: &Answer) -> &'static str {
    match &answer.content {
        _ if answer.cut_short => "max_tokens",
        Content::Text(_) => "end_turn",
        Content::Tool { .. } => "tool_use",
    }
}
