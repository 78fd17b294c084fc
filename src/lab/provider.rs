//! The provider's side: an account that enforces its quota as a real one does, so that naive clients get real 429s.

use super::scenario::{Enforced, MINUTE, Provider};
use crate::domain::Timestamp;
use crate::limit::{Bucket, BucketState};
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000;

/// An account's quota while a run goes on.
pub struct Account {
    requests: Option<Meter>,
    tokens: Option<Meter>,
    counts_refused: bool,
}

/// One of its limits.
struct Meter {
    limit: u64,
    state: State,
}

enum State {
    Bucket(Bucket, Option<BucketState>),
    /// The second, and what was counted in it.
    Second(u64, u64),
    Minute(Trailing),
}

impl Account {
    /// A fresh account. A limit so odd that no bucket of it can be counted exactly is enforced in any 60 s instead.
    pub fn new(provider: &Provider) -> Self {
        let meter = |limit: u64| {
            let state = match provider.window {
                Enforced::Bucket => Bucket::new(limit, limit, MINUTE).map(|bucket| State::Bucket(bucket, None)).ok(),
                Enforced::Second => Some(State::Second(0, 0)),
                Enforced::Minute => None,
            };
            Meter { limit, state: state.unwrap_or_else(|| State::Minute(Trailing::default())) }
        };
        Self { requests: provider.rpm.map(meter), tokens: provider.tpm.map(meter), counts_refused: provider.counts_refused }
    }

    /// Whether a request of so many tokens would be accepted now, and if not, after how many microseconds it would.
    pub fn room(&mut self, at: u64, tokens: u64) -> Result<(), u64> {
        let meters = [(&mut self.requests, 1), (&mut self.tokens, tokens)];
        let waits = meters.into_iter().filter_map(|(meter, amount)| meter.as_mut().map(|meter| meter.wait(at, amount)));
        match waits.max().unwrap_or(0) {
            0 => Ok(()),
            wait => Err(wait),
        }
    }

    /// A call: accepted, or refused with the time after which it would be accepted.
    pub fn call(&mut self, at: u64, tokens: u64) -> Result<(), u64> {
        let room = self.room(at, tokens);
        if room.is_ok() || self.counts_refused {
            for (meter, amount) in [(&mut self.requests, 1), (&mut self.tokens, tokens)] {
                if let Some(meter) = meter {
                    meter.count(at, amount);
                }
            }
        }
        room
    }
}

impl Meter {
    fn wait(&mut self, at: u64, amount: u64) -> u64 {
        match &mut self.state {
            State::Bucket(bucket, state) => {
                let advanced = bucket.advance(*state, Timestamp(at));
                *state = Some(advanced);
                match bucket.fit(advanced, Timestamp(at), amount, 0) {
                    crate::limit::bucket::Fit::Refused(wait) => wait,
                    crate::limit::bucket::Fit::Never => MINUTE,
                    _ => 0,
                }
            }
            State::Second(second, used) => {
                if *second != at / SECOND {
                    (*second, *used) = (at / SECOND, 0);
                }
                // What is larger than a second's part of the quota may have a second to itself.
                let fits = *used == 0 || (*used + amount).saturating_mul(60) <= self.limit;
                if fits { 0 } else { SECOND - at % SECOND }
            }
            State::Minute(trailing) => trailing.wait(at, amount, self.limit),
        }
    }

    fn count(&mut self, at: u64, amount: u64) {
        match &mut self.state {
            State::Bucket(bucket, Some(state)) => bucket.take(state, amount.min(bucket.remaining(*state))),
            State::Bucket(_, None) => {}
            State::Second(_, used) => *used += amount,
            State::Minute(trailing) => trailing.add(at, amount),
        }
    }
}

/// What was counted in the last 60 s, to the microsecond, and the most there ever was.
#[derive(Clone, Debug, Default)]
pub struct Trailing {
    /// When, and all that was ever counted up to and with it: so that the instant at which there is room is found at once.
    entries: VecDeque<(u64, u64)>,
    counted: u64,
    forgotten: u64,
    /// The largest sum of any 60 s.
    pub most: u64,
}

impl Trailing {
    /// Counts `amount` now.
    pub fn add(&mut self, at: u64, amount: u64) {
        self.forget(at);
        self.counted += amount;
        self.entries.push_back((at, self.counted));
        self.most = self.most.max(self.counted - self.forgotten);
    }

    fn forget(&mut self, at: u64) {
        while let Some((_, up_to)) = self.entries.front().filter(|(then, _)| then + MINUTE <= at) {
            self.forgotten = *up_to;
            self.entries.pop_front();
        }
    }

    /// Microseconds until `amount` more stay within `limit`.
    fn wait(&mut self, at: u64, amount: u64, limit: u64) -> u64 {
        self.forget(at);
        let excess = (self.counted - self.forgotten + amount).saturating_sub(limit);
        if excess == 0 {
            return 0;
        }
        let enough = self.entries.partition_point(|(_, up_to)| up_to - self.forgotten < excess);
        self.entries.get(enough).map_or(MINUTE, |(then, _)| then + MINUTE - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(window: Enforced, counts_refused: bool) -> Account {
        Account::new(&Provider {
            name: "p".into(),
            models: vec!["*".into()],
            rpm: Some(600),
            tpm: Some(60_000),
            window,
            counts_refused,
            takes: 0,
            per_token: 0,
            errors: 0,
        })
    }

    #[test]
    fn a_bucket_gives_a_minute_at_once_and_then_a_steady_rate() {
        let mut account = account(Enforced::Bucket, false);
        assert_eq!(account.call(0, 60_000), Ok(()));
        assert_eq!(account.call(0, 1_000), Err(SECOND), "a thousand a second");
        assert_eq!(account.call(SECOND, 1_000), Ok(()));
        assert_eq!(account.call(SECOND, 60_001), Err(MINUTE), "never, but the provider says a minute");
    }

    #[test]
    fn seconds_give_a_sixtieth_each() {
        let mut account = account(Enforced::Second, false);
        assert_eq!(account.call(100, 600), Ok(()));
        assert_eq!(account.call(200, 401), Err(SECOND - 200));
        assert_eq!(account.call(300, 400), Ok(()));
        assert_eq!(account.call(SECOND, 5_000), Ok(()), "a large one has a second to itself");
        for n in 0..10 {
            assert_eq!(account.call(2 * SECOND + n, 1), Ok(()));
        }
        assert_eq!(account.call(2 * SECOND + 10, 1), Err(SECOND - 10), "ten requests a second");
    }

    #[test]
    fn a_refused_call_counts_where_the_provider_says_so() {
        for (counts, right) in [(false, Ok(())), (true, Err(SECOND - 3))] {
            let mut account = account(Enforced::Second, counts);
            assert_eq!(account.call(1, 900), Ok(()));
            assert_eq!(account.call(2, 200), Err(SECOND - 2));
            assert_eq!(account.call(3, 100), right);
        }
    }

    #[test]
    fn no_minute_has_more_than_the_quota() {
        let mut account = account(Enforced::Minute, false);
        assert_eq!(account.call(0, 30_000), Ok(()));
        assert_eq!(account.call(30 * SECOND, 30_000), Ok(()));
        assert_eq!(account.call(59 * SECOND, 1), Err(SECOND));
        assert_eq!(account.call(59 * SECOND, 30_001), Err(31 * SECOND));
        assert_eq!(account.call(MINUTE, 30_000), Ok(()), "what came at 0 has left");
    }
}
