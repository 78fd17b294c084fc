//! A bed whose ledger stands still in time and remembers every settlement, and whose access log can be read.

use crate::bed::{Bed, CONFIG};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;
use tollgate::demo::provider::Seen;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, ReservationId, Timestamp};
use tollgate::limit::{Admission, Decision, Line, Measure, Scope, ScopeKey, Settlement};
use tollgate::stack::pauses::{Pauses, RealPauses};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Balance, Ledger, StoreError};
use tollgate::telemetry::SystemClock;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Longest wait for something that has to happen at once.
pub const SOON: Duration = Duration::from_secs(10);

/// How one request ended, in books and log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Requests, tokens and nano-dollars booked for the customer.
    pub requests: u64,
    pub tokens: u64,
    pub cost: u64,
    /// What the access log says.
    pub ending: String,
    pub estimated: bool,
    pub cause: String,
}

/// An outcome without failure.
pub fn complete(tokens: u64, cost: u64) -> Outcome {
    Outcome { requests: 1, tokens, cost, ending: "complete".into(), estimated: false, cause: String::new() }
}

impl Outcome {
    pub fn estimated(self) -> Self {
        Self { estimated: true, ..self }
    }

    pub fn ending(self, ending: &str) -> Self {
        Self { ending: ending.into(), ..self }
    }

    pub fn cause(self, cause: &str) -> Self {
        Self { cause: cause.into(), ..self }
    }
}

pub struct Rig {
    pub bed: Bed,
    pub ledger: Arc<Recording>,
    customer: Mutex<String>,
}

impl Rig {
    /// A rig of the cases' configuration in which everybody has the plan of customer `t`.
    pub async fn new() -> Self {
        Self::with("", "").await
    }

    /// The same with these settings of both upstreams, and these lines behind it all.
    pub async fn with(upstream: &str, more: &str) -> Self {
        Self::on(&config(upstream, more)).await
    }

    pub async fn on(config: &str) -> Self {
        Self::paced(config, Arc::new(SystemClock), Box::new(RealPauses)).await
    }

    /// A rig whose gateway has this clock and these waits between attempts.
    pub async fn paced(config: &str, clock: Arc<dyn Clock>, pauses: Box<dyn Pauses>) -> Self {
        let frozen = Arc::new(Frozen(SystemClock.now()));
        Self::kept(config, clock, pauses, Box::new(EmbeddedLedger::in_memory(frozen))).await
    }

    /// As [`Rig::paced`], on another ledger than one that stands still in time.
    pub async fn kept(config: &str, clock: Arc<dyn Clock>, pauses: Box<dyn Pauses>, inner: Box<dyn Ledger>) -> Self {
        listen_to_the_log();
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let ledger = Arc::new(Recording { inner, settlements: Mutex::default(), reservations: Mutex::default() });
        let bed = Bed::paced(config, provider, ledger.clone(), clock, pauses).await;
        Self { bed, ledger, customer: Mutex::new(new_customer()) }
    }

    /// The customer at hand. No two in this process are the same, so the log can be searched for one.
    pub fn customer(&self) -> String {
        self.customer.lock().clone()
    }

    /// From now on another customer asks, whose limits are untouched.
    pub fn next_customer(&self) {
        *self.customer.lock() = new_customer();
    }

    pub fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.bed.post(path, &self.customer(), body).header("anthropic-version", "2023-06-01")
    }

    /// A chat with `m-big`; `more` are further members, with a leading comma.
    pub fn chat(&self, more: &str) -> reqwest::RequestBuilder {
        self.bed.chat(&self.customer(), "m-big", more)
    }

    /// How the one request of this customer ended; the next one is by another customer. Checks that it was settled once, that nothing
    /// is held, and that the balance is what was settled.
    pub async fn outcome(&self) -> Outcome {
        let mut outcomes = self.outcomes(1).await;
        outcomes.remove(0)
    }

    /// The same for several requests of this customer, in the order of settlement (`requests` to `cost`) and of the log (the rest).
    pub async fn outcomes(&self, count: usize) -> Vec<Outcome> {
        self.bed.quiet().await;
        let customer = self.customer();
        let lines = until("its lines in the log", || {
            let lines: Vec<_> = LINES.lock().iter().filter(|line| line.get("customer") == Some(&customer)).cloned().collect();
            (lines.len() >= count).then_some(lines)
        })
        .await;
        let settled = self.ledger.take();
        assert_eq!((settled.len(), lines.len()), (count, count), "as many settlements and lines as requests");
        let outcomes: Vec<_> = settled.iter().zip(&lines).map(|(settlement, line)| outcome(settlement, line)).collect();
        let cost: u64 = outcomes.iter().map(|outcome| outcome.cost).sum();
        assert_eq!(self.bed.spent(&customer).await.get(), cost, "the balance is what was settled, and nothing is held");
        let logged: u64 = lines.iter().map(|line| line["cost_nano_usd"].parse::<u64>().expect("a number")).sum();
        assert_eq!(logged, cost, "the log says what was booked");
        self.next_customer();
        outcomes
    }

    /// A field of the last line in the log of this customer.
    pub fn logged(&self, customer: &str, field: &str) -> String {
        let lines = LINES.lock();
        let line = lines.iter().rev().find(|line| line.get("customer").is_some_and(|name| name == customer));
        line.and_then(|line| line.get(field)).cloned().unwrap_or_default()
    }

    /// The sum of a counter over its labels, of those lines that hold `label`.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.bed.gateway.metrics.render();
        let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Waits, not long, for what the provider saw.
    pub async fn provider_saw(&self, what: &str, enough: impl FnMut(&[Seen]) -> bool) -> Vec<Seen> {
        let saw = tokio::time::timeout(SOON, self.bed.provider.wait_until(enough)).await;
        saw.unwrap_or_else(|_| panic!("the provider never saw: {what}; {:?}", ends(&self.bed.provider.log())))
    }

    /// The last request the provider saw.
    pub fn last_seen(&self) -> Seen {
        self.bed.provider.log().pop().expect("the provider saw a request")
    }
}

