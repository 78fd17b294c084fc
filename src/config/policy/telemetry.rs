//! The part of the policy about what OpenTelemetry is told.

use super::Secret;
use http::HeaderName;
use std::time::Duration;

/// `[telemetry]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// Whether providers learn the trace of a request (`traceparent`, `tracestate`).
    pub propagate: bool,
    /// `[telemetry.otlp]`; `None` = nothing is exported.
    pub otlp: Option<Otlp>,
}

/// `[telemetry.otlp]`: a collector, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// Where traces go.
    pub traces_url: String,
    /// Where metrics go.
    pub metrics_url: String,
    /// Further headers of each export.
    pub headers: Vec<(HeaderName, Secret)>,
    /// What this gateway is called there.
    pub service_name: String,
    /// The part of traces begun here that is exported, millionths. Whoever calls with a trace of their own decides that for it.
    pub sample: u32,
    /// How long one export may take.
    pub timeout: Duration,
    /// How long spans are gathered.
    pub interval: Duration,
    /// Between two exports of metrics.
    pub metrics_interval: Duration,
    /// Whether spans name the customer.
    pub customer_ids: bool,
}
