//! A gateway whose Redis is away in every way it can be: each request is answered within a bound and by policy, never with a 429 for
//! a fault of ours, and the books are right once it is back, without a restart.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "outage/killed.rs"]
mod killed;
#[path = "support/mortal_redis.rs"]
mod mortal_redis;
#[path = "outage/process.rs"]
mod process;
#[path = "support/relay.rs"]
mod relay;
#[path = "outage/scene.rs"]
mod scene;
#[path = "outage/told.rs"]
mod told;
#[path = "outage/ways.rs"]
mod ways;
