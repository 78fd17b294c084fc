//! The books in memory: who stands where, and every decision on it.
//!
//! Sharded by customer, plus one part for what everybody shares. Locks are taken in one order: the customer's shard, the shared part,
//! then the known reservations. What the journal must learn is handed over *inside* the lock, so that it learns the balances in the
//! order in which they arose.

use super::known::{Known, Standing};
use super::open::Open;
use super::part::Part;
use super::record::{BalanceKey, Entry};
use crate::domain::{Clock, ReservationId, Timestamp};
use crate::limit::budget::{BudgetState, PeriodState};
use crate::limit::decide::{self, Hold, State};
use crate::limit::{Admission, Claim, Decision, LimitName, ScopeKey, Settlement};
use crate::store::{Balance, Look, Seen};
use foldhash::quality::RandomState;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

/// So many that a sweep of one is short even with a million customers.
const SHARDS: usize = 4_096;

/// What a request usually changes, and whose limits it usually claims: room that need not grow.
const CHANGES: usize = 8;
const OWNERS: usize = 4;

/// Something the journal must learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A hold: the part of the reservation, and the entry.
    Hold(u8, Entry),
    /// A balance is now this much.
    Balance(BalanceKey, u64),
    /// A balance is history.
    Forget(BalanceKey),
    /// A reservation ended; so many parts of it were held.
    Ended(u8, Entry),
    /// So many parts that a reservation held after it had ended are held no more.
    GivenBack(u8, ReservationId),
}

/// How much a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Reservations that hold money or quota.
    pub in_flight: usize,
    /// Customers and users with a state.
    pub owners: usize,
}

/// The books in memory.
pub struct Books {
    clock: Arc<dyn Clock>,
    hasher: RandomState,
    shards: Box<[Mutex<Part>]>,
    shared: Mutex<Part>,
    pub(super) known: Mutex<Known>,
    /// Whether there is a journal that must learn changes.
    pub(super) journaled: bool,
}

/// What an admission left to do.
pub struct Admitted {
    /// What the limits said.
    pub decision: Decision,
    /// The part of the reservation that is held, if money is.
    pub part: Option<u8>,
}

