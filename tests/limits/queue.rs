//! Slots: a bounded queue, fair between customers, with an end to the waiting.

use crate::bed::{Bed, CONFIG};
use crate::fixture::{Answer, answer, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;

async fn gated(concurrency: &str) -> (Bed, Gate) {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    (Bed::with(&format!("{CONFIG}\n[concurrency]\n{concurrency}"), options).await, gate)
}

fn crowded(answer: &Answer) {
    assert_eq!(answer.outcome(), (503, "overloaded"), "{answer:?}");
    assert!(answer.number("retry-after") >= 1 && answer.limit("name").is_null(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_of_one_customer_do_not_stand_before_one_of_another() {
    let (bed, gate) = gated("slots = 2\nqueue = 500\nqueue_per_customer = 100\nmax_wait = \"60s\"").await;
    let refused = Arc::new(AtomicUsize::new(0));
    let flood: Vec<_> = (0..1_000)
        .map(|_| {
            let (request, refused) = (bed.chat("many", "m-big", r#","max_tokens":16"#), refused.clone());
            tokio::spawn(async move {
                let answer = answer(request).await;
                if answer.status != 200 {
                    crowded(&answer);
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    until("two run, a hundred wait, the others are sent away", async || refused.load(Ordering::SeqCst) == 898).await;
    assert_eq!((bed.gateway.slots.load().queued, bed.provider.log().len()), (100, 2));
    let single = tokio::spawn(answer(bed.chat("single", "m-small", r#","max_tokens":16"#)));
    until("it waits", async || bed.gateway.slots.load().queued == 101).await;
    gate.open();
    assert_eq!(single.await.expect("no panic").status, 200);
    for call in flood {
        call.await.expect("no panic");
    }
    let turn = bed.provider.log().iter().position(|seen| seen.model == "m-small").expect("served");
    assert!(turn <= 5, "its turn came as number {turn} of 103");
    assert_eq!(refused.load(Ordering::SeqCst), 898, "who waited was served");
    bed.assert_books(&["many", "single"]).await;
}

#[tokio::test]
async fn waiting_for_a_slot_ends_and_costs_nothing() {
    let (bed, gate) = gated("slots = 1\nqueue = 1\nmax_wait = \"30ms\"").await;
    let first = tokio::spawn(answer(bed.chat("t", "m-big", r#","max_tokens":16"#)));
    bed.provider.wait_until(|seen| seen.len() == 1).await;
    crowded(&answer(bed.chat("t", "m-big", r#","max_tokens":16"#)).await);
    until("its claims are given back", async || bed.gateway.settler.status().outstanding == 1).await;
    let balance = bed.balances("t").await[0];
    gate.open();
    let first = first.await.expect("no panic");
    assert_eq!((first.status, first.left("rpm")), (200, 59));
    assert!(
        balance.held > 0 && first.left("spend_day") == (1_000_000_000 - balance.held) / 1_000,
        "only the first holds: {balance:?}"
    );
    bed.assert_books(&["t"]).await;
}

/// The plan of customer `t` allows four in flight.
#[tokio::test]
async fn a_customer_at_its_own_bound_is_told_so() {
    let (bed, gate) = gated("slots = 32").await;
    let running: Vec<_> = (0..4).map(|_| tokio::spawn(answer(bed.chat("t", "m-big", r#","max_tokens":16"#)))).collect();
    bed.provider.wait_until(|seen| seen.len() == 4).await;
    let fifth = answer(bed.chat("t", "m-big", r#","max_tokens":16"#)).await;
    assert_eq!(fifth.outcome(), (429, "rate_limit_exceeded"), "{fifth:?}");
    assert_eq!(fifth.json["error"]["type"], "concurrent_requests");
    assert_eq!(
        (fifth.limit("name").as_str(), fifth.limit("limit").as_u64(), fifth.limit("used").as_u64()),
        (Some("max_in_flight"), Some(4), Some(4))
    );
    assert!(fifth.number("retry-after") >= 1);
    let other = tokio::spawn(answer(bed.chat("o", "m-big", r#","max_tokens":16"#)));
    bed.provider.wait_until(|seen| seen.len() == 5).await;
    gate.open();
    for call in running.into_iter().chain([other]) {
        assert_eq!(call.await.expect("no panic").status, 200);
    }
    bed.assert_books(&["t", "o"]).await;
}
