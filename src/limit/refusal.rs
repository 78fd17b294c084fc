//! A refusal as a value: which limit, whose, how much, and when to come back.

use super::admission::{Decision, Outcome, Verdict};
use super::claim::{Claim, LimitName, Measure, Rule, Scope};
use crate::domain::Timestamp;

/// How long a request should wait when only requests in flight stand in its way, microseconds.
const IN_FLIGHT_RETRY: u64 = 1_000_000;

/// Why one limit refused one request. Headers, bodies, logs, metrics and the degrade chain all read this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose limit.
    pub scope: Scope,
    /// Which limit.
    pub limit: LimitName,
    /// What it measures.
    pub measure: Measure,
    /// The limit: tokens, requests or nano-dollars.
    pub max: u64,
    /// What is used of it.
    pub used: u64,
    /// What requests in flight hold of it.
    pub held: u64,
    /// What was asked.
    pub asked: u64,
    /// What can be done about it.
    pub remedy: Remedy,
    /// When the bucket is full, the window empty or the period over.
    pub resets_at: Timestamp,
}

/// Whether and when waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The request is admitted after this many microseconds.
    Wait(u64),
    /// Requests in flight hold what is missing; try again after this many microseconds.
    InFlight(u64),
    /// Nothing before the period ends, in this many microseconds.
    NextPeriod(u64),
    /// Waiting never helps: the request is larger than the limit.
    Never,
}

impl Remedy {
    /// Whether waiting is of use before the period ends.
    #[must_use]
    pub const fn waiting_helps(self) -> bool {
        matches!(self, Self::Wait(_) | Self::InFlight(_))
    }

    /// Microseconds after which to come back, if ever.
    #[must_use]
    pub const fn retry_in(self) -> Option<u64> {
        match self {
            Self::Wait(us) | Self::InFlight(us) | Self::NextPeriod(us) => Some(us),
            Self::Never => None,
        }
    }
}

impl Refusal {
    /// What one limit said, if it refused.
    #[must_use]
    pub fn of(claim: &Claim, verdict: &Verdict, at: Timestamp) -> Option<Self> {
        let remedy = match verdict.outcome {
            Outcome::Fits | Outcome::Starts(_) | Outcome::Deferred => return None,
            Outcome::Refused(wait) => Remedy::Wait(wait),
            Outcome::InFlight => Remedy::InFlight(IN_FLIGHT_RETRY),
            Outcome::Exhausted => Remedy::NextPeriod(verdict.reset_in),
            Outcome::Never => Remedy::Never,
        };
        let max = match claim.rule {
            Rule::Bucket { bucket, .. } => bucket.capacity(),
            Rule::Window { limit, .. } => limit,
            Rule::Budget { cap, .. } => cap,
        };
        Some(Self {
            scope: claim.scope.scope,
            limit: claim.limit,
            measure: claim.measure,
            max,
            used: verdict.used,
            held: verdict.held,
            asked: claim.amount,
            remedy,
            resets_at: at.plus(verdict.reset_in),
        })
    }

    /// Whether the request alone is larger than the whole limit. A limit of zero is a closed door, not a request too large.
    #[must_use]
    pub const fn is_oversize(&self) -> bool {
        let by_size = !matches!(self.measure, Measure::Message | Measure::Request | Measure::Money);
        by_size && self.max > 0 && self.asked > self.max && !self.remedy.waiting_helps()
    }

    /// Of several refusals the one that is reported: one that waiting cannot cure before one that it can; among the latter the
    /// longest wait, since only after it all others have passed too.
    #[must_use]
    pub fn worst(claims: &[Claim], decision: &Decision) -> Option<Self> {
        let refusals = claims.iter().zip(&decision.verdicts).filter_map(|(c, v)| Self::of(c, v, decision.at));
        refusals.max_by_key(|refusal| match refusal.remedy {
            Remedy::Never => (2, u64::MAX),
            Remedy::NextPeriod(us) => (1, us),
            Remedy::Wait(us) | Remedy::InFlight(us) => (0, us),
        })
    }
}
