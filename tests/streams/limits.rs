//! What settlement leaves in the buckets, and slots on every path.

use crate::bodies::{HI, IN, OUT, STREAM, three};
use crate::rig::{Rig, booked, read, read_some, until};
use serde_json::Value;
use tollgate::demo::provider::{Gate, Script, Seen};
use tollgate::limit::Measure;

fn used(input: u64, output: u64) -> Script {
    let usage = format!(r#""usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}"#);
    Script::json(200, format!(r#"{{"choices":[],{usage}}}"#))
}

/// What the customer may still use, by the headers of an answer that claimed nothing beyond one token of output.
async fn remaining(rig: &Rig) -> (u64, u64) {
    rig.bed.provider.script(used(0, 0));
    let reply = rig.chat(r#","max_tokens":1"#).send().await.expect("an answer");
    assert_eq!(reply.status(), 200);
    let number = |name: &str| reply.headers()[name].to_str().expect("text").parse().expect("a number");
    let standing = (number("x-ratelimit-remaining-requests"), number("x-ratelimit-remaining-tokens"));
    reply.bytes().await.expect("a whole body");
    rig.bed.quiet().await;
    standing
}

/// What [`remaining`] itself holds while it is answered.
const PROBE: u64 = HI + 1;

#[tokio::test]
async fn an_overrun_becomes_debt_and_the_next_request_waits_exactly_that_long() {
    let rig = Rig::new().await;
    rig.bed.provider.script(used(7_000, 1_000));
    assert_eq!(rig.chat("").send().await.expect("an answer").status(), 200);
    rig.bed.quiet().await;
    // Level 2,000 of 10,000. The stream uses 9,000 and is not cut.
    let stream = format!(
        "{}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":8500,\"completion_tokens\":500}}}}\n\ndata: [DONE]\n\n",
        three()
    );
    rig.bed.provider.script(Script::sse().send(stream.clone()));
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    assert_eq!(read(&mut reply).await, (stream, true));
    rig.bed.quiet().await;
    // Level -7,000 on a clock that stands still; 1,000 tokens fit when 8,000 have flowed in, at 10,000 a minute.
    let reply = rig.chat(&format!(r#","max_tokens":{}"#, 1_000 - HI)).send().await.expect("an answer");
    assert_eq!(reply.status(), 429);
    assert_eq!(reply.headers()["retry-after"], "48");
    let body: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    assert_eq!((body["error"]["code"].as_str(), body["error"]["type"].as_str()), (Some("rate_limit_exceeded"), Some("tokens")));
    rig.bed.quiet().await;
    let tokens: Vec<_> = rig.ledger.take().iter().map(|settled| booked(settled, Measure::Tokens)).collect();
    assert_eq!(tokens, [8_000, 9_000], "the refused one took nothing");
    assert_eq!(rig.bed.spent(&rig.customer()).await.get(), 15_500 * IN + 1_500 * OUT);
}

#[tokio::test]
async fn refused_and_empty_requests_give_back_their_tokens_to_the_last_one() {
    let rig = Rig::new().await;
    assert_eq!(remaining(&rig).await, (59, 10_000 - PROBE));
    let empty = r#"{"object":"list","data":[],"model":"emb","usage":{"prompt_tokens":0,"total_tokens":0}}"#;
    for _ in 0..10 {
        rig.bed.provider.script(Script::json(400, "{\"error\":{\"message\":\"m\"}}"));
        assert_eq!(rig.chat("").send().await.expect("an answer").status(), 400);
        rig.bed.provider.script(used(0, 0));
        assert_eq!(rig.chat("").send().await.expect("an answer").status(), 200);
        rig.bed.provider.script(Script::json(200, empty));
        let reply = rig.post("/v1/embeddings", r#"{"model":"emb","input":""}"#).send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
        rig.bed.quiet().await;
    }
    assert_eq!(remaining(&rig).await, (59 - 31, 10_000 - PROBE), "each cost one request and no token");
    assert_eq!(
        rig.outcomes(32).await.iter().map(|outcome| (outcome.requests, outcome.tokens, outcome.cost)).max(),
        Some((1, 0, 0))
    );
}

#[tokio::test]
async fn a_slot_is_held_to_the_end_of_the_body_and_never_given_back_twice() {
    let rig = Rig::new().await;
    let gates: Vec<_> = (0..4).map(|_| Gate::new()).collect();
    let mut replies = Vec::new();
    for gate in &gates {
        rig.bed.provider.script(Script::sse().send(three()).until(gate).send("data: [DONE]\n\n"));
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        read_some(&mut reply, &three()).await;
        replies.push(reply);
    }
    let refused = rig.chat(STREAM).send().await.expect("an answer");
    assert_eq!(refused.status(), 429);
    let body: Value = serde_json::from_str(&refused.text().await.expect("a body")).expect("JSON");
    assert_eq!(body["error"]["type"], "concurrent_requests");
    assert_eq!(rig.bed.provider.seen(), 4, "the fifth did not go out");
    gates[0].open();
    assert_eq!(read(&mut replies[0]).await, ("data: [DONE]\n\n".into(), true));
    rig.bed.provider.script(Script::sse().send("data: [DONE]\n\n"));
    until("one free slot", || (rig.bed.gateway.slots.load().free >= 32 - 3).then_some(())).await;
    let mut sixth = rig.chat(STREAM).send().await.expect("an answer");
    assert_eq!((sixth.status().as_u16(), read(&mut sixth).await.1), (200, true));
    gates.iter().for_each(Gate::open);
    for reply in &mut replies[1..] {
        assert!(read(reply).await.1);
    }
    let costs: Vec<_> = rig.outcomes(6).await.into_iter().map(|outcome| (outcome.requests, outcome.tokens)).collect();
    let counted = |what| costs.iter().filter(|costs| **costs == what).count();
    assert_eq!((counted((1, HI + 3)), counted((1, HI)), counted((0, 0))), (4, 1, 1), "the refused one cost nothing: {costs:?}");
}

#[tokio::test]
async fn after_every_unhappy_path_exactly_four_run_at_once() {
    let rig = Rig::with("first_byte_timeout = \"300ms\"\nidle_timeout = \"300ms\"", "").await;
    let sse = || Script::sse().send(three());
    for script in [
        Script::raw().reset(),
        Script::raw().silence(),
        sse().reset(),
        sse().close(),
        sse().silence(),
        sse(),
        Script::json(400, "{}"),
        Script::json(500, "{}"),
        Script::http(302).header("location", "http://127.0.0.1:1/"),
        Script::raw().send("HTTP/1.1 200 OK\r\nlocation: \u{ff}\r\n\r\n").close(),
    ] {
        for leaves in [false, true] {
            rig.bed.provider.script(script.clone());
            let request = rig.chat(if leaves { "" } else { STREAM });
            let call = tokio::spawn(async move {
                let mut reply = request.send().await.expect("an answer");
                if !leaves {
                    read(&mut reply).await;
                }
            });
            call.await.expect("no panic");
        }
    }
    rig.outcomes(20).await;
    assert_eq!((rig.bed.gateway.slots.load().customers, rig.bed.gateway.slots.load().free), (0, 32));
    let before = rig.bed.provider.seen();
    let gate = Gate::new();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            rig.bed.provider.script(Script::sse().send(": begun\n\n").until(&gate).send("data: [DONE]\n\n"));
            let request = rig.chat(&format!(r#","max_tokens":100{STREAM}"#)); // so small that no other limit refuses any
            tokio::spawn(async move {
                let mut reply = request.send().await.expect("an answer");
                (reply.status().as_u16(), read(&mut reply).await.1)
            })
        })
        .collect();
    rig.provider_saw("four of them", |seen| seen.len() as u64 - before == 4).await;
    until("sixteen refusals", || (calls.iter().filter(|call| call.is_finished()).count() == 16).then_some(())).await;
    gate.open();
    let mut ends = Vec::new();
    for call in calls {
        ends.push(call.await.expect("no panic"));
    }
    let ran = ends.iter().filter(|end| **end == (200, true)).count();
    assert_eq!((ran, ends.iter().filter(|(status, _)| *status == 429).count()), (4, 16));
    assert_eq!(rig.bed.provider.log().iter().skip(20).filter(|seen| !Seen::client_left(seen)).count(), 4);
    rig.outcomes(20).await;
}
