//! A call that waits for its next attempt holds no slot, and takes one anew.

use crate::bodies::{STREAM, three};
use crate::pace::paced;
use crate::rig::{complete, read, read_some, until};
use crate::statuses::{JSON, answer, fails};
use tollgate::demo::provider::{Gate, Script};

#[tokio::test]
async fn sleepers_hold_no_slot() {
    let (rig, waits) = paced("", "", "[concurrency]\nslots = 4").await;
    let gate = waits.hold();
    let mut sleeping = Vec::new();
    for _ in 0..4 {
        rig.bed.provider.script(fails(429).header("retry-after", "5"));
        sleeping.push(tokio::spawn(rig.chat("").send()));
    }
    waits.begun(4).await;
    until("free slots", || (rig.bed.gateway.slots.load().free == 4).then_some(())).await;
    rig.bed.provider.script(answer());
    let mut fifth = rig.chat("").send().await.expect("an answer");
    assert_eq!((fifth.status().as_u16(), read(&mut fifth).await), (200, (JSON.into(), true)), "served at once");
    (0..4).for_each(|_| rig.bed.provider.script(answer()));
    gate.open();
    for call in sleeping {
        assert_eq!(call.await.expect("no panic").expect("an answer").status(), 200);
    }
    assert_eq!(rig.bed.provider.seen(), 9);
    assert!(rig.outcomes(5).await.iter().all(|outcome| *outcome == complete(109, crate::bodies::USAGE_COST)));
}

#[tokio::test]
async fn who_finds_no_slot_for_its_next_attempt_gets_what_the_provider_said() {
    let (rig, waits) = paced("", "", "[concurrency]\nslots = 1\nqueue = 0").await;
    let (sleeping, streaming) = (waits.hold(), Gate::new());
    rig.bed.provider.script(Script::json(503, "{\"error\":{\"message\":\"busy\"}}").header("x-request-id", "r7"));
    let first = tokio::spawn(rig.chat("").send());
    waits.begun(1).await;
    until("a free slot", || (rig.bed.gateway.slots.load().free == 1).then_some(())).await;
    rig.bed.provider.script(Script::sse().send(three()).until(&streaming).send("data: [DONE]\n\n"));
    let mut second = rig.chat(STREAM).send().await.expect("an answer");
    read_some(&mut second, &three()).await;
    sleeping.open();
    let mut reply = first.await.expect("no panic").expect("an answer");
    assert_eq!(reply.headers()["x-request-id"], "r7");
    assert_eq!((reply.status().as_u16(), read(&mut reply).await), (503, ("{\"error\":{\"message\":\"busy\"}}".into(), true)));
    streaming.open();
    assert!(read(&mut second).await.1);
    let outcomes = rig.outcomes(2).await;
    assert_eq!(outcomes[0], complete(0, 0).cause("upstream_error"), "the first gave everything back but its request");
    assert_eq!(rig.bed.provider.seen(), 2);
}

#[tokio::test]
async fn who_has_too_much_in_flight_is_refused_before_it_holds_anything() {
    let plan = "[plans.one]\nmessages = { rate = \"1/m\", burst = 3 }\nmax_in_flight = 1\nmax_output_tokens = 1_000\nspend = { day = 0.03 }\non_spend = []\non_provider = []\n[customers.busy]\nplan = \"one\"";
    let (rig, _waits) = paced("", "", plan).await;
    let gate = Gate::new();
    rig.bed.provider.script(Script::sse().send(three()).until(&gate).send("data: [DONE]\n\n"));
    let mut running = rig.bed.chat("busy", "m-big", STREAM).send().await.expect("an answer");
    read_some(&mut running, &three()).await;
    let held = rig.bed.balances("busy").await;
    // Two are in flight at once more often than not; each spends its message, and then even the bucket says no.
    for (code, kind) in [
        ("rate_limit_exceeded", "concurrent_requests"),
        ("rate_limit_exceeded", "concurrent_requests"),
        ("rate_limit_exceeded", "requests"),
    ] {
        let refused = rig.bed.chat("busy", "m-big", "").send().await.expect("an answer");
        assert_eq!(refused.status(), 429);
        let body: serde_json::Value = serde_json::from_str(&refused.text().await.expect("a body")).expect("JSON");
        assert_eq!((&body["error"]["code"], &body["error"]["type"]), (&code.into(), &kind.into()));
        assert_eq!(rig.bed.balances("busy").await, held, "no dollar is held for it");
    }
    gate.open();
    assert!(read(&mut running).await.1);
    rig.bed.quiet().await;
    assert_eq!(rig.bed.provider.seen(), 1);
}
