//! What the documents say is true: their blocks run, their bodies, tables and names are those of the program.

#[path = "docs/child.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod child;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/codes.rs"]
mod codes;
#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/compose.rs"]
mod compose;
#[path = "docs/dashboards.rs"]
mod dashboards;
#[path = "docs/refusals.rs"]
mod refusals;
#[path = "docs/serving.rs"]
mod serving;
#[path = "docs/tables.rs"]
mod tables;
