//! A collector that is away, slow, or says no; and the end of the gateway.

use crate::bed::Bed;
use crate::collector::Collector;
use crate::{bed_of, told};
use std::time::Duration;
use tollgate::wire::Api;

async fn ask(bed: &Bed) {
    let reply = bed.chat("t", "m-big", "").send().await.expect("an answer");
    assert_eq!(reply.status(), 200);
    reply.bytes().await.expect("whole");
}

fn metric(bed: &Bed, line: &str) -> Option<u64> {
    let text = bed.gateway.metrics.render();
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

#[tokio::test]
async fn spans_of_an_outage_arrive_once_the_collector_is_back() {
    let address = Collector::new().await.address;
    let bed = Bed::plus(&format!("[telemetry.otlp]\nendpoint = \"http://{address}\"\ninterval = \"1ms\"\n")).await;
    for _ in 0..3 {
        ask(&bed).await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while metric(&bed, "tollgate_otlp_exports_total{signal=\"traces\",result=\"failed\"}").is_none() {
        assert!(tokio::time::Instant::now() < deadline, "an export fails");
        tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
    }
    let back = Collector::at(address).await;
    back.until("all of them", |back| back.spans().iter().filter(|span| span.kind == 2).count() == 3).await;
    assert_eq!(metric(&bed, "tollgate_otlp_dropped_total{reason=\"not_taken\"}"), None);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_batch_that_the_collector_refuses_is_dropped_and_counted_and_one_it_cannot_take_yet_is_repeated() {
    let collector = Collector::new().await;
    let bed = Bed::plus(&format!("[telemetry.otlp]\nendpoint = \"http://{}\"\ninterval = \"1ms\"\n", collector.address)).await;
    collector.answers(400);
    ask(&bed).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while metric(&bed, "tollgate_otlp_dropped_total{reason=\"not_taken\"}") != Some(3) {
        assert!(tokio::time::Instant::now() < deadline, "three spans are dropped");
        tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
    }
    assert_eq!(collector.posted().len(), 1, "a refusal is not repeated");
    collector.answers(503);
    ask(&bed).await;
    collector.until("a second post", |collector| collector.posted().len() >= 2).await;
    collector.answers(200);
    collector.until("the spans", |collector| collector.spans().len() == 3).await;
    assert_eq!(metric(&bed, "tollgate_otlp_dropped_total{reason=\"not_taken\"}"), Some(3));
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn what_waits_is_sent_when_the_gateway_ends() {
    let collector = Collector::new().await;
    let bed = bed_of(&collector, "", "").await;
    ask(&bed).await;
    bed.assert_books(&["t"]).await;
    assert_eq!(collector.posted().len(), 0, "an hour is not over");
    bed.stop().await;
    assert_eq!(collector.spans().len(), 3);
    assert_eq!(collector.histogram("gen_ai.client.operation.duration", "s").len(), 1);
}

#[tokio::test]
async fn an_end_without_a_collector_keeps_nobody() {
    let gone = Collector::new().await;
    let bed = bed_of(&gone, "timeout = \"100ms\"", "").await;
    drop(gone);
    ask(&bed).await;
    bed.quiet().await;
    let ended = tokio::time::timeout(Duration::from_secs(20), bed.stop()).await;
    assert!(ended.is_ok(), "it ends");
}

#[tokio::test]
async fn the_queue_is_bounded_and_what_does_not_fit_is_counted() {
    let collector = Collector::new().await;
    let bed = bed_of(&collector, "", "").await;
    // Nothing is awaited here, so nothing is sent meanwhile: 4,096 of them fit, one span each.
    for _ in 0..4_200 {
        drop(bed.gateway.record(Api::Chat));
    }
    assert_eq!(metric(&bed, "tollgate_otlp_dropped_total{reason=\"queue_full\"}"), Some(104));
    assert_eq!(told(&bed, &collector, 4_096).await.len(), 4_096);
}
