//! The edges of the HTTP surface, through the whole gateway: who asks, on which route, with which bytes, and what comes back.
//!
//! "No effect" means that no call reached the provider, that the ledger was not asked and nothing is held, so every limit stands as before.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "edges/bodies.rs"]
mod bodies;
#[path = "edges/encodings.rs"]
mod encodings;
#[path = "edges/environment.rs"]
mod environment;
#[path = "edges/framing.rs"]
mod framing;
#[path = "edges/headers.rs"]
mod headers;
#[path = "edges/health.rs"]
mod health;
#[path = "edges/identity.rs"]
mod identity;
#[path = "edges/keys.rs"]
mod keys;
#[path = "edges/kit.rs"]
mod kit;
#[path = "edges/long_prompts.rs"]
mod long_prompts;
#[path = "edges/numbers.rs"]
mod numbers;
#[path = "edges/panics.rs"]
mod panics;
#[path = "edges/raw.rs"]
mod raw;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;
#[path = "edges/replies.rs"]
mod replies;
#[path = "edges/routes.rs"]
mod routes;
#[path = "edges/slow.rs"]
mod slow;
#[path = "edges/stored.rs"]
mod stored;
