//! `[telemetry]`, as written.

use super::super::node::Node;
use super::super::problem::{Findings, Place};
use super::super::read::{At, Named, Read, table};
use super::super::secret::SecretSource;
use super::super::value::{Fraction, Timeout};

table! {
    /// `[telemetry]`
    Telemetry {
        /// Whether providers learn the trace.
        propagate: bool,
        /// `[telemetry.otlp]`
        otlp: Otlp,
    }

    /// `[telemetry.otlp]`
    Otlp {
        /// The collector's base URL.
        endpoint: At<String>,
        /// How it is spoken to.
        protocol: At<String>,
        /// Further headers.
        headers: Named<At<SecretSource>>,
        /// What this gateway is called.
        service_name: String,
        /// The part of traces that is exported.
        sample: Fraction,
        /// How long one export may take.
        timeout: Timeout,
        /// How long spans are gathered.
        interval: Timeout,
        /// Between two exports of metrics.
        metrics_interval: Timeout,
        /// Whether spans name the customer.
        customer_ids: bool,
    }
}
