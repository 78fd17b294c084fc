//! An upstream that fails and fails is left alone, and one call finds out when it is well again.

use crate::bodies::{ROUTES, STREAM, delta};
use crate::pace::{Hand, clocked};
use crate::rig::{Rig, complete, read};
use crate::statuses::{answer, fails};
use serde_json::Value;
use std::time::Duration;
use tollgate::demo::provider::{Gate, Script, Seen};

const RULES: &str = "max = 0\nbreaker = { failures = 3, share = 0.5, window = \"10s\", pause = \"5s\" }";

async fn status(rig: &Rig) -> u16 {
    let reply = rig.chat("").send().await.expect("an answer");
    let status = reply.status().as_u16();
    reply.bytes().await.expect("a whole body");
    rig.outcome().await;
    status
}

/// A rig whose upstream has failed so often that it is left alone.
async fn open() -> (Rig, Hand) {
    let (rig, _waits, hand) = clocked("", RULES, "").await;
    for _ in 0..3 {
        rig.bed.provider.script(fails(500));
        assert_eq!(status(&rig).await, 500);
    }
    (rig, hand)
}

fn state(rig: &Rig) -> u64 {
    rig.metric("tollgate_breaker_state", "upstream=\"openai\"")
}

#[tokio::test]
async fn an_upstream_that_fails_is_left_alone_until_a_probe_succeeds() {
    let (rig, hand) = open().await;
    assert_eq!(state(&rig), 2);
    let reply = rig.chat("").send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), &reply.headers()["retry-after"]), (503, &"5".parse().expect("a value")));
    let body: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    assert_eq!(body["error"]["code"], "overloaded");
    let outcome = rig.outcome().await;
    assert_eq!((outcome.requests, outcome.tokens, outcome.cost), (0, 0, 0), "everything is given back: {outcome:?}");
    assert_eq!(rig.bed.provider.seen(), 3, "it was not asked");
    // The other upstream is none of its business.
    rig.bed.provider.script(Script::sse().send(format!("{}{}", ROUTES[2].half(), ROUTES[2].their_error)));
    let mut other = rig.post(ROUTES[2].path, ROUTES[2].request).send().await.expect("an answer");
    assert_eq!((other.status().as_u16(), read(&mut other).await.1), (200, true));
    rig.outcome().await;

    hand.pass(Duration::from_secs(5));
    let gate = Gate::new();
    rig.bed.provider.script(answer().hold(&gate));
    let before = rig.bed.provider.seen();
    let probe = tokio::spawn(rig.chat("").send());
    rig.provider_saw("the probe", |seen| seen.len() as u64 == before + 1).await;
    assert_eq!(state(&rig), 1);
    let refused = rig.chat("").send().await.expect("an answer");
    assert_eq!(refused.status(), 503, "one at a time");
    drop(refused);
    gate.open();
    assert_eq!(probe.await.expect("no panic").expect("an answer").status(), 200);
    rig.outcomes(2).await;
    assert_eq!(state(&rig), 0);
    rig.bed.provider.script(answer());
    assert_eq!(status(&rig).await, 200);
}

#[tokio::test]
async fn a_probe_that_fails_keeps_it_open_and_one_whose_client_leaves_hands_over() {
    let (rig, hand) = open().await;
    hand.pass(Duration::from_secs(5));
    rig.bed.provider.script(fails(500));
    assert_eq!(status(&rig).await, 500, "the probe");
    assert_eq!((status(&rig).await, state(&rig)), (503, 2));
    hand.pass(Duration::from_secs(5));
    rig.bed.provider.script(Script::sse().hold(&Gate::new()));
    let before = rig.bed.provider.seen();
    let probe = tokio::spawn(rig.chat(STREAM).send());
    rig.provider_saw("the probe", |seen| seen.len() as u64 == before + 1 && !seen[seen.len() - 1].body.is_empty()).await;
    probe.abort();
    rig.provider_saw("it cancelled", |seen| seen.last().is_some_and(Seen::client_left)).await;
    rig.outcome().await;
    rig.bed.provider.script(answer());
    assert_eq!((status(&rig).await, state(&rig)), (200, 0), "the next one is the probe");
}

#[tokio::test]
async fn what_is_a_failure_of_the_provider_opens_it() {
    let error = Script::sse().send(ROUTES[0].their_error);
    let later = Script::sse().send(delta(" this")).send(ROUTES[0].their_error);
    for (how, script, opens) in [
        ("500", fails(500), true),
        ("529", fails(529), true),
        ("RST", Script::raw().reset(), true),
        ("silence", Script::raw().silence(), true),
        ("an error event", error, true),
        ("an error event after content", later, true),
        ("a break after content", Script::sse().send(delta(" this")).reset(), true),
        ("429", fails(429), false),
        ("a rate limit as an event", Script::sse().send("data: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n"), false),
        ("400", fails(400), false),
        ("401", fails(401), false),
        ("409", fails(409), false),
    ] {
        let (rig, _waits, _hand) = clocked("first_byte_timeout = \"200ms\"", RULES, "").await;
        for _ in 0..3 {
            rig.bed.provider.script(script.clone());
            let mut reply = rig.chat(STREAM).send().await.expect("an answer");
            read(&mut reply).await;
            rig.outcome().await;
        }
        assert_eq!(state(&rig) == 2, opens, "{how}");
    }
}

#[tokio::test]
async fn an_open_breaker_ends_the_retries() {
    let (rig, waits, _hand) = clocked("", &RULES.replace("max = 0", "max = 5").replace("failures = 3", "failures = 2"), "").await;
    rig.bed.provider.script(fails(500));
    rig.bed.provider.script(fails(500).header("x-request-id", "r2"));
    let reply = rig.chat("").send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), &reply.headers()["x-request-id"]), (500, &"r2".parse().expect("a value")));
    assert_eq!((waits.take().len(), rig.bed.provider.seen()), (2, 2), "the third was not sent");
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error"));
}

#[tokio::test]
async fn no_breaker_where_it_is_switched_off() {
    let (rig, _waits, _hand) = clocked("", "max = 0\nbreaker = { failures = 0 }", "").await;
    for _ in 0..30 {
        rig.bed.provider.script(fails(500));
        assert_eq!(status(&rig).await, 500);
    }
    assert_eq!((state(&rig), rig.bed.provider.seen()), (0, 30));
}