impl Books {
    /// Empty books.
    pub fn new(clock: Arc<dyn Clock>, journaled: bool) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { clock, hasher: RandomState::default(), shards, shared: Mutex::default(), known: Mutex::default(), journaled }
    }

    /// Decides an admission. `tell` is called inside the lock when the journal must learn of it; without it no budget may be claimed
    /// in journaled books.
    pub fn admit(&self, admission: &Admission, now: Option<Timestamp>, tell: Option<impl FnOnce(Vec<Change>)>) -> Admitted {
        let claims = &admission.claims;
        let mut open = self.open(claims.iter().collect(), now);
        let now = open.now;
        let decision = decide::admit(now, admission, &mut open);
        let part = open.hold(admission, &decision);
        open.sweep(tell.is_some());
        if let Some(tell) = tell.filter(|_| !open.changes.is_empty()) {
            tell(std::mem::take(&mut open.changes));
        }
        Admitted { decision, part }
    }

    /// Puts an admission in the place of a reservation, or changes nothing. `tell` as for an admission.
    pub fn replace(
        &self,
        old: &Settlement,
        admission: &Admission,
        now: Option<Timestamp>,
        tell: Option<impl FnOnce(Vec<Change>)>,
    ) -> Admitted {
        loop {
            let before = self.known.lock().standing(old.reservation);
            // The claims come first: where a limit is claimed and was held, its present rule says how long its state is kept.
            let claims = admission.claims.iter().chain(touched(old, &before)).collect();
            let mut open = self.open(claims, now);
            let now = open.now;
            let mut known = self.known.lock();
            if known.standing(old.reservation) != before {
                continue;
            }
            let (ending, hold) = ending(old, &before);
            let decision = decide::replace(now, &ending, hold, admission, &mut open);
            if !decision.admitted {
                return Admitted { decision, part: None };
            }
            known.end(old.reservation, now);
            drop(known);
            open.ended(old, &before);
            let part = open.hold(admission, &decision);
            open.sweep(tell.is_some());
            if let Some(tell) = tell.filter(|_| !open.changes.is_empty()) {
                tell(std::mem::take(&mut open.changes));
            }
            return Admitted { decision, part };
        }
    }

    /// Takes an admission back, as if it had never been.
    pub fn release(&self, admission: &Admission, decision: &Decision, part: Option<u8>, now: Option<Timestamp>) {
        let (reservation, customer) = (admission.reservation, admission.customer.clone());
        let settlement = Settlement { reservation, customer, lines: admission.lines(decision) };
        let mut open = self.open(admission.claims.iter().collect(), now);
        decide::settle(open.now, &settlement, Hold::AsClaimed, &mut open);
        if let Some(part) = part {
            self.known.lock().unhold(reservation, part);
        }
    }

    /// Ends a reservation, once; one that ended before and holds something again gives that back. `tell` is called inside the lock when
    /// the journal must learn of it.
    pub fn settle(&self, settlement: &Settlement, now: Option<Timestamp>, tell: Option<impl FnOnce(Vec<Change>)>) {
        loop {
            let before = self.known.lock().standing(settlement.reservation);
            if before.ended && before.held.is_none() {
                return;
            }
            let mut open = self.open(touched(settlement, &before).collect(), now);
            let now = open.now;
            let mut known = self.known.lock();
            if known.standing(settlement.reservation) != before {
                continue;
            }
            known.end(settlement.reservation, now);
            drop(known);
            let (ending, hold) = ending(settlement, &before);
            decide::settle(now, &ending, hold, &mut open);
            open.ended(settlement, &before);
            open.sweep(tell.is_some());
            if let Some(tell) = tell.filter(|_| !open.changes.is_empty()) {
                tell(std::mem::take(&mut open.changes));
            }
            return;
        }
    }

    /// How the budgets and quotas of a scope stand.
    pub fn read(&self, scope: &ScopeKey) -> Vec<Balance> {
        let part = if scope.scope.is_customers() { &self.shards[self.shard(scope)] } else { &self.shared };
        let balance = |(limit, period): (LimitName, PeriodState)| Balance {
            limit,
            period: period.start,
            spent: period.spent,
            held: period.held,
        };
        let mut balances: Vec<_> = part.lock().budgets(scope).map(balance).collect();
        balances.sort_unstable_by_key(|balance| balance.limit);
        balances
    }

    /// How limits of a customer stand, and what its reservations hold. See [`crate::store::Ledger::look`].
    pub fn look(&self, look: &Look, now: Option<Timestamp>) -> Seen {
        let mut open = self.open(look.claims.iter().collect(), now);
        let at = open.now;
        let verdicts = decide::look(at, &look.claims, &mut open);
        // Inside the customer's lock, so that what limits say is held and what reservations hold is of one moment.
        let holds = self.known.lock().of(&look.customer);
        drop(open);
        Seen { at, verdicts, holds }
    }

    /// Books a balance read from the journal. Those of one limit come oldest first.
    pub fn load(&self, BalanceKey { scope, limit, period }: &BalanceKey, spent: u64) {
        let part = if scope.scope.is_customers() { &self.shards[self.shard(scope)] } else { &self.shared };
        let mut part = part.lock();
        let mut budget = match part.get(scope, *limit) {
            Some(State::Budget(budget)) => budget,
            _ => BudgetState::default(),
        };
        budget.previous = budget.current;
        budget.current = PeriodState { start: *period, spent, held: 0 };
        let owner = part.number_for(&scope.owner);
        part.put(owner, scope.scope, *limit, State::Budget(budget), None, self.clock.now());
    }

    /// Remembers a reservation that ended before the start.
    pub fn load_ended(&self, reservation: ReservationId, at: Timestamp) {
        self.known.lock().end(reservation, at);
    }

    /// How much there is.
    pub fn size(&self) -> Size {
        let owners = self.shards.iter().map(|shard| shard.lock().len()).sum();
        Size { in_flight: self.known.lock().in_flight(), owners }
    }

    /// The clock that decides.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Users live with their customer.
    pub(super) fn shard(&self, scope: &ScopeKey) -> usize {
        let customer = scope.owner.split_once('/').map_or(&*scope.owner, |(customer, _)| customer);
        // The remainder is below `SHARDS`, so it fits any `usize`.
        usize::try_from(self.hasher.hash_one(customer) % SHARDS as u64).unwrap_or(0)
    }

    /// Locks what the claims touch and reads the clock.
    fn open<'a>(&'a self, claims: Vec<&'a Claim>, now: Option<Timestamp>) -> Open<'a> {
        // Claims of one owner stand together and nearly always share its name, which is then hashed once.
        let mut shards: Vec<usize> = Vec::with_capacity(1);
        let mut last: Option<&Arc<str>> = None;
        for scope in claims.iter().map(|claim| &claim.scope).filter(|scope| scope.scope.is_customers()) {
            if last.is_none_or(|last| !Arc::ptr_eq(last, &scope.owner)) {
                last = Some(&scope.owner);
                let shard = self.shard(scope);
                if !shards.contains(&shard) {
                    shards.push(shard);
                }
            }
        }
        // The order in which all lock them.
        shards.sort_unstable();
        let shards = shards.into_iter().map(|shard| (shard, self.shards[shard].lock())).collect();
        let shared = claims.iter().any(|c| !c.scope.scope.is_customers()).then(|| self.shared.lock());
        let now = now.unwrap_or_else(|| self.clock.now());
        Open { books: self, shards, shared, claims, now, changes: Vec::with_capacity(CHANGES), found: Vec::with_capacity(OWNERS) }
    }
}

/// What the end of a reservation touches: what it claimed, and what it holds.
fn touched<'a>(settlement: &'a Settlement, known: &'a Standing) -> impl Iterator<Item = &'a Claim> {
    let held = known.held.iter().flat_map(|held| &held.lines);
    settlement.lines.iter().chain(held).map(|line| &line.claim)
}

/// What is booked of an end. Of a reservation that ended before that is nothing; it gives back what it holds again.
fn ending<'a>(settlement: &'a Settlement, known: &'a Standing) -> (Cow<'a, Settlement>, Hold<'a>) {
    let hold = known.held.as_ref().map_or(Hold::Unknown, |held| Hold::Of(&held.lines));
    if known.ended {
        let (reservation, customer) = (settlement.reservation, settlement.customer.clone());
        return (Cow::Owned(Settlement { reservation, customer, lines: Vec::new() }), hold);
    }
    (Cow::Borrowed(settlement), hold)
}
