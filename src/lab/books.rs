//! The books of a run: the states of all limits, decided by [`crate::limit::decide`] as both stores do.

use crate::config::policy::{Limit, LimitKind};
use crate::domain::{NanoUsd, Period, Timestamp, Zone};
use crate::limit::decide::{self, Hold, State, States};
use crate::limit::{Admission, BudgetState, Decision, LimitName, Scope, ScopeKey, Settlement};
use std::collections::HashMap;

/// 2026-01-05 09:30 UTC, a Monday: when every run begins. Only calendar periods depend on it.
pub const BEGIN: u64 = 1_767_605_400;

/// The instant so many microseconds after the run began.
pub const fn instant(at: u64) -> Timestamp {
    Timestamp(BEGIN * 1_000_000 + at)
}

/// States by scope and limit.
#[derive(Default)]
pub struct Books(HashMap<(ScopeKey, LimitName), State>);

impl States for Books {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        self.0.get(&(scope.clone(), limit)).cloned()
    }

    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        self.0.insert((scope.clone(), limit), state);
    }
}

impl Books {
    /// Decides an admission.
    pub fn admit(&mut self, now: Timestamp, admission: &Admission) -> Decision {
        decide::admit(now, admission, self)
    }

    /// Ends a reservation. Every hold is known here: nothing is ever lost.
    pub fn settle(&mut self, now: Timestamp, settlement: &Settlement) {
        decide::settle(now, settlement, Hold::AsClaimed, self);
    }

    /// What is left of a rate limit, and what there is of it when nothing is used.
    pub fn left(&mut self, now: Timestamp, scope: &ScopeKey, limit: &Limit) -> (u64, u64) {
        let state = self.state(scope, limit.name);
        match (limit.kind, state) {
            (LimitKind::Bucket(bucket), Some(State::Bucket(state))) => {
                (bucket.remaining(bucket.advance(Some(state), now)), bucket.capacity())
            }
            (LimitKind::Bucket(bucket), _) => (bucket.capacity(), bucket.capacity()),
            (LimitKind::Sliding(most), Some(State::Window(mut state))) => {
                state.advance(now);
                (most.saturating_sub(state.used(now)), most)
            }
            (LimitKind::Sliding(most), _) => (most, most),
        }
    }

    /// Books what a customer has spent today, in every period there is.
    pub fn spend(&mut self, now: Timestamp, customer: &ScopeKey, zone: &Zone, amount: NanoUsd) {
        for period in Period::ALL {
            let boundaries = zone.boundaries(period, now);
            let key = (customer.clone(), LimitName::Spend(period));
            let mut budget = match self.0.get(&key) {
                Some(State::Budget(budget)) => *budget,
                _ => BudgetState::default(),
            };
            budget.advance(&boundaries, now);
            budget.settle(budget.current.start, 0, amount.get());
            self.0.insert(key, State::Budget(budget));
        }
    }

    /// What a customer has spent in the present period.
    pub fn spent(&self, customer: &ScopeKey, period: Period) -> NanoUsd {
        match self.0.get(&(customer.clone(), LimitName::Spend(period))) {
            Some(State::Budget(budget)) => NanoUsd::new(budget.current.spent),
            _ => NanoUsd::ZERO,
        }
    }
}

/// The scope of a customer.
pub fn customer(id: &str) -> ScopeKey {
    ScopeKey { scope: Scope::Customer, owner: crate::domain::CustomerId::from_trusted(id).key().into() }
}
