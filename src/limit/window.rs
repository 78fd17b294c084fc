//! The sliding window: at most `limit` in any 60 seconds, kept in one-second slots.
//!
//! Conservative: a slot counts until its *last* instant has left the window, so 61 slots are summed and the limit holds in every real
//! 60 s, at the cost of up to one second of room.

use super::bucket::{Fit, JITTER_MICROS};
use crate::domain::Timestamp;
use std::collections::VecDeque;

/// Seconds a slot stays in the sum after its own second.
const SPAN: u64 = 60;

/// Slots in use, oldest first: second and amount. A claim that waits stands in the slot in which it starts. None is empty: a slot that
/// holds nothing would make others wait behind nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    /// When it was last looked at: what tells slots of those who wait from those of a clock that was set back.
    at: Timestamp,
    slots: VecDeque<(u64, u64)>,
}

impl WindowState {
    /// Moves on to `now`, and forgets what has left the window.
    ///
    /// A clock that lags a little changes nothing. One that was set back takes the slots along by as many seconds, so that nobody is
    /// locked out for the difference and nothing of the last minute is forgotten.
    pub fn advance(&mut self, now: Timestamp) {
        let back = self.at.since(now);
        if back > JITTER_MICROS {
            let seconds = self.at.secs() - now.secs();
            self.slots.iter_mut().for_each(|(second, _)| *second = second.saturating_sub(seconds));
        }
        if back == 0 || back > JITTER_MICROS {
            self.at = now;
        }
        while self.slots.front().is_some_and(|(second, _)| second + SPAN < now.secs()) {
            self.slots.pop_front();
        }
    }

    /// How many slots are in use.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// What counts against the limit for a start in `second`.
    fn sum_at(&self, second: u64) -> u64 {
        self.slots.iter().filter(|(slot, _)| slot + SPAN >= second).map(|(_, amount)| amount).sum()
    }

    /// The first second at or after `now`, and not before anybody already in line, in which `amount` fits.
    fn first_fit(&self, limit: u64, now: Timestamp, amount: u64) -> u64 {
        let mut start = self.slots.back().map_or(now.secs(), |(newest, _)| now.secs().max(*newest));
        let mut slots = self.slots.iter();
        while self.sum_at(start) + amount > limit {
            // Only the oldest slot's leaving makes room.
            match slots.next() {
                Some((second, _)) => start = start.max(second + SPAN + 1),
                None => break,
            }
        }
        start
    }

    /// Whether `amount` fits an advanced window of `limit`, waiting at most `max_wait` microseconds.
    #[must_use]
    pub fn fit(&self, limit: u64, now: Timestamp, amount: u64, max_wait: u64) -> Fit {
        if amount > limit {
            return Fit::Never;
        }
        match Timestamp::from_secs(self.first_fit(limit, now, amount)).since(now) {
            0 => Fit::Now,
            wait if wait <= max_wait => Fit::Starts(wait),
            wait => Fit::Refused(wait - max_wait),
        }
    }

    /// Books `amount` in `second`, which is not before the newest slot.
    pub fn take(&mut self, second: u64, amount: u64) {
        match self.slots.back_mut() {
            _ if amount == 0 => {}
            Some((newest, sum)) if *newest >= second => *sum += amount,
            _ => self.slots.push_back((second, amount)),
        }
    }

    /// Corrects `claimed` in slot `second` to `actual`: a refund only while the slot is inside the window, an overrun in the present.
    pub fn correct(&mut self, now: Timestamp, second: u64, claimed: u64, actual: u64) {
        self.advance(now);
        if actual > claimed {
            self.take(now.secs(), actual - claimed);
        } else if let Some(slot) = self.slots.iter().position(|(slot, _)| *slot == second) {
            self.slots[slot].1 = self.slots[slot].1.saturating_sub(claimed - actual);
            if self.slots[slot].1 == 0 {
                self.slots.remove(slot);
            }
        }
    }

