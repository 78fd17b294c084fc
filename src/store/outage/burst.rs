//! One outage, from the first failure to the probe that succeeds.

use super::guard::Counts;
use super::memory::Memory;
use super::share::{Part, Shares};
use crate::config::policy::Outage;
use crate::domain::Timestamp;
use crate::limit::{Admission, Decision, Settlement};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// See the module.
pub struct Burst {
    /// Which outage of this process it is.
    pub number: u64,
    began: Instant,
    longest: Duration,
    /// When deciding alone ends, by the gateway's clock.
    until: Timestamp,
    shares: Shares,
    alone_before: u64,
    refused_before: u64,
}

/// What one outage came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// How long it was.
    pub lasted: Duration,
    /// Requests admitted alone.
    pub alone: u64,
    /// Requests refused.
    pub refused: u64,
}

impl Burst {
    /// It begins now.
    pub fn begin(settings: &Outage, gateways: usize, now: Timestamp, counts: &Counts) -> Self {
        let part = Part { millionths: settings.share, gateways: u64::try_from(gateways).unwrap_or(u64::MAX).max(1) };
        Self {
            number: counts.outages.load(Ordering::Relaxed),
            began: Instant::now(),
            longest: settings.max,
            until: now.plus(u64::try_from(settings.max.as_micros()).unwrap_or(u64::MAX)),
            shares: Shares::new(part),
            alone_before: counts.alone.load(Ordering::Relaxed),
            refused_before: counts.refused.load(Ordering::Relaxed),
        }
    }

    /// Decides alone: an admitting decision, or why there is none.
    pub fn admit(&mut self, admission: &Admission, memory: &Memory, now: Timestamp) -> Result<Decision, &'static str> {
        if self.over() {
            return Err("the time for deciding alone is over");
        }
        match self.shares.admit(admission, memory, now) {
            Some(decision) if decision.admitted => Ok(decision),
            Some(_) => Err("the share for deciding alone is used up"),
            None => Err("it never spoke of these limits"),
        }
    }

    /// Settles what was decided alone.
    pub fn settle(&mut self, settlement: &Settlement, now: Timestamp) {
        self.shares.settle(settlement, now);
    }

    /// When deciding alone ends; `None` when it has ended.
    pub fn until(&self) -> Option<Timestamp> {
        (!self.over()).then_some(self.until)
    }

    /// It is over: what was used is remembered as gone, so that a store that comes and goes does not hand out a new share each time.
    pub fn end(self, memory: &Memory, counts: &Counts) -> Totals {
        for (scope, limit, used) in self.shares.used() {
            memory.used(scope, limit, used);
        }
        Totals {
            lasted: self.began.elapsed(),
            alone: counts.alone.load(Ordering::Relaxed) - self.alone_before,
            refused: counts.refused.load(Ordering::Relaxed) - self.refused_before,
        }
    }

    fn over(&self) -> bool {
        self.began.elapsed() >= self.longest
    }
}
