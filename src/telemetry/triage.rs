//! What `/metrics` says of the triage queue and of webhooks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// All zero where nobody is handed off.
#[derive(Clone, Debug, Default)]
pub struct TriageMetrics {
    /// What happened to tickets.
    pub events: Family<EventLabels, Counter>,
    /// Hand-offs of which no ticket was kept.
    pub dropped: Family<ReasonLabels, Counter>,
    /// Tickets that wait or are claimed, as last counted.
    pub open: Gauge,
    /// What became of webhooks.
    pub webhooks: Family<ResultLabels, Counter>,
}

/// Labels of [`TriageMetrics::events`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EventLabels {
    /// What happened.
    pub event: &'static str,
}

/// Labels of [`TriageMetrics::dropped`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabels {
    /// Why there is no ticket.
    pub reason: &'static str,
}

/// Labels of [`TriageMetrics::webhooks`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabels {
    /// What became of it.
    pub result: &'static str,
}

impl TriageMetrics {
    /// Counts something that happened to a ticket.
    pub fn event(&self, event: &'static str) {
        self.events.get_or_create(&EventLabels { event }).inc();
    }

    /// Counts a hand-off of which no ticket was kept.
    pub fn dropped(&self, reason: &'static str) {
        self.dropped.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts what became of a webhook, or of an attempt.
    pub fn webhook(&self, result: &'static str) {
        self.webhooks.get_or_create(&ResultLabels { result }).inc();
    }

    pub(super) fn register(&self, r: &mut Registry) {
        let Self { events, dropped, open, webhooks } = self.clone();
        r.register("triage_events", "What happened to tickets", events);
        r.register("triage_dropped", "Hand-offs of which no ticket was kept", dropped);
        r.register("triage_open", "Tickets that wait or are claimed, as last counted", open);
        r.register("webhooks", "Webhooks delivered, repeated and given up", webhooks);
    }
}
