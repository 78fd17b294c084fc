//! `[plans]`, `[customers]`, `[gateway]` and the limits in them, as written.

use super::super::choice::Window;
use super::super::node::{Node, Value};
use super::super::policy::Step;
use super::super::problem::{Findings, Place};
use super::super::read::{At, Known as _, Read, as_table, field, only, table};
use super::super::value::{Limitable, PerPeriod, Wait};
use crate::domain::NanoUsd;

table! {
    /// `[plans.NAME]`, and the overriding fields of a customer.
    Plan {
        /// The message bucket.
        messages: At<Limitable<Messages>>,
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
        /// Limits of each user inside the customer.
        user: User,
        /// The largest output cap.
        max_output_tokens: At<Limitable<u64>>,
        /// Most requests in flight in one process.
        max_in_flight: At<Limitable<u64>>,
        /// Where an upgrade is sold.
        upgrade_url: At<String>,
        /// What is tried at a cap or quota.
        on_spend: At<Vec<Step>>,
        /// What is tried at RPM or TPM.
        on_tokens: At<Vec<Step>>,
        /// What is tried when the provider has no room or fails.
        on_provider: At<Vec<Step>>,
    }

    /// `[shadow.plans.NAME]`
    ShadowPlan {
        /// The message bucket.
        messages: At<Limitable<Messages>>,
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
        /// Limits of each user inside the customer.
        user: User,
    }

    /// `user`: limits of each user inside a customer.
    User {
        /// The message bucket.
        messages: At<Limitable<Messages>>,
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
    }

    /// `[gateway]`
    Gateway {
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
    }

    /// `spend`: dollars per calendar period.
    Spend {
        /// A day.
        day: At<Limitable<NanoUsd>>,
        /// An ISO week.
        week: At<Limitable<NanoUsd>>,
        /// A month.
        month: At<Limitable<NanoUsd>>,
    }

    /// `quota`: requests and tokens per calendar period.
    Quota {
        /// Requests a day.
        requests_day: At<Limitable<u64>>,
        /// Requests a week.
        requests_week: At<Limitable<u64>>,
        /// Requests a month.
        requests_month: At<Limitable<u64>>,
        /// Tokens a day.
        tokens_day: At<Limitable<u64>>,
        /// Tokens a week.
        tokens_week: At<Limitable<u64>>,
        /// Tokens a month.
        tokens_month: At<Limitable<u64>>,
    }

    /// `rpm` or `tpm` in full.
    RateLimitTable {
        /// How much in a minute.
        limit: At<u64>,
        /// How it decides.
        window: Window,
        /// Capacity of the bucket; absent = the limit.
        burst: At<u64>,
        /// Longest wait for room.
        max_wait: Wait,
    }

    /// `messages` in full.
    MessagesTable {
        /// The refill.
        rate: At<PerPeriod>,
        /// The capacity; absent = twice the amount of the rate.
        burst: At<u64>,
        /// Longest wait for room.
        max_wait: Wait,
    }
}

/// `rpm` or `tpm`: a number, or the table.
#[derive(Clone, Debug)]
pub struct RateLimit(pub RateLimitTable);

impl Read for RateLimit {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        if matches!(node.value, Value::Table(_)) {
            return RateLimitTable::read(node, place, findings).map(Self);
        }
        let limit = At::read(node, place, findings)?;
        Some(Self(RateLimitTable { limit: Some(limit), ..RateLimitTable::empty(place.clone()) }))
    }
}

/// `messages`: a rate, or the table.
#[derive(Clone, Debug)]
pub struct Messages(pub MessagesTable);

impl Read for Messages {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        if matches!(node.value, Value::Table(_)) {
            return MessagesTable::read(node, place, findings).map(Self);
        }
        let rate = At::read(node, place, findings)?;
        Some(Self(MessagesTable { rate: Some(rate), ..MessagesTable::empty(place.clone()) }))
    }
}

/// `[customers.ID]`: a plan, and the fields that differ from it.
#[derive(Clone, Debug)]
pub struct Customer {
    /// Its plan; absent = the default plan.
    pub plan: Option<At<String>>,
    /// What differs.
    pub overrides: Plan,
}

impl Read for Customer {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let table = as_table(node, place, findings)?;
        only(table, place, &[&["plan"], Plan::KEYS].concat(), findings);
        Some(Self { plan: field(table, "plan", place, findings), overrides: Plan::fields(table, place, findings) })
    }
}
