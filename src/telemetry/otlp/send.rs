//! The way to the collector: batches, repeated while it is away, for a while.

use super::meters::Meters;
use crate::config::policy::Otlp;
use crate::domain::Clock;
use crate::telemetry::Metrics;
use crate::webhook::{Failure, Http, Post as _};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Spans in one batch, about.
const BATCH: usize = 512;
/// Between the first failure and the next attempt; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// For how long a batch is repeated. Meanwhile the queue fills, and then spans are dropped.
const REPEATED: Duration = Duration::from_secs(120);

/// What the sending task is told.
pub enum Told {
    /// The spans of a request.
    Spans(Vec<Span>),
    /// Say when everything before is sent or given up.
    Flush(oneshot::Sender<()>),
}

/// Sends one signal to one address.
pub struct Sender {
    signal: &'static str,
    post: Http,
    headers: HeaderMap,
    timeout: Duration,
    resource: Resource,
    metrics: Arc<Metrics>,
    hurry: CancellationToken,
    /// Whether the last attempt failed: each outage is logged once.
    away: bool,
}

impl Sender {
    /// A sender of `traces` or `metrics`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(
        settings: &Otlp,
        signal: &'static str,
        metrics: Arc<Metrics>,
        hurry: CancellationToken,
    ) -> Result<Self, reqwest::Error> {
        let url = if signal == "traces" { &settings.traces_url } else { &settings.metrics_url };
        let mut headers = HeaderMap::new();
        for (name, secret) in &settings.headers {
            // That it fits a header was checked when the configuration was read.
            if let Ok(mut value) = HeaderValue::from_str(secret.expose()) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut attributes = super::names::Attributes::default();
        attributes.text("service.name", &settings.service_name);
        attributes.text("service.version", env!("CARGO_PKG_VERSION"));
        // Tells the series of gateways of one name apart.
        attributes.text("service.instance.id", &format!("{:032x}", fastrand::u128(..)));
        let resource = Resource { attributes: attributes.0, ..Resource::default() };
        let post = Http::new(&crate::config::policy::Secret::new(url))?;
        Ok(Self { signal, post, headers, timeout: settings.timeout, resource, metrics, hurry, away: false })
    }

    /// Makes one attempt.
    async fn attempt(&mut self, body: Bytes) -> Result<(), Failure> {
        let posted = timeout(self.timeout, self.post.post(self.headers.clone(), body)).await;
        let outcome = posted.unwrap_or(Err(Failure::Timeout));
        self.metrics.otlp.export(self.signal, if outcome.is_ok() { "ok" } else { "failed" });
        match &outcome {
            Ok(()) if self.away => tracing::info!(signal = self.signal, "the OpenTelemetry collector is back"),
            Err(reason) if !self.away => {
                tracing::warn!(signal = self.signal, host = self.post.host(), %reason, "the OpenTelemetry collector does not take what it is sent");
            }
            _ => {}
        }
        self.away = outcome.is_err();
        outcome
    }

    /// Repeats while it may help. Gives whether the collector took it.
    async fn deliver(&mut self, body: Bytes) -> bool {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let last = self.hurry.is_cancelled() || began.elapsed() >= REPEATED;
            let Err(failure) = self.attempt(body.clone()).await else { return true };
            if last || !failure.may_pass() {
                return false;
            }
            let wait = failure.wait().map_or(pause, |wait| wait.max(pause)).min(LONGEST_PAUSE);
            let wait = wait.mul_f64(1.0 + fastrand::f64() * 0.2); // so that gateways do not return together
            let _ = timeout(wait, self.hurry.cancelled()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Who says it.
fn scope() -> InstrumentationScope {
    let (name, version) = (env!("CARGO_PKG_NAME").to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}

/// Sends the spans it is told until nobody can tell anything any more.
pub async fn spans(mut sender: Sender, mut queue: mpsc::Receiver<Told>, interval: Duration) {
    while let Some(first) = queue.recv().await {
        let (mut spans, mut flushes) = (Vec::new(), Vec::new());
        let due = Instant::now() + interval;
        let mut next = Some(first);
        while let Some(told) = next.take() {
            match told {
                Told::Spans(more) => spans.extend(more),
                Told::Flush(ack) => flushes.push(ack),
            }
            if !flushes.is_empty() || spans.len() >= BATCH {
                break;
            }
            // At the end of the gateway there is no waiting for more, but what is there goes together.
            next = if sender.hurry.is_cancelled() {
                queue.try_recv().ok()
            } else {
                timeout_at(due, queue.recv()).await.ok().flatten()
            };
        }
        let count = spans.len() as u64;
        if count > 0 {
            let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }];
            let resource = Some(sender.resource.clone());
            let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
            let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec().into();
            if !sender.deliver(body).await {
                sender.metrics.otlp.dropped("not_taken", count);
            }
        }
        for ack in flushes {
            let _ = ack.send(()); // whoever asked may have lost patience
        }
    }
}

/// Sends the histograms now and then, and when asked. What fails is not repeated: the next reading holds all of it.
pub async fn readings(
    mut sender: Sender,
    meters: Arc<Meters>,
    mut asked: mpsc::Receiver<oneshot::Sender<()>>,
    clock: Arc<dyn Clock>,
    interval: Duration,
) {
    loop {
        let ack = match timeout(interval, asked.recv()).await {
            Ok(None) => return,
            Ok(ack) => ack,
            Err(_) => None,
        };
        let metrics = meters.read(clock.now());
        if !metrics.is_empty() {
            let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
            let resource = Some(sender.resource.clone());
            let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
            let body = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec().into();
            let _ = sender.attempt(body).await; // counted and logged
        }
        if let Some(ack) = ack {
            let _ = ack.send(());
        }
    }
}
