//! Many at once at a cap, and requests whose client leaves.

use crate::scene::{Answer, ROUTES, bed_with, tickets};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;

/// Fifty at once into a budget of four of the dear model: some get it, some the cheap one, the rest are handed off, and the cap holds.
#[tokio::test]
async fn fifty_at_once_at_the_cap_are_all_answered_and_never_above_it() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let plan = "messages = \"unlimited\"\nrpm = 1_000\ntpm = 1_000_000\nmax_output_tokens = 1_000\nspend = { day = 0.05 }";
    let bed = bed_with(&[("crowd", plan)], "[triage]\nopen_per_customer = 100", options).await;
    let ask = |_| {
        let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "crowd");
        Answer::of(request.header("x-request-class", "general"))
    };
    let asking = join_all((0..50).map(ask));
    let opening = async {
        // All that fit are in flight at once; only then is any of them answered.
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let balances = bed.balances("c").await;
            let held: u64 = balances.iter().map(|balance| balance.held).sum();
            assert!(held <= 50_000_000, "{balances:?}");
            let handed = bed.gateway.metrics.render().contains("tollgate_degraded_total{kind=\"handoff\"");
            if handed && bed.gateway.metrics.in_flight.get() as u64 == bed.provider.seen() && bed.provider.seen() > 4 {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{balances:?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await; // polling with a deadline
        }
        gate.open();
    };
    let (answers, ()) = tokio::join!(asking, opening);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.body);
        *kinds.entry(answer.header("x-tollgate-degraded")).or_default() += 1;
    }
    // $0.05 holds four of $0.010 and a little each, and in what is left some of $0.0006.
    assert_eq!(kinds[""], 4, "{kinds:?}");
    assert!(kinds["cheaper;cause=spend"] >= 10 && kinds["handoff;cause=spend"] >= 10, "{kinds:?}");
    assert_eq!(kinds.values().sum::<usize>(), 50);
    tickets(&bed, kinds["handoff;cause=spend"]).await;
    assert!(bed.spent("c").await.get() <= 50_000_000);
    bed.assert_books(&["c"]).await;
}

/// Wherever the client of a request leaves its chain, nothing stays held and nobody is asked to take over.
#[tokio::test]
async fn a_client_that_leaves_makes_no_ticket_and_holds_nothing() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let plan = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 0.005 }\non_tokens = [\"wait\", \"handoff\"]";
    let waits = plan.replace("rpm = 60", "rpm = { limit = 60, burst = 1 }");
    let bed = bed_with(&[("cheap", plan), ("waits", &waits)], "", options).await;
    // While the fallback of a stream is asked.
    let request = bed.post("/v1/chat/completions", "c", ROUTES[1].body("")).header("x-customer-plan", "cheap");
    let asking = tokio::spawn(request.header("x-request-class", "general").send());
    bed.provider.wait_until(|log| log.len() == 1).await;
    asking.abort();
    bed.quiet().await;
    // While the chain waits for the next request a second from now: the first one took what there was.
    gate.open();
    let send = || {
        let body = r#"{"model":"m-small","messages":[{"role":"user","content":"[20 tokens]"}]}"#;
        bed.post("/v1/chat/completions", "w", body).header("x-customer-plan", "waits")
    };
    let first = Answer::of(send()).await;
    assert_eq!((first.status, first.remaining("rpm")), (200, Some(0)));
    let waiting = tokio::spawn(send().send());
    while bed.gateway.metrics.in_flight.get() == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    bed.quiet().await;
    let third = Answer::of(send()).await;
    assert_eq!((third.status, third.header("x-tollgate-degraded")), (200, ""), "it waited its second and was answered as asked");
    tickets(&bed, 0).await;
    bed.quiet().await;
    let spent = bed.spent("c").await.get();
    assert!(spent > 0 && spent < 100_000, "the prompt of the stream that was cut: {spent}");
    assert!(bed.spent("w").await.get() > 0);
}
