//! What several areas show: plans, limits and amounts, in one shape each.
//!
//! Amounts are whole numbers in the unit they are counted in; dollars are nano-dollars (a billion to the dollar), which JSON numbers hold
//! exactly for every limit there can be.

use crate::config::policy::{Limit, LimitKind, Limits, Plan, Step};
use crate::domain::{Boundaries, Period, Timestamp};
use crate::limit::{Claim, LimitName, Measure, Outcome, Rule, ScopeKey, Verdict};
use crate::reply::rfc3339;
use crate::stack::customer_rate;
use serde::Serialize;
use utoipa::ToSchema;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Requests, refused ones included, that reach the limits.
    Messages,
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Nano-dollars: a billion to the dollar.
    NanoUsd,
}

impl Unit {
    /// Of a limit.
    #[must_use]
    pub const fn of(limit: LimitName) -> Self {
        match limit {
            LimitName::Messages => Self::Messages,
            LimitName::Rpm | LimitName::Rpd | LimitName::RequestQuota(_) => Self::Requests,
            LimitName::Tpm | LimitName::InputTpm | LimitName::OutputTpm | LimitName::Tpd | LimitName::TokenQuota(_) => {
                Self::Tokens
            }
            LimitName::Spend(_) => Self::NanoUsd,
        }
    }
}

/// A limit of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LimitSetting {
    /// Which: `messages`, `rpm`, `tpm`, `spend_day`, `requests_week`, `tokens_month` and so on.
    pub limit: String,
    /// What it counts.
    pub unit: Unit,
    /// How much of it: a bucket's capacity, the most in any 60 s, or the cap of the period.
    pub max: u64,
    /// How a bucket refills; absent for windows and caps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refill: Option<Refill>,
    /// The longest wait for room instead of a refusal, milliseconds.
    pub max_wait_ms: u64,
}

/// How a bucket refills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Refill {
    /// So much of the unit ...
    pub amount: u64,
    /// ... every so many microseconds, evenly.
    pub every_us: u64,
}

/// A plan, or a customer's own version of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlanShape {
    /// Its name.
    pub name: String,
    /// The limits of the customer; one that is not listed does not exist.
    pub limits: Vec<LimitSetting>,
    /// The limits of each user inside the customer.
    pub user_limits: Vec<LimitSetting>,
    /// The largest output cap.
    pub max_output_tokens: Option<u64>,
    /// Most requests in flight, in one gateway process.
    pub max_in_flight: Option<u32>,
    /// Where an upgrade is sold.
    pub upgrade_url: Option<String>,
    /// What is tried when a cap or quota is reached: `wait`, `cheaper`, `handoff`.
    pub on_spend: Vec<String>,
    /// What is tried when the customer's RPM or TPM is reached.
    pub on_tokens: Vec<String>,
    /// What is tried when the provider has no room or fails.
    pub on_provider: Vec<String>,
}

impl PlanShape {
    /// Of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let Plan {
            name,
            limits,
            user,
            max_output_tokens,
            max_in_flight,
            upgrade_url,
            on_spend,
            on_tokens,
            on_provider,
            suspended: _,
        } = plan;
        let steps = |steps: &[Step]| steps.iter().map(|step| word(*step).to_owned()).collect();
        Self {
            name: name.to_string(),
            limits: settings(limits),
            user_limits: settings(user),
            max_output_tokens: *max_output_tokens,
            max_in_flight: *max_in_flight,
            upgrade_url: upgrade_url.as_deref().map(str::to_owned),
            on_spend: steps(on_spend),
            on_tokens: steps(on_tokens),
            on_provider: steps(on_provider),
        }
    }
}

const fn word(step: Step) -> &'static str {
    match step {
        Step::Wait => "wait",
        Step::Cheaper => "cheaper",
        Step::Handoff => "handoff",
    }
}

