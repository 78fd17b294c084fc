//! What is left of the buckets, over time: those of one customer, and those of the pools.

use super::{World, books, id_of, plan_of};
use crate::config::policy::Limit;
use crate::lab::scenario::Crowd;
use crate::lab::tally::Left;
use crate::limit::{Scope, ScopeKey};

/// A limit whose bucket is watched.
pub(super) type Watched = (ScopeKey, Limit);

/// Steps after which nothing more is noted: as many as a report has.
const MOST: usize = 100_000;

impl World<'_> {
    /// Whose buckets are watched: of the first crowd that is a single customer, else of one of the first crowd's customers.
    pub(super) fn choose_watched(&mut self, crowds: &[Crowd]) {
        let policy = &self.run.policy;
        let taking_part = || self.run.crowds.iter().map(|index| &crowds[*index]);
        let Some(crowd) = taking_part().find(|crowd| crowd.customers <= 1).or_else(|| taking_part().next()) else { return };
        let id = id_of(crowd, 0);
        let (customer, limits) = (books::customer(&id), &plan_of(policy, crowd, &id).limits);
        let own = limits.messages.iter().chain(&limits.rates).map(|limit| (customer.clone(), *limit));
        let pools = policy.pools.iter().flat_map(|pool| {
            let scope = ScopeKey { scope: Scope::Pool, owner: pool.name.clone() };
            pool.ceiling.iter().map(move |limit| (scope.clone(), *limit))
        });
        self.watched = own.chain(pools).collect();
    }

    /// A look at them.
    pub(super) fn watch(&mut self) {
        let step = usize::try_from(self.now / self.report.step).unwrap_or(usize::MAX);
        if step >= MOST {
            return;
        }
        let now = books::instant(self.now);
        for (at, (scope, limit)) in self.watched.iter().enumerate() {
            let (left, of) = self.gateway.books().left(now, scope, limit);
            if self.report.left.len() == at {
                self.report.left.push(Left { scope: scope.clone(), limit: limit.name, of, least: Vec::new() });
            }
            let least = &mut self.report.left[at].least;
            // A look is taken several times in each step, so none is left out.
            match least.get_mut(step) {
                Some(least) => *least = (*least).min(left),
                None => least.resize(step + 1, left),
            }
        }
    }
}
