//! Embeddings.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::openai_usage;
use crate::demo::provider::{answer::Answer, ask::Ask};

pub(in crate::demo::provider) fn whole(ask: &Ask, answer: &Answer) -> Value {
    let data: Vec<Value> = (0..ask.inputs)
        .map(|index| json!({ "object": "embedding", "index": index, "embedding": embedding(ask, index as u64) }))
        .collect();
    let mut reply = json!({ "object": "list", "model": answer.model, "data": data });
    if let Some(mut usage) = openai_usage(answer, 0) {
        if let Some(members) = usage.as_object_mut() {
            members.retain(|key, _| matches!(key.as_str(), "prompt_tokens" | "total_tokens"));
        }
        reply["usage"] = usage;
    }
    reply
}

/// A vector of about unit length that depends on the request and the index only.
fn embedding(ask: &Ask, index: u64) -> Value {
    let mut random = fastrand::Rng::with_seed(ask.hash ^ index);
    let scale = 1.0 / (ask.dimensions as f32 / 3.0).sqrt();
    let numbers = (0..ask.dimensions).map(|_| (random.f32() * 2.0 - 1.0) * scale);
    if ask.base64 {
        // The SDKs ask for this form on their own account: little-endian f32.
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        STANDARD.encode(bytes).into()
    } else {
        numbers.collect::<Vec<f32>>().into()
    }
}
