//! Chat completions.

use super::{HANDOFF_MODEL, Handoff, event};
use serde_json::{Value, json};

pub(super) fn whole(handoff: &Handoff<'_>) -> Value {
    let mut reply = head(handoff, "chat.completion");
    reply["choices"] = json!([{
        "index": 0,
        "message": { "role": "assistant", "content": handoff.message, "refusal": null, "annotations": [] },
        "logprobs": null,
        "finish_reason": "stop",
    }]);
    reply["usage"] = usage();
    reply
}

pub(super) fn stream(handoff: &Handoff<'_>) -> String {
    let mut stream = String::new();
    let steps = [
        (json!({ "role": "assistant", "content": "", "refusal": null }), Value::Null),
        (json!({ "content": handoff.message }), Value::Null),
        (json!({}), json!("stop")),
    ];
    for (delta, finish) in steps {
        let mut chunk = head(handoff, "chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        if handoff.include_usage {
            chunk["usage"] = Value::Null;
        }
        event(&mut stream, None, &chunk);
    }
    if handoff.include_usage {
        let mut chunk = head(handoff, "chat.completion.chunk");
        chunk["choices"] = json!([]);
        chunk["usage"] = usage();
        event(&mut stream, None, &chunk);
    }
    stream.push_str("data: [DONE]\n\n");
    stream
}

fn head(handoff: &Handoff<'_>, object: &str) -> Value {
    json!({ "id": handoff.id("chatcmpl-"), "object": object, "created": handoff.at.secs(), "model": HANDOFF_MODEL })
}

fn usage() -> Value {
    json!({
        "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0,
        "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 },
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}
