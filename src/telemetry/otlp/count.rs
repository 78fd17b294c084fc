//! What `/metrics` says of exports to a collector.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// All absent where nothing is exported.
#[derive(Clone, Debug, Default)]
pub struct OtlpMetrics {
    exports: Family<ExportLabels, Counter>,
    dropped: Family<DropLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExportLabels {
    signal: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropLabels {
    reason: &'static str,
}

impl OtlpMetrics {
    /// Counts an attempt to send `traces` or `metrics`.
    pub fn export(&self, signal: &'static str, result: &'static str) {
        self.exports.get_or_create(&ExportLabels { signal, result }).inc();
    }

    /// Counts spans that are lost.
    pub fn dropped(&self, reason: &'static str, spans: u64) {
        self.dropped.get_or_create(&DropLabels { reason }).inc_by(spans);
    }

    pub(in crate::telemetry) fn register(&self, r: &mut Registry) {
        let Self { exports, dropped } = self.clone();
        r.register("otlp_exports", "Attempts to send to the OpenTelemetry collector, by signal and result", exports);
        r.register("otlp_dropped", "Spans that the OpenTelemetry collector did not get, by reason", dropped);
    }
}
