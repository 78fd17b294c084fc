//! Gateway keys made at run time: through the whole gateway, on both stores, and on two gateways that share one.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/bed.rs"]
mod bed;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/mortal_redis.rs"]
mod mortal_redis;

#[path = "keys/asking.rs"]
mod asking;
#[path = "keys/life.rs"]
mod life;
#[path = "keys/rig.rs"]
mod rig;
