//! What `tollgate demo` shows: a stand-in provider to put behind the gateway, and the curl lines to paste.
//!
//! The provider is not a mock in the usual sense. It is a real HTTP server with real sockets, and it speaks the formats of
//! OpenAI and Anthropic closely enough that their official SDKs cannot tell. That makes it useful in three places: the demo,
//! every integration test, and the benchmarks. See [`provider`] for what it answers and which faults it can be asked for.

pub mod lines;
pub mod provider;

pub use provider::{Provider, ProviderOptions};
