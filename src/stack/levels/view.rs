//! How a pool stands, for those who look at it.

use super::{Levels, Pinned, pool_of};
use crate::domain::Timestamp;

/// How a pool stands; of several accounts (passthrough mode) the one that is worst off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolView {
    /// The level that holds.
    pub level: u8,
    /// The level that the gauge says.
    pub gauge: u8,
    /// Use of the ceiling in the trailing minute, thousandths, all gateways together.
    pub used: u64,
    /// The pin that is in force.
    pub pinned: Option<Pinned>,
}

impl Levels {
    /// How a pool stands, as last seen.
    #[must_use]
    pub fn of_pool(&self, pool: &str) -> PoolView {
        let mut view = PoolView::default();
        for (_, standing) in self.pools.read().iter().filter(|(owner, _)| pool_of(owner) == pool) {
            view.gauge = view.gauge.max(standing.state.level);
            view.used = view.used.max(standing.used);
        }
        let now = self.clock.now();
        view.pinned = self.pins.read().get(pool).filter(|pinned| now < Timestamp(pinned.until)).cloned();
        view.level = view.pinned.as_ref().map_or(view.gauge, |pinned| pinned.level);
        view
    }
}
