//! What `/metrics` says of a store that may be away.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// All zero for a store that is never away.
#[derive(Clone, Debug, Default)]
pub struct OutageMetrics {
    /// Outages so far.
    pub outages: Counter,
    /// Requests admitted alone.
    pub alone: Counter,
    /// Requests refused because the store was away.
    pub refused_alone: Counter,
    /// Settlements that went from the journal to the store.
    pub replayed: Counter,
    /// Settlements given up because they may have been booked before.
    pub stale: Counter,
    /// Budgets of which the store had lost what was spent, and that were repaired.
    pub repaired: Counter,
    /// Calls that the store answered late.
    pub late: Counter,
    /// Whether the store may throw books away when its memory is full (1 or 0).
    pub evicts: Gauge,
    /// Whether the store is away (1 or 0).
    pub away: Gauge,
    /// Whether it is not even asked (1 or 0).
    pub breaker_open: Gauge,
    /// Settlements that wait in the journal.
    pub waiting: Gauge,
    /// Gateways that live, as last seen.
    pub gateways: Gauge,
}

impl OutageMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let Self {
            outages,
            alone,
            refused_alone,
            replayed,
            stale,
            repaired,
            late,
            evicts,
            away,
            breaker_open,
            waiting,
            gateways,
        } = self.clone();
        r.register("store_outages", "Outages of the store", outages);
        r.register("store_admitted_alone", "Requests admitted without the store", alone);
        r.register("store_refused_alone", "Requests refused because the store was away", refused_alone);
        r.register("store_replayed", "Settlements that waited and were replayed", replayed);
        r.register("store_stale", "Settlements given up because they may have been booked before", stale);
        r.register("store_repaired", "Budgets of which the store had lost what was spent, and that were repaired", repaired);
        r.register("store_late", "Calls that the store answered after the deadline", late);
        r.register("store_evicts", "Whether the store may throw books away when its memory is full", evicts);
        r.register("store_away", "Whether the store is away", away);
        r.register("store_breaker_open", "Whether the store is not even asked", breaker_open);
        r.register("store_waiting", "Settlements that wait in the journal", waiting);
        r.register("store_gateways", "Gateways that live, as last seen", gateways);
    }
}
