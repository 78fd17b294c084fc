//! The account limits a real provider enforces, for tests of a gateway that is meant to stay below them.
//!
//! Written apart from the gateway's own buckets, so that a mistake there cannot hide here.

mod meter;

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::errors::Problem;
use crate::wire::Dialect;
use meter::Meter;
pub use meter::Window;

/// What the whole account may do in a minute.
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
    /// How the limits are enforced.
    pub window: Window,
    /// Whether refused requests count, too, as providers say they may: a flood of retries then keeps the account shut.
    pub counts_refused: bool,
    /// The one model the limits are for; others have none. `None`: all models share them.
    pub model: Option<&'static str>,
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
    requests: Meter,
    tokens: Meter,
    input: Meter,
    output: Meter,
}

impl Account {
    pub(super) fn new(limits: Option<AccountLimits>) -> Self {
        let now = Instant::now();
        let stated = limits.unwrap_or_default();
        // The numbers in the headers of an account without limits are those of a large one.
        let meter = |limit: Option<u64>, large| Meter::new(limit.unwrap_or(large), stated.window, now);
        let buckets = Buckets {
            requests: meter(stated.rpm, 10_000),
            tokens: meter(stated.tpm, 2_000_000),
            input: meter(stated.input_tpm, 2_000_000),
            output: meter(stated.output_tpm, 400_000),
        };
        Self { limits, buckets: Mutex::new(buckets) }
    }

    /// Takes what a request asks, or says as the provider would that it does not fit.
    pub(super) fn admit(&self, model: &str, demand: Demand, now: Instant) -> Result<(), Problem> {
        let Some(limits) = self.limits.filter(|limits| limits.model.is_none_or(|one| one == model)) else { return Ok(()) };
        let mut buckets = self.buckets.lock();
        let Buckets { requests, tokens, input, output } = &mut *buckets;
        for bucket in [&mut *requests, &mut *tokens, &mut *input, &mut *output] {
            bucket.pass(now);
        }
        let anthropic = demand.dialect == Dialect::Anthropic;
        let pre_flight = if anthropic { demand.input } else { demand.input.max(demand.cap.unwrap_or(0)) };
        let asked = [
            (limits.rpm.is_some(), "requests", &*requests, 1),
            (limits.tpm.is_some(), "tokens", &*tokens, pre_flight),
            (anthropic && limits.input_tpm.is_some(), "tokens", &*input, demand.input),
            (anthropic && limits.output_tpm.is_some(), "tokens", &*output, 1),
        ];
        let refused = asked.into_iter().filter(|(limited, ..)| *limited).find_map(|(_, kind, meter, amount)| {
            let wait = meter.wait_for(amount);
            (wait != Some(Duration::ZERO)).then(|| refusal(kind, meter.limit, amount, wait))
        });
        if refused.is_some() && !limits.counts_refused {
            return refused.map_or(Ok(()), Err);
        }
        for (limited, amount, meter) in [
            (limits.rpm.is_some(), 1, requests),
            (limits.tpm.is_some(), pre_flight, tokens),
            (anthropic && limits.input_tpm.is_some(), demand.input, input),
        ] {
            match limited.then_some(&refused) {
                Some(None) => meter.take(amount),
                Some(Some(_)) => meter.take_refused(amount),
                None => {}
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Books the output of an Anthropic reply.
    pub(super) fn produced(&self, tokens: u64, now: Instant) {
        if self.limits.is_some_and(|limits| limits.output_tpm.is_some()) {
            let mut buckets = self.buckets.lock();
            buckets.output.pass(now);
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
        account.admit("m", ask(10, Some(500)), start).unwrap();
        let refused = account.admit("m", ask(150, Some(20)), start).unwrap_err();
        assert_eq!((refused.status, refused.kind, refused.retry_after), (429, "tokens", Some(5)), "50 missing at 10 a second");
        let early = account.admit("m", ask(150, None), start + Duration::from_millis(4_999)).unwrap_err();
        assert_eq!(early.retry_after, Some(1));
        account.admit("m", ask(150, None), start + Duration::from_secs(5)).unwrap();
        assert_eq!(
            account.admit("m", ask(601, None), start + Duration::from_secs(500)).unwrap_err().retry_after,
            None,
            "never fits"
        );
    }

    #[test]
    fn anthropic_output_is_booked_as_produced_and_may_become_debt() {
        let limits = AccountLimits { rpm: Some(60), output_tpm: Some(60), ..AccountLimits::default() };
        let account = Account::new(Some(limits));
        let start = Instant::now() + Duration::from_secs(1);
        let demand = Demand { dialect: Dialect::Anthropic, input: 5, cap: Some(1_000) };
        account.admit("m", demand, start).unwrap();
        account.produced(70, start);
        assert_eq!(account.admit("m", demand, start).unwrap_err().retry_after, Some(11), "10 owed, 1 wanted, 1 a second");
        account.admit("m", demand, start + Duration::from_secs(11)).unwrap();
    }
}
