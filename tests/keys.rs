//! Gateway keys made at run time, and the cap on customers that an application names for the first time: through the whole gateway, on
//! both stores, and on two gateways that share one.

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
#[path = "keys/newcomers.rs"]
mod newcomers;
#[path = "keys/rig.rs"]
mod rig;
