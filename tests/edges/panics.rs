//! The panic barrier: whatever panics below costs one request, and everything that request held comes back.
//!
//! Nothing in the product is known to panic, so the tests bring their own: a ledger that panics for one customer, and a log that panics at one line,
//! which sits where the call has already been admitted and where its reply is being read.

use crate::bed::Bed;
use crate::kit::{Answer, MESSAGES, SLOTS, config, h2c, messages_left};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::Timestamp;
use tollgate::limit::{Admission, Decision, ScopeKey, Settlement};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Balance, Ledger, StoreError};
use tollgate::telemetry::SystemClock;
use tracing::subscriber::Subscriber;

/// Panics when it is asked about this customer.
const VICTIM: &str = "panic";

struct Panicking(EmbeddedLedger);

impl Ledger for Panicking {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        assert!(&*admission.customer.owner != VICTIM, "as the test wishes");
        self.0.admit(admission, now)
    }
    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.settle(batch, now)
    }
    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.0.read(scope)
    }
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

/// A log that panics at the lines of one module, and counts the errors that the barrier reports.
struct PanicAt(&'static str, Arc<AtomicUsize>);

impl Subscriber for PanicAt {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        if metadata.target() == "tollgate::stack::observe" && *metadata.level() == tracing::Level::ERROR {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
        assert!(metadata.target() != self.0, "as the test wishes");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

async fn bed() -> Bed {
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a port"));
    let more = "[models.fault-garbage-usage]\nprice = { input = 2.5, output = 10 }\n[models.fault-reject-stream-options]\nprice = { \
                input = 2.5, output = 10 }\n";
    Bed::on(&config(more), provider, Arc::new(Panicking(EmbeddedLedger::in_memory(Arc::new(SystemClock))))).await
}

/// Everything is free again.
async fn assert_free(bed: &Bed) {
    bed.quiet().await;
    let gauges = (bed.gateway.slots.load().free, bed.gateway.metrics.in_flight.get(), bed.gateway.metrics.queued.get());
    assert_eq!(gauges, (SLOTS, 0, 0));
}

#[tokio::test]
async fn a_panic_before_admission_is_a_500_for_that_call_only() {
    let bed = bed().await;
    let gate = Gate::new();
    bed.provider.script(Script::sse().send("data: 1\n\n").until(&gate).send("data: [DONE]\n\n"));
    // One HTTP/2 connection, so that "that call only" means something.
    let client = h2c();
    let post = |path: &str, customer: &str, body: &str| {
        let request = client.post(bed.url(path)).bearer_auth("sk-test").header("x-customer-id", customer);
        request.body(body.to_owned())
    };
    let mut stream = post("/v1/chat/completions", "bystander", &crate::kit::chat("m-big", r#","stream":true"#))
        .send()
        .await
        .expect("a stream");
    assert_eq!(stream.chunk().await.expect("an event").as_deref(), Some(&b"data: 1\n\n"[..]));
    for stream in [false, true] {
        let body = crate::kit::chat("m-big", &format!(r#","stream":{stream}"#));
        let message = Answer::to(post("/v1/chat/completions", VICTIM, &body)).await.refused(500, "internal_error", "a panic");
        assert!(!message.contains("wishes"), "{message}");
        let body =
            format!(r#"{{"model":"c-big","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let answer = Answer::to(post("/v1/messages", VICTIM, &body)).await;
        answer.refused_anthropic(500, "api_error", "internal_error", "a panic");
    }
    assert_eq!(bed.provider.seen(), 1, "only the bystander's call");
    gate.open();
    assert_eq!(
        stream.chunk().await.expect("an event").as_deref(),
        Some(&b"data: [DONE]\n\n"[..]),
        "the bystander's stream goes on"
    );
    assert_eq!(stream.bytes().await.expect("an end"), "");
    assert_eq!(messages_left(&bed, "well").await, MESSAGES - 1);
    assert_free(&bed).await;
}

#[tokio::test]
async fn a_panic_after_admission_gives_back_slot_and_hold() {
    let bed = bed().await;
    let reported = Arc::new(AtomicUsize::new(0));
    let answer = {
        // Said when a provider refuses the field that was added: the call is admitted, has a slot, and was sent.
        let _log = tracing::subscriber::set_default(PanicAt("tollgate::stack::forward", reported.clone()));
        Answer::to(bed.chat("c", "fault-reject-stream-options", r#","stream":true"#)).await
    };
    answer.refused(500, "internal_error", "a panic after admission");
    assert_eq!(reported.load(Ordering::SeqCst), 1, "caught and logged by the barrier");
    assert_free(&bed).await;
    let balances = bed.balances("c").await;
    assert!(balances.iter().all(|balance| balance.held == 0), "nothing stays held: {balances:?}");
    assert_eq!(messages_left(&bed, "c").await, MESSAGES - 2);
    assert_free(&bed).await;
}

#[tokio::test]
async fn a_panic_while_the_reply_is_read_cuts_that_reply_only() {
    let bed = bed().await;
    let client = h2c();
    let gate = Gate::new();
    bed.provider.script(Script::sse().send("data: 1\n\n").until(&gate).send("data: [DONE]\n\n"));
    let post = |customer: &str, model: &str| {
        let request = client.post(bed.url("/v1/chat/completions")).bearer_auth("sk-test").header("x-customer-id", customer);
        request.body(crate::kit::chat(model, r#","stream":true"#)).send()
    };
    let mut bystander = post("bystander", "m-big").await.expect("a stream");
    assert!(bystander.chunk().await.expect("an event").is_some());
    let reported = Arc::new(AtomicUsize::new(0));
    {
        // Said when a reply's usage makes no sense, which is found out within its body.
        let _log = tracing::subscriber::set_default(PanicAt("tollgate::stack::account", reported.clone()));
        // A reset takes along what was not sent yet of its stream: the head too, where the whole reply came with it.
        let reply = async { post("c", "fault-garbage-usage").await?.error_for_status()?.bytes().await };
        let error = reply.await.expect_err("cut, so that nobody takes it for a whole answer");
        assert!(error.status().is_none(), "{error}");
    }
    assert_eq!(reported.load(Ordering::SeqCst), 1, "caught and logged by the barrier, not by the runtime");
    gate.open();
    assert!(bystander.chunk().await.expect("the same connection").is_some(), "the bystander's stream goes on");
    assert_eq!(bystander.bytes().await.expect("an end"), "");
    assert_free(&bed).await;
    let balances = bed.balances("c").await;
    assert!(balances.iter().all(|balance| balance.held == 0), "nothing stays held: {balances:?}");
    assert_eq!(messages_left(&bed, "c").await, MESSAGES - 2);
}
