//! What a meter knows about a reply.

use crate::wire::Usage;
use crate::wire::delivered::Delivered;
use crate::wire::pick::{pick, string};

/// What a reply used, said and was, as far as it has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The provider's own numbers, each the latest that was stated; `None` when it stated none (or nothing but garbage).
    pub usage: Option<Usage>,
    /// Whether the provider stated the input; if not, the input in `usage` is 0 and the prompt's own count stands.
    pub input_known: bool,
    /// Whether the provider stated the output. If not, the output in `usage` is 0 or a placeholder, and `delivered` stands: a stream
    /// that was cut, a provider that states no usage.
    pub output_known: bool,
    /// Output that the provider stated before it delivered more; the true number is at least this. 0 where there is no such.
    pub output_at_least: u64,
    /// Bytes of a reply that is no stream and was cut before it could be read; 0 otherwise.
    pub partial_bytes: u64,
    /// What was delivered; only given when the output is not known, for nobody else needs it.
    pub delivered: Delivered,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The provider's id of the reply.
    pub reply_id: Option<String>,
    /// The error the reply carries although its status was a success: an error event, a failed response, an error object as body.
    pub error: Option<ReplyError>,
    /// Whether the reply reached its proper end. A stream: `[DONE]`, or a finish reason and then the end of the stream
    /// (chat, completions); the terminal event (responses); `message_stop` (messages). Any other reply: it is one whole JSON object.
    pub complete: bool,
    /// What was odd.
    pub anomalies: Anomalies,
}

/// An error inside a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyError {
    /// `code`, where it is a string or number.
    pub code: Option<String>,
    /// `type`: `overloaded_error`, `server_error`, …
    pub kind: Option<String>,
}

impl ReplyError {
    /// Reads an error object; an error that is anything else is one without code and type.
    pub(super) fn read(json: &str) -> Self {
        let [code, kind] = pick(json, ["code", "type"]).unwrap_or_default();
        Self { code: code.and_then(label), kind: kind.and_then(label) }
    }
}

/// A short string or number, for logs and comparison; anything long is no label.
pub(super) fn label(json: &str) -> Option<String> {
    const LONGEST: usize = 256;
    let text = match string(json) {
        Some(text) => text.into_owned(),
        None if json.starts_with(['{', '[']) => return None,
        None => json.to_owned(),
    };
    (!text.is_empty() && text.len() <= LONGEST).then_some(text)
}

/// What is odd about a reply. Each is worth a metric and a log line; none of it fails the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// How often a cumulative usage number became smaller; the later one was taken.
    pub usage_decreased: u32,
    /// A usage number was negative or none at all, or the usage was no object; it was ignored.
    pub garbage_usage: bool,
    /// A usage number was above [`crate::wire::usage::number::MAX_TOKENS`] and was taken as that.
    pub capped_usage: bool,
    /// Parts of the usage were larger than their whole (more cached than prompt); what would be left of the whole is 0.
    pub inconsistent_usage: bool,
    /// An event, or a body, was too large for the accounting copy: what it said may be missing here. It was passed on all the same.
    pub oversized_event: bool,
}
