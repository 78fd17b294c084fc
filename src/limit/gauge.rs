//! How much of a limit was used in the trailing minute.

use crate::domain::Timestamp;

/// Seconds looked back.
const SLOTS: u64 = 60;

/// The use of one limit, second by second. What was used more than a minute ago is forgotten.
#[derive(Clone, Debug)]
pub struct Gauge {
    slots: [u64; SLOTS as usize],
    /// The newest second seen.
    newest: u64,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { slots: [0; SLOTS as usize], newest: 0 }
    }
}

impl Gauge {
    /// This much is used at `now`.
    pub fn add(&mut self, now: Timestamp, amount: u64) {
        self.turn_to(now.secs());
        if let Some(slot) = self.slot(now) {
            *slot = slot.saturating_add(amount);
        }
    }

    /// What was taken for `expected` at `at` turned out to be `actual`.
    pub fn correct(&mut self, at: Timestamp, expected: u64, actual: u64) {
        if let Some(slot) = self.slot(at) {
            *slot = slot.saturating_sub(expected).saturating_add(actual);
        }
    }

    /// What was used in the minute that ends at `now`.
    pub fn used(&mut self, now: Timestamp) -> u64 {
        self.turn_to(now.secs());
        self.slots.iter().fold(0, |sum, slot| sum.saturating_add(*slot))
    }

    /// The slot of an instant, unless its minute is over.
    fn slot(&mut self, at: Timestamp) -> Option<&mut u64> {
        let second = at.secs();
        let in_sight = second + SLOTS > self.newest && second <= self.newest;
        in_sight.then(|| &mut self.slots[(second % SLOTS) as usize])
    }

    /// Forgets what is too old at this second. A clock that was set back by more than the minute starts anew.
    fn turn_to(&mut self, second: u64) {
        if second + SLOTS <= self.newest {
            *self = Self { newest: second, ..Self::default() };
            return;
        }
        let from = self.newest.saturating_add(1).max(second.saturating_sub(SLOTS - 1));
        for passed in from..=second {
            self.slots[(passed % SLOTS) as usize] = 0;
        }
        self.newest = self.newest.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    #[test]
    fn sums_the_last_sixty_seconds() {
        let mut gauge = Gauge::default();
        for second in 1_000..1_120 {
            gauge.add(at(second), second);
        }
        assert_eq!(gauge.used(at(1_119)), (1_060..1_120).sum::<u64>());
        assert_eq!(gauge.used(at(1_120)), (1_061..1_120).sum::<u64>(), "the oldest second has left");
        assert_eq!(gauge.used(at(1_178)), 1_119);
        assert_eq!(gauge.used(at(1_179)), 0);
        assert_eq!(gauge.used(at(9_000)), 0);
    }

    #[test]
    fn what_was_expected_gives_way_to_what_was_used() {
        let mut gauge = Gauge::default();
        gauge.add(at(100), 5_000);
        gauge.add(at(130), 1_000);
        gauge.correct(at(100), 5_000, 700);
        assert_eq!(gauge.used(at(131)), 1_700);
        gauge.correct(at(60), 5_000, 0);
        assert_eq!(gauge.used(at(131)), 1_700, "older than the minute");
        assert_eq!(gauge.used(at(160)), 1_000, "each at its own second");
    }

    #[test]
    fn a_clock_set_back_starts_anew_and_never_overflows() {
        let mut gauge = Gauge::default();
        gauge.add(at(10_000), u64::MAX);
        gauge.add(at(10_000), u64::MAX);
        assert_eq!(gauge.used(at(10_000)), u64::MAX);
        gauge.add(at(5_000), 7);
        assert_eq!(gauge.used(at(5_000)), 7);
    }
}
