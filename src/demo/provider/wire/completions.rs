//! Legacy completions.

use serde_json::{Value, json};

use super::{Event, Role, openai_usage};
use crate::demo::provider::{
    answer::{Answer, UsageStyle},
    ask::Ask,
};

pub(in crate::demo::provider) fn whole(ask: &Ask, answer: &Answer) -> Value {
    let (text, finish) = (answer.text(), finish_reason(answer));
    let choices: Vec<Value> =
        (0..ask.n).map(|index| json!({ "index": index, "text": text, "logprobs": null, "finish_reason": finish })).collect();
    let mut reply = head(answer);
    reply["choices"] = choices.into();
    if let Some(usage) = openai_usage(answer, answer.usage.output) {
        reply["usage"] = usage;
    }
    reply
}

pub(in crate::demo::provider) fn stream(ask: &Ask, answer: &Answer) -> Vec<Event> {
    let mut events = Vec::new();
    let mut sent = 0;
    let mut push = |choices: Value, usage: Option<Value>, tokens: u64| {
        let mut chunk = head(answer);
        chunk["choices"] = choices;
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        let role = if tokens > 0 { Role::Delta } else { Role::Other };
        events.push(Event::data(&chunk, role, tokens));
    };
    let meanwhile = |sent| match answer.style {
        UsageStyle::EveryChunk => openai_usage(answer, sent),
        _ => ask.include_usage.then_some(Value::Null),
    };
    for piece in answer.content.pieces() {
        for index in 0..ask.n {
            sent += piece.tokens;
            let choice = json!([{ "index": index, "text": piece.text, "logprobs": null, "finish_reason": null }]);
            push(choice, meanwhile(sent), piece.tokens);
        }
    }
    for index in 0..ask.n {
        let choice = json!([{ "index": index, "text": "", "logprobs": null, "finish_reason": finish_reason(answer) }]);
        push(choice, meanwhile(sent), 0);
    }
    if ask.include_usage
        && answer.style != UsageStyle::EveryChunk
        && let Some(usage) = openai_usage(answer, answer.usage.output)
    {
        push(json!([]), Some(usage), 0);
    }
    events.push(Event::done());
    events
}

fn head(answer: &Answer) -> Value {
    json!({
        "id": format!("cmpl-{}", answer.id),
        "object": "text_completion",
        "created": answer.created,
        "model": answer.model,
        "system_fingerprint": "fp_stand_in",
    })
}

const fn finish_reason(answer: &Answer) -> &'static str {
    if answer.cut_short { "length" } else { "stop" }
}
