//! Start times: the line that forms in front of a limit with `max_wait`. Tokio's paused time lets the waits pass at once.

use crate::bed::Bed;
use crate::fixture::{Answer, answer, input_of, paused_bed, until, used};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;

const PLANS: &str = r#"
[plans.line]
messages = "unlimited"
rpm = 6_000
tpm = { limit = 10_000, max_wait = "2h" }
spend = { day = 100.0 }
on_spend = []
on_provider = []
[plans.turns]
messages = "unlimited"
rpm = { limit = 60, burst = 1, max_wait = "3s" }
tpm = "unlimited"
spend = { day = 100.0 }
on_spend = []
on_provider = []
[customers.l]
plan = "line"
[customers.r]
plan = "turns"
"#;

/// Sends a chat and waits until it was admitted or refused, so that the next one stands behind it.
async fn queue_up(bed: &Bed, customer: &str, more: &str) -> JoinHandle<Answer> {
    let before = bed.ledger.admits.load(Ordering::SeqCst);
    let call = tokio::spawn(answer(bed.chat(customer, "m-big", more)));
    until("the store has decided", async || bed.ledger.admits.load(Ordering::SeqCst) > before).await;
    call
}

/// Each fits the 10,000 tokens a minute alone, together they exceed them by far: they drain in order, as fast as the limit allows.
#[tokio::test(start_paused = true)]
async fn five_hundred_that_exceed_tokens_together_drain_in_order() {
    let (bed, time) = paused_bed(PLANS).await;
    let each = 1_000 + input_of(&bed, "l", "m-big", 10_000).await;
    let begun = time.passed();
    let mut line = Vec::new();
    for place in 0..500 {
        bed.provider.script(used(each - 1_000, 1_000));
        line.push(queue_up(&bed, "l", &format!(r#","max_tokens":1000,"user":"{place}""#)).await);
    }
    for call in line {
        let answer = call.await.expect("no panic");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(places(&bed), (0..500).collect::<Vec<_>>(), "first come, first served");
    let needed = Duration::from_secs((500 * each - 10_000) * 60 / 10_000);
    let passed = time.passed() - begun;
    assert!(passed + Duration::from_secs(1) >= needed && passed < needed + Duration::from_secs(2), "{passed:?} for {needed:?}");
    bed.assert_books(&["l"]).await;
}

/// A large request is not overtaken by the small ones behind it, though they would fit while it waits.
#[tokio::test(start_paused = true)]
async fn small_requests_do_not_starve_a_large_one() {
    let (bed, _) = paused_bed(PLANS).await;
    let mut line = Vec::new();
    for place in 0..15 {
        let tokens = if place == 3 { 9_500 } else { 400 };
        line.push(queue_up(&bed, "l", &format!(r#","max_tokens":{tokens},"user":"{place}""#)).await);
    }
    for call in line {
        assert_eq!(call.await.expect("no panic").status, 200);
    }
    assert_eq!(places(&bed), (0..15).collect::<Vec<_>>(), "first come, first served");
    bed.assert_books(&["l"]).await;
}

/// Which place in line each request had that the provider saw, in its order.
fn places(bed: &Bed) -> Vec<usize> {
    let place = |body: &[u8]| -> Option<usize> {
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        body["user"].as_str()?.parse().ok()
    };
    bed.provider.log().iter().filter_map(|seen| place(&seen.body)).collect()
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_line_gives_the_place_back_and_who_cannot_wait_so_long_is_told_when() {
    let (bed, time) = paused_bed(PLANS).await;
    let begun = time.passed();
    let mut line = Vec::new();
    for _ in 0..4 {
        line.push(queue_up(&bed, "r", "").await); // they start at 0, 1, 2 and 3 s
    }
    let fifth = queue_up(&bed, "r", "").await.await.expect("no panic");
    assert_eq!(fifth.outcome(), (429, "rate_limit_exceeded"), "{fifth:?}");
    assert_eq!(fifth.header("retry-after"), "1", "in a second the wait is short enough");
    let leaver = line.remove(3);
    leaver.abort();
    assert!(leaver.await.is_err(), "its client is gone");
    until("its place is given back", async || bed.gateway.settler.status().settled >= 2).await;
    line.push(queue_up(&bed, "r", "").await);
    for (second, call) in line.into_iter().enumerate() {
        assert_eq!(call.await.expect("no panic").status, 200);
        let passed = time.passed() - begun;
        assert!(
            passed >= Duration::from_secs(second as u64) && passed < Duration::from_millis(second as u64 * 1_000 + 500),
            "{passed:?}"
        );
    }
    assert_eq!(bed.provider.log().len(), 4, "the leaver was never sent");
    bed.assert_books(&["r"]).await;
}
