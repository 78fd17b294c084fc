//! Which reservations hold money, and which ended lately: what makes a settlement count once.

use crate::domain::{ReservationId, Timestamp};
use std::collections::{HashMap, HashSet, VecDeque};

/// How long an ended reservation is remembered, microseconds.
pub const REMEMBERED: u64 = 3_600_000_000;

/// How many ended reservations are remembered at most (some 10 MB): far more than can wait in a settlement queue to be repeated.
const MOST: usize = 1 << 17;

/// The reservations the store knows.
#[derive(Default)]
pub struct Known {
    /// How many holds a reservation has in the journal.
    held: HashMap<ReservationId, u8>,
    ended: HashSet<ReservationId>,
    order: VecDeque<(Timestamp, ReservationId)>,
}

impl Known {
    /// A further hold of a reservation: gives the number of its part.
    pub fn hold(&mut self, id: ReservationId) -> u8 {
        let parts = self.held.entry(id).or_default();
        let part = *parts;
        // A request is admitted once per attempt; beyond 255 the last part is simply written again.
        *parts = parts.saturating_add(1);
        part
    }

    /// Takes back the last hold of a reservation, whose part is `part`.
    pub fn unhold(&mut self, id: ReservationId, part: u8) {
        match self.held.get_mut(&id) {
            Some(parts) if part > 0 => *parts = part,
            _ => drop(self.held.remove(&id)),
        }
    }

    /// How many holds a reservation has; `None` when it has ended.
    pub fn holds(&self, id: ReservationId) -> Option<u8> {
        (!self.ended.contains(&id)).then(|| self.held.get(&id).copied().unwrap_or(0))
    }

    /// Ends a reservation: how many holds it had, or `None` when it had ended before.
    pub fn end(&mut self, id: ReservationId, now: Timestamp) -> Option<u8> {
        if !self.ended.insert(id) {
            return None;
        }
        self.order.push_back((now, id));
        while self.order.front().is_some_and(|(at, _)| now.since(*at) > REMEMBERED || self.order.len() > MOST) {
            if let Some((_, old)) = self.order.pop_front() {
                self.ended.remove(&old);
            }
        }
        Some(self.held.remove(&id).unwrap_or(0))
    }

    /// How many reservations hold money.
    pub fn in_flight(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(n: u128) -> ReservationId {
        ReservationId::new(n)
    }

    #[test]
    fn a_reservation_ends_once_until_it_is_forgotten() {
        let mut known = Known::default();
        assert_eq!((known.hold(id(1)), known.hold(id(1))), (0, 1));
        assert_eq!((known.holds(id(1)), known.holds(id(2))), (Some(2), Some(0)));
        assert_eq!(known.end(id(1), Timestamp(0)), Some(2));
        assert_eq!(known.end(id(1), Timestamp(REMEMBERED)), None, "settled before");
        assert_eq!(known.holds(id(1)), None, "settled before");
        assert_eq!(known.end(id(2), Timestamp(REMEMBERED + 1)), Some(0), "never held");
        assert_eq!(known.end(id(1), Timestamp(REMEMBERED + 2)), Some(0), "forgotten after an hour");
    }

    #[test]
    fn memory_is_bounded() {
        let mut known = Known::default();
        for n in 0..=MOST as u128 {
            assert!(known.end(id(n), Timestamp(0)).is_some());
        }
        assert_eq!((known.ended.len(), known.order.len()), (MOST, MOST));
    }

    #[test]
    fn a_hold_taken_back_was_never_there() {
        let mut known = Known::default();
        known.hold(id(1));
        let second = known.hold(id(1));
        known.unhold(id(1), second);
        assert_eq!(known.hold(id(1)), 1);
        known.unhold(id(2), 0);
        assert_eq!(known.end(id(2), Timestamp(0)), Some(0));
    }
}
