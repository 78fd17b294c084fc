//! `/metrics`: counters and histograms with bounded labels. Never a customer id; a model only when it has a price.

use super::alerts::AlertMetrics;
use super::otlp::OtlpMetrics;
use super::outage::OutageMetrics;
use super::reload::ReloadMetrics;
use super::tls::TlsMetrics;
use super::triage::TriageMetrics;
use crate::config::Policy;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Write as _;
use std::sync::Arc;

/// The metrics of one gateway.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests by route, answer and cause.
    pub requests: Family<RequestLabels, Counter>,
    /// Refusals by limit and scope.
    pub refusals: Family<RefusalLabels, Counter>,
    /// What proposed plans would have refused, by plan and limit.
    pub shadow_refusals: Family<ShadowLabels, Counter>,
    /// Answers for which something was given up.
    pub degraded: Family<DegradedLabels, Counter>,
    /// Tokens by model and direction.
    pub tokens: Family<TokenLabels, Counter>,
    /// What was booked, by model, in nano-dollars.
    pub spent: Family<ModelLabels, Counter>,
    /// Calls to providers by upstream and result.
    pub upstream: Family<UpstreamLabels, Counter>,
    /// Further attempts by upstream and what went wrong before.
    pub retries: Family<RetryLabels, Counter>,
    /// Failed calls that were not tried again, by reason.
    pub retries_ended: Family<ReasonLabels, Counter>,
    /// Breakers of upstreams: 0 closed, 1 probing, 2 open.
    pub breaker: Family<UpstreamNameLabels, Gauge>,
    /// Replies booked by our own count because the provider gave no usage.
    pub estimated: Family<ModelLabels, Counter>,
    /// Oddities of providers' usage numbers.
    pub anomalies: Family<AnomalyLabels, Counter>,
    /// Whole requests, first byte in to last byte out, seconds.
    pub duration: Family<ApiLabels, Histogram, fn() -> Histogram>,
    /// First byte in to the first byte of the provider's reply, seconds.
    pub first_byte: Family<ApiLabels, Histogram, fn() -> Histogram>,
    /// Store calls by operation and result.
    pub store_calls: Family<StoreLabels, Counter>,
    /// Requests being served.
    pub in_flight: Gauge,
    /// Requests waiting for a slot.
    pub queued: Gauge,
    /// Settlements not yet in the store.
    pub unsettled: Gauge,
    /// Customers named for the first time while there is a cap on them, by result.
    pub newcomers: Family<ResultLabels, Counter>,
    /// Records of requests that were not kept.
    pub records_dropped: Counter,
    /// Rows of the history that were not kept, or not as a customer's own.
    pub history_dropped: Counter,
    /// The store's outages.
    pub outage: OutageMetrics,
    /// Requests with an idempotency key, by what came of the key.
    pub repeats: Family<RepeatLabels, Counter>,
    /// Asynchronous requests in the store, by state; set when the metrics are read.
    pub jobs: Family<JobLabels, Gauge>,
    /// Asynchronous requests that ended here, by state.
    pub jobs_ended: Family<JobLabels, Counter>,
    /// The triage queue, and webhooks.
    pub triage: TriageMetrics,
    /// Alerts.
    pub alerts: AlertMetrics,
    /// How much is given up, by pool.
    pub levels: Family<PoolLabels, Gauge>,
    /// Use of the ceiling in the trailing minute, by pool, thousandths.
    pub ceiling_used: Family<PoolLabels, Gauge>,
    /// Provider count over our estimate, per model, in thousandths.
    pub factor: Family<ModelLabels, Gauge>,
    /// Changed configurations.
    pub reload: ReloadMetrics,
    /// TLS at the listeners.
    pub tls: TlsMetrics,
    /// Exports to a collector.
    pub otlp: OtlpMetrics,
}

/// A name that is one of few.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(pub Arc<str>);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        encoder.write_str(&self.0)
    }
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        #[expect(missing_docs, reason = "the fields are the label names")]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

