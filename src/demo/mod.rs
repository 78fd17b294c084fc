//! What `tollgate demo` shows: a stand-in provider to put behind the gateway, and the curl lines to paste.
//!
//! The provider is not a mock in the usual sense. It is a real HTTP server with real sockets, and it speaks the formats of
//! OpenAI and Anthropic closely enough that their official SDKs cannot tell. That makes it useful in three places: the demo,
//! every integration test, and the benchmarks. See [`provider`] for what it answers and which faults it can be asked for.

pub mod lines;
pub mod provider;

pub use provider::{Provider, ProviderOptions};

use crate::estimate::{Estimator, Piece};
use crate::wire::{Api, request};

/// Counts the input of a request the way a provider would, for the usage that the stand-in reports. A body that is none of the known
/// APIs' counts as nothing.
#[must_use]
pub fn count(estimator: &Estimator, model: &str, body: &[u8]) -> u64 {
    let candidates: &[Api] = if model.starts_with("claude") {
        &[Api::Messages, Api::CountTokens]
    } else {
        &[Api::Chat, Api::Responses, Api::Embeddings, Api::Completions, Api::Messages]
    };
    let read = candidates.iter().find_map(|api| request::parse(*api, body).ok());
    read.map_or(0, |request| {
        let pieces: Vec<Piece<'_>> =
            request.segments.iter().map(|segment| Piece { kind: segment.kind, json: &body[segment.range.clone()] }).collect();
        estimator.count(model, request.api, &pieces).map_or(0, |count| count.best)
    })
}
