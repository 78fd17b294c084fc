//! Clients that leave before they have their answer, and come back for it with the same key.

use crate::rig::{Answer, Rig, chat_body, keyed, until};
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::{End, Gate};

async fn leaves_while_the_provider_works(more: &str) {
    let gate = Gate::new();
    let rig = Rig::with("", ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let bed = rig.gateway().await;
    let body = chat_body("m-big", more);
    let leaving = tokio::spawn(keyed(&bed, "t", "k", &body).send());
    rig.provider.wait_until(|seen| seen.len() == 1).await;
    leaving.abort();
    until("the gateway sees that the client is gone", async || bed.gateway.tasks.count() >= 2).await;
    let early = Answer::to(keyed(&bed, "t", "k", &body)).await;
    assert_eq!((early.status, early.code().as_str()), (409, "idempotency_in_progress"));
    gate.open();
    bed.quiet().await;
    until("the reply is kept", async || bed.gateway.tasks.count() == 0).await;
    let answer = Answer::to(keyed(&bed, "t", "k", &body)).await;
    assert_eq!((answer.status, answer.header("x-tollgate-replayed")), (200, "true"), "{answer:?}");
    let seen = rig.provider.log();
    assert_eq!((seen.len(), seen[0].end), (1, End::Complete));
    assert!(seen[0].delivered > 0);
    if more.is_empty() {
        assert_eq!(answer.json()["usage"]["completion_tokens"], seen[0].delivered);
    } else {
        assert!(answer.body.ends_with(b"data: [DONE]\n\n"), "all of the stream");
    }
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn who_left_a_call_finds_its_answer() {
    leaves_while_the_provider_works("").await;
}

#[tokio::test]
async fn who_left_a_stream_finds_all_of_it() {
    leaves_while_the_provider_works(r#","stream":true"#).await;
}

#[tokio::test]
async fn who_leaves_in_the_middle_of_a_stream_finds_all_of_it() {
    let rig =
        Rig::with("", ProviderOptions { per_token: std::time::Duration::from_millis(5), ..ProviderOptions::default() }).await;
    let bed = rig.gateway().await;
    let body = chat_body("m-big", r#","stream":true"#);
    let mut reply = keyed(&bed, "t", "k", &body).send().await.expect("an answer");
    let beginning = reply.chunk().await.expect("it flows").expect("a chunk");
    drop(reply);
    bed.quiet().await;
    until("the reply is kept", async || bed.gateway.tasks.count() == 0).await;
    let answer = Answer::to(keyed(&bed, "t", "k", &body)).await;
    assert_eq!((answer.status, answer.header("x-tollgate-replayed")), (200, "true"), "{answer:?}");
    assert!(answer.body.starts_with(&beginning) && answer.body.ends_with(b"data: [DONE]\n\n"));
    assert_eq!((rig.provider.seen(), rig.provider.log()[0].end), (1, End::Complete));
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn who_leaves_the_line_gives_up_its_place_and_the_key_is_free() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let rig = Rig::with("[concurrency]\nslots = 1\nmax_wait = \"1h\"\n", options).await;
    let bed = rig.gateway().await;
    let body = chat_body("m-big", "");
    let holding = tokio::spawn(Answer::to(keyed(&bed, "u", "k", &body)));
    rig.provider.wait_until(|seen| seen.len() == 1).await;
    let leaving = tokio::spawn(keyed(&bed, "t", "k", &body).send());
    until("it waits for a slot", async || bed.gateway.slots.load().queued == 1).await;
    leaving.abort();
    until("its place is given up", async || bed.gateway.slots.load().queued == 0).await;
    gate.open();
    assert_eq!(holding.await.expect("it ended").status, 200);
    bed.quiet().await;
    assert_eq!(bed.spent("t").await.get(), 0, "and nothing is charged");
    assert_eq!(rig.provider.seen(), 1);
    until("the key is free", async || {
        let answer = Answer::to(keyed(&bed, "t", "k", &body)).await;
        assert!([200, 409].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.header("x-tollgate-replayed"), "");
        answer.status == 200
    })
    .await;
    bed.assert_books(&["t", "u"]).await;
}
