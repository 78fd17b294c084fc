//! The parts of the books that one decision is about, locked until it is written: what it finds, what it puts, and what the journal must
//! learn of it.

use super::books::{Books, Change};
use super::known::Standing;
use super::part::{Number, Part};
use super::record::{BalanceKey, Booking, Entry, Kind};
use crate::domain::{ReservationId, Timestamp};
use crate::limit::budget::BudgetState;
use crate::limit::decide::{State, States};
use crate::limit::{Admission, Claim, Decision, LimitName, Line, Rule, Scope, ScopeKey, Settlement};
use parking_lot::MutexGuard;
use std::sync::Arc;

/// The locked parts of one decision.
pub(super) struct Open<'a> {
    pub(super) books: &'a Books,
    /// In most cases one: the customer's.
    pub(super) shards: Vec<(usize, MutexGuard<'a, Part>)>,
    pub(super) shared: Option<MutexGuard<'a, Part>>,
    pub(super) claims: Vec<&'a Claim>,
    pub(super) now: Timestamp,
    pub(super) changes: Vec<Change>,
    pub(super) found: Vec<Found>,
}

/// Where the states of an owner are.
pub(super) struct Found {
    pub(super) scope: Scope,
    pub(super) owner: Arc<str>,
    /// Which of the locked shards; `None` = what everybody shares.
    pub(super) shard: Option<usize>,
    /// `None` as long as there is no state.
    pub(super) number: Option<Number>,
}

impl Found {
    /// Nearly always the claims of one owner share its name.
    fn is_of(&self, scope: &ScopeKey) -> bool {
        self.scope == scope.scope && (Arc::ptr_eq(&self.owner, &scope.owner) || self.owner == scope.owner)
    }
}

impl Open<'_> {
    /// The part of an owner, and where among the found it stands.
    fn find(&mut self, scope: &ScopeKey) -> (&mut Part, &mut Found) {
        let at = self.found.iter().position(|found| found.is_of(scope)).unwrap_or_else(|| {
            let shard = scope.scope.is_customers().then(|| match self.shards.len() {
                1 => 0,
                _ => {
                    let shard = self.books.shard(scope);
                    self.shards.iter().position(|(locked, _)| *locked == shard).expect("locked for the claim that asks")
                }
            });
            let number = self.part(shard).number(&scope.owner);
            self.found.push(Found { scope: scope.scope, owner: scope.owner.clone(), shard, number });
            self.found.len() - 1
        });
        let found = &mut self.found[at];
        let part = match found.shard {
            Some(shard) => &mut self.shards[shard].1,
            None => self.shared.as_mut().expect("locked for the claim that asks"),
        };
        (part, found)
    }

    fn part(&self, shard: Option<usize>) -> &Part {
        match shard {
            Some(shard) => &self.shards[shard].1,
            None => self.shared.as_ref().expect("locked for the claim that asks"),
        }
    }

    fn rule(&self, scope: Scope, limit: LimitName) -> Option<Rule> {
        self.claims.iter().find(|claim| claim.scope.scope == scope && claim.limit == limit).map(|claim| claim.rule)
    }

    /// What the journal learns of a budget that moved from `old` to `new`.
    fn note(&mut self, scope: &ScopeKey, limit: LimitName, old: Option<&State>, new: &State) {
        let State::Budget(new) = new else { return };
        let old = if let Some(State::Budget(old)) = old { *old } else { BudgetState::default() };
        let key = |period| BalanceKey { scope: scope.clone(), limit, period };
        let (old, new) = ([old.current, old.previous], [new.current, new.previous]);
        for period in new {
            let before = old.iter().find(|p| p.start == period.start).map_or(0, |p| p.spent);
            if period.spent != before {
                self.changes.push(Change::Balance(key(period.start), period.spent));
            }
        }
        for period in old.into_iter().filter(|p| p.start > 0 && new.iter().all(|n| n.start != p.start)) {
            self.changes.push(Change::Forget(key(period.start)));
        }
    }

    /// Notes the hold of an admission, if it was admitted and holds money: gives the number of its part.
    pub(super) fn hold(&mut self, admission: &Admission, decision: &Decision) -> Option<u8> {
        if !decision.admitted || !admission.claims.iter().any(Claim::is_budget) {
            return None;
        }
        let lines = Line::budgets_taken(admission, decision);
        let time = self.now.plus(admission.lease);
        let journaled = self.books.journaled;
        let entry = journaled.then(|| entry(Kind::Held, time, admission.reservation, &admission.customer, &lines));
        let part = self.books.known.lock().hold(admission.reservation, lines);
        self.changes.extend(entry.map(|entry| Change::Hold(part, entry)));
        Some(part)
    }

    /// Notes for the journal that a reservation ended.
    pub(super) fn ended(&mut self, settlement: &Settlement, before: &Standing) {
        let Settlement { reservation, customer, lines } = settlement;
        let parts = before.held.as_ref().map_or(0, |held| held.parts);
        if !self.books.journaled {
            return;
        }
        if before.ended {
            self.changes.push(Change::GivenBack(parts, *reservation));
        } else if parts > 0 || lines.iter().any(|line| line.claim.is_budget()) {
            self.changes.push(Change::Ended(parts, entry(Kind::Settled, self.now, *reservation, customer, lines)));
        }
    }

    pub(super) fn sweep(&mut self, may_tell: bool) {
        let (now, with_budgets) = (self.now, may_tell || !self.books.journaled);
        let parts = self.shards.iter_mut().map(|(_, part)| part).chain(&mut self.shared);
        let forgotten: Vec<_> = parts.flat_map(|part| part.sweep(now, with_budgets)).collect();
        if self.books.journaled {
            self.changes.extend(forgotten.into_iter().map(Change::Forget));
        }
    }
}

impl States for Open<'_> {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        let (part, found) = self.find(scope);
        part.state(found.number?, scope.scope, limit)
    }

    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        let (now, rule) = (self.now, self.rule(scope.scope, limit));
        if self.books.journaled && matches!(state, State::Budget(_)) {
            let old = self.state(scope, limit);
            self.note(scope, limit, old.as_ref(), &state);
        }
        let (part, found) = self.find(scope);
        let owner = *found.number.get_or_insert_with(|| part.number_for(&scope.owner));
        part.put(owner, scope.scope, limit, state, rule, now);
    }
}

/// The budget lines of a reservation, as the journal keeps them.
fn entry(kind: Kind, time: Timestamp, reservation: ReservationId, customer: &ScopeKey, lines: &[Line]) -> Entry {
    let booking = |line: &Line| Booking {
        balance: BalanceKey { scope: line.claim.scope.clone(), limit: line.claim.limit, period: line.booked },
        claimed: line.claim.amount,
        actual: line.actual,
    };
    let lines = lines.iter().filter(|line| line.claim.is_budget()).map(booking).collect();
    Entry { kind, time, reservation, customer: customer.clone(), lines }
}