    /// What counts against the limit at `now`.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> u64 {
        self.sum_at(now.secs())
    }

    /// Microseconds until the window is empty.
    #[must_use]
    pub fn until_empty(&self, now: Timestamp) -> u64 {
        self.slots.back().map_or(0, |(newest, _)| Timestamp::from_secs(newest + SPAN + 1).since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp(1_000_000_000_000 + millis * 1_000)
    }

    #[test]
    fn no_minute_ever_sees_more_than_the_limit() {
        let mut window = WindowState::default();
        let mut admitted = Vec::new();
        for millis in (0..300_000).step_by(137) {
            window.advance(at(millis));
            if window.fit(10, at(millis), 1, 0) == Fit::Now {
                window.take(at(millis).secs(), 1);
                admitted.push(millis);
            }
        }
        for (i, start) in admitted.iter().enumerate() {
            let within = admitted[i..].iter().take_while(|t| **t - start < 60_000).count();
            assert!(within <= 10, "{within} from {start}");
        }
        assert!(admitted.len() >= 40, "five minutes of ten: {}", admitted.len());
    }

    #[test]
    fn the_wait_is_exact_and_waiters_stand_in_line() {
        let mut window = WindowState::default();
        window.take(at(0).secs(), 10);
        assert_eq!(window.fit(10, at(500), 1, 0), Fit::Refused(60_500_000));
        assert_eq!(window.fit(10, at(500), 1, 120_000_000), Fit::Starts(60_500_000));
        assert_eq!(window.fit(10, at(61_000), 1, 0), Fit::Now);
        assert_eq!(window.fit(10, at(500), 11, u64::MAX), Fit::Never);
        window.take(at(61_000).secs(), 5);
        assert_eq!(window.fit(10, at(60_900), 5, 0), Fit::Refused(100_000), "not before who waits already");
    }

    #[test]
    fn refunds_reach_only_slots_inside_the_window() {
        let mut window = WindowState::default();
        window.take(at(0).secs(), 10);
        window.correct(at(30_000), at(0).secs(), 10, 4);
        assert_eq!(window.used(at(30_000)), 4);
        window.correct(at(90_000), at(0).secs(), 4, 0);
        assert_eq!(window.used(at(90_000)), 0);
        window.correct(at(90_000), at(0).secs(), 4, 9);
        assert_eq!(window.used(at(90_000)), 5, "an overrun counts now");
    }

    #[test]
    fn nobody_waits_behind_a_place_that_was_given_back() {
        let mut window = WindowState::default();
        window.take(at(0).secs(), 10);
        window.take(at(61_000).secs(), 5);
        window.take(at(70_000).secs(), 0);
        assert_eq!(window.until_empty(at(0)), 122_000_000, "nothing was taken of a later second");
        window.correct(at(1_000), at(61_000).secs(), 5, 0);
        window.correct(at(2_000), at(0).secs(), 10, 0);
        assert_eq!((window.fit(10, at(2_000), 10, 0), window.until_empty(at(2_000)), window.slots()), (Fit::Now, 0, 0));
    }

    #[test]
    fn a_clock_set_back_locks_nobody_out_and_forgets_nothing() {
        let mut window = WindowState::default();
        window.advance(at(7_200_000));
        window.take(at(7_200_000).secs(), 6);
        window.take(at(7_210_000).secs(), 2);
        window.advance(at(7_199_500));
        assert_eq!(window.fit(10, at(7_199_500), 2, 0), Fit::Refused(10_500_000), "a lag moves nothing: behind who waits");
        window.advance(at(30_000));
        assert_eq!(window.used(at(30_000)), 8);
        assert_eq!(window.fit(10, at(30_000), 2, 0), Fit::Refused(10_000_000), "still behind who waits");
        window.advance(at(91_000));
        assert_eq!((window.used(at(91_000)), window.fit(10, at(91_000), 8, 0)), (2, Fit::Now));
    }
}
