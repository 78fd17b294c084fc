//! How a customer's limits stand, as the deciding call said.

use super::text::rfc3339;
use crate::domain::{NanoUsd, Timestamp};
use crate::limit::{Claim, Decision, LimitName, Measure, Rule, Scope, Verdict};
use std::fmt::Write as _;

/// How the customer's own limits stood after the call that decided a request. What else the call claimed (user, app, pool, gateway)
/// is not in it: those numbers are made of other people's use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub(super) at: Timestamp,
    pub(super) limits: Vec<Stand>,
    notice: Option<String>,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    pub(super) limit: LimitName,
    pub(super) measure: Measure,
    /// The most there can be: requests, tokens or nano-dollars.
    pub(super) max: u64,
    /// What is left of it.
    pub(super) remaining: u64,
    /// Seconds in which the whole of it comes back; `None` when it never does.
    pub(super) window: Option<u64>,
    /// Microseconds until there is more.
    pub(super) more_in: u64,
    /// Microseconds until there is all of it.
    pub(super) full_in: u64,
}

impl Standing {
    /// From the claims of a request and the decision on them, in the same order. From `notice_percent` of a cap or quota on, answers
    /// say so.
    #[must_use]
    pub fn of(claims: &[Claim], decision: &Decision, notice_percent: u8) -> Self {
        let own = claims.iter().zip(&decision.verdicts).filter(|(claim, _)| claim.scope.scope == Scope::Customer);
        let (mut limits, mut notice) = (Vec::with_capacity(claims.len()), String::new());
        for (claim, verdict) in own {
            limits.push(Stand::of(claim, verdict, decision.at));
            notify(&mut notice, claim, verdict, decision.at, notice_percent);
        }
        Self { at: decision.at, limits, notice: Some(notice).filter(|notice| !notice.is_empty()) }
    }

    /// Adds the limits that a later try of the same request did not claim again, as they stood before.
    pub fn complete(&mut self, before: &Self) {
        let missing = before.limits.iter().filter(|stand| self.limits.iter().all(|own| own.limit != stand.limit));
        let mut limits: Vec<_> = missing.copied().collect();
        limits.append(&mut self.limits);
        self.limits = limits;
    }

    /// That caps or quotas are nearly used up, in words; `None` while none is.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Of some limits the one with the least left.
    pub(super) fn tightest(&self, names: &[LimitName]) -> Option<&Stand> {
        self.limits.iter().filter(|stand| names.contains(&stand.limit)).min_by_key(|stand| stand.remaining)
    }
}

impl Stand {
    fn of(claim: &Claim, verdict: &Verdict, at: Timestamp) -> Self {
        let (max, window, more_in) = match claim.rule {
            Rule::Bucket { bucket, .. } => {
                let max = bucket.capacity();
                // The time in which a bucket earns so many tokens.
                let earns = |tokens: u64| {
                    let units = u128::from(tokens) * u128::from(bucket.unit());
                    units.checked_div(u128::from(bucket.gain())).map(|micros| u64::try_from(micros).unwrap_or(u64::MAX))
                };
                let window = earns(max).map(|micros| micros.div_ceil(1_000_000).max(1));
                // All of the way to full but for the tokens after the next one.
                let after_next = earns(max.saturating_sub(verdict.remaining.saturating_add(1))).unwrap_or(0);
                (max, window, verdict.reset_in.saturating_sub(after_next))
            }
            Rule::Window { limit, .. } => (limit, Some(60), verdict.reset_in),
            Rule::Budget { cap, boundaries } => {
                let (start, end) = boundaries.at(at);
                (cap, Some(end.saturating_sub(start).max(1)), verdict.reset_in)
            }
        };
        Self {
            limit: claim.limit,
            measure: claim.measure,
            max,
            remaining: verdict.remaining.min(max),
            window,
            more_in,
            full_in: verdict.reset_in,
        }
    }
}

fn notify(notice: &mut String, claim: &Claim, verdict: &Verdict, at: Timestamp, percent: u8) {
    let Rule::Budget { cap, .. } = claim.rule else { return };
    let used = u128::from(verdict.used) * 100;
    if cap == 0 || used < u128::from(cap) * u128::from(percent) {
        return;
    }
    if !notice.is_empty() {
        notice.push_str("; ");
    }
    let amounts = match claim.measure {
        Measure::Money => format!("{} of {}", NanoUsd::new(verdict.used), NanoUsd::new(cap)),
        _ => format!("{} of {cap}", verdict.used),
    };
    let (name, part, reset) = (claim.limit.as_str(), used / u128::from(cap), rfc3339(at.plus(verdict.reset_in)));
    // Writing to a string cannot fail.
    let _ = write!(notice, "{name} {part} % used ({amounts}), resets {reset}");
}
