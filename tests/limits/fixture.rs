//! Beds whose time a test holds in its hand, and answers taken apart.

use crate::bed::{Bed, config_and};
use crate::redis_server::RedisServer;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::config::{Env, Policy};
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::limit::{Admission, Decision, ScopeKey, Settlement};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Balance, Ledger, StoreError};
use tollgate::wire::Usage;

pub const SECOND: u64 = 1_000_000;
pub const DOLLAR: u64 = 1_000_000_000;
/// Noon of Monday, 30 November 2026, UTC.
pub const NOON: u64 = 1_796_040_000;

/// A clock that a test moves.
pub struct Hand(AtomicU64);

impl Hand {
    pub fn at(secs: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(secs * SECOND)))
    }

    pub fn noon() -> Arc<Self> {
        Self::at(NOON)
    }

    /// Lets so many microseconds pass.
    pub fn pass(&self, micros: u64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Tokio's own time, for tests that pause it.
pub struct TokioTime(tokio::time::Instant);

impl TokioTime {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(tokio::time::Instant::now()))
    }

    pub fn passed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for TokioTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(NOON).plus(u64::try_from(self.0.elapsed().as_micros()).expect("a short test"))
    }
}

/// Where the books are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Embedded,
    Redis,
}

/// Makes a test of each function for each store.
macro_rules! on_both_stores {
    ($($case:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test] async fn $case() { super::$case(crate::fixture::Store::Embedded).await; })*
        }
        mod redis {
            $(#[tokio::test] async fn $case() { super::$case(crate::fixture::Store::Redis).await; })*
        }
    };
}
pub(crate) use on_both_stores;

/// A bed with the cases' configuration and these lines behind it, which lives by this clock.
pub async fn bed(store: Store, more: &str, clock: &Arc<Hand>) -> Bed {
    bed_with(store, more, clock, ProviderOptions::default()).await
}

pub async fn bed_with(store: Store, more: &str, clock: &Arc<Hand>, options: ProviderOptions) -> Bed {
    let provider = Arc::new(Provider::start(options).await.expect("a loopback port"));
    let ledger: Arc<dyn Ledger> = match store {
        Store::Embedded => Arc::new(EmbeddedLedger::in_memory(clock.clone())),
        Store::Redis => dictated(&Arc::new(RedisServer::start()), clock.clone()),
    };
    Bed::clocked(&config_and(more), provider, ledger, clock.clone()).await
}

/// A bed under tokio's paused time.
pub async fn paused_bed(more: &str) -> (Bed, Arc<TokioTime>) {
    let clock = TokioTime::new();
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
    (Bed::clocked(&config_and(more), provider, ledger, clock.clone()).await, clock)
}

/// The ledger of one gateway on this server.
pub fn redis_ledger(server: &RedisServer) -> RedisLedger {
    RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address")
}

/// The ledger of one gateway on this server, which is told the time.
pub fn dictated(server: &Arc<RedisServer>, clock: Arc<dyn Clock>) -> Arc<dyn Ledger> {
    Arc::new(Dictated { inner: redis_ledger(server), clock, _server: server.clone() })
}

/// A Redis ledger that is told the time.
struct Dictated {
    inner: RedisLedger,
    clock: Arc<dyn Clock>,
    _server: Arc<RedisServer>,
}

impl Ledger for Dictated {
    fn admit<'a>(&'a self, admission: &'a Admission, _: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.inner.admit(admission, Some(self.clock.now()))
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], _: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.settle(batch, Some(self.clock.now()))
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        _: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.inner.replace(old, admission, Some(self.clock.now()))
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.inner.read(scope)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ping()
    }
}

/// The policy of a bed with other lines behind the cases' configuration: what a reload puts in force.
pub fn reload(bed: &Bed, more: &str) {
    let config = config_and(more).replace("{provider}", &bed.provider.base_url());
    let (policy, _) = Policy::parse(&config, "reload.toml", &Env::default()).expect("a good configuration");
    bed.gateway.policy.store(Arc::new(policy));
}

/// A chat reply that states this usage.
pub fn used(prompt: u64, completion: u64) -> Script {
    let usage =
        format!(r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{}}}"#, prompt + completion);
    reply(&usage).used(Usage { uncached_input: prompt, output: completion, ..Usage::default() })
}

/// A chat reply with this `usage`, as JSON.
pub fn reply(usage: &str) -> Script {
    let choice = r#"{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}"#;
    Script::json(200, format!(r#"{{"id":"c","object":"chat.completion","model":"m","choices":[{choice}],"usage":{usage}}}"#))
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub json: Value,
    pub text: String,
}

/// Sends and reads the whole answer.
pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let reply = request.send().await.expect("an answer");
    let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
    let text = reply.text().await.expect("a whole body");
    Answer { status, headers, json: serde_json::from_str(&text).unwrap_or_default(), text }
}

impl Answer {
    /// The one value of a header, empty when absent.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next().map_or("", |value| value.to_str().expect("visible ASCII"));
        assert_eq!(values.count(), 0, "{name} stands there once");
        first
    }

    /// A header as a number; never negative, since it must parse.
    pub fn number(&self, name: &str) -> u64 {
        self.header(name).parse().unwrap_or_else(|_| panic!("{name}: {:?} in {self:?}", self.header(name)))
    }

    pub fn code(&self) -> &str {
        let error = &self.json["error"];
        error["code"].as_str().or_else(|| error["details"]["error_code"].as_str()).unwrap_or_default()
    }

    /// A member of the `limit` of an error.
    pub fn limit(&self, member: &str) -> &Value {
        &self.json["error"]["limit"][member]
    }

    /// What is left of a limit according to the `RateLimit` header.
    pub fn left(&self, limit: &str) -> u64 {
        let list = self.header("ratelimit");
        let item = list
            .split(", ")
            .find(|item| item.starts_with(&format!("\"{limit}\"")))
            .unwrap_or_else(|| panic!("{limit}: {list:?}"));
        let left = item.split(';').find_map(|part| part.strip_prefix("r=")).expect("r");
        left.parse().expect("a number that is not negative")
    }

    /// Status and code in one, for tables.
    pub fn outcome(&self) -> (u16, &str) {
        (self.status, self.code())
    }
}

/// The input tokens that a chat of `bed.chat` is counted with: what TPM lost beyond the output cap. Asked as a customer of their own,
/// whose plan has `tpm` and says nothing else of tokens.
pub async fn input_of(bed: &Bed, customer: &str, model: &str, tpm: u64) -> u64 {
    bed.provider.script(used(0, 0));
    let answer = answer(bed.chat(customer, model, r#","max_tokens":16"#)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    tpm - answer.left("tpm") - 16
}

/// Waits for `done`, looking again every few milliseconds.
pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while !done().await {
        assert!(std::time::Instant::now() < patience, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await; // polling with a deadline
    }
}
