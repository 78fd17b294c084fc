//! The Responses API.

use serde_json::{Value, json};

use super::{Event, Role};
use crate::demo::provider::{
    answer::{Answer, Content, UsageStyle},
    ask::Ask,
    errors::Problem,
};

pub(in crate::demo::provider) fn whole(ask: &Ask, answer: &Answer) -> Value {
    if ask.background {
        // A background call answers at once and knows no usage yet.
        return response(ask, answer, "queued", &json!([]), &Value::Null);
    }
    let status = status(answer);
    response(ask, answer, status, &json!([item(answer, item_status(answer))]), &usage(answer))
}

/// The same with status `failed`, for a reply that was charged all the same.
pub(in crate::demo::provider) fn failed(ask: &Ask, answer: &Answer, problem: &Problem) -> Value {
    let mut failed = response(ask, answer, "failed", &json!([]), &usage(answer));
    failed["error"] = json!({ "code": "server_error", "message": problem.message });
    failed
}

/// The event that ends a stream which failed.
pub(in crate::demo::provider) fn failed_event(ask: &Ask, answer: &Answer, problem: &Problem, sequence: usize) -> Event {
    let data = json!({ "type": "response.failed", "sequence_number": sequence, "response": failed(ask, answer, problem) });
    Event::named("response.failed", &data, Role::Other, 0)
}

pub(in crate::demo::provider) fn stream(ask: &Ask, answer: &Answer) -> Vec<Event> {
    let mut writer = Writer { events: Vec::new() };
    let empty = response(ask, answer, "in_progress", &json!([]), &Value::Null);
    writer.push("response.created", json!({ "response": empty }), 0);
    writer.push("response.in_progress", json!({ "response": empty }), 0);
    let item_id = item_id(answer);
    let mut opening = item(answer, "in_progress");
    match &answer.content {
        Content::Text(pieces) => {
            opening["content"] = json!([]);
            writer.push("response.output_item.added", json!({ "output_index": 0, "item": opening }), 0);
            let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
            let at = json!({ "item_id": item_id, "output_index": 0, "content_index": 0 });
            writer.push("response.content_part.added", with(&at, "part", part("")), 0);
            for piece in pieces {
                let mut delta = with(&at, "delta", piece.text.clone().into());
                delta["logprobs"] = json!([]);
                writer.push("response.output_text.delta", delta, piece.tokens);
            }
            let text = answer.text();
            let mut done = with(&at, "text", text.clone().into());
            done["logprobs"] = json!([]);
            writer.push("response.output_text.done", done, 0);
            writer.push("response.content_part.done", with(&at, "part", part(&text)), 0);
        }
        Content::Tool { name, arguments, .. } => {
            opening["arguments"] = json!("");
            writer.push("response.output_item.added", json!({ "output_index": 0, "item": opening }), 0);
            let at = json!({ "item_id": item_id, "output_index": 0 });
            for piece in arguments {
                let delta = with(&at, "delta", piece.text.clone().into());
                writer.push("response.function_call_arguments.delta", delta, piece.tokens);
            }
            let mut done = with(&at, "arguments", answer.text().into());
            done["name"] = json!(name);
            writer.push("response.function_call_arguments.done", done, 0);
        }
    }
    let finished = item(answer, item_status(answer));
    writer.push("response.output_item.done", json!({ "output_index": 0, "item": finished }), 0);
    let status = status(answer);
    let response = response(ask, answer, status, &json!([finished]), &usage(answer));
    writer.push(&format!("response.{status}"), json!({ "response": response }), 0);
    if let Some(last) = writer.events.last_mut() {
        last.role = Role::Done;
    }
    writer.events
}

fn response(ask: &Ask, answer: &Answer, status: &str, output: &Value, usage: &Value) -> Value {
    let incomplete = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
    json!({
        "id": format!("resp_{}", answer.id),
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "background": ask.background,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": null,
        "max_output_tokens": ask.cap,
        "metadata": {},
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": { "effort": null, "summary": null },
        "service_tier": ask.service_tier,
        "store": true,
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

fn item(answer: &Answer, status: &str) -> Value {
    let id = item_id(answer);
    match &answer.content {
        Content::Text(_) => json!({
            "id": id, "type": "message", "status": status, "role": "assistant",
            "content": [{ "type": "output_text", "text": answer.text(), "annotations": [], "logprobs": [] }],
        }),
        Content::Tool { call_id, name, .. } => json!({
            "id": id, "type": "function_call", "status": status, "call_id": call_id, "name": name, "arguments": answer.text(),
        }),
    }
}

fn item_id(answer: &Answer) -> String {
    let prefix = if matches!(answer.content, Content::Text(_)) { "msg" } else { "fc" };
    format!("{prefix}_{}", answer.id)
}

const fn status(answer: &Answer) -> &'static str {
    if answer.cut_short { "incomplete" } else { "completed" }
}

/// An item knows the same two ends as a response.
const fn item_status(answer: &Answer) -> &'static str {
    status(answer)
}

fn usage(answer: &Answer) -> Value {
    let used = &answer.usage;
    match answer.style {
        UsageStyle::Missing => Value::Null,
        UsageStyle::Garbage => json!({ "input_tokens": -5, "output_tokens": "12", "total_tokens": null }),
        UsageStyle::Honest | UsageStyle::EveryChunk => json!({
            "input_tokens": used.input(),
            "input_tokens_details": { "cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write },
            "output_tokens": used.output,
            "output_tokens_details": { "reasoning_tokens": used.reasoning },
            "total_tokens": used.input() + used.output,
        }),
    }
}

fn with(base: &Value, key: &str, value: Value) -> Value {
    let mut extended = base.clone();
    extended[key] = value;
    extended
}

struct Writer {
    events: Vec<Event>,
}

impl Writer {
    fn push(&mut self, name: &str, mut data: Value, tokens: u64) {
        data["type"] = name.into();
        data["sequence_number"] = self.events.len().into();
        let role = if tokens > 0 { Role::Delta } else { Role::Other };
        self.events.push(Event::named(name, &data, role, tokens));
    }
}