labels! {
    /// Labels of [`Metrics::requests`].
    RequestLabels { api: &'static str, status: u16, cause: &'static str }
    /// Labels of [`Metrics::refusals`].
    RefusalLabels { scope: &'static str, limit: &'static str }
    /// Labels of [`Metrics::shadow_refusals`].
    ShadowLabels { plan: Name, scope: &'static str, limit: &'static str }
    /// Labels of [`Metrics::degraded`].
    DegradedLabels { kind: &'static str, cause: &'static str }
    /// Labels of [`Metrics::tokens`].
    TokenLabels { model: Name, kind: &'static str }
    /// One model.
    ModelLabels { model: Name }
    /// Labels of [`Metrics::upstream`].
    UpstreamLabels { upstream: Name, result: &'static str }
    /// Labels of [`Metrics::retries`].
    RetryLabels { upstream: Name, cause: &'static str }
    /// One reason.
    ReasonLabels { reason: &'static str }
    /// One listener: `server` or `admin`.
    ListenerLabels { listener: &'static str }
    /// Labels of [`TlsMetrics::handshakes`].
    HandshakeLabels { listener: &'static str, result: &'static str }
    /// One result.
    ResultLabels { result: &'static str }
    /// One upstream.
    UpstreamNameLabels { upstream: Name }
    /// Labels of [`Metrics::anomalies`].
    AnomalyLabels { kind: &'static str }
    /// One pool.
    PoolLabels { pool: Name }
    /// One route.
    ApiLabels { api: &'static str }
    /// Labels of [`Metrics::store_calls`].
    StoreLabels { operation: &'static str, result: &'static str }
    /// Labels of [`Metrics::repeats`].
    RepeatLabels { outcome: &'static str }
    /// Labels of [`Metrics::jobs`].
    JobLabels { state: &'static str }
}

fn seconds() -> Histogram {
    Histogram::new([0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92])
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("tollgate"),
            requests: Family::default(),
            refusals: Family::default(),
            shadow_refusals: Family::default(),
            degraded: Family::default(),
            tokens: Family::default(),
            spent: Family::default(),
            upstream: Family::default(),
            retries: Family::default(),
            retries_ended: Family::default(),
            breaker: Family::default(),
            estimated: Family::default(),
            anomalies: Family::default(),
            duration: Family::new_with_constructor(seconds),
            first_byte: Family::new_with_constructor(seconds),
            store_calls: Family::default(),
            in_flight: Gauge::default(),
            queued: Gauge::default(),
            unsettled: Gauge::default(),
            newcomers: Family::default(),
            records_dropped: Counter::default(),
            history_dropped: Counter::default(),
            levels: Family::default(),
            ceiling_used: Family::default(),
            outage: OutageMetrics::default(),
            repeats: Family::default(),
            jobs: Family::default(),
            jobs_ended: Family::default(),
            triage: TriageMetrics::default(),
            alerts: AlertMetrics::default(),
            factor: Family::default(),
            reload: ReloadMetrics::default(),
            tls: TlsMetrics::default(),
            otlp: OtlpMetrics::default(),
        };
        let r = &mut metrics.registry;
        r.register("requests", "Requests by route, status and cause of refusal", metrics.requests.clone());
        r.register("refusals", "Refusals by limit and scope", metrics.refusals.clone());
        r.register(
            "shadow_refusals",
            "Requests that proposed plans would have refused, by plan and limit",
            metrics.shadow_refusals.clone(),
        );
        r.register("degraded", "Answers for which something was given up, by kind and cause", metrics.degraded.clone());
        r.register("tokens", "Tokens booked, by model and kind", metrics.tokens.clone());
        r.register("spent_nano_usd", "Nano-dollars booked, by model", metrics.spent.clone());
        r.register("upstream_calls", "Calls to providers by result", metrics.upstream.clone());
        r.register("retries", "Further attempts at a provider, by what went wrong before", metrics.retries.clone());
        r.register("retries_ended", "Failed calls that were not tried again, by reason", metrics.retries_ended.clone());
        r.register("breaker_state", "Breaker of an upstream: 0 closed, 1 probing, 2 open", metrics.breaker.clone());
        r.register("estimated_usage", "Replies booked by our own count, by model", metrics.estimated.clone());
        r.register("usage_anomalies", "Usage numbers that were missing, shrank or made no sense", metrics.anomalies.clone());
        r.register_with_unit("request_duration", "Whole requests", Unit::Seconds, metrics.duration.clone());
        r.register_with_unit("first_byte", "Until the provider's first byte", Unit::Seconds, metrics.first_byte.clone());
        r.register("store_calls", "Store calls by operation and result", metrics.store_calls.clone());
        r.register("in_flight", "Requests being served", metrics.in_flight.clone());
        r.register("queued", "Requests waiting for a slot", metrics.queued.clone());
        r.register("new_customers", "Customers named for the first time while that is capped", metrics.newcomers.clone());
        r.register("records_dropped", "Records of requests that were not kept", metrics.records_dropped.clone());
        r.register(
            "history_dropped",
            "Rows of the history that were not kept, or not as a customer's own",
            metrics.history_dropped.clone(),
        );
        r.register("unsettled", "Reservations not yet settled in the store", metrics.unsettled.clone());
        r.register("repeats", "Requests with an idempotency key, by what came of it", metrics.repeats.clone());
        r.register("jobs", "Asynchronous requests in the store, by state", metrics.jobs.clone());
        r.register("jobs_ended", "Asynchronous requests that ended, by state", metrics.jobs_ended.clone());
        r.register("estimate_factor_permille", "Learned factor of the token estimate, by model", metrics.factor.clone());
        r.register("level", "How much is given up, 0 to 3, by pool", metrics.levels.clone());
        r.register(
            "ceiling_used_permille",
            "Use of the ceiling in the trailing minute, all gateways, by pool",
            metrics.ceiling_used.clone(),
        );
        metrics.outage.register(r);
        metrics.triage.register(r);
        metrics.reload.register(r);
        metrics.tls.register(r);
        metrics.otlp.register(r);
        metrics.alerts.register(r);
        metrics
    }
}

impl Metrics {
    /// Drops the gauges of pools and upstreams that a new configuration no longer has.
    pub fn forget(&self, before: &Policy, after: &Policy) {
        for pool in before.pools.iter().filter(|old| !after.pools.iter().any(|new| new.name == old.name)) {
            let labels = PoolLabels { pool: Name(pool.name.clone()) };
            self.levels.remove(&labels);
            self.ceiling_used.remove(&labels);
        }
        for name in before.upstreams.keys().filter(|name| !after.upstreams.contains_key(*name)) {
            self.breaker.remove(&UpstreamNameLabels { upstream: Name(name.clone()) });
        }
    }

    /// The exposition, in the OpenMetrics text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
