//! Whether and when to try again: a number of attempts, a budget of time, and what the provider said about when to come back.
//!
//! A stated wait is a lower bound: a provider that says two seconds means two, and a hundred clients that come back after exactly two
//! seconds are the next peak, so up to a tenth more is added by chance. Without a stated wait the whole of a growing interval is left to
//! chance. A wait that does not fit into what is left of the budget ends the retries *before* it, not after it.
//!
//! Pure: the dice are passed in.

use std::time::Duration;

/// The longest wait before the first retry that nobody stated; doubles with each.
const FIRST: Duration = Duration::from_millis(500);
/// No wait is shorter: a provider that says "now" while it refuses gets no tight loop.
const SHORTEST: Duration = Duration::from_millis(100);
/// A throw of the dice is a number below this.
pub const DICE: u32 = 1_000_000;

/// How much is spent on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Further attempts after the first.
    pub retries: u32,
    /// Time, from the first attempt on: waits, and attempts that failed.
    pub time: Duration,
}

/// Why there is no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All were made.
    Retries,
    /// The next wait would not end within the budget.
    Time,
}

impl Budget {
    /// The wait before the next attempt. `made` retries were made, `elapsed` is the time spent so far, `stated` what the provider said,
    /// `dice` a random number below [`DICE`].
    ///
    /// # Errors
    /// [`Stop`].
    pub fn next(&self, made: u32, elapsed: Duration, stated: Option<Duration>, dice: u32) -> Result<Duration, Stop> {
        if made >= self.retries {
            return Err(Stop::Retries);
        }
        let wait = match stated {
            Some(least) => least.saturating_add(part_of(least / 10, dice)),
            None => part_of(FIRST.saturating_mul(1 << made.min(16)), dice),
        };
        let wait = wait.max(SHORTEST);
        if elapsed.saturating_add(wait) > self.time { Err(Stop::Time) } else { Ok(wait) }
    }

    /// What is left of the time.
    #[must_use]
    pub const fn left(&self, elapsed: Duration) -> Duration {
        self.time.saturating_sub(elapsed)
    }
}

/// `dice`/[`DICE`] of a duration; for durations that are too long for that to matter, all of it.
fn part_of(whole: Duration, dice: u32) -> Duration {
    whole.checked_mul(dice.min(DICE)).map_or(whole, |product| product / DICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIX: Budget = Budget { retries: 2, time: Duration::from_secs(6) };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_stated_wait_is_a_lower_bound_and_an_unstated_one_is_left_to_chance() {
        for (made, stated, dice, right) in [
            (0, Some(ms(2_000)), 0, ms(2_000)),
            (0, Some(ms(2_000)), DICE, ms(2_200)),
            (1, Some(ms(2_000)), DICE / 2, ms(2_100)),
            (0, Some(Duration::ZERO), DICE, ms(100)),
            (0, Some(ms(30)), 0, ms(100)),
            (0, None, 0, ms(100)),
            (0, None, DICE / 2, ms(250)),
            (0, None, DICE, ms(500)),
            (1, None, DICE, ms(1_000)),
        ] {
            assert_eq!(SIX.next(made, Duration::ZERO, stated, dice), Ok(right), "{made} {stated:?} {dice}");
        }
    }

    #[test]
    fn the_retries_end_before_a_wait_that_does_not_fit() {
        for (made, elapsed, stated, right) in [
            (0, ms(0), Some(ms(6_000)), Ok(ms(6_000))),
            (0, ms(1), Some(ms(6_000)), Err(Stop::Time)),
            (0, ms(0), Some(ms(60_000)), Err(Stop::Time)),
            (0, ms(0), Some(Duration::MAX), Err(Stop::Time)),
            (1, ms(4_000), Some(ms(4_000)), Err(Stop::Time)),
            (0, Duration::MAX, None, Err(Stop::Time)),
            (2, ms(0), None, Err(Stop::Retries)),
            (u32::MAX, ms(0), None, Err(Stop::Retries)),
        ] {
            assert_eq!(SIX.next(made, elapsed, stated, 0), right, "{made} {elapsed:?} {stated:?}");
        }
        assert_eq!(Budget { retries: u32::MAX, ..SIX }.next(40, ms(0), None, DICE), Err(Stop::Time), "no overflow");
    }

    proptest! {
        #[test]
        fn all_waits_together_fit_the_budget(
            retries in 0_u32..12,
            time in 0_u64..60_000,
            steps in proptest::collection::vec((proptest::option::of(0_u64..20_000), 0..=DICE, 0_u64..5_000), 1..20),
        ) {
            let budget = Budget { retries, time: ms(time) };
            let (mut elapsed, mut waited, mut made) = (Duration::ZERO, Duration::ZERO, 0);
            for (stated, dice, attempt) in steps {
                elapsed += ms(attempt);
                let stated = stated.map(ms);
                let Ok(wait) = budget.next(made, elapsed, stated, dice) else { break };
                prop_assert!(wait >= ms(100) && wait >= stated.unwrap_or_default());
                prop_assert!(wait <= stated.map_or(ms(500 << made), |least| least + least / 10).max(ms(100)));
                made += 1;
                waited += wait;
                elapsed += wait;
            }
            prop_assert!(made <= retries && waited <= budget.time);
        }
    }
}
