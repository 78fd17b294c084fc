//! Attacks on what stands between a refusal and an answer: retries, chains, levels, idempotency keys and jobs in combination, each with
//! the books at its end.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "attacks/chains.rs"]
mod chains;
#[path = "attacks/jobs.rs"]
mod jobs;
#[path = "attacks/keys.rs"]
mod keys;
#[path = "attacks/leavers.rs"]
mod leavers;
#[path = "degrade/scene.rs"]
#[expect(dead_code, reason = "these tests need only some of it")]
mod scene;
#[path = "attacks/waits.rs"]
mod waits;
