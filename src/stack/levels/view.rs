//! How a pool stands, for those who look at it.

use super::{Levels, Pinned, Shared, pool_of, total};
use crate::domain::Timestamp;
use crate::store::documents::Collection;

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
    /// How a pool stands. One that this gateway has no requests for is looked up, so that it does not matter which gateway is asked;
    /// in passthrough mode, where each account has a ceiling of its own, only those of this gateway are known.
    pub async fn look(&self, pool: &str) -> PoolView {
        let known = self.pools.read().keys().any(|owner| pool_of(owner) == pool);
        let mut view = self.of_pool(pool);
        if known {
            return view;
        }
        // While the store is away nothing is known of it; a pin that was read before counts.
        let found = self.documents.get(Collection::Levels, pool, None).await.ok().flatten();
        if let Some(mut shared) = found.and_then(|document| serde_json::from_slice::<Shared>(&document.value).ok()) {
            self.freshen(&pool.into(), &mut shared, self.clock.now());
            (view.gauge, view.used) = (shared.level.min(3), total(&shared.said));
            view.level = view.pinned.as_ref().map_or(view.gauge, |pinned| pinned.level);
        }
        view
    }

    /// How a pool stands, as this gateway last saw it.
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
