//! The provider's figures beside ours: usage and cost exports of OpenAI and Anthropic against the history, per model and day.
//!
//! ```text
//! export    reading an export, whichever of the known ones it is
//! money     dollars and cents as exports write them
//! compare   theirs beside ours, and the likely cause of a difference
//! write     the table
//! ```
//!
//! Pure: texts and rows in, rows out. Both sides count days of UTC: OpenAI's and Anthropic's daily buckets begin at midnight UTC.

pub mod compare;
pub mod export;
mod money;
pub mod write;

use crate::history::{Day, ModelUse};
use serde::{Deserialize, Serialize};

/// Dollars as somebody writes them, in nano-dollars; `None` where they are none.
#[must_use]
pub fn dollars(text: &str) -> Option<u64> {
    money::decimal(text, 9)
}

/// What a provider says of one model and day. Absent is what the export does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Theirs {
    /// The day, UTC.
    pub day: Day,
    /// The model as the export names it; empty where it does not tell models apart.
    pub model: String,
    /// Requests.
    pub requests: Option<u64>,
    /// Input tokens, cached ones among them.
    pub input: Option<u64>,
    /// Those of them that were read from the cache.
    pub cached: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
    /// Nano-dollars.
    pub cost: Option<u64>,
    /// Requests or input tokens of the Batch API, which does not pass the gateway.
    pub batch: u64,
}

/// What the history says of one model and day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// The day, UTC.
    pub day: Day,
    /// The model.
    #[serde(flatten)]
    pub used: ModelUse,
}
