//! Counting a long prompt takes a while; nobody else notices.

use crate::kit::{Answer, MESSAGES, bed, chat, messages_left};
use tollgate::demo::provider::{Gate, Script};

/// Letters without a pattern that a tokenizer could use.
fn noise(seed: u64, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.alphanumeric()).collect()
}

/// On one thread: were a prompt counted on it, nothing else would run until the count is done, so nobody could see that one is going on.
#[tokio::test(flavor = "current_thread")]
async fn health_and_streams_go_on_while_long_prompts_are_counted() {
    const LONG: usize = 8;
    let bed = bed("").await;
    let gates: [Gate; 5] = std::array::from_fn(|_| Gate::new());
    let script = gates.iter().fold(Script::sse(), |script, gate| script.until(gate).send("data: {\"choices\":[]}\n\n"));
    bed.provider.script(script.send("data: [DONE]\n\n"));
    let mut stream = bed.chat("streaming", "m-big", r#","stream":true"#).send().await.expect("a stream");
    let long: Vec<_> = (0..LONG)
        .map(|n| {
            let body = chat("m-big", "").replace("hi", &noise(n as u64, 400_000));
            tokio::spawn(Answer::to(bed.post("/v1/chat/completions", "long", body)))
        })
        .collect();
    let counting = || bed.gateway.long_counts.available_permits() == 0;
    let patience = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while !counting() {
        assert!(tokio::time::Instant::now() < patience, "no prompt is being counted");
        tokio::task::yield_now().await;
    }
    for (done, gate) in (0..).zip(&gates) {
        let health = Answer::to(bed.client.get(bed.url("/healthz"))).await;
        assert_eq!(health.status, 200);
        gate.open();
        assert!(stream.chunk().await.expect("an event").is_some(), "the stream flows");
        assert_eq!(messages_left(&bed, "short").await, MESSAGES - 1 - done, "short prompts are served");
        assert!(counting(), "all of that happened while prompts were being counted");
    }
    while let Some(chunk) = stream.chunk().await.expect("the rest") {
        assert!(!chunk.is_empty());
    }
    for request in long {
        let answer = request.await.expect("a request");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert!(!counting());
    assert_eq!(bed.provider.seen() as usize, 1 + gates.len() + LONG);
    // The scripted stream states no usage, so the provider's log knows nothing of it.
    bed.assert_books(&["long", "short"]).await;
}
