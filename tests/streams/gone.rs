//! The client leaves: streams are cancelled and charged for what was delivered, everything else is read to its end and booked by it.

use crate::bodies::{DONE, FINISH, HI, IN, OUT, STREAM, USAGE, USAGE_COST, delta, three};
use crate::rig::{Outcome, Rig, complete, read, read_some, until};
use tollgate::demo::provider::{End, Gate, Script, Seen};

const JSON: &str = r#"{"choices":[{"message":{"content":" this"}}],"usage":{"prompt_tokens":10,"completion_tokens":99}}"#;

fn h2() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().expect("a client")
}

fn left(tokens: u64, cost: u64) -> Outcome {
    complete(tokens, cost).estimated().ending("client_gone")
}

#[tokio::test]
async fn a_stream_whose_client_leaves_is_cancelled_at_once_and_its_delivered_part_charged() {
    let rig = Rig::new().await;
    for client in [rig.bed.client.clone(), h2()] {
        let gate = Gate::new();
        rig.bed.provider.script(Script::sse().send(three()).until(&gate).send(delta(" this").repeat(97)));
        let mut reply = client.execute(rig.chat(STREAM).build().expect("a request")).await.expect("an answer");
        read_some(&mut reply, &three()).await;
        drop(reply);
        rig.provider_saw("the call cancelled", |seen| seen.iter().all(Seen::client_left)).await;
        assert_eq!(rig.outcome().await, left(HI + 3, HI * IN + 3 * OUT));
    }
    assert_eq!(rig.metric("tollgate_estimated_usage_total", "model=\"m-big\""), 2);
}

#[tokio::test]
async fn who_leaves_before_the_first_byte_of_a_stream_pays_the_prompt() {
    let rig = Rig::new().await;
    for client in [rig.bed.client.clone(), h2()] {
        let before = rig.bed.provider.seen();
        rig.bed.provider.script(Script::sse().hold(&Gate::new()).send(three()));
        let call = tokio::spawn(client.execute(rig.chat(STREAM).build().expect("a request")));
        rig.provider_saw("the call", |seen| seen.len() as u64 > before && !seen.last().expect("one").body.is_empty()).await;
        call.abort();
        rig.provider_saw("the call cancelled", |seen| seen.iter().all(Seen::client_left)).await;
        assert_eq!(rig.outcome().await, left(HI, HI * IN));
    }
    assert_eq!(rig.metric("tollgate_requests_total", "status=\"499\""), 2);
}

#[tokio::test]
async fn who_leaves_after_the_last_frame_is_booked_once_by_the_usage() {
    let rig = Rig::new().await;
    let stream = format!("{}{FINISH}{}{USAGE}{DONE}", three(), USAGE.replace("99", "13"));
    for client in [rig.bed.client.clone(), h2()] {
        rig.bed.provider.script(Script::sse().send(stream.clone()).silence());
        let mut reply = client.execute(rig.chat(STREAM).build().expect("a request")).await.expect("an answer");
        read_some(&mut reply, &stream).await;
        drop(reply);
        assert_eq!(rig.outcome().await, complete(109, USAGE_COST));
        rig.provider_saw("its connection let go", |seen| seen.iter().all(Seen::client_left)).await;
    }
}

#[tokio::test]
async fn a_hundred_streams_dropped_after_three_chunks_leave_nothing_held() {
    let rig = Rig::new().await;
    for _ in 0..2 {
        for _ in 0..10 {
            let mut replies = Vec::new();
            for _ in 0..5 {
                rig.bed.provider.script(Script::sse().send(three()).silence());
                let mut reply = rig.chat(STREAM).send().await.expect("an answer");
                assert_eq!(reply.status(), 200);
                read_some(&mut reply, &three()).await;
                replies.push(reply);
                if replies.len() == 4 {
                    replies.clear(); // the customer may have four at once
                    until("four free slots", || (rig.bed.gateway.slots.load().customers == 0).then_some(())).await;
                }
            }
            drop(replies);
            rig.bed.quiet().await;
        }
        let outcomes = rig.outcomes(50).await;
        assert!(outcomes.iter().all(|outcome| *outcome == left(HI + 3, HI * IN + 3 * OUT)), "{outcomes:?}");
    }
    rig.provider_saw("all of them cancelled", |seen| seen.iter().all(Seen::client_left)).await;
}

