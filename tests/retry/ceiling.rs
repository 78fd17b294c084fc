//! Each attempt is counted against the provider's ceiling, as the provider counts it.

use crate::bodies::STREAM;
use crate::pace::{Waits, paced};
use crate::redis_server::RedisServer;
use crate::rig::{Rig, complete, config};
use crate::statuses::{answer, fails};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::provider::Script;
use tollgate::limit::{LimitName, Measure, Scope, Settlement};
use tollgate::stack::levels::Pinned;
use tollgate::store::redis::RedisLedger;
use tollgate::telemetry::SystemClock;

fn pool(ceiling: &str, more: &str) -> String {
    format!("[pools.p]\nupstream = \"openai\"\nmodels = [\"m-big\"]\nceiling = {{ {ceiling} }}\nbackground_wait = \"0s\"\n{more}")
}

/// What a settlement booked of one of the pool's limits, line by line.
fn booked(settlement: &Settlement, limit: LimitName) -> Vec<(u64, u64)> {
    let lines = settlement.lines.iter().filter(|line| line.claim.scope.scope == Scope::Pool && line.claim.limit == limit);
    lines.map(|line| (line.claim.amount, line.actual)).collect()
}

/// How many background requests (which never wait for the ceiling here) pass until one is refused.
async fn room(rig: &Rig) -> usize {
    // So much of a small ceiling is in use that the next look at the gauge would pause background work.
    let until = rig.bed.gateway.clock.now().plus(600_000_000).micros();
    rig.bed.gateway.levels.pin("p", Some(Pinned { level: 0, until, by: "test".into() })).await.expect("kept");
    for passed in 0.. {
        let seen = rig.bed.provider.seen();
        rig.bed.provider.script(answer());
        let reply = rig.chat("").header("x-priority", "background").send().await.expect("an answer");
        let status = reply.status();
        reply.bytes().await.expect("a whole body");
        if status == 503 {
            assert_eq!(rig.bed.provider.seen(), seen);
            return passed;
        }
        assert_eq!(status, 200);
    }
    unreachable!("some limit holds")
}

/// Hardly anything flows in while a test runs.
const SLOW: &str = "headroom = 0.1\n[priorities.background]\nshare = 1.0";

#[tokio::test]
async fn three_attempts_take_three_of_the_ceiling_and_one_of_the_customer() {
    let (rig, _waits) = paced("", "", &pool("rpm = 8, tpm = 100_000", SLOW)).await;
    three_attempts(&rig).await;
}

#[tokio::test]
async fn so_they_do_on_redis() {
    let server = RedisServer::start();
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
    let config = config("", &pool("rpm = 8, tpm = 100_000", SLOW)).replace("max = 0\n", "max = 2\n");
    let rig = Rig::kept(&config, Arc::new(SystemClock), Box::new(Waits::default()), Box::new(ledger)).await;
    three_attempts(&rig).await;
}

async fn three_attempts(rig: &Rig) {
    for script in [fails(500), fails(429), answer()] {
        rig.bed.provider.script(script);
    }
    let reply = rig.chat(r#","max_tokens":100"#).send().await.expect("an answer");
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["x-ratelimit-remaining-requests"]),
        (200, &"59".parse().expect("a value"))
    );
    rig.bed.quiet().await;
    let settled = rig.ledger.take();
    assert_eq!(settled.len(), 1, "one settlement for all attempts");
    assert_eq!(booked(&settled[0], LimitName::Rpm), [(1, 1); 3]);
    assert_eq!(booked(&settled[0], LimitName::Tpm), [(100, 100); 3], "the larger of cap and prompt, each time");
    let customers = settled[0].lines.iter().filter(|line| line.claim.scope.scope == Scope::Customer);
    assert_eq!(customers.filter(|line| line.claim.measure == Measure::Request).count(), 1);
    rig.next_customer();
    assert_eq!(room(rig).await, 5, "eight less three");
}

#[tokio::test]
async fn an_attempt_for_which_the_ceiling_has_no_room_in_time_is_not_made() {
    let (rig, waits) = paced("", "", &pool("rpm = 2", "")).await;
    for script in [fails(500), fails(503)] {
        rig.bed.provider.script(script);
    }
    let reply = rig.chat("").send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), rig.bed.provider.seen()), (503, 2), "the third would have to wait for half a minute");
    assert_eq!(&reply.headers()["x-tollgate-refused-by"], "provider");
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error"));
    assert_eq!(rig.metric("tollgate_retries_ended_total", "reason=\"ceiling\""), 1);
    assert_eq!(waits.take(), [100, 100], "it asks when it has waited");
}

#[tokio::test]
async fn an_attempt_whose_turn_comes_within_the_budget_waits_for_it() {
    // One a minute and one at once: the next fits a minute later.
    let more = pool("rpm = 1", "headroom = 1.0");
    let (rig, waits) = paced("", "wait_budget = \"70s\"", &more).await;
    rig.bed.provider.script(fails(500));
    rig.bed.provider.script(answer());
    assert_eq!(rig.chat("").send().await.expect("an answer").status(), 200);
    assert_eq!(waits.take(), [100, 60_000], "its own wait, and then its turn");
    rig.outcome().await;
}

#[tokio::test]
async fn the_attempt_without_the_field_that_was_refused_counts_too() {
    let refused = || Script::json(400, r#"{"error":{"message":"unknown field stream_options","param":"stream_options"}}"#);
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n";
    let (rig, _waits) = paced("", "", &pool("rpm = 2", "")).await;
    rig.bed.provider.script(refused());
    rig.bed.provider.script(Script::sse().send(stream));
    assert_eq!(rig.chat(r#","stream":true"#).send().await.expect("an answer").text().await.expect("a body"), stream);
    rig.bed.quiet().await;
    let settled = rig.ledger.take();
    assert_eq!(booked(&settled[0], LimitName::Rpm), [(1, 1), (1, 1)]);

    let (rig, _waits) = paced("", "", &pool("rpm = 1", "")).await;
    rig.bed.provider.script(refused());
    let reply = rig.chat(r#","stream":true"#).send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), rig.bed.provider.seen()), (503, 1), "there is no room for it");
    let body: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    assert_eq!(body["error"]["code"], "overloaded");
    assert_eq!(rig.outcome().await, complete(0, 0).cause("overloaded"));
    let _ = STREAM;
}

#[tokio::test]
async fn what_is_counted_as_used_is_counted_for_the_attempt_that_used_it() {
    let (rig, _waits) = paced("", "", &pool("rpm = 100, tpm = 100_000", "counts = \"actual\"")).await;
    for script in [fails(429), fails(500), answer()] {
        rig.bed.provider.script(script);
    }
    assert_eq!(rig.chat(r#","max_tokens":100"#).send().await.expect("an answer").status(), 200);
    rig.bed.quiet().await;
    let settled = rig.ledger.take();
    let tokens: Vec<_> = booked(&settled[0], LimitName::Tpm).into_iter().map(|(_, actual)| actual).collect();
    // One that was turned away used nothing, one that failed may have read the prompt, the last one used what it states.
    let mut sorted = tokens.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, crate::bodies::HI, 109], "{tokens:?}");
    rig.next_customer();
}
