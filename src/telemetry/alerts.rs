//! What `/metrics` says of alerts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counted by the gateway that raised an alert, so the sum over all gateways is right.
#[derive(Clone, Debug, Default)]
pub struct AlertMetrics {
    /// Alerts raised here.
    pub raised: Family<KindLabels, Counter>,
    /// What was seen and not looked into, or raised and not told, since too much waited.
    pub missed: Counter,
}

/// Labels of [`AlertMetrics::raised`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    /// What it is about.
    pub kind: &'static str,
}

impl AlertMetrics {
    /// Counts an alert.
    pub fn raised(&self, kind: &'static str) {
        self.raised.get_or_create(&KindLabels { kind }).inc();
    }

    pub(super) fn register(&self, r: &mut Registry) {
        let Self { raised, missed } = self.clone();
        r.register("alerts", "Alerts raised by this gateway, by kind", raised);
        r.register("alerts_missed", "Observations that were dropped since too many waited", missed);
    }
}