#[tokio::test]
async fn a_call_that_is_no_stream_is_read_to_its_end_while_its_slot_is_free() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let mut calls = Vec::new();
    for number in 1..=4 {
        // Two whose headers are still to come, two that break off in the middle of the body.
        let script = Script::json(200, JSON);
        let script = if number <= 2 {
            script.hold(&gate)
        } else {
            Script::http(200).header("content-type", "application/json").send(&JSON[..30]).until(&gate).send(&JSON[30..])
        };
        rig.bed.provider.script(script);
        let request = rig.chat("");
        calls.push(tokio::spawn(async move {
            let mut reply = request.send().await.expect("an answer");
            let _ = read(&mut reply).await;
        }));
        rig.provider_saw("the call", |seen| seen.len() == number && !seen[number - 1].body.is_empty()).await;
    }
    rig.provider_saw("two replies begun", |seen| seen.iter().filter(|seen| seen.status == 200).count() == 2).await;
    assert_eq!(rig.bed.gateway.slots.load().customers, 1);
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    until("the slots", || (rig.bed.gateway.slots.load().customers == 0).then_some(())).await;
    assert_eq!(rig.bed.gateway.settler.status().outstanding, 4, "nothing is settled before its end");
    rig.bed.provider.script(Script::json(200, JSON));
    let mut fifth = rig.chat("").send().await.expect("an answer");
    assert_eq!((fifth.status().as_u16(), read(&mut fifth).await), (200, (JSON.into(), true)), "the fifth is served at once");
    gate.open();
    rig.bed.quiet().await;
    let mut outcomes = rig.outcomes(5).await;
    assert_eq!(outcomes.remove(0), complete(109, USAGE_COST), "the fifth ended first");
    for outcome in outcomes {
        assert_eq!(outcome, complete(109, USAGE_COST).ending("client_gone"), "by the provider's usage, not by a guess");
    }
    assert!(rig.bed.provider.log().iter().all(|seen| seen.end == End::Complete), "the provider was heard out");
}

#[tokio::test]
async fn a_stream_is_read_on_where_the_upstream_is_configured_so() {
    let rig = Rig::with("on_abort = \"drain\"", "").await;
    let gates = [Gate::new(), Gate::new()];
    rig.bed.provider.script(Script::sse().send(three()).until(&gates[0]).send(format!("{FINISH}{USAGE}{DONE}")));
    rig.bed.provider.script(Script::sse().hold(&gates[1]).send(format!("{}{FINISH}{USAGE}{DONE}", three())));
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    read_some(&mut reply, &three()).await;
    let call = tokio::spawn(rig.chat(STREAM).send());
    rig.provider_saw("both calls", |seen| seen.len() == 2 && !seen[1].body.is_empty()).await;
    drop(reply);
    call.abort();
    until("the slots", || (rig.bed.gateway.slots.load().customers == 0).then_some(())).await;
    gates.iter().for_each(Gate::open);
    for outcome in rig.outcomes(2).await {
        assert_eq!(outcome, complete(109, USAGE_COST).ending("client_gone"));
    }
    assert!(rig.bed.provider.log().iter().all(|seen| seen.end == End::Complete));
}

#[tokio::test]
async fn a_reply_is_read_for_what_it_is_not_for_what_was_asked() {
    let rig = Rig::new().await;
    let stream = format!("{}{FINISH}{USAGE}{DONE}", three());
    for more in ["", r#","stream":null"#, r#","stream":false"#, STREAM] {
        for (kind, body) in [("application/json", JSON), ("text/event-stream", stream.as_str())] {
            rig.bed.provider.script(Script::http(200).header("content-type", kind).send(body.to_owned()));
            let mut reply = rig.chat(more).send().await.expect("an answer");
            assert_eq!(reply.headers()["content-type"], kind);
            assert_eq!(read(&mut reply).await, (body.to_owned(), true), "{more} {kind}");
            assert_eq!(rig.outcome().await, complete(109, USAGE_COST), "{more} {kind}");
        }
    }
    // So is it when the client leaves in the middle: JSON is read on, events are not.
    for (more, kind, body, outcome) in [
        (STREAM, "application/json", JSON, complete(109, USAGE_COST).ending("client_gone")),
        ("", "text/event-stream", stream.as_str(), left(HI + 1, HI * IN + OUT)),
    ] {
        let gate = Gate::new();
        let at = if kind == "application/json" { 30 } else { delta(" this").len() };
        let script = Script::http(200).header("content-type", kind).send(body[..at].to_owned());
        rig.bed.provider.script(script.until(&gate).send(body[at..].to_owned()));
        let mut reply = rig.chat(more).send().await.expect("an answer");
        read_some(&mut reply, &body[..at]).await;
        drop(reply);
        until("the slot", || (rig.bed.gateway.slots.load().customers == 0).then_some(())).await;
        gate.open();
        assert_eq!(rig.outcome().await, outcome, "{kind}");
    }
    for stream in [r#""true""#, "1"] {
        let reply = rig.chat(&format!(r#","stream":{stream}"#)).send().await.expect("an answer");
        assert_eq!(reply.status(), 400, "stream: {stream}");
    }
    rig.bed.quiet().await;
    assert!(rig.ledger.take().is_empty(), "no effect");
}
