//! Requests that are sent twice, and requests that are answered later: what the client gets, what the provider sees, what is charged.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "these tests need only some of it")]
mod redis_server;

#[path = "repeats/jobs.rs"]
mod jobs;
#[path = "repeats/keys.rs"]
mod keys;
#[path = "repeats/killed.rs"]
mod killed;
#[path = "repeats/leaving.rs"]
mod leaving;
#[path = "repeats/outcomes.rs"]
mod outcomes;
#[path = "repeats/rig.rs"]
mod rig;
#[path = "repeats/stores.rs"]
mod stores;
#[path = "repeats/taken_over.rs"]
mod taken_over;
#[path = "repeats/waiting.rs"]
mod waiting;
