//! What a request asks of the limits.

use super::bucket::Bucket;
use crate::domain::{Boundaries, NanoUsd, Period};
use std::sync::Arc;

/// Whose limit it is, from the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One user inside a customer.
    User,
    /// The customer.
    Customer,
    /// The calling application.
    App,
    /// A priority's share of a pool's ceiling.
    Share,
    /// The provider ceiling of a pool.
    Pool,
    /// The whole gateway.
    Gateway,
}

impl Scope {
    /// The spelling used in error bodies, logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Customer => "customer",
            Self::App => "app",
            Self::Share => "share",
            Self::Pool => "pool",
            Self::Gateway => "gateway",
        }
    }

    /// Whether the scope's state lives with the customer (one hash tag) rather than with everybody's (another).
    #[must_use]
    pub const fn is_customers(self) -> bool {
        matches!(self, Self::User | Self::Customer)
    }
}

/// A scope with its owner: where the states of its limits are kept. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopeKey {
    /// Whose.
    pub scope: Scope,
    /// The owner's encoded id: the customer's key, `customer/user`, the app's, `pool` or `pool/priority`; empty for the gateway.
    /// Never holds `{`, `}` or `:`.
    pub owner: Arc<str>,
}

/// Which limit of a scope. One state is kept per scope and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitName {
    /// The message bucket (`messages`).
    Messages,
    /// Requests per minute.
    Rpm,
    /// Tokens per minute, in and out together.
    Tpm,
    /// Input tokens per minute.
    InputTpm,
    /// Output tokens per minute.
    OutputTpm,
    /// Requests per day (a provider's limit).
    Rpd,
    /// Tokens per day (a provider's limit).
    Tpd,
    /// Dollars per period.
    Spend(Period),
    /// Requests per period.
    RequestQuota(Period),
    /// Tokens per period.
    TokenQuota(Period),
}

impl LimitName {
    /// All of them, each at its [`LimitName::ordinal`].
    pub const ALL: [Self; 16] = [
        Self::Messages,
        Self::Rpm,
        Self::Tpm,
        Self::InputTpm,
        Self::OutputTpm,
        Self::Rpd,
        Self::Tpd,
        Self::Spend(Period::Day),
        Self::Spend(Period::Week),
        Self::Spend(Period::Month),
        Self::RequestQuota(Period::Day),
        Self::RequestQuota(Period::Week),
        Self::RequestQuota(Period::Month),
        Self::TokenQuota(Period::Day),
        Self::TokenQuota(Period::Week),
        Self::TokenQuota(Period::Month),
    ];

    /// Its place among all limits, below 16. What is stored in Redis goes by it, so it never changes.
    #[must_use]
    pub const fn ordinal(self) -> u8 {
        const fn of(period: Period) -> u8 {
            match period {
                Period::Day => 0,
                Period::Week => 1,
                Period::Month => 2,
            }
        }
        match self {
            Self::Messages => 0,
            Self::Rpm => 1,
            Self::Tpm => 2,
            Self::InputTpm => 3,
            Self::OutputTpm => 4,
            Self::Rpd => 5,
            Self::Tpd => 6,
            Self::Spend(period) => 7 + of(period),
            Self::RequestQuota(period) => 10 + of(period),
            Self::TokenQuota(period) => 13 + of(period),
        }
    }

    /// The spelling used in error bodies, headers and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
            Self::InputTpm => "input_tpm",
            Self::OutputTpm => "output_tpm",
            Self::Rpd => "rpd",
            Self::Tpd => "tpd",
            Self::Spend(Period::Day) => "spend_day",
            Self::Spend(Period::Week) => "spend_week",
            Self::Spend(Period::Month) => "spend_month",
            Self::RequestQuota(Period::Day) => "requests_day",
            Self::RequestQuota(Period::Week) => "requests_week",
            Self::RequestQuota(Period::Month) => "requests_month",
            Self::TokenQuota(Period::Day) => "tokens_day",
            Self::TokenQuota(Period::Week) => "tokens_week",
            Self::TokenQuota(Period::Month) => "tokens_month",
        }
    }

    /// The period of a budget or quota.
    #[must_use]
    pub const fn period(self) -> Option<Period> {
        match self {
            Self::Spend(p) | Self::RequestQuota(p) | Self::TokenQuota(p) => Some(p),
            _ => None,
        }
    }
}

