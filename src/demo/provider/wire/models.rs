//! The models list and single models, in both dialects.

use serde_json::{Value, json};

use crate::{demo::provider::FAULT_MODELS, wire::Dialect};

const OPENAI: [&str; 7] =
    ["gpt-5.4", "gpt-5.4-mini", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini", "text-embedding-3-small", "text-embedding-3-large"];
const ANTHROPIC: [&str; 4] = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-haiku-4-5"];

/// When every model here was made; any instant would do.
const CREATED: u64 = 1_764_460_800;

pub(in crate::demo::provider) fn list(dialect: Dialect) -> Value {
    let data: Vec<Value> = ids(dialect).map(|id| entry(dialect, id)).collect();
    match dialect {
        Dialect::OpenAi => json!({ "object": "list", "data": data }),
        Dialect::Anthropic => {
            let (first, last) = (ids(dialect).next(), ids(dialect).last());
            json!({ "data": data, "has_more": false, "first_id": first, "last_id": last })
        }
    }
}

/// One model, if it is in the list.
pub(in crate::demo::provider) fn one(dialect: Dialect, id: &str) -> Option<Value> {
    ids(dialect).find(|known| *known == id).map(|id| entry(dialect, id))
}

fn ids(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let real: &'static [&'static str] = match dialect {
        Dialect::OpenAi => &OPENAI,
        Dialect::Anthropic => &ANTHROPIC,
    };
    real.iter().copied().chain(FAULT_MODELS)
}

fn entry(dialect: Dialect, id: &str) -> Value {
    match dialect {
        Dialect::OpenAi => json!({ "id": id, "object": "model", "created": CREATED, "owned_by": "stand-in" }),
        Dialect::Anthropic => json!({ "type": "model", "id": id, "display_name": id, "created_at": "2025-11-30T00:00:00Z" }),
    }
}
