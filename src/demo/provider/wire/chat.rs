//! Chat completions.

use serde_json::{Value, json};

use super::{Event, Role, openai_usage};
use crate::demo::provider::{
    answer::{Answer, Content, UsageStyle},
    ask::Ask,
};

pub(in crate::demo::provider) fn whole(ask: &Ask, answer: &Answer) -> Value {
    let message = match &answer.content {
        Content::Text(_) => json!({ "role": "assistant", "content": answer.text(), "refusal": null, "annotations": [] }),
        Content::Tool { call_id, name, .. } => json!({
            "role": "assistant", "content": null, "refusal": null,
            "tool_calls": [{ "id": call_id, "type": "function", "function": { "name": name, "arguments": answer.text() } }],
        }),
    };
    let finish = finish_reason(answer);
    let choices: Vec<Value> = (0..ask.n)
        .map(|index| json!({ "index": index, "message": message, "logprobs": null, "finish_reason": finish }))
        .collect();
    let mut reply = head(ask, answer, "chat.completion");
    reply["choices"] = choices.into();
    if let Some(usage) = openai_usage(answer, answer.usage.output) {
        reply["usage"] = usage;
    }
    reply
}

pub(in crate::demo::provider) fn stream(ask: &Ask, answer: &Answer) -> Vec<Event> {
    let mut writer = Writer { ask, answer, sent: 0, events: Vec::new() };
    for index in 0..ask.n {
        writer.choice(index, &first_delta(answer), None, 0);
    }
    for piece in answer.content.pieces() {
        let delta = match &answer.content {
            Content::Text(_) => json!({ "content": piece.text }),
            Content::Tool { .. } => json!({ "tool_calls": [{ "index": 0, "function": { "arguments": piece.text } }] }),
        };
        for index in 0..ask.n {
            writer.choice(index, &delta, None, piece.tokens);
        }
    }
    for index in 0..ask.n {
        writer.choice(index, &json!({}), Some(finish_reason(answer)), 0);
    }
    writer.usage();
    writer.events.push(Event::done());
    writer.events
}

fn first_delta(answer: &Answer) -> Value {
    match &answer.content {
        Content::Text(_) => json!({ "role": "assistant", "content": "", "refusal": null }),
        Content::Tool { call_id, name, .. } => json!({
            "role": "assistant", "content": null,
            "tool_calls": [{ "index": 0, "id": call_id, "type": "function", "function": { "name": name, "arguments": "" } }],
        }),
    }
}

const fn finish_reason(answer: &Answer) -> &'static str {
    match &answer.content {
        _ if answer.cut_short => "length",
        Content::Text(_) => "stop",
        Content::Tool { .. } => "tool_calls",
    }
}

fn head(ask: &Ask, answer: &Answer, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", answer.id),
        "object": object,
        "created": answer.created,
        "model": answer.model,
        "service_tier": ask.service_tier,
        "system_fingerprint": "fp_stand_in",
    })
}

struct Writer<'a> {
    ask: &'a Ask,
    answer: &'a Answer,
    sent: u64,
    events: Vec<Event>,
}

impl Writer<'_> {
    fn choice(&mut self, index: u64, delta: &Value, finish: Option<&str>, tokens: u64) {
        self.sent += tokens;
        let mut chunk = head(self.ask, self.answer, "chat.completion.chunk");
        chunk["choices"] = json!([{ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        if self.answer.style == UsageStyle::EveryChunk {
            chunk["usage"] = openai_usage(self.answer, self.sent).into();
        } else if self.ask.include_usage {
            chunk["usage"] = Value::Null;
        }
        let role = if tokens > 0 { Role::Delta } else { Role::Other };
        self.events.push(Event::data(&chunk, role, tokens));
    }

    /// The extra chunk without choices, for those who asked for it.
    fn usage(&mut self) {
        if !self.ask.include_usage || self.answer.style == UsageStyle::EveryChunk {
            return;
        }
        if let Some(usage) = openai_usage(self.answer, self.answer.usage.output) {
            let mut chunk = head(self.ask, self.answer, "chat.completion.chunk");
            chunk["choices"] = json!([]);
            chunk["usage"] = usage;
            self.events.push(Event::data(&chunk, Role::Other, 0));
        }
    }
}