/// How the limit decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A token bucket.
    Bucket {
        /// Its numbers.
        bucket: Bucket,
        /// Longest wait for a start time, microseconds. Zero: refuse at once.
        max_wait: u64,
        /// Whether an overrun's debt ends at minus one capacity (customer and user) or not at all (the ceiling).
        forgive: bool,
        /// Whether it mirrors an account that is charged with what was used once the reply is there (`counts = "actual"`): see
        /// [`super::bucket`].
        mirrors: bool,
    },
    /// A sliding window of 60 s.
    Window {
        /// Most in any 60 s.
        limit: u64,
        /// Longest wait for a start time, microseconds.
        max_wait: u64,
    },
    /// A budget or quota of a calendar period.
    Budget {
        /// Most in the period: nano-dollars, tokens or requests.
        cap: u64,
        /// The periods around now.
        boundaries: Boundaries,
    },
}

/// What the amount of a claim measures, and so what settlement puts in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// One message, spent by every request that reaches `admit` and passes this bucket, whatever else refuses it.
    Message,
    /// One request; given back only when no attempt was made.
    Request,
    /// Input plus output tokens; settled to what was used.
    Tokens,
    /// Input tokens without cache reads; settled to what was used.
    Input,
    /// Output tokens; settled to what was produced.
    Output,
    /// Tokens as a provider counts them that never gives back: kept as claimed once an attempt was made.
    Reserved,
    /// Nano-dollars; settled to the cost.
    Money,
}

/// One thing a request asks of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose limit.
    pub scope: ScopeKey,
    /// Which limit.
    pub limit: LimitName,
    /// How it decides.
    pub rule: Rule,
    /// What it measures.
    pub measure: Measure,
    /// Tokens, requests or nano-dollars asked.
    pub amount: u64,
}

impl Claim {
    /// A ceiling is claimed only at the start time by whoever must first wait for its own limits.
    #[must_use]
    pub const fn is_ceiling(&self) -> bool {
        matches!(self.scope.scope, Scope::Pool)
    }

    /// Whether it is held until settlement and booked in a calendar period: money and quotas, what a store must never lose.
    #[must_use]
    pub const fn is_budget(&self) -> bool {
        matches!(self.rule, Rule::Budget { .. })
    }
}

/// How the dollar claims of a request shrink with its output cap: cost(cap) = fixed + cap x per_token.
///
/// All numbers stay exact in a Lua script as long as `fixed + wanted x per_token` is at most 2⁵³ pico-dollars ($9,007); a dearer
/// request is not elastic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// Pico-dollars that do not depend on the output cap.
    pub fixed: u64,
    /// Pico-dollars per token of the output cap, all choices together.
    pub per_token: u64,
    /// The output cap asked for.
    pub wanted: u64,
    /// The smallest output cap worth having.
    pub floor: u64,
}

impl Elastic {
    /// An elastic claim, if its numbers stay exact and there is something to shrink.
    #[must_use]
    pub fn new(fixed: u128, per_token: u128, wanted: u64, floor: u64) -> Option<Self> {
        let total = fixed.checked_add(per_token.checked_mul(u128::from(wanted))?)?;
        let fits = total <= u128::from(super::bucket::MAX_EXACT) && per_token > 0 && floor < wanted;
        let (fixed, per_token) = (u64::try_from(fixed).ok()?, u64::try_from(per_token).ok()?);
        fits.then_some(Self { fixed, per_token, wanted, floor })
    }

    /// The dollar claim at this output cap.
    #[must_use]
    pub fn cost(&self, cap: u64) -> NanoUsd {
        NanoUsd::from_pico_ceil(u128::from(self.fixed) + u128::from(self.per_token) * u128::from(cap))
    }

    /// The largest output cap, at most `wanted`, whose cost is within `room` nano-dollars; `None` when even none at all is too dear.
    #[must_use]
    pub fn affordable(&self, room: u64) -> Option<u64> {
        let room = u128::from(room) * 1_000;
        let left = room.checked_sub(u128::from(self.fixed))?;
        Some(u64::try_from(left / u128::from(self.per_token)).unwrap_or(u64::MAX).min(self.wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_affordable_cap_is_the_largest_that_fits() {
        let elastic = Elastic::new(2_500_000_500, 10_000_000, 1_000_000, 16).expect("exact");
        for room in [2_500_001, 2_510_001, 1_000_000_000, 10_002_500_000] {
            let cap = elastic.affordable(room).expect("some");
            assert!(elastic.cost(cap).get() <= room, "{room}: {cap}");
            assert!(cap == elastic.wanted || elastic.cost(cap + 1).get() > room, "{room}: {cap}");
        }
        assert_eq!(elastic.affordable(2_500_000), None);
    }

    #[test]
    fn a_request_too_dear_to_count_exactly_is_not_elastic() {
        assert_eq!(Elastic::new(0, 10_000_000, u64::MAX, 16), None);
        assert_eq!(Elastic::new(0, 0, 1_000, 16), None, "free output");
    }
}
