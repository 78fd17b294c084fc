//! Limits, counting and money through the whole gateway, on the embedded store and on a real Redis.
//!
//! Time is a clock moved by hand, which both stores follow, or tokio's paused time; nothing here sleeps for time to pass.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "limits/buckets.rs"]
mod buckets;
#[path = "limits/calls.rs"]
mod calls;
#[path = "limits/ceiling.rs"]
mod ceiling;
#[path = "limits/charges.rs"]
mod charges;
#[path = "limits/claims.rs"]
mod claims;
#[path = "limits/counting.rs"]
mod counting;
#[path = "limits/debt.rs"]
mod debt;
#[path = "limits/facts.rs"]
mod facts;
#[path = "limits/fixture.rs"]
mod fixture;
#[path = "limits/headers.rs"]
mod headers;
#[path = "limits/line.rs"]
mod line;
#[path = "limits/line_shared.rs"]
mod line_shared;
#[path = "limits/messages.rs"]
mod messages;
#[path = "limits/output.rs"]
mod output;
#[path = "limits/periods.rs"]
mod periods;
#[path = "limits/queue.rs"]
mod queue;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;
#[path = "limits/rush.rs"]
mod rush;
#[path = "limits/scopes.rs"]
mod scopes;