/// The configuration of a rig.
pub fn config(upstream: &str, more: &str) -> String {
    let config = CONFIG.replace("base_url = \"{provider}\"\n", &format!("base_url = \"{{provider}}\"\n{upstream}\n"));
    format!("{}\n{more}", config.replace("default_plan = \"open\"", "default_plan = \"case\""))
}

fn ends(seen: &[Seen]) -> Vec<(String, tollgate::demo::provider::End)> {
    seen.iter().map(|seen| (seen.path.clone(), seen.end)).collect()
}

/// What was booked of this measure for the customer; nothing where it was not even claimed.
pub fn booked(settlement: &Settlement, measure: Measure) -> u64 {
    let mine = |line: &&Line| line.claim.scope.scope == Scope::Customer && line.claim.measure == measure;
    settlement.lines.iter().find(mine).map_or(0, |line| line.actual)
}

fn outcome(settlement: &Settlement, line: &BTreeMap<String, String>) -> Outcome {
    Outcome {
        requests: booked(settlement, Measure::Request),
        tokens: booked(settlement, Measure::Tokens),
        cost: booked(settlement, Measure::Money),
        ending: line["ending"].clone(),
        estimated: line["usage_estimated"] == "true",
        cause: line.get("cause").cloned().unwrap_or_default(),
    }
}

fn new_customer() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("customer-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Asks again and again, not long.
pub async fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

/// All that is left of a reply, and whether it ended well.
pub async fn read(reply: &mut reqwest::Response) -> (String, bool) {
    let mut bytes = Vec::new();
    loop {
        match reply.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return (String::from_utf8(bytes).expect("text"), true),
            Err(_) => return (String::from_utf8(bytes).expect("text"), false),
        }
    }
}

/// Reads until so much text has come.
pub async fn read_some(reply: &mut reqwest::Response, text: &str) {
    let mut bytes = Vec::new();
    while bytes.len() < text.len() {
        let chunk = tokio::time::timeout(SOON, reply.chunk()).await.expect("what was sent arrives at once");
        bytes.extend_from_slice(&chunk.expect("no break").expect("no end"));
    }
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

struct Frozen(Timestamp);

impl Clock for Frozen {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// A ledger that remembers what it was given to settle.
pub struct Recording {
    inner: Box<dyn Ledger>,
    settlements: Mutex<Vec<Settlement>>,
    reservations: Mutex<HashSet<ReservationId>>,
}

impl Recording {
    /// The settlements since the last call.
    pub fn take(&self) -> Vec<Settlement> {
        std::mem::take(&mut self.settlements.lock())
    }
}

impl Ledger for Recording {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.inner.admit(admission, now)
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        for settlement in batch {
            assert!(self.reservations.lock().insert(settlement.reservation), "settled twice: {settlement:?}");
            self.settlements.lock().push(settlement.clone());
        }
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

/// The access log of this process, one map a line.
static LINES: Mutex<Vec<BTreeMap<String, String>>> = Mutex::new(Vec::new());

struct AccessLog;

struct Members(String);

impl tracing::field::Visit for Members {
    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, _: &tracing::field::Field, members: &str) {
        members.clone_into(&mut self.0);
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for AccessLog {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "access" {
            let mut members = Members(String::new());
            event.record(&mut members);
            let line: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&format!("{{{}}}", members.0)).expect("an access line is JSON");
            let text = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            LINES.lock().push(line.into_iter().map(|(name, value)| (name, text(value))).collect());
        }
    }
}

fn listen_to_the_log() {
    static START: Once = Once::new();
    START.call_once(|| tracing_subscriber::registry().with(AccessLog).init());
}
