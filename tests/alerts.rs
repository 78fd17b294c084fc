//! Alerts: what operators are told of, once, across gateways, restarts and outages.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "support/mortal_redis.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod mortal_redis;

#[path = "alerts/kit.rs"]
mod kit;

#[path = "alerts/away.rs"]
mod away;
#[path = "alerts/caps.rs"]
mod caps;
#[path = "alerts/command.rs"]
mod command;
#[path = "alerts/hooks.rs"]
mod hooks;
#[path = "alerts/pools.rs"]
mod pools;
#[path = "alerts/traffic.rs"]
mod traffic;
