//! The triage queue: hand-offs become tickets, agents work them over HTTP, apps are told how they stand.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;

#[path = "triage/kit.rs"]
mod kit;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;

#[path = "triage/agents.rs"]
mod agents;
#[path = "triage/apps.rs"]
mod apps;
#[path = "triage/away.rs"]
mod away;
#[path = "triage/bounds.rs"]
mod bounds;
#[path = "triage/conversations.rs"]
mod conversations;
#[path = "triage/hooks.rs"]
mod hooks;
#[path = "triage/races.rs"]
mod races;
#[path = "triage/resubmit.rs"]
mod resubmit;
#[path = "triage/stores.rs"]
mod stores;
