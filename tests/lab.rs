//! The lab: the scenarios that come with Tollgate come to the figures they are there for, and replays say who would have been refused.

#[path = "docs/child.rs"]
#[expect(dead_code, reason = "the child serves several tests; none uses all of it")]
mod child;

#[path = "lab/command.rs"]
mod command;
#[path = "lab/errors.rs"]
mod errors;
#[path = "lab/ipo_morning.rs"]
mod ipo_morning;
#[path = "lab/kit.rs"]
mod kit;
#[path = "lab/replays.rs"]
mod replays;
#[path = "lab/scenarios.rs"]
mod scenarios;
