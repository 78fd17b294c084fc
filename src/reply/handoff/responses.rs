//! The Responses API. The reply is stored nowhere and says so: it cannot be named as `previous_response_id`.

use super::{HANDOFF_MODEL, Handoff, event};
use serde_json::{Value, json};

pub(super) fn whole(handoff: &Handoff<'_>) -> Value {
    response(handoff, "completed", &json!([item(handoff, "completed", &json!([part(handoff.message)]))]), &usage())
}

pub(super) fn stream(handoff: &Handoff<'_>) -> String {
    let begun = response(handoff, "in_progress", &json!([]), &Value::Null);
    let done = item(handoff, "completed", &json!([part(handoff.message)]));
    let at = |more: Value| {
        let mut place = json!({ "item_id": handoff.id("msg_"), "output_index": 0, "content_index": 0 });
        if let (Some(place), Value::Object(more)) = (place.as_object_mut(), more) {
            place.extend(more);
        }
        place
    };
    let events = [
        ("response.created", json!({ "response": begun })),
        ("response.in_progress", json!({ "response": begun })),
        ("response.output_item.added", json!({ "output_index": 0, "item": item(handoff, "in_progress", &json!([])) })),
        ("response.content_part.added", at(json!({ "part": part("") }))),
        ("response.output_text.delta", at(json!({ "delta": handoff.message, "logprobs": [] }))),
        ("response.output_text.done", at(json!({ "text": handoff.message, "logprobs": [] }))),
        ("response.content_part.done", at(json!({ "part": part(handoff.message) }))),
        ("response.output_item.done", json!({ "output_index": 0, "item": done })),
        ("response.completed", json!({ "response": whole(handoff) })),
    ];
    let mut stream = String::new();
    for (sequence, (name, mut data)) in events.into_iter().enumerate() {
        data["type"] = name.into();
        data["sequence_number"] = sequence.into();
        event(&mut stream, Some(name), &data);
    }
    stream
}

fn item(handoff: &Handoff<'_>, status: &str, content: &Value) -> Value {
    json!({ "id": handoff.id("msg_"), "type": "message", "status": status, "role": "assistant", "content": content })
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn usage() -> Value {
    json!({
        "input_tokens": 0, "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": 0, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": 0,
    })
}

fn response(handoff: &Handoff<'_>, status: &str, output: &Value, usage: &Value) -> Value {
    json!({
        "id": handoff.id("resp_"),
        "object": "response",
        "created_at": handoff.at.secs(),
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "metadata": {},
        "model": HANDOFF_MODEL,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": { "effort": null, "summary": null },
        "store": false,
        "temperature": 1.0,
        "text": { "format": { "type": "text" } },
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
    })
}
