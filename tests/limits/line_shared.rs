//! The line in front of a limit with `max_wait`, of callers at two gateways that share a real Redis.

use crate::bed::{Bed, config_and};
use crate::fixture::{Answer, TokioTime, answer, dictated, input_of, used};
use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tollgate::demo::{Provider, ProviderOptions};

const TPM: u64 = 100_000;
const MAX_WAIT: Duration = Duration::from_secs(120);

const PLANS: &str = r#"
[plans.line]
messages = "unlimited"
rpm = 1_000
tpm = { limit = 100_000, max_wait = "2m" }
spend = { day = 1000.0 }
on_spend = []
on_provider = []
[customers.l]
plan = "line"
"#;

/// Keeps tokio's paused time where it is while anything is awaited, until it is dropped: Redis lives in real time.
struct Still {
    _until: std::sync::mpsc::SyncSender<()>,
}

impl Still {
    fn keep() -> Self {
        let (_until, dropped) = std::sync::mpsc::sync_channel(1);
        // Paused time moves on by itself only where nothing blocks.
        drop(tokio::task::spawn_blocking(move || dropped.recv()));
        Self { _until }
    }

    /// Waits for `done` while no time passes.
    async fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let patience = std::time::Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(std::time::Instant::now() < patience, "{what}");
            tokio::task::yield_now().await;
        }
    }
}

/// DESIGN 1.4: 500 requests that fit the requests of a minute and exceed its tokens three times, each fitting alone.
#[tokio::test(start_paused = true)]
async fn five_hundred_at_two_gateways_drain_in_order_within_two_minutes() {
    let (still, time) = (Still::keep(), TokioTime::new());
    let server = Arc::new(RedisServer::start());
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let mut beds = Vec::new();
    for _ in 0..2 {
        let ledger = dictated(&server, time.clone());
        beds.push(Bed::clocked(&config_and(PLANS), provider.clone(), ledger, time.clone()).await);
    }
    let input = input_of(&beds[0], "l", "m-big", TPM).await;
    let arrived = provider.seen();

    // A bucket of 100,000 tokens, and 200,000 that come in two minutes: 499 small requests, and in their midst one with so long a
    // prompt that nothing is left.
    let (small, large_at) = (540, 150);
    let large = 3 * TPM - 499 * small;
    let tokens = |place: usize| if place == large_at { large } else { small };
    let output = small - input;
    let long = vec!["hello"; usize::try_from(large - small).expect("small") + 1].join(" ");
    let begun = time.passed();
    let mut line = Vec::new();
    #[expect(clippy::async_yields_async, reason = "what is waited for is the decision; the call itself waits in line")]
    let queue_up = async |place: usize| -> JoinHandle<Answer> {
        let (bed, prompt) = (&beds[place % 2], if place == large_at { &*long } else { "hi" });
        let decided = bed.ledger.decided.load(Ordering::SeqCst);
        let message = format!(r#"{{"role":"user","content":"{prompt}"}}"#);
        let body = format!(r#"{{"model":"m-big","messages":[{message}],"max_tokens":{output},"user":"{place}"}}"#);
        let call = tokio::spawn(answer(bed.post("/v1/chat/completions", "l", body)));
        still.until("the store has decided", || bed.ledger.decided.load(Ordering::SeqCst) > decided).await;
        call
    };
    let mut sum = 0;
    for place in 0..500 {
        sum += tokens(place);
        provider.script(used(tokens(place) - output, output));
        line.push(queue_up(place).await);
        if sum <= TPM {
            still.until("it starts at once", || provider.seen() - arrived > place as u64).await;
        }
    }
    let beyond = queue_up(500).await;
    still.until("it is refused", || beyond.is_finished()).await;
    let beyond = beyond.await.expect("no panic");
    assert_eq!(beyond.outcome(), (429, "rate_limit_exceeded"), "nobody waits for longer than two minutes: {beyond:?}");
    assert_eq!(beyond.header("retry-after"), "1", "by then the wait is short enough");
    // The last one leaves, and somebody at the other gateway has its place.
    let unsettled = || beds[1].gateway.settler.status().outstanding;
    let waiting = (large_at..500).filter(|place| place % 2 == 1).count();
    still.until("what has started has ended", || unsettled() == waiting).await;
    let leaver = line.pop().expect("the last one");
    leaver.abort();
    assert!(leaver.await.is_err(), "its client is gone");
    still.until("its place is given back", || unsettled() == waiting - 1).await;
    line.push(queue_up(500).await);

    let mut sum = 0;
    for place in 0..500 {
        sum += tokens(place);
        let start = Duration::from_micros((sum.saturating_sub(TPM) * 60_000_000).div_ceil(TPM));
        assert!(start <= MAX_WAIT, "{start:?}");
        let here = time.passed() - begun;
        // To the millisecond: those are what tokio's time is made of.
        let early = (start.saturating_sub(here)).saturating_sub(Duration::from_millis(3));
        if !early.is_zero() {
            tokio::time::advance(early).await;
            assert_eq!(provider.seen() - arrived, place as u64, "{place} starts at {start:?}, not before");
            tokio::time::advance(Duration::from_millis(5)).await;
        }
        still.until(&format!("{place} starts at {start:?}"), || provider.seen() - arrived > place as u64).await;
    }
    for call in line {
        still.until("it is answered", || call.is_finished()).await;
        let answer = call.await.expect("no panic");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    drop(still);
    let place = |body: &[u8]| -> Option<usize> {
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        body["user"].as_str()?.parse().ok()
    };
    let places: Vec<_> = provider.log().iter().filter_map(|seen| place(&seen.body)).collect();
    assert_eq!(places, (0..499).chain([500]).collect::<Vec<_>>(), "first come, first served, the large one too");
    beds[1].quiet().await;
    beds[0].assert_books(&["l"]).await;
}
