//! The smallest store that is right: the pure functions over a map, behind one lock. What every other store is compared with.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use tollgate::domain::{NanoUsd, ReservationId, Timestamp};
use tollgate::limit::Line;
use tollgate::limit::decide::{self, Hold, State, States};
use tollgate::limit::{Admission, Decision, LimitName, Measure, ScopeKey, Settlement};
use tollgate::store::{Balance, Holding, Ledger, Look, Seen, StoreError};

#[derive(Default)]
pub struct Reference(Mutex<Books>);

#[derive(Default)]
struct Books {
    states: HashMap<(ScopeKey, LimitName), State>,
    holds: HashMap<ReservationId, Vec<Line>>,
    ended: HashSet<ReservationId>,
}

impl States for Books {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        self.states.get(&(scope.clone(), limit)).cloned()
    }

    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        self.states.insert((scope.clone(), limit), state);
    }
}

impl Books {
    fn hold(&mut self, admission: &Admission, decision: &Decision) {
        let lines = admission.lines(decision).into_iter().filter(|line| line.claim.is_budget()).collect::<Vec<_>>();
        if decision.admitted && !lines.is_empty() {
            self.holds.entry(admission.reservation).or_default().extend(lines);
        }
    }

    /// Of what ended before nothing is booked again.
    fn ending(&self, settlement: &Settlement) -> Settlement {
        let mut ending = settlement.clone();
        if self.ended.contains(&settlement.reservation) {
            ending.lines.clear();
        }
        ending
    }
}

impl Reference {
    pub fn decide(&self, admission: &Admission, now: Timestamp) -> Decision {
        let mut books = self.0.lock();
        let decision = decide::admit(now, admission, &mut *books);
        books.hold(admission, &decision);
        decision
    }

    pub fn book(&self, settlement: &Settlement, now: Timestamp) {
        let mut books = self.0.lock();
        let held = books.holds.remove(&settlement.reservation);
        let hold = held.as_ref().map_or(Hold::Unknown, |lines| Hold::Of(lines));
        let ending = books.ending(settlement);
        books.ended.insert(settlement.reservation);
        decide::settle(now, &ending, hold, &mut *books);
    }

    pub fn exchange(&self, old: &Settlement, admission: &Admission, now: Timestamp) -> Decision {
        let mut books = self.0.lock();
        let held = books.holds.get(&old.reservation).cloned();
        let hold = held.as_ref().map_or(Hold::Unknown, |lines| Hold::Of(lines));
        let ending = books.ending(old);
        let decision = decide::replace(now, &ending, hold, admission, &mut *books);
        if decision.admitted {
            books.holds.remove(&old.reservation);
            books.ended.insert(old.reservation);
            books.hold(admission, &decision);
        }
        decision
    }

    pub fn looked(&self, look: &Look, now: Timestamp) -> Seen {
        let mut books = self.0.lock();
        let verdicts = decide::look(now, &look.claims, &mut *books);
        let whose = |line: &Line| {
            let ScopeKey { scope, owner } = &line.claim.scope;
            scope.is_customers() && owner.split('/').next() == Some(&*look.customer.owner)
        };
        let own = books.holds.iter().filter(|(_, lines)| lines.iter().any(whose));
        let mut holds: Vec<_> = own
            .map(|(id, lines)| {
                let money = lines.iter().filter(|line| line.claim.measure == Measure::Money).map(|line| line.claim.amount);
                Holding { reservation: *id, until: None, money: NanoUsd::new(money.max().unwrap_or(0)) }
            })
            .collect();
        holds.sort_by_key(|hold| hold.reservation.bits());
        Seen { at: now, verdicts, holds }
    }

    pub fn balances(&self, scope: &ScopeKey) -> Vec<Balance> {
        let books = self.0.lock();
        let mine = books.states.iter().filter(|((owner, _), _)| owner == scope);
        let mut balances: Vec<_> = mine
            .filter_map(|((_, limit), state)| {
                let State::Budget(budget) = state else { return None };
                let period = budget.current;
                Some(Balance { limit: *limit, period: period.start, spent: period.spent, held: period.held })
            })
            .collect();
        balances.sort_by_key(|balance| balance.limit);
        balances
    }
}

impl Ledger for Reference {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        ready(Ok(self.decide(admission, now.expect("cases pass the time in")))).boxed()
    }

    fn look<'a>(&'a self, look: &'a Look, now: Option<Timestamp>) -> BoxFuture<'a, Result<Seen, StoreError>> {
        ready(Ok(self.looked(look, now.expect("cases pass the time in")))).boxed()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        for settlement in batch {
            self.book(settlement, now.expect("cases pass the time in"));
        }
        ready(Ok(())).boxed()
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        ready(Ok(self.exchange(old, admission, now.expect("cases pass the time in")))).boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        ready(Ok(self.balances(scope))).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }
}
