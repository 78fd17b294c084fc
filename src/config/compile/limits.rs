//! Limits as written into limits ready to be claimed, each checked to be exact.

use crate::config::choice::Window;
use crate::config::file::{Messages, Quota, RateLimit, Spend};
use crate::config::policy::{Limit, LimitKind, Limits};
use crate::config::problem::{Findings, Place};
use crate::config::read::At;
use crate::config::value::Limitable;
use crate::domain::{NanoUsd, Period};
use crate::limit::{Bucket, BucketError, LimitName, Measure};
use std::time::Duration;

/// A minute in microseconds.
pub const MINUTE: u64 = 60_000_000;

/// The limits of one scope as written.
#[derive(Clone, Copy, Default)]
pub struct Written<'a> {
    /// `messages`
    pub messages: Option<&'a At<Limitable<Messages>>>,
    /// `rpm`
    pub rpm: Option<&'a At<Limitable<RateLimit>>>,
    /// `tpm`
    pub tpm: Option<&'a At<Limitable<RateLimit>>>,
    /// `spend`
    pub spend: Option<&'a Spend>,
    /// `quota`
    pub quota: Option<&'a Quota>,
}

/// Compiles the limits of one scope.
pub fn limits(written: Written<'_>, findings: &mut Findings) -> Limits {
    let rpm = written.rpm.and_then(|at| rate_limit(LimitName::Rpm, Measure::Request, at, findings));
    let tpm = written.tpm.and_then(|at| rate_limit(LimitName::Tpm, Measure::Tokens, at, findings));
    Limits {
        messages: written.messages.and_then(|at| messages(at, findings)),
        rates: rpm.into_iter().chain(tpm).collect(),
        spend: written.spend.map(|spend| caps(spend, findings)).unwrap_or_default(),
        quotas: written.quota.map(|quota| quotas(quota, findings)).unwrap_or_default(),
    }
}

fn set<T>(limit: &Limitable<T>) -> Option<&T> {
    match limit {
        Limitable::Set(value) => Some(value),
        Limitable::Unlimited => None,
    }
}

fn messages(at: &At<Limitable<Messages>>, findings: &mut Findings) -> Option<Limit> {
    let table = &set(&at.value)?.0;
    let Some(rate) = &table.rate else {
        findings.missing(&table.place, "rate", "write the refill, such as rate = \"5/m\"");
        return None;
    };
    let burst = table.burst.as_ref().map_or_else(|| rate.amount.saturating_mul(2), |burst| burst.value);
    if rate.amount == 0 || burst == 0 {
        blocks_all(&table.place, findings);
    } else if burst <= rate.amount {
        let reason =
            format!("the burst ({burst}) is no more than the rate's own amount ({}), so a double click is refused", rate.amount);
        findings.warn(
            &table.place,
            reason,
            format!("a burst of {} or more lets people be quick for a moment", rate.amount.saturating_mul(2)),
        );
    }
    let bucket = exact(&rate.place, rate.amount, |amount| Bucket::new(burst, amount, rate.period), findings)?;
    Some(Limit {
        name: LimitName::Messages,
        measure: Measure::Message,
        kind: LimitKind::Bucket(bucket),
        max_wait: table.max_wait.map_or(Duration::ZERO, |wait| wait.0),
    })
}

fn rate_limit(name: LimitName, measure: Measure, at: &At<Limitable<RateLimit>>, findings: &mut Findings) -> Option<Limit> {
    let table = &set(&at.value)?.0;
    let Some(limit) = &table.limit else {
        findings.missing(&table.place, "limit", "write how much a minute, such as limit = 60");
        return None;
    };
    if limit.value == 0 || table.burst.as_ref().is_some_and(|burst| burst.value == 0) {
        blocks_all(&table.place, findings);
    }
    let kind = match (table.window.unwrap_or(Window::Bucket), &table.burst) {
        (Window::Bucket, burst) => {
            let capacity = |limit| burst.as_ref().map_or(limit, |burst| burst.value);
            let bucket = exact(&limit.place, limit.value, |limit| Bucket::new(capacity(limit), limit, MINUTE), findings)?;
            LimitKind::Bucket(bucket)
        }
        (Window::Sliding, None) => LimitKind::Sliding(limit.value),
        (Window::Sliding, Some(burst)) => {
            findings.problem(&burst.place, "a sliding window has no burst", "leave it out, or use window = \"bucket\"");
            return None;
        }
    };
    Some(Limit { name, measure, kind, max_wait: table.max_wait.map_or(Duration::ZERO, |wait| wait.0) })
}

fn caps(spend: &Spend, findings: &mut Findings) -> Vec<(Period, NanoUsd)> {
    let periods = [(Period::Day, &spend.day), (Period::Week, &spend.week), (Period::Month, &spend.month)];
    let mut caps = Vec::new();
    for (period, at) in periods {
        let Some((at, cap)) = at.as_ref().and_then(|at| set(&at.value).map(|cap| (at, *cap))) else { continue };
        if cap == NanoUsd::ZERO {
            findings.warn(&at.place, "is 0, which refuses every request that costs anything", "write \"unlimited\" for no cap");
        }
        caps.push((period, cap));
    }
    caps
}

fn quotas(quota: &Quota, findings: &mut Findings) -> Vec<(LimitName, u64)> {
    let written = [
        (LimitName::RequestQuota(Period::Day), &quota.requests_day),
        (LimitName::RequestQuota(Period::Week), &quota.requests_week),
        (LimitName::RequestQuota(Period::Month), &quota.requests_month),
        (LimitName::TokenQuota(Period::Day), &quota.tokens_day),
        (LimitName::TokenQuota(Period::Week), &quota.tokens_week),
        (LimitName::TokenQuota(Period::Month), &quota.tokens_month),
    ];
    let mut quotas = Vec::new();
    for (name, at) in written {
        let Some((at, quota)) = at.as_ref().and_then(|at| set(&at.value).map(|quota| (at, *quota))) else { continue };
        if quota == 0 {
            blocks_all(&at.place, findings);
        }
        quotas.push((name, quota));
    }
    quotas
}

/// Says that a limit of zero is taken at its word.
pub fn blocks_all(place: &Place, findings: &mut Findings) {
    findings.warn(place, "is 0, which blocks everything", "write \"unlimited\" for no limit, where there shall be none");
}

/// The bucket that `make` builds for `amount`; a problem with the nearest exact amount when it cannot be counted exactly.
pub fn exact(
    place: &Place,
    amount: u64,
    make: impl Fn(u64) -> Result<Bucket, BucketError>,
    findings: &mut Findings,
) -> Option<Bucket> {
    let error = match make(amount) {
        Ok(bucket) => return Some(bucket),
        Err(error) => error,
    };
    let advice = nearest_exact(amount, make).map_or_else(String::new, |near| format!("the nearest number that can is {near}"));
    findings.problem(place, format!("{amount}: {error}"), advice);
    None
}

/// The nearest amount with which `make` succeeds, among those rounded to fewer digits.
fn nearest_exact(amount: u64, make: impl Fn(u64) -> Result<Bucket, BucketError>) -> Option<u64> {
    (1..=18).find_map(|digits| {
        let step = 10_u64.pow(digits);
        let below = amount / step * step;
        let candidates = [Some(below), below.checked_add(step)].into_iter().flatten().filter(|n| *n > 0 && make(*n).is_ok());
        candidates.min_by_key(|n| n.abs_diff(amount))
    })
}
