//! The providers' formats, written the way the providers write them.
//!
//! Written apart from the gateway's own readers on purpose: what reads these bytes there was not made from the same code.

pub(super) mod chat;
pub(super) mod completions;
pub(super) mod embeddings;
pub(super) mod messages;
pub(super) mod models;
pub(super) mod responses;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    answer::{Answer, UsageStyle},
    ask::Ask,
    errors::Problem,
};
use crate::wire::{Api, Usage};

/// One event of a stream.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub bytes: Bytes,
    pub role: Role,
    /// Output tokens in it.
    pub tokens: u64,
}

/// What an event is for; faults drop or insert by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A piece of the answer.
    Delta,
    /// The very last event, where the format has one.
    Done,
    Other,
}

impl Event {
    /// An unnamed event.
    fn data(data: &Value, role: Role, tokens: u64) -> Self {
        Self { bytes: format!("data: {data}\n\n").into(), role, tokens }
    }

    /// A named event, as Responses and Messages send them.
    fn named(name: &str, data: &Value, role: Role, tokens: u64) -> Self {
        Self { bytes: format!("event: {name}\ndata: {data}\n\n").into(), role, tokens }
    }

    fn done() -> Self {
        Self { bytes: Bytes::from_static(b"data: [DONE]\n\n"), role: Role::Done, tokens: 0 }
    }
}

/// A whole reply.
pub(super) fn whole(ask: &Ask, answer: &Answer) -> Value {
    match ask.api {
        Api::Chat => chat::whole(ask, answer),
        Api::Completions => completions::whole(ask, answer),
        Api::Responses => responses::whole(ask, answer),
        Api::Embeddings => embeddings::whole(ask, answer),
        Api::Messages => messages::whole(answer),
        Api::CountTokens => json!({ "input_tokens": answer.usage.input() }),
        Api::Models | Api::AnthropicModels | Api::Jobs(_) | Api::Triage(_) | Api::Unknown(_) => Value::Null,
    }
}

/// A streamed reply.
pub(super) fn stream(ask: &Ask, answer: &Answer) -> Vec<Event> {
    match ask.api {
        Api::Completions => completions::stream(ask, answer),
        Api::Responses => responses::stream(ask, answer),
        Api::Messages => messages::stream(answer),
        _ => chat::stream(ask, answer),
    }
}

/// An error in the middle of a stream.
pub(super) fn error_event(api: Api, problem: &Problem) -> Event {
    match api {
        Api::Responses => {
            let data = json!({ "type": "error", "code": "server_error", "message": problem.message, "param": null, "sequence_number": 99 });
            Event::named("error", &data, Role::Other, 0)
        }
        Api::Messages => Event::named("error", &json!({ "type": "error", "error": problem.anthropic() }), Role::Other, 0),
        _ => Event::data(&json!({ "error": problem.openai() }), Role::Other, 0),
    }
}

/// The usage object of chat, completions and (with less in it) embeddings.
fn openai_usage(answer: &Answer, output: u64) -> Option<Value> {
    match answer.style {
        UsageStyle::Missing => None,
        UsageStyle::Garbage => Some(json!({
            "prompt_tokens": -5, "completion_tokens": "12", "total_tokens": null, "prompt_tokens_details": [],
        })),
        UsageStyle::Honest | UsageStyle::EveryChunk => {
            let Usage { cache_read, cache_write, reasoning, .. } = answer.usage;
            let input = answer.usage.input();
            Some(json!({
                "prompt_tokens": input,
                "completion_tokens": output,
                "total_tokens": input + output,
                "prompt_tokens_details": { "cached_tokens": cache_read, "cache_write_tokens": cache_write, "audio_tokens": 0 },
                "completion_tokens_details": {
                    "reasoning_tokens": reasoning, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                },
            }))
        }
    }
}
