//! One request through the whole stack, and what the books say afterwards.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;

use bed::Bed;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{NanoUsd, Timestamp};
use tollgate::limit::{Admission, Decision, ScopeKey, Settlement};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Balance, Ledger, StoreError};
use tollgate::telemetry::SystemClock;

#[tokio::test]
async fn a_request_costs_one_store_call_and_its_books_balance() {
    let bed = Bed::new().await;
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/chat/completions", r#"{"model":"m-big","stream":true,"messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/responses", r#"{"model":"m-big","input":"hi"}"#),
        ("/v1/responses", r#"{"model":"m-big","stream":true,"input":"hi"}"#),
        ("/v1/completions", r#"{"model":"m-small","prompt":"hi"}"#),
        ("/v1/embeddings", r#"{"model":"emb","input":"hi"}"#),
        ("/v1/messages", r#"{"model":"c-big","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/messages", r#"{"model":"c-big","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#),
    ] {
        let before = bed.ledger.admits.load(Ordering::SeqCst);
        let reply = bed.post(path, "t", body).send().await.expect("an answer");
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text().await.unwrap_or_default());
        assert!(reply.headers().contains_key("x-tollgate-request-id"), "{path}");
        reply.bytes().await.expect("a whole body");
        assert_eq!(bed.ledger.admits.load(Ordering::SeqCst) - before, 1, "{path}: one call before the provider's");
        bed.quiet().await;
        assert!(bed.spent("t").await.get() > 0, "{path} is not free");
        bed.assert_books(&["t"]).await;
    }
}

/// A ledger that answers an admission only when it is let.
struct Gated {
    inner: EmbeddedLedger,
    gate: tokio::sync::Semaphore,
}

impl Ledger for Gated {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move {
            self.gate.acquire().await.expect("never closed").forget();
            self.inner.admit(admission, now).await
        })
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.settle(batch, now)
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.inner.replace(old, admission, now)
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.inner.read(scope)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ping()
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_the_store_decides_holds_nothing() {
    let gated = Arc::new(Gated { inner: EmbeddedLedger::in_memory(Arc::new(SystemClock)), gate: tokio::sync::Semaphore::new(0) });
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let bed = Bed::on(bed::CONFIG, provider, gated.clone()).await;
    let leaving = tokio::spawn(bed.chat("t", "m-big", "").send());
    while bed.ledger.admits.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    leaving.abort();
    while bed.gateway.tasks.count() == 0 {
        tokio::task::yield_now().await; // until the gateway has seen that the client is gone
    }
    gated.gate.add_permits(1);
    assert_eq!(bed.spent("t").await, NanoUsd::ZERO);
    assert!(!bed.balances("t").await.is_empty(), "the store did take it before it was given back");
    assert_eq!(bed.provider.seen(), 0);
}