fn settings(limits: &Limits) -> Vec<LimitSetting> {
    let rate = |limit: &Limit| {
        let (max, refill) = match limit.kind {
            LimitKind::Bucket(bucket) => (bucket.capacity(), Some(Refill { amount: bucket.gain(), every_us: bucket.unit() })),
            LimitKind::Sliding(most) => (most, None),
        };
        let max_wait_ms = u64::try_from(limit.max_wait.as_millis()).unwrap_or(u64::MAX);
        LimitSetting { limit: limit.name.as_str().to_owned(), unit: Unit::of(limit.name), max, refill, max_wait_ms }
    };
    let cap = |limit: LimitName, max| LimitSetting {
        limit: limit.as_str().to_owned(),
        unit: Unit::of(limit),
        max,
        refill: None,
        max_wait_ms: 0,
    };
    let spend = limits.spend.iter().map(|(period, most)| cap(LimitName::Spend(*period), most.get()));
    let quotas = limits.quotas.iter().map(|(limit, most)| cap(*limit, *most));
    limits.messages.iter().chain(&limits.rates).map(rate).chain(spend).chain(quotas).collect()
}

/// What a limit would say to the smallest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// There is room.
    Open,
    /// There is room after a wait that the plan allows.
    Waits,
    /// There is none until `retry_in_ms` is over.
    Full,
    /// There is none while requests in flight hold what is left.
    Held,
    /// There is none until the period is over.
    Spent,
    /// There never is: the limit is zero.
    Closed,
}

/// How a limit stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LimitStanding {
    /// Whose: `customer` or `user`.
    pub scope: String,
    /// Which.
    pub limit: String,
    /// What it counts.
    pub unit: Unit,
    /// How much of it there is.
    pub max: u64,
    /// What is used: missing from the bucket, counted in the window, or settled in the period.
    pub used: u64,
    /// What requests in flight hold of a cap.
    pub held: u64,
    /// What is left.
    pub remaining: u64,
    /// When the bucket is full, the window empty or the period over, RFC 3339.
    pub resets_at: String,
    /// What it would say to the smallest request.
    pub room: Room,
    /// When it would say yes, milliseconds from now; absent when it does, or when nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}

impl LimitStanding {
    /// What a look found of a claim at `at`.
    #[must_use]
    pub fn of(claim: &Claim, verdict: &Verdict, at: Timestamp) -> Self {
        let max = match claim.rule {
            Rule::Bucket { bucket, .. } => bucket.capacity(),
            Rule::Window { limit, .. } => limit,
            Rule::Budget { cap, .. } => cap,
        };
        let (room, retry_in) = match verdict.outcome {
            _ if max == 0 => (Room::Closed, None),
            Outcome::Fits | Outcome::Deferred => (Room::Open, None),
            Outcome::Starts(wait) => (Room::Waits, Some(wait)),
            Outcome::Refused(wait) => (Room::Full, Some(wait)),
            Outcome::InFlight => (Room::Held, None),
            Outcome::Exhausted => (Room::Spent, Some(verdict.reset_in)),
            Outcome::Never => (Room::Closed, None),
        };
        Self {
            scope: claim.scope.scope.as_str().to_owned(),
            limit: claim.limit.as_str().to_owned(),
            unit: Unit::of(claim.limit),
            max,
            used: verdict.used,
            held: verdict.held,
            remaining: verdict.remaining,
            resets_at: rfc3339(at.plus(verdict.reset_in)),
            room,
            retry_in_ms: retry_in.map(|micros| micros.div_ceil(1_000)),
        }
    }
}

/// A claim of one on each of these limits; `periods` gives the boundaries around now.
#[must_use]
pub fn claims(scope: &ScopeKey, limits: &Limits, periods: impl Fn(Period) -> Boundaries) -> Vec<Claim> {
    let rates = limits.messages.iter().chain(&limits.rates).map(|limit| customer_rate::claim(scope, limit, 1));
    let budget = |limit: LimitName, period, cap, measure| {
        let rule = Rule::Budget { cap, boundaries: periods(period) };
        Claim { scope: scope.clone(), limit, rule, measure, amount: 1 }
    };
    let spend = limits.spend.iter().map(|(period, cap)| budget(LimitName::Spend(*period), *period, cap.get(), Measure::Money));
    let quotas = limits.quotas.iter().filter_map(|(limit, cap)| {
        let measure = if matches!(limit, LimitName::RequestQuota(_)) { Measure::Request } else { Measure::Tokens };
        Some(budget(*limit, limit.period()?, *cap, measure))
    });
    rates.chain(spend).chain(quotas).collect()
}
