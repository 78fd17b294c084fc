//! The rows, each a file: what is started, what is asked, what is compared.

mod ceiling;
mod customers;
mod flood;
mod instructions;
mod large;
mod latency;
mod litellm;
mod streams;
mod throughput;

use crate::bench::Bench;
use crate::table::Line;
use std::pin::Pin;

/// A row: its name, and what makes its lines.
pub type Row = (&'static str, for<'a> fn(&'a mut Bench) -> Lines<'a>);

type Lines<'a> = Pin<Box<dyn Future<Output = Result<Vec<Line>, String>> + 'a>>;

/// Rows that run only when they are asked for.
pub const ASKED_FOR: [&str; 1] = ["instructions"];

/// All rows, in the order of the table.
pub const ROWS: [Row; 15] = [
    ("embedded-warm", |bench| Box::pin(throughput::embedded_warm(bench))),
    ("embedded-new", |bench| Box::pin(throughput::embedded_new(bench))),
    ("redis-warm", |bench| Box::pin(throughput::redis_warm(bench))),
    ("redis-new", |bench| Box::pin(throughput::redis_new(bench))),
    ("redis-two-gateways", |bench| Box::pin(throughput::two_gateways(bench))),
    ("one-connection", |bench| Box::pin(latency::one_connection(bench))),
    ("half-load", |bench| Box::pin(latency::half_load(bench))),
    ("flood", |bench| Box::pin(flood::flood(bench))),
    ("large-prompts", |bench| Box::pin(large::large(bench))),
    ("streams", |bench| Box::pin(streams::paced(bench))),
    ("open-streams", |bench| Box::pin(streams::open(bench))),
    ("customers", |bench| Box::pin(customers::million(bench))),
    ("ceiling", |bench| Box::pin(ceiling::saturation(bench))),
    ("litellm", |bench| Box::pin(litellm::against(bench))),
    ("instructions", |bench| Box::pin(instructions::instructions(bench))),
];
