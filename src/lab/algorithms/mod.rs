//! Ways to hold a caller to a rate, side by side: the two that Tollgate uses, and three it does not, to show what each costs.

mod counter;
mod fixed;
mod log;

use super::scenario::MINUTE;
use crate::domain::Timestamp;
use crate::limit::bucket::Fit;
use crate::limit::{Bucket, BucketState, WindowState};
use counter::SlidingCounter;
use fixed::FixedWindow;
use log::SlidingLog;

/// A way to hold one key to a rate.
pub trait Algorithm {
    /// Whether a request at this instant passes. Time does not run back.
    fn admit(&mut self, at: u64) -> bool;

    /// Bytes of state, without what any map needs for the key.
    fn bytes(&self) -> usize;
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tollgate's default.
    TokenBucket,
    /// Tollgate's `window = "sliding"`.
    SlidingWindow,
    /// Counts from one full minute to the next.
    FixedWindow,
    /// Remembers every request of the last minute.
    SlidingLog,
    /// Weighs the last minute's count with what is left of it.
    SlidingCounter,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::TokenBucket, Self::SlidingWindow, Self::FixedWindow, Self::SlidingLog, Self::SlidingCounter];

    /// The name in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token bucket",
            Self::SlidingWindow => "sliding window, 60 slots",
            Self::FixedWindow => "fixed window",
            Self::SlidingLog => "sliding log",
            Self::SlidingCounter => "sliding counter",
        }
    }

    /// A fresh one: the bucket refills at the rate and holds `bucket`'s burst, the others allow a minute's worth of it in a minute.
    #[must_use]
    pub fn start(self, bucket: Bucket) -> Box<dyn Algorithm> {
        let limit = bucket.per_minute();
        match self {
            Self::TokenBucket => Box::new(TokenBucket { bucket, state: None }),
            Self::SlidingWindow => Box::new(Slots { limit, state: WindowState::default() }),
            Self::FixedWindow => Box::new(FixedWindow::new(limit, MINUTE)),
            Self::SlidingLog => Box::new(SlidingLog::new(limit, MINUTE)),
            Self::SlidingCounter => Box::new(SlidingCounter::new(limit, MINUTE)),
        }
    }
}

struct TokenBucket {
    bucket: Bucket,
    state: Option<BucketState>,
}

impl Algorithm for TokenBucket {
    fn admit(&mut self, at: u64) -> bool {
        let mut state = self.bucket.advance(self.state, Timestamp(at));
        let fits = self.bucket.fit(state, Timestamp(at), 1, 0) == Fit::Now;
        if fits {
            self.bucket.take(&mut state, 1);
        }
        self.state = Some(state);
        fits
    }

    fn bytes(&self) -> usize {
        size_of::<BucketState>()
    }
}

struct Slots {
    limit: u64,
    state: WindowState,
}

impl Algorithm for Slots {
    fn admit(&mut self, at: u64) -> bool {
        let now = Timestamp(at);
        self.state.advance(now);
        let fits = self.state.fit(self.limit, now, 1, 0) == Fit::Now;
        if fits {
            self.state.take(now.secs(), 1);
        }
        fits
    }

    fn bytes(&self) -> usize {
        size_of::<WindowState>() + self.state.slots() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// How many of the requests at these instants pass, of ten a minute (and a bucket that holds ten).
    fn passed(kind: Kind, at: impl IntoIterator<Item = u64>) -> usize {
        let mut algorithm = kind.start(Bucket::new(10, 10, MINUTE).expect("exact"));
        at.into_iter().filter(|at| algorithm.admit(*at)).count()
    }

    #[test]
    fn around_the_turn_of_a_minute_each_shows_what_it_is() {
        // Ten at second 59, ten at second 61: twenty in two seconds.
        let at = [59 * SECOND; 10].into_iter().chain([61 * SECOND; 10]);
        for (kind, right) in [
            (Kind::TokenBucket, 10),
            (Kind::SlidingWindow, 10),
            (Kind::FixedWindow, 20),
            (Kind::SlidingLog, 10),
            // Of the first ten 59/60 still count, which leaves less than one.
            (Kind::SlidingCounter, 10),
        ] {
            assert_eq!(passed(kind, at.clone()), right, "{kind:?}");
        }
    }

    #[test]
    fn after_a_quiet_minute_all_give_the_whole_limit_again() {
        for kind in Kind::ALL {
            assert_eq!(passed(kind, [0; 15].into_iter().chain([125 * SECOND; 15])), 20, "{kind:?}");
        }
    }

    #[test]
    fn a_steady_stream_at_the_rate_passes_whole() {
        for kind in Kind::ALL {
            let all = (0..100).map(|n| n * 7 * SECOND);
            assert_eq!(passed(kind, all), 100, "{kind:?}: one each seven seconds is less than ten a minute");
        }
    }

    #[test]
    fn what_a_log_remembers_grows_with_the_limit() {
        let size = |kind: Kind| {
            let mut algorithm = kind.start(Bucket::new(5_000, 5_000, MINUTE).expect("exact"));
            assert!((0..5_000).all(|n| algorithm.admit(n)));
            algorithm.bytes()
        };
        assert!(size(Kind::SlidingLog) >= 5_000 * 8);
        for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingCounter] {
            assert!(size(kind) <= 48, "{kind:?}");
        }
    }
}
