//! OpenTelemetry: what a collector is told of requests, by the names of the GenAI conventions; and what it is never told.

#[path = "support/bed.rs"]
#[allow(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;

#[path = "otel/collector.rs"]
mod collector;

#[path = "otel/contents.rs"]
mod contents;
#[path = "otel/outages.rs"]
mod outages;
#[path = "otel/trees.rs"]
mod trees;

use bed::{Bed, CONFIG, config_and};
use collector::Collector;
use opentelemetry_proto::tonic::trace::v1::Span;
use std::time::Duration;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Script;
use tollgate::wire::Usage;

/// A reply of 10 tokens in and 99 out, from a model that calls itself by another name.
pub const REPLY: &str = r#"{"id":"r1","model":"m-big-2026","choices":[{"message":{"content":"SECRET-ANSWER"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":99}}"#;
/// What that costs at the prices of `m-big`, nano-dollars.
pub const COST: &str = "1015000";

/// The script of that reply.
pub fn reply() -> Script {
    Script::json(200, REPLY).used(Usage { uncached_input: 10, output: 99, ..Usage::default() })
}

/// Nothing is sent on its own: what is seen was flushed, or nothing.
pub fn telemetry(collector: &Collector, more: &str) -> String {
    format!(
        "[telemetry.otlp]\nendpoint = \"http://{}/base/\"\ninterval = \"1h\"\nmetrics_interval = \"1h\"\n{more}",
        collector.address
    )
}

/// A bed that tells this collector.
pub async fn bed_of(collector: &Collector, otlp: &str, more: &str) -> Bed {
    // A model that may be answered by a cheaper one, for requests of a class that allows it.
    let config = CONFIG.replace("[models.m-big]\n", "[models.m-big]\nfallback = \"m-small\"\n");
    let more = telemetry(collector, &format!("{otlp}\n{more}"));
    let classes = "[classes.general]\nfallback = true\n";
    let config = config_and("").replace(CONFIG, &config);
    let retry = more.contains("[retry]");
    let config = if retry { config.replace("[retry]\nmax = 0\nbreaker = { failures = 0 }\n", "") } else { config };
    Bed::with(&format!("{config}\n{classes}\n{more}"), ProviderOptions::default()).await
}

/// Everything of these many requests: the span of each before those of its steps.
pub async fn told(bed: &Bed, collector: &Collector, requests: usize) -> Vec<Span> {
    bed.quiet().await;
    let otlp = bed.gateway.otlp.as_ref().expect("something is exported");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        assert!(otlp.drain(Duration::from_secs(10)).await, "the collector takes it");
        let spans = collector.spans();
        // A request is quiet a moment before it is told.
        if spans.iter().filter(|span| span.kind == 2).count() >= requests {
            return spans;
        }
        assert!(tokio::time::Instant::now() < deadline, "only {} spans", spans.len());
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}
