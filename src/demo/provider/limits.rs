//! The account limits a real provider enforces, for tests of a gateway that is meant to stay below them.
//!
//! Written apart from the gateway's own buckets, so that a mistake there cannot hide here.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::errors::Problem;
use crate::wire::Dialect;

/// What the whole account may do in a minute. Each limit is a bucket of that size, refilled steadily.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountLimits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute, OpenAI's way: the larger of output cap and input estimate, taken at the start, never given back.
    pub tpm: Option<u64>,
    /// Input tokens per minute, Anthropic's way: what no cache served.
    pub input_tpm: Option<u64>,
    /// Output tokens per minute, Anthropic's way: as produced, so the bucket may go into debt.
    pub output_tpm: Option<u64>,
}

/// Limit and remaining of each bucket, for the headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub requests: (u64, u64),
    pub tokens: (u64, u64),
    pub input: (u64, u64),
    pub output: (u64, u64),
}

/// What a request asks of the account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub dialect: Dialect,
    pub input: u64,
    /// Output cap times choices; `None` when the request has none.
    pub cap: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Account {
    limits: Option<AccountLimits>,
    buckets: Mutex<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    requests: Bucket,
    tokens: Bucket,
    input: Bucket,
    output: Bucket,
}

/// Levels count in 60-billionths: a bucket of `limit` per minute gains `limit` of them per nanosecond.
const UNIT: i128 = 60_000_000_000;

#[derive(Debug)]
struct Bucket {
    limit: u64,
    level: i128,
    at: Instant,
}

impl Bucket {
    fn new(limit: u64, at: Instant) -> Self {
        Self { limit, level: i128::from(limit) * UNIT, at }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_nanos() as i128;
        self.at = self.at.max(now);
        self.level = (self.level + passed * i128::from(self.limit)).min(i128::from(self.limit) * UNIT);
    }

    /// How long until `amount` fits: `None` when it never will.
    fn wait_for(&self, amount: u64) -> Option<Duration> {
        let missing = i128::from(amount) * UNIT - self.level;
        if missing <= 0 {
            Some(Duration::ZERO)
        } else if amount > self.limit {
            None
        } else {
            let nanos = (missing + i128::from(self.limit) - 1) / i128::from(self.limit);
            Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
        }
    }

    fn take(&mut self, amount: u64) {
        self.level -= i128::from(amount) * UNIT;
    }

    fn standing(&self) -> (u64, u64) {
        (self.limit, u64::try_from(self.level / UNIT).unwrap_or(0))
    }
}

impl Account {
    pub(super) fn new(limits: Option<AccountLimits>) -> Self {
        let now = Instant::now();
        let stated = limits.unwrap_or_default();
        // The numbers in the headers of an account without limits are those of a large one.
        let buckets = Buckets {
            requests: Bucket::new(stated.rpm.unwrap_or(10_000), now),
            tokens: Bucket::new(stated.tpm.unwrap_or(2_000_000), now),
            input: Bucket::new(stated.input_tpm.unwrap_or(2_000_000), now),
            output: Bucket::new(stated.output_tpm.unwrap_or(400_000), now),
        };
        Self { limits, buckets: Mutex::new(buckets) }
    }

    /// Takes what a request asks, or says as the provider would that it does not fit. Refused requests count, too: the
    /// real accounts are stricter than they need to be.
    pub(super) fn admit(&self, demand: Demand, now: Instant) -> Result<(), Problem> {
        let Some(limits) = self.limits else { return Ok(()) };
        let mut buckets = self.buckets.lock();
        let Buckets { requests, tokens, input, output } = &mut *buckets;
        for bucket in [&mut *requests, &mut *tokens, &mut *input, &mut *output] {
            bucket.refill(now);
        }
        let anthropic = demand.dialect == Dialect::Anthropic;
        let pre_flight = if anthropic { demand.input } else { demand.input.max(demand.cap.unwrap_or(0)) };
        let asked = [
            (limits.rpm.is_some(), "requests", &*requests, 1),
            (limits.tpm.is_some(), "tokens", &*tokens, pre_flight),
            (anthropic && limits.input_tpm.is_some(), "tokens", &*input, demand.input),
            (anthropic && limits.output_tpm.is_some(), "tokens", &*output, 1),
        ];
        for (limited, kind, bucket, amount) in asked {
            if limited {
                match bucket.wait_for(amount) {
                    Some(Duration::ZERO) => {}
                    wait => return Err(refusal(kind, bucket.limit, amount, wait)),
                }
            }
        }
        for (limited, amount, bucket) in [
            (limits.rpm.is_some(), 1, requests),
            (limits.tpm.is_some(), pre_flight, tokens),
            (anthropic && limits.input_tpm.is_some(), demand.input, input),
        ] {
            if limited {
                bucket.take(amount);
            }
        }
        Ok(())
    }

    /// Books the output of an Anthropic reply.
    pub(super) fn produced(&self, tokens: u64, now: Instant) {
        if self.limits.is_some_and(|limits| limits.output_tpm.is_some()) {
            let mut buckets = self.buckets.lock();
            buckets.output.refill(now);
            buckets.output.take(tokens);
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let buckets = self.buckets.lock();
        Standing {
            requests: buckets.requests.standing(),
            tokens: buckets.tokens.standing(),
            input: buckets.input.standing(),
            output: buckets.output.standing(),
        }
    }
}

fn refusal(kind: &'static str, limit: u64, asked: u64, wait: Option<Duration>) -> Problem {
    let mut problem = Problem::of_status(429, false, wait.map(|wait| wait.as_secs_f64().ceil().max(1.0) as u64));
    problem.kind = kind;
    problem.message = match wait {
        Some(_) => {
            format!("Rate limit reached for {kind} per minute in organization org-demo: Limit {limit}, Requested {asked}.")
        }
        None => format!("Request too large for organization org-demo on {kind} per minute: Limit {limit}, Requested {asked}."),
    };
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_takes_the_larger_of_cap_and_input_and_says_when_to_come_back() {
        let account = Account::new(Some(AccountLimits { tpm: Some(600), ..AccountLimits::default() }));
        let start = Instant::now() + Duration::from_secs(1);
        let ask = |input, cap| Demand { dialect: Dialect::OpenAi, input, cap };
        account.admit(ask(10, Some(500)), start).unwrap();
        let refused = account.admit(ask(150, Some(20)), start).unwrap_err();
        assert_eq!((refused.status, refused.kind, refused.retry_after), (429, "tokens", Some(5)), "50 missing at 10 a second");
        let early = account.admit(ask(150, None), start + Duration::from_millis(4_999)).unwrap_err();
        assert_eq!(early.retry_after, Some(1));
        account.admit(ask(150, None), start + Duration::from_secs(5)).unwrap();
        assert_eq!(account.admit(ask(601, None), start + Duration::from_secs(500)).unwrap_err().retry_after, None, "never fits");
    }

    #[test]
    fn anthropic_output_is_booked_as_produced_and_may_become_debt() {
        let limits = AccountLimits { rpm: Some(60), output_tpm: Some(60), ..AccountLimits::default() };
        let account = Account::new(Some(limits));
        let start = Instant::now() + Duration::from_secs(1);
        let demand = Demand { dialect: Dialect::Anthropic, input: 5, cap: Some(1_000) };
        account.admit(demand, start).unwrap();
        account.produced(70, start);
        assert_eq!(account.admit(demand, start).unwrap_err().retry_after, Some(11), "10 owed, 1 wanted, 1 a second");
        account.admit(demand, start + Duration::from_secs(11)).unwrap();
    }
}
