//! What the store does not know, or may know without our knowledge: requests admitted alone, and admissions nobody waited for.

use crate::domain::{Clock, ReservationId, Timestamp};
use crate::limit::{Admission, Claim, Decision, LimitName, Line, Rule, ScopeKey, Settlement};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A rate is a matter of the last minute: what was used before that has come back.
const RATE_MATTERS: u64 = 60_000_000;
/// Abandoned admissions that are remembered; the holds of more end with their leases.
const MOST_ORPHANS: usize = 10_000;

/// Requests admitted alone that are not settled yet.
#[derive(Default)]
pub struct TakenAlone(Mutex<HashMap<ReservationId, Taken>>);

struct Taken {
    /// What it claimed alone: an admission of the store before it (or after it, once that is back) is not in it.
    claims: Vec<Claim>,
    at: Timestamp,
    /// In which outage: another one's share has nothing to do with it.
    outage: u64,
    /// Whether the store may have taken it too.
    silent: bool,
    settled_here: bool,
}

impl TakenAlone {
    /// How a request admitted alone is settled if nothing better is heard of it: the budgets, as held.
    pub fn as_held(admission: &Admission, decision: &Decision) -> Settlement {
        let mut lines = admission.lines(decision);
        lines.retain(|line| line.claim.is_budget());
        lines.iter_mut().for_each(|line| line.actual = line.claim.amount);
        Settlement { reservation: admission.reservation, customer: admission.customer.clone(), lines }
    }

    /// A request was admitted alone, in this outage.
    pub fn took(&self, admission: &Admission, at: Timestamp, outage: u64, silent: bool) {
        let fresh = || Taken { claims: Vec::new(), at, outage, silent: false, settled_here: false };
        let mut all = self.0.lock();
        let taken = all.entry(admission.reservation).or_insert_with(fresh);
        taken.claims.extend_from_slice(&admission.claims);
        taken.silent |= silent;
    }

    /// Whether it, or a part of it, was admitted alone.
    pub fn knows(&self, reservation: ReservationId) -> bool {
        self.0.lock().contains_key(&reservation)
    }

    /// The batch as it is to be told to the store, and which of it was admitted alone. Each of those is first given to `here`,
    /// with the number of its outage, to be settled against the share, once.
    ///
    /// The store has taken nothing of an admission made alone, so there is nothing to give back either. What it used of the budgets is
    /// booked; if the store was silent and may hold them after all, the hold it then has is the one first asked for. What it used of
    /// the rates counts only while that is recent.
    pub fn as_the_store_knows<'a>(
        &self,
        batch: &'a [Settlement],
        now: Timestamp,
        mut here: impl FnMut(u64, &Settlement),
    ) -> (Cow<'a, [Settlement]>, Vec<ReservationId>) {
        let mut all = self.0.lock();
        if all.is_empty() {
            return (Cow::Borrowed(batch), Vec::new());
        }
        let (mut batch, mut alone) = (Cow::Borrowed(batch), Vec::new());
        for i in 0..batch.len() {
            let Some(taken) = all.get_mut(&batch[i].reservation) else { continue };
            alone.push(batch[i].reservation);
            if !std::mem::replace(&mut taken.settled_here, true) {
                here(taken.outage, &Settlement { lines: taken.own(&batch[i].lines), ..batch[i].clone() });
            }
            let settlement = &mut batch.to_mut()[i];
            settlement.lines = taken.told(std::mem::take(&mut settlement.lines), now);
        }
        (batch, alone)
    }

    /// These are settled, or their settlements are safe.
    pub fn settled(&self, ids: &[ReservationId]) {
        if ids.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        ids.iter().for_each(|id| drop(all.remove(id)));
    }
}

impl Taken {
    fn claimed(&self, scope: &ScopeKey, limit: LimitName) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.limit == limit && claim.scope == *scope)
    }

    /// The lines that were admitted alone.
    fn own(&self, lines: &[Line]) -> Vec<Line> {
        lines.iter().filter(|line| self.claimed(&line.claim.scope, line.claim.limit).is_some()).cloned().collect()
    }

    fn told(&self, lines: Vec<Line>, now: Timestamp) -> Vec<Line> {
        let recent = !self.silent && now.since(self.at) < RATE_MATTERS;
        let told = |mut line: Line| {
            let Some(asked) = self.claimed(&line.claim.scope, line.claim.limit) else { return Some(line) };
            line.claim.amount = if line.claim.is_budget() { asked.amount } else { 0 };
            (line.claim.is_budget() || recent).then_some(line)
        };
        lines.into_iter().filter_map(told).collect()
    }
}

/// Admissions whose callers left before the store had answered, or that were refused after the store was silent: should it hold them,
/// it is to give them back.
#[derive(Default)]
pub struct Orphans(Mutex<Vec<(Instant, Settlement)>>);

/// Leaves an orphan unless the answer is heard.
pub struct UnlessHeard<'a> {
    orphans: &'a Orphans,
    admission: Option<&'a Admission>,
    clock: &'a dyn Clock,
    left: &'a Notify,
}

impl Orphans {
    /// Guards a call to the store.
    pub const fn unless_heard<'a>(&'a self, admission: &'a Admission, clock: &'a dyn Clock, left: &'a Notify) -> UnlessHeard<'a> {
        UnlessHeard { orphans: self, admission: Some(admission), clock, left }
    }

    /// Remembers one. Only the budgets: rates that were not taken must not be given back, and those that were come back by themselves.
    pub fn leave(&self, admission: &Admission, now: Timestamp) {
        let line = |claim: &Claim| match claim.rule {
            Rule::Budget { boundaries, .. } => Some(Line { claim: claim.clone(), actual: 0, booked: boundaries.at(now).0 }),
            Rule::Bucket { .. } | Rule::Window { .. } => None,
        };
        let lines: Vec<_> = admission.claims.iter().filter_map(line).collect();
        let mut all = self.0.lock();
        if !lines.is_empty() && all.len() < MOST_ORPHANS {
            let (reservation, customer) = (admission.reservation, admission.customer.clone());
            all.push((Instant::now(), Settlement { reservation, customer, lines }));
        }
    }

    /// Takes at most `most` of those left before `before`: what was sent then has arrived, if it ever does.
    pub fn take(&self, before: Instant, most: usize) -> Vec<Settlement> {
        let mut all = self.0.lock();
        let due = all.iter().take_while(|(left, _)| *left <= before).count().min(most);
        all.drain(..due).map(|(_, settlement)| settlement).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl UnlessHeard<'_> {
    /// The answer is heard.
    pub fn heard(mut self) {
        self.admission = None;
    }
}

impl Drop for UnlessHeard<'_> {
    fn drop(&mut self) {
        if let Some(admission) = self.admission {
            self.orphans.leave(admission, self.clock.now());
            self.left.notify_one();
        }
    }
}
