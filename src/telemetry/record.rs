//! What is known of one request: filled in by the layers as they learn it, written as one access-log line at its end.
//!
//! The end is when the last owner lets go: the reply's body, or the account of a call that is still read to its end after its client
//! has left. So the line always tells what was booked.

use super::metrics::{ApiLabels, DegradedLabels, ModelLabels, Name, RefusalLabels, RequestLabels, TokenLabels};
use super::otlp::context::Context;
use super::otlp::spans::Request;
use super::otlp::{Kind, Otlp, StepId, Trace};
use super::{Metrics, spelled};
use crate::config::policy::Plan;
use crate::degrade::Degraded;
use crate::domain::{CustomerId, NanoUsd, Priority, RequestId, Timestamp, UserId};
use crate::wire::{Api, Usage};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The record of one request, shared by whatever still works for it. Dropping the last share writes the access-log line.
pub struct Record {
    /// Our id of the request.
    pub id: RequestId,
    /// The route.
    pub api: Api,
    started: Instant,
    facts: Mutex<Facts>,
    metrics: Arc<Metrics>,
    sink: Option<(Arc<dyn Sink>, Timestamp, Duration)>,
    watch: Option<(Arc<dyn Watch>, Timestamp)>,
    trace: Option<Box<Trace>>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Keeps what is known of requests that have ended.
pub trait Sink: Send + Sync {
    /// A request has ended. Called from a `Drop`: must neither block nor panic.
    fn ended(&self, ended: Ended);
}

/// Looks at what is known of requests that have ended.
pub trait Watch: Send + Sync {
    /// A request has ended that arrived at `at`. Called from a `Drop`: must neither block nor panic.
    fn ended(&self, api: Api, at: Timestamp, facts: &Facts);
}

/// What is known of a request that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Our id.
    pub id: RequestId,
    /// The route.
    pub api: Api,
    /// When it arrived.
    pub at: Timestamp,
    /// How long to keep what is known of it.
    pub keep: Duration,
    /// How long it took.
    pub took: Duration,
    /// Everything else.
    pub facts: Facts,
    /// The same as JSON, see [`spelled::members`].
    pub members: String,
}

/// What the log says of a request whose client left before there was an answer.
const CLIENT_LEFT: u16 = 499;

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The answer was delivered whole.
    #[default]
    Complete,
    /// The client left before the end.
    ClientGone,
    /// The provider broke off.
    UpstreamBroke,
}

impl Ending {
    /// Its name in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client_gone",
            Self::UpstreamBroke => "upstream_broke",
        }
    }
}

/// How a limit stood when it refused: tokens, requests or nano-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of a refusal")]
pub struct Stood {
    pub max: u64,
    pub used: u64,
    pub held: u64,
    pub asked: u64,
}

/// The facts of a request, each absent until a layer knows it.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the access log, described in the README")]
pub struct Facts {
    pub app: Option<Arc<str>>,
    pub customer: Option<CustomerId>,
    pub user: Option<UserId>,
    pub plan: Option<Arc<Plan>>,
    pub priority: Priority,
    pub class: Option<Box<str>>,
    pub model: Option<Arc<str>>,
    /// Whether the model has a price, so that its name may be a metric label.
    pub model_is_known: bool,
    /// The fallback, where it was asked instead.
    pub fallback_model: Option<Arc<str>>,
    pub served_model: Option<String>,
    pub stream: bool,
    pub estimated_input: u64,
    pub output_cap: u64,
    pub usage: Option<Usage>,
    /// Whether the usage is our own count.
    pub usage_estimated: bool,
    pub cost: NanoUsd,
    /// What was given up for the answer.
    pub degraded: Vec<Degraded>,
    /// How much was being given up in the model's pool, 0 to 3; `None` for a model in no pool.
    pub pool_level: Option<u8>,
    /// The ticket under which a person takes over.
    pub ticket: Option<Box<str>>,
    /// Low-cardinality cause of a refusal or failure.
    pub cause: Option<&'static str>,
    /// The limit that refused: scope and name.
    pub refused_by: Option<(&'static str, &'static str)>,
    /// How it stood then.
    pub refused_at: Option<Stood>,
    /// The limit of a proposed plan that would have refused: scope and name.
    pub shadow_refused: Option<(&'static str, &'static str)>,
    pub status: u16,
    pub provider_request_id: Option<String>,
    pub attempts: u32,
    /// When the store last decided on its claims, by the store's clock: the order in which requests met a limit.
    pub decided: Option<Timestamp>,
    pub admitted: Option<Duration>,
    pub waited: Duration,
    /// Time inside attempts that failed.
    pub attempting: Duration,
    pub first_byte: Option<Duration>,
    pub ending: Ending,
    /// What came of the idempotency key.
    pub repeat: Option<&'static str>,
    /// The asynchronous request this is a run of.
    pub job: Option<Box<str>>,
    /// The agent of the desk who asked a ticket's request again; the ticket is `ticket`.
    pub resubmitted_by: Option<Box<str>>,
}

impl Record {
    /// A record that starts now.
    #[must_use]
    pub fn new(id: RequestId, api: Api, metrics: Arc<Metrics>) -> Self {
        metrics.in_flight.inc();
        Self { id, api, started: Instant::now(), facts: Mutex::default(), metrics, sink: None, watch: None, trace: None }
    }

