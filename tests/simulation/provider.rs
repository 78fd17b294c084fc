//! The provider's side of a ceiling: its own count of what really arrives, by its own rule, and whether that is ever too much.
//!
//! The provider's bucket is refilled at the whole rate, ours at a headroom of it, so as long as calls arrive at their start the provider
//! never has less than we think. One thing costs it more: what was taken and did not arrive then. A place in line that is given back (a
//! caller left, a call was never made) may have been refilled here meanwhile, which at the provider, already full, it was not; and a call
//! that is late arrives on top of what was admitted since. For such a moment the provider may see as much more as was taken and had not
//! arrived, never more than that.

use crate::limits::{MINUTE, SECOND, Shape};
use std::collections::VecDeque;

/// One limit of the provider.
pub struct Mirror {
    shape: Shape,
    /// Tokens times microseconds of a minute.
    level: i128,
    at: u64,
    arrivals: VecDeque<(u64, u64)>,
    /// What was taken here and has not arrived, now and at most.
    pending: u64,
    most_pending: u64,
    /// Whether something was given back unused, or was late.
    late: bool,
    /// Microseconds by which a jittering clock may start calls early, because it lagged when the bucket was last counted.
    early: u64,
}

impl Mirror {
    pub fn new(shape: Shape, jitter: bool) -> Self {
        let level = match shape {
            Shape::Bucket { capacity, .. } => i128::from(capacity) * i128::from(MINUTE),
            _ => 0,
        };
        let early = if jitter { SECOND } else { 0 };
        Self { shape, level, at: 0, arrivals: VecDeque::new(), pending: 0, most_pending: 0, late: false, early }
    }

    /// An admission took so much.
    pub fn takes(&mut self, amount: u64) {
        self.pending += amount;
        self.most_pending = self.most_pending.max(self.pending);
    }

    /// What was taken never arrives; so much of it is given back.
    pub const fn gives_up(&mut self, amount: u64, back: u64) {
        self.pending -= amount;
        self.late |= back > 0;
    }

    /// Something will arrive after its start.
    pub const fn is_late(&mut self) {
        self.late = true;
    }

    /// A call arrives. Says by how much it is too much.
    pub fn arrives(&mut self, now: u64, amount: u64) -> Result<(), String> {
        self.pending -= amount;
        let slack = if self.late { self.most_pending } else { 0 };
        match self.shape {
            Shape::Bucket { per_minute, .. } => {
                self.refill(now);
                self.level -= i128::from(amount) * i128::from(MINUTE);
                let room = i128::from(slack) * i128::from(MINUTE) + i128::from(self.early) * i128::from(per_minute);
                if self.level < -room {
                    return Err(format!("the provider's bucket is {} tokens short", -self.level / i128::from(MINUTE)));
                }
            }
            Shape::Window { limit, .. } => {
                self.arrivals.push_back((now, amount));
                while self.arrivals.front().is_some_and(|(at, _)| at + MINUTE - self.early <= now) {
                    self.arrivals.pop_front();
                }
                let sum: u64 = self.arrivals.iter().map(|(_, amount)| amount).sum();
                if sum > limit + slack {
                    return Err(format!("the provider saw {sum} in 60 s, of {limit}"));
                }
            }
            Shape::Budget { .. } => unreachable!("a ceiling is no budget"),
        }
        Ok(())
    }

    /// It counts less than was reserved after all, of what arrived then.
    pub fn refunds(&mut self, now: u64, arrived: u64, amount: u64) {
        self.late |= self.pending > 0;
        match self.shape {
            Shape::Bucket { capacity, .. } => {
                self.refill(now);
                let full = i128::from(capacity) * i128::from(MINUTE);
                self.level = (self.level + i128::from(amount) * i128::from(MINUTE)).min(full);
            }
            _ => {
                if let Some((_, sum)) = self.arrivals.iter_mut().find(|(at, n)| *at == arrived && *n >= amount) {
                    *sum -= amount;
                }
            }
        }
    }

    fn refill(&mut self, now: u64) {
        if let Shape::Bucket { capacity, per_minute, .. } = self.shape {
            let earned = i128::from(now.saturating_sub(self.at)) * i128::from(per_minute);
            self.level = (self.level + earned).min(i128::from(capacity) * i128::from(MINUTE));
            self.at = now;
        }
    }
}
