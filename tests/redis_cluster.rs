//! What only a Redis Cluster or sentinels can get wrong: two calls where one server needs one, slots that move, masters that die.
//!
//! The behaviour that all stores share is in `tests/store_conformance.rs`, which runs on a cluster as well.

#[path = "redis_cluster/audit.rs"]
mod audit;
#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "redis_cluster/calls.rs"]
mod calls;
#[path = "store_conformance/fixture.rs"]
#[expect(dead_code, reason = "the words of the conformance suite; none uses all of them")]
mod fixture;
#[path = "redis_cluster/halves.rs"]
mod halves;
#[path = "redis_cluster/killed.rs"]
mod killed;
#[path = "redis_cluster/moving.rs"]
mod moving;
#[path = "support/redis_cluster.rs"]
mod redis_cluster;
#[path = "support/redis_sentinel.rs"]
mod redis_sentinel;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;
#[path = "store_conformance/reference.rs"]
mod reference;
#[path = "redis_cluster/scene.rs"]
mod scene;
#[path = "redis_cluster/sentinel.rs"]
mod sentinel;
