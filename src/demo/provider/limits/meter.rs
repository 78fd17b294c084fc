//! One limit of an account, and the three ways in which providers are seen to enforce one.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// How an account holds to its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// A bucket of the limit's size, refilled steadily: what the headers of the real ones describe. A minute's worth at once passes.
    #[default]
    Bucket,
    /// A sixtieth of the limit in each second. What is larger than that may have a second to itself.
    Second,
    /// No more than the limit in any 60 seconds.
    Minute,
}

/// Levels count in 60-billionths: a bucket of `limit` per minute gains `limit` of them per nanosecond.
const UNIT: i128 = 60_000_000_000;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Meter {
    pub(super) limit: u64,
    at: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Bucket(i128),
    /// When the second began, and what was counted in it.
    Second(Instant, u64),
    /// What was counted when in the last minute, and the sum.
    Minute(VecDeque<(Instant, u64)>, u64),
}

impl Meter {
    pub(super) fn new(limit: u64, window: Window, at: Instant) -> Self {
        let state = match window {
            Window::Bucket => State::Bucket(i128::from(limit) * UNIT),
            Window::Second => State::Second(at, 0),
            Window::Minute => State::Minute(VecDeque::new(), 0),
        };
        Self { limit, at, state }
    }

    /// Lets time pass up to `now`.
    pub(super) fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.at = self.at.max(now);
        match &mut self.state {
            State::Bucket(level) => {
                let gain = passed.as_nanos() as i128 * i128::from(self.limit);
                *level = (*level + gain).min(i128::from(self.limit) * UNIT);
            }
            State::Second(began, used) => {
                let whole = self.at.saturating_duration_since(*began).as_secs();
                if whole > 0 {
                    *began += Duration::from_secs(whole);
                    *used = 0;
                }
            }
            State::Minute(entries, sum) => {
                while let Some((_, amount)) = entries.front().filter(|(then, _)| *then + MINUTE <= self.at) {
                    *sum -= amount;
                    entries.pop_front();
                }
            }
        }
    }

    /// How long until `amount` fits: `None` when it never will.
    pub(super) fn wait_for(&self, amount: u64) -> Option<Duration> {
        match &self.state {
            State::Bucket(level) => {
                let missing = i128::from(amount) * UNIT - level;
                if missing <= 0 {
                    Some(Duration::ZERO)
                } else if amount > self.limit {
                    None
                } else {
                    let nanos = (missing + i128::from(self.limit) - 1) / i128::from(self.limit);
                    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
                }
            }
            State::Second(began, used) => {
                let fits = *used == 0 || used.saturating_add(amount).saturating_mul(60) <= self.limit;
                Some(if fits { Duration::ZERO } else { (*began + SECOND).saturating_duration_since(self.at) })
            }
            State::Minute(entries, sum) => {
                if amount > self.limit {
                    return None;
                }
                let mut excess = sum.saturating_add(amount).saturating_sub(self.limit);
                for (then, counted) in entries {
                    if excess == 0 {
                        return Some(Duration::ZERO);
                    }
                    excess = excess.saturating_sub(*counted);
                    if excess == 0 {
                        return Some((*then + MINUTE).saturating_duration_since(self.at));
                    }
                }
                Some(Duration::ZERO)
            }
        }
    }

    /// Counts `amount`. A bucket may go into debt by it.
    pub(super) fn take(&mut self, amount: u64) {
        match &mut self.state {
            State::Bucket(level) => *level -= i128::from(amount) * UNIT,
            State::Second(_, used) => *used = used.saturating_add(amount),
            State::Minute(entries, sum) => {
                entries.push_back((self.at, amount));
                *sum += amount;
            }
        }
    }

    /// Counts a request that was refused: a bucket gives what it has.
    pub(super) fn take_refused(&mut self, amount: u64) {
        let left = match self.state {
            State::Bucket(_) => self.standing().1,
            _ => u64::MAX,
        };
        self.take(amount.min(left));
    }

    /// Limit and what is left of it.
    pub(super) fn standing(&self) -> (u64, u64) {
        let left = match &self.state {
            State::Bucket(level) => u64::try_from(level / UNIT).unwrap_or(0),
            State::Second(_, used) => (self.limit / 60).saturating_sub(*used),
            State::Minute(_, sum) => self.limit.saturating_sub(*sum),
        };
        (self.limit, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_gives_a_sixtieth_and_a_large_one_has_a_second_to_itself() {
        let start = Instant::now();
        let mut meter = Meter::new(60_000, Window::Second, start);
        meter.take(600);
        assert_eq!(meter.wait_for(400), Some(Duration::ZERO));
        meter.pass(start + Duration::from_millis(300));
        assert_eq!(meter.wait_for(401), Some(Duration::from_millis(700)));
        meter.take_refused(401);
        assert_eq!(meter.wait_for(400), Some(Duration::from_millis(700)), "what was refused counts");
        meter.pass(start + SECOND);
        assert_eq!(meter.wait_for(5_000), Some(Duration::ZERO));
    }

    #[test]
    fn no_minute_has_more_than_the_limit() {
        let start = Instant::now();
        let mut meter = Meter::new(60_000, Window::Minute, start);
        meter.take(30_000);
        meter.pass(start + Duration::from_secs(30));
        meter.take(30_000);
        meter.pass(start + Duration::from_secs(59));
        assert_eq!(meter.wait_for(1), Some(SECOND));
        assert_eq!(meter.wait_for(30_001), Some(Duration::from_secs(31)));
        assert_eq!(meter.wait_for(60_001), None);
        meter.pass(start + MINUTE);
        assert_eq!(meter.wait_for(30_000), Some(Duration::ZERO), "what came first has left");
        assert_eq!(meter.standing(), (60_000, 30_000));
    }

    #[test]
    fn a_bucket_that_counts_what_it_refuses_is_empty_and_not_in_debt() {
        let start = Instant::now();
        let mut meter = Meter::new(60, Window::Bucket, start);
        meter.take(50);
        meter.take_refused(20);
        assert_eq!(meter.standing(), (60, 0));
        assert_eq!(meter.wait_for(1), Some(SECOND));
    }
}
