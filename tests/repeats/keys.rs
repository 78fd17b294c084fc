//! One key, one call: the same answer again, and nothing for anybody else.

use crate::rig::{Answer, BATCH, Rig, SHOP, chat_body, keyed, post};
use std::sync::atomic::Ordering;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;

const MESSAGES: &str = r#"{"model":"c-big","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#;
const MESSAGES_STREAM: &str = r#"{"model":"c-big","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn the_same_key_gives_the_same_answer_and_is_charged_once() {
    let rig = Rig::new("").await;
    let (one, two) = (rig.gateway().await, rig.gateway().await);
    for (index, (path, body, kind)) in [
        ("/v1/chat/completions", chat_body("m-big", ""), "application/json"),
        ("/v1/chat/completions", chat_body("m-big", r#","stream":true"#), "text/event-stream"),
        ("/v1/responses", r#"{"model":"m-big","input":"hi"}"#.to_owned(), "application/json"),
        ("/v1/responses", r#"{"model":"m-big","stream":true,"input":"hi"}"#.to_owned(), "text/event-stream"),
        ("/v1/completions", r#"{"model":"m-small","prompt":"hi"}"#.to_owned(), "application/json"),
        ("/v1/embeddings", r#"{"model":"emb","input":"hi"}"#.to_owned(), "application/json"),
        ("/v1/messages", MESSAGES.to_owned(), "application/json"),
        ("/v1/messages", MESSAGES_STREAM.to_owned(), "text/event-stream"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("\"key-{index}\"");
        let first = Answer::to(post(&one, SHOP, "t", path, &body).header("idempotency-key", &key)).await;
        assert_eq!((first.status, first.header("x-tollgate-replayed")), (200, ""), "{path}: {first:?}");
        assert!(first.header("content-type").starts_with(kind), "{path}");
        let spent = one.spent("t").await;
        for bed in [&one, &two] {
            let again = post(bed, SHOP, "t", path, &body).header("idempotency-key", &key);
            // What the SDKs count up with each retry is no part of the request.
            let again = Answer::to(again.header("x-stainless-retry-count", "1")).await;
            assert_eq!((again.status, &again.body), (200, &first.body), "{path}: to the byte");
            assert_eq!(again.header("x-tollgate-replayed"), "true", "{path}");
            assert_eq!(again.header("x-tollgate-original-request-id"), first.header("x-tollgate-request-id"), "{path}");
            assert_ne!(again.header("x-tollgate-request-id"), first.header("x-tollgate-request-id"), "{path}");
            for name in ["content-type", "x-request-id", "request-id"] {
                assert_eq!(again.headers.get(name), first.headers.get(name), "{path} {name}");
            }
            assert!(!again.headers.keys().any(|name| name.as_str().contains("ratelimit")), "nothing was decided: {again:?}");
        }
        assert_eq!(rig.provider.seen(), index as u64 + 1, "{path}: one call");
        assert_eq!(one.spent("t").await, spent, "{path}: charged once");
        one.assert_books(&["t"]).await;
    }
    let metrics = one.gateway.metrics.render() + &two.gateway.metrics.render();
    assert!(metrics.contains("tollgate_repeats_total{outcome=\"first\"} 8\n"), "{metrics}");
    assert_eq!(metrics.matches("tollgate_repeats_total{outcome=\"replayed\"} 8\n").count(), 2, "{metrics}");
}

#[tokio::test]
async fn of_64_at_once_one_runs_and_the_others_are_told_to_come_back() {
    let gate = Gate::new();
    let rig = Rig::with("", ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let (one, two) = (rig.gateway().await, rig.gateway().await);
    let body = chat_body("m-big", "");
    let mut sent: Vec<_> =
        (0..64).map(|n| tokio::spawn(Answer::to(keyed(if n % 2 == 0 { &one } else { &two }, "t", "k", &body)))).collect();
    let mut refused = Vec::new();
    while sent.len() > 1 {
        let (answer, _, left) = futures_util::future::select_all(sent).await;
        refused.push(answer.expect("it ended"));
        sent = left;
    }
    for answer in &refused {
        assert_eq!((answer.status, answer.code().as_str()), (409, "idempotency_in_progress"), "{answer:?}");
        assert_eq!(
            (answer.header("retry-after"), answer.header("x-should-retry")),
            ("1", ""),
            "the SDKs come back by themselves"
        );
    }
    gate.open();
    let first = sent.pop().expect("one is left").await.expect("it ended");
    assert_eq!((first.status, rig.provider.seen()), (200, 1));
    for bed in [&one, &two] {
        let again = Answer::to(keyed(bed, "t", "k", &body)).await;
        assert_eq!((again.status, again.body), (200, first.body.clone()));
        bed.quiet().await;
    }
    assert_eq!(one.ledger.admits.load(Ordering::SeqCst) + two.ledger.admits.load(Ordering::SeqCst), 1);
    one.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_key_stands_for_one_request_of_one_owner() {
    let gate = Gate::new();
    let rig = Rig::with("", ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let bed = rig.gateway().await;
    let body = chat_body("m-small", "");
    let running = tokio::spawn(Answer::to(keyed(&bed, "t", "k", &body)));
    rig.provider.wait_until(|seen| seen.len() == 1).await;
    for finished in [false, true] {
        if finished {
            gate.open();
            assert_eq!(running.await.expect("it ended").status, 200);
            break;
        }
        let others = [
            keyed(&bed, "t", "k", &chat_body("m-small", r#","max_tokens":5"#)),
            keyed(&bed, "t", "k", &body).header("x-user-id", "someone"),
            keyed(&bed, "t", "k", &body).header("prefer", "respond-async"),
            post(&bed, SHOP, "t", "/v1/completions", r#"{"model":"m-small","prompt":"hi"}"#).header("idempotency-key", "k"),
            post(&bed, SHOP, "t", "/v1/messages", MESSAGES).header("idempotency-key", "k"),
        ];
        for other in others {
            let answer = Answer::to(other).await;
            assert_eq!((answer.status, answer.code().as_str()), (422, "idempotency_key_reused"), "{answer:?}");
            assert_eq!(answer.header("x-should-retry"), "false");
        }
    }
    assert_eq!(rig.provider.seen(), 1);
    // The same key is another one for another customer, and for another application.
    for (app, customer, seen) in [(SHOP, "u", 2), (BATCH, "t", 3)] {
        let request = post(&bed, app, customer, "/v1/chat/completions", &body).header("idempotency-key", "k");
        let answer = Answer::to(request).await;
        assert_eq!((answer.status, answer.header("x-tollgate-replayed")), (200, ""), "{answer:?}");
        assert_eq!(rig.provider.seen(), seen);
    }
    bed.assert_books(&["t", "u"]).await;
}

#[tokio::test]
async fn a_repeat_costs_no_message() {
    let more = "[plans.one]\nmessages = { rate = \"1/h\", burst = 1 }\nspend = { day = 1.0 }\non_spend = []\n[customers.once]\nplan = \"one\"\n";
    let rig = Rig::new(more).await;
    let bed = rig.gateway().await;
    for replayed in ["", "true", "true", "true"] {
        let answer = Answer::to(keyed(&bed, "once", "k", &chat_body("m-small", ""))).await;
        assert_eq!((answer.status, answer.header("x-tollgate-replayed")), (200, replayed));
    }
    let another = Answer::to(keyed(&bed, "once", "k2", &chat_body("m-small", ""))).await;
    assert_eq!((another.status, another.code().as_str()), (429, "rate_limit_exceeded"));
    bed.assert_books(&["once"]).await;
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_free_routes_have_none() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    for key in ["", "a b", &"k".repeat(256)] {
        let answer = Answer::to(keyed(&bed, "t", key, &chat_body("m-small", ""))).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_header"), "{key:?}");
        assert!(answer.json()["error"]["message"].as_str().expect("a text").starts_with("Idempotency-Key "), "{answer:?}");
    }
    let twice = keyed(&bed, "t", "a", &chat_body("m-small", "")).header("idempotency-key", "b");
    assert_eq!(Answer::to(twice).await.status, 400);
    assert_eq!(rig.provider.seen(), 0);
    for _ in 0..2 {
        let count = post(&bed, SHOP, "t", "/v1/messages/count_tokens", r#"{"model":"c-big","messages":[]}"#);
        let answer = Answer::to(count.header("idempotency-key", "k")).await;
        assert_eq!((answer.status, answer.header("x-tollgate-replayed")), (200, ""));
    }
    assert_eq!(rig.provider.seen(), 2);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn while_nobody_knows_whether_it_ran_a_request_with_a_key_does_not_run() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    rig.documents.away.store(true, Ordering::SeqCst);
    let body = chat_body("m-small", "");
    let answer = Answer::to(keyed(&bed, "t", "k", &body)).await;
    assert_eq!((answer.status, answer.code().as_str(), answer.header("retry-after")), (503, "limits_unavailable", "1"));
    let answer = Answer::to(post(&bed, SHOP, "t", "/v1/chat/completions", &body).header("prefer", "respond-async")).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "limits_unavailable"));
    assert_eq!(rig.provider.seen(), 0);
    assert_eq!(Answer::to(post(&bed, SHOP, "t", "/v1/chat/completions", &body)).await.status, 200, "without a key it does");
    rig.documents.away.store(false, Ordering::SeqCst);
    assert_eq!(Answer::to(keyed(&bed, "t", "k", &body)).await.status, 200);
    bed.assert_books(&["t"]).await;
}
