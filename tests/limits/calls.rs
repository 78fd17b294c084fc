//! Store calls: one before the provider's, a second only for whoever must wait for long, none on the reply's path.

use crate::bed::{Bed, CONFIG};
use crate::fixture::{DOLLAR, answer, paused_bed, until};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tollgate::demo::provider::Gate;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::Timestamp;
use tollgate::limit::{Admission, Decision, ScopeKey, Settlement};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Balance, Ledger, StoreError};
use tollgate::telemetry::SystemClock;

/// One request a second, waiting its turn, of a pool with a ceiling and of one without.
const WAITING: &str = r#"
[pools.narrow]
upstream = "openai"
models = ["m-big"]
ceiling = { rpm = 1_000, tpm = 1_000_000 }
[plans.waiting]
messages = "unlimited"
rpm = { limit = 60, burst = 1, max_wait = "2m" }
tpm = "unlimited"
max_output_tokens = 100
spend = { day = 1.0 }
on_spend = []
on_provider = []
[customers.w]
plan = "waiting"
[customers.v]
plan = "waiting"
"#;

#[tokio::test(start_paused = true)]
async fn a_start_within_a_second_costs_one_store_call_and_a_later_one_two() {
    let (bed, time) = paused_bed(WAITING).await;
    // Of m-big the ceiling is claimed at the start time by whoever waits for more than a second; of m-small there is none to claim.
    for (customer, model, calls) in [("w", "m-big", [1, 1, 2, 2]), ("v", "m-small", [1, 1, 1, 1])] {
        let mut running = Vec::new();
        let begun = time.passed();
        let before = bed.ledger.admits.load(Ordering::SeqCst);
        for place in 1..=calls.len() {
            let request = bed.chat(customer, model, "");
            running.push(tokio::spawn(answer(request)));
            until("it has its place in line", async || bed.ledger.admits.load(Ordering::SeqCst) == before + place).await;
        }
        for (place, call) in running.into_iter().enumerate() {
            let answer = call.await.expect("no panic");
            assert_eq!(answer.status, 200, "{answer:?}");
            let passed = (time.passed() - begun).as_secs();
            assert_eq!(passed, place as u64, "{model}: one a second");
        }
        let made = bed.ledger.admits.load(Ordering::SeqCst) - before;
        assert_eq!(made, calls.iter().sum::<usize>(), "{model}");
    }
    bed.assert_books(&["w", "v"]).await;
}

/// A ledger that settles nothing until it may.
struct Slow {
    inner: EmbeddedLedger,
    gate: Gate,
}

impl Ledger for Slow {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.inner.admit(admission, now)
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.gate.passed().await;
            self.inner.settle(batch, now).await
        })
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.inner.read(scope)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ping()
    }
}

#[tokio::test]
async fn a_reply_ends_while_the_store_does_not_settle() {
    let gate = Gate::new();
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let ledger = Slow { inner: EmbeddedLedger::in_memory(Arc::new(SystemClock)), gate: gate.clone() };
    let bed = Bed::on(CONFIG, provider, Arc::new(ledger)).await;
    for (i, more) in ["", r#","stream":true"#, r#","stream":true,"stream_options":{"include_usage":true}"#].iter().enumerate() {
        let reply = tokio::time::timeout(Duration::from_secs(20), answer(bed.chat("t", "m-big", more))).await;
        let reply = reply.expect("the reply does not wait for its settlement");
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(bed.ledger.admits.load(Ordering::SeqCst), i + 1, "one call before the provider's");
        let balance = bed.balances("t").await[0];
        assert!(balance.spent == 0 && balance.held > 0 && balance.held < DOLLAR, "still held: {balance:?}");
    }
    gate.open();
    bed.assert_books(&["t"]).await;
    assert_eq!(bed.gateway.settler.status().settled, 3);
}