    /// The same, kept by `sink` for so long once it has ended; `at` is when it arrived. Zero keeps nothing.
    #[must_use]
    pub fn kept(mut self, sink: Arc<dyn Sink>, at: Timestamp, keep: Duration) -> Self {
        self.sink = (!keep.is_zero()).then_some((sink, at, keep));
        self
    }

    /// The same, looked at by `watch` once it has ended; `at` is when it arrived.
    #[must_use]
    pub fn watched(mut self, watch: Arc<dyn Watch>, at: Timestamp) -> Self {
        self.watch = Some((watch, at));
        self
    }

    /// The same, told to a collector once it has ended; `at` is when it arrived.
    #[must_use]
    pub fn traced(mut self, otlp: Option<&Arc<Otlp>>, at: Timestamp) -> Self {
        self.trace = otlp.map(|otlp| Box::new(Trace::new(otlp.clone(), at)));
        self
    }

    /// The same, as a part of the trace that its caller names in `traceparent`, if any.
    #[must_use]
    pub fn continuing(mut self, headers: &HeaderMap) -> Self {
        if let Some(trace) = &mut self.trace
            && let Some(context) = Context::continued(headers)
        {
            trace.context = context;
        }
        self
    }

    /// Whether a collector is told of it.
    #[must_use]
    pub const fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// A step begins, for its trace.
    pub fn begin(&self, kind: impl FnOnce() -> Kind) -> StepId {
        self.trace.as_ref().map_or_else(StepId::default, |trace| trace.begin(kind(), self.elapsed()))
    }

    /// A step ends, and with this fault if it failed; only its first end counts.
    pub fn end(&self, step: StepId, fault: Option<&'static str>) {
        if let Some(trace) = &self.trace {
            trace.end(step, self.elapsed(), fault);
        }
    }

    /// The provider has answered the call under way with this status.
    pub fn replied(&self, status: u16) {
        if let Some(trace) = &self.trace {
            trace.replied(status);
        }
    }

    /// The `traceparent` for the provider's call under way; `None` when nothing is exported.
    #[must_use]
    pub fn traceparent(&self) -> Option<HeaderValue> {
        self.trace.as_ref()?.header()
    }

    /// Adds what a layer learned.
    pub fn note(&self, add: impl FnOnce(&mut Facts)) {
        add(&mut self.facts.lock());
    }

    /// Reads what is known.
    pub fn read<T>(&self, read: impl FnOnce(&Facts) -> T) -> T {
        read(&self.facts.lock())
    }

    /// Time since the request arrived.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
        let took = self.elapsed();
        let facts = self.facts.get_mut();
        if facts.status == 0 {
            facts.status = CLIENT_LEFT;
            facts.ending = Ending::ClientGone;
        }
        count(self.api, facts, took, &self.metrics);
        let members = spelled::members(self.id, self.api, took, facts);
        tracing::info!(target: "access", members = members.as_str());
        if let Some(trace) = self.trace.take() {
            let steps = trace.take();
            trace.otlp.ended(&trace, &Request { id: self.id, api: self.api, took, facts, steps: &steps });
        }
        if let Some((watch, at)) = self.watch.take() {
            watch.ended(self.api, at, facts);
        }
        if let Some((sink, at, keep)) = self.sink.take() {
            sink.ended(Ended { id: self.id, api: self.api, at, keep, took, facts: std::mem::take(facts), members });
        }
    }
}

fn count(api: Api, facts: &Facts, took: Duration, metrics: &Metrics) {
    let label = api.as_str();
    let cause = facts.cause.unwrap_or("");
    metrics.requests.get_or_create(&RequestLabels { api: label, status: facts.status, cause }).inc();
    metrics.duration.get_or_create(&ApiLabels { api: label }).observe(took.as_secs_f64());
    if let Some(first) = facts.first_byte {
        metrics.first_byte.get_or_create(&ApiLabels { api: label }).observe(first.as_secs_f64());
    }
    if let Some((scope, limit)) = facts.refused_by {
        metrics.refusals.get_or_create(&RefusalLabels { scope, limit }).inc();
    }
    for degraded in &facts.degraded {
        metrics.degraded.get_or_create(&DegradedLabels { kind: degraded.kind(), cause: degraded.cause() }).inc();
    }
    let Some(usage) = &facts.usage else { return };
    let known = facts.fallback_model.as_ref().or(facts.model.as_ref()).filter(|_| facts.model_is_known);
    let model = Name(known.cloned().unwrap_or_else(|| "other".into()));
    for (kind, tokens) in [("input", usage.input()), ("cached_input", usage.cache_read), ("output", usage.total_output())] {
        metrics.tokens.get_or_create(&TokenLabels { model: model.clone(), kind }).inc_by(tokens);
    }
    metrics.spent.get_or_create(&ModelLabels { model: model.clone() }).inc_by(facts.cost.get());
    if facts.usage_estimated {
        metrics.estimated.get_or_create(&ModelLabels { model }).inc();
    }
}

/// One word for each thing given up, comma between them; `None` for nothing.
pub(crate) fn words(degraded: &[Degraded], word: impl Fn(Degraded) -> &'static str) -> Option<String> {
    let words: Vec<_> = degraded.iter().map(|degraded| word(*degraded)).collect();
    (!words.is_empty()).then(|| words.join(","))
}

/// Whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
