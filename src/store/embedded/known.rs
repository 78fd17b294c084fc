//! Which reservations hold money, and which ended lately: what makes a settlement count once.

use crate::domain::{NanoUsd, ReservationId, Timestamp};
use crate::limit::{Line, Measure, Scope, ScopeKey};
use crate::store::Holding;
use foldhash::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long an ended reservation is remembered, microseconds.
pub const REMEMBERED: u64 = 3_600_000_000;

/// How many ended reservations are remembered at most (some 10 MB): far more than can wait in a settlement queue to be repeated.
const MOST: usize = 1 << 17;

/// The reservations the store knows.
#[derive(Default)]
pub struct Known {
    held: HashMap<ReservationId, Arc<Held>>,
    ended: HashSet<ReservationId>,
    order: VecDeque<(Timestamp, ReservationId)>,
}

/// What a reservation holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many holds it has in the journal.
    pub parts: u8,
    /// The budget lines of all of them.
    pub lines: Vec<Line>,
    /// Where among the lines those of each part end.
    ends: Vec<usize>,
}

/// What is known of a reservation. Compared at little cost as long as nothing has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether it ended before.
    pub ended: bool,
    /// What it holds, perhaps again after it ended.
    pub held: Option<Arc<Held>>,
}

impl Known {
    /// A further hold of a reservation, of these budget lines: gives the number of its part.
    pub fn hold(&mut self, id: ReservationId, lines: impl IntoIterator<Item = Line>) -> u8 {
        let held = Arc::make_mut(self.held.entry(id).or_default());
        let part = held.parts;
        // A request is admitted once per attempt; beyond 255 the last part is simply written again.
        held.parts = held.parts.saturating_add(1);
        held.lines.extend(lines);
        held.ends.push(held.lines.len());
        part
    }

    /// Takes back the last hold of a reservation, whose part is `part`.
    pub fn unhold(&mut self, id: ReservationId, part: u8) {
        match self.held.get_mut(&id) {
            Some(held) if part > 0 => {
                let held = Arc::make_mut(held);
                held.parts = part;
                held.ends.truncate(usize::from(part));
                held.lines.truncate(held.ends.last().copied().unwrap_or(0));
            }
            _ => drop(self.held.remove(&id)),
        }
    }

    /// What is known of a reservation.
    pub fn standing(&self, id: ReservationId) -> Standing {
        Standing { ended: self.ended.contains(&id), held: self.held.get(&id).cloned() }
    }

    /// Ends a reservation: whatever it held is its caller's to give back.
    pub fn end(&mut self, id: ReservationId, now: Timestamp) {
        self.held.remove(&id);
        if self.ended.contains(&id) {
            return;
        }
        // The oldest go first, so that neither list ever doubles for one more than it holds at most.
        while self.order.front().is_some_and(|(at, _)| now.since(*at) > REMEMBERED || self.order.len() >= MOST) {
            if let Some((_, old)) = self.order.pop_front() {
                self.ended.remove(&old);
            }
        }
        self.ended.insert(id);
        self.order.push_back((now, id));
    }

    /// What the reservations of a customer hold, by reservation. Looks at all there are.
    pub fn of(&self, customer: &ScopeKey) -> Vec<Holding> {
        let whose = |line: &Line| match line.claim.scope.scope {
            Scope::Customer => line.claim.scope.owner == customer.owner,
            Scope::User => line.claim.scope.owner.split_once('/').is_some_and(|(owner, _)| *owner == *customer.owner),
            _ => false,
        };
        let holding = |(id, held): (&ReservationId, &Arc<Held>)| {
            let money = held.lines.iter().filter(|line| line.claim.measure == Measure::Money);
            let money = money.map(|line| line.claim.amount).max().unwrap_or(0);
            let own = held.lines.iter().any(whose);
            own.then(|| Holding { reservation: *id, until: None, money: NanoUsd::new(money) })
        };
        let mut holds: Vec<_> = self.held.iter().filter_map(holding).collect();
        holds.sort_unstable_by_key(|hold| hold.reservation.bits());
        holds
    }

    /// How many reservations hold money.
    pub fn in_flight(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Boundaries, Period};
    use crate::limit::{Claim, LimitName, Measure, Rule, Scope, ScopeKey};

    const fn id(n: u128) -> ReservationId {
        ReservationId::new(n)
    }

    fn line(amount: u64) -> Line {
        let scope = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let rule = Rule::Budget { cap: 1_000, boundaries: Boundaries([0, 1, 2, 3]) };
        let claim = Claim { scope, limit: LimitName::Spend(Period::Day), rule, measure: Measure::Money, amount };
        Line { claim, actual: 0, booked: 1 }
    }

    fn amounts(known: &Known, n: u128) -> Option<(u8, Vec<u64>)> {
        let held = known.standing(id(n)).held?;
        Some((held.parts, held.lines.iter().map(|line| line.claim.amount).collect()))
    }

    #[test]
    fn a_reservation_ends_once_until_it_is_forgotten() {
        let mut known = Known::default();
        assert_eq!((known.hold(id(1), [line(5)]), known.hold(id(1), [line(7), line(8)])), (0, 1));
        assert_eq!((amounts(&known, 1), amounts(&known, 2)), (Some((2, vec![5, 7, 8])), None));
        known.end(id(1), Timestamp(0));
        assert_eq!(known.standing(id(1)), Standing { ended: true, held: None });
        known.hold(id(1), [line(9)]);
        assert_eq!((known.standing(id(1)).ended, amounts(&known, 1)), (true, Some((1, vec![9]))), "it holds again");
        known.end(id(1), Timestamp(REMEMBERED));
        assert!(known.standing(id(1)).ended);
        known.end(id(2), Timestamp(REMEMBERED + 1));
        assert!(!known.standing(id(1)).ended, "forgotten an hour after it first ended");
    }

    #[test]
    fn memory_is_bounded() {
        let mut known = Known::default();
        for n in 0..=MOST as u128 {
            known.end(id(n), Timestamp(0));
        }
        assert_eq!((known.ended.len(), known.order.len()), (MOST, MOST));
        assert!(known.order.capacity() <= MOST, "it did not double for the last one");
    }

    #[test]
    fn a_hold_taken_back_was_never_there() {
        let mut known = Known::default();
        known.hold(id(1), [line(5)]);
        let second = known.hold(id(1), [line(7)]);
        known.unhold(id(1), second);
        assert_eq!(amounts(&known, 1), Some((1, vec![5])));
        assert_eq!(known.hold(id(1), [line(9)]), 1);
        assert_eq!(amounts(&known, 1), Some((2, vec![5, 9])));
        known.unhold(id(2), 0);
        assert_eq!(known.standing(id(2)), Standing::default());
    }
}
