//! Limits from recorded use: what to cap, what each figure rests on, and whom it would have turned away.
//!
//! Pure: days of customers in, a proposal out. Per plan the daily cap is the 99.9th percentile of a customer's daily spend times a
//! factor, the monthly one what the plan's price leaves at the margin that is wanted; RPM, TPM and messages come from the largest
//! minutes. The ceiling of the whole gateway is a few times its average day. From too little data nothing is proposed.
//!
//! What a proposal would have refused is counted from days and their largest minutes, not from single requests: of a day over a cap the
//! part of its requests that corresponds to the part of its cost, of a minute over a rate what exceeds it. Limits that were in force
//! while the use was recorded are in it: nobody can be seen to want more than they were given.

mod propose;
pub mod write;

pub use propose::propose;

use crate::history::{Day, Use};
use serde::Serialize;
use std::collections::BTreeMap;

/// Customer-days below which nothing is proposed for a plan.
pub const LEAST_CUSTOMER_DAYS: usize = 100;
/// Days below which nothing is proposed: a week has its weekend.
pub const LEAST_DAYS: usize = 7;
/// Customer-days from which the 99.9th percentile is more than the maximum.
pub const SOUND_CUSTOMER_DAYS: usize = 1_000;

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Times the percentile of daily spend, thousandths.
    pub factor: u64,
    /// Times the largest minutes, thousandths.
    pub headroom: u64,
    /// Times the average day of the gateway, thousandths.
    pub ceiling: u64,
    /// What a customer pays a month, nano-dollars: of a plan, or (the empty name) of every other.
    pub prices: BTreeMap<String, u64>,
    /// What of it is to be left, thousandths.
    pub margin: u64,
}

impl Default for Wish {
    fn default() -> Self {
        Self { factor: 3_000, headroom: 1_500, ceiling: 3_000, prices: BTreeMap::new(), margin: 500 }
    }
}

/// A customer's day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomerDay {
    /// Who.
    pub customer: String,
    /// When.
    pub day: Day,
    /// What.
    pub used: Use,
}

/// What is proposed, for every plan that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// The first day that was looked at.
    pub from: Day,
    /// The last one.
    pub to: Day,
    /// Plans by name.
    pub plans: Vec<PlanProposal>,
    /// The whole gateway's spend a day; `None` from too little data.
    pub gateway_day: Option<Figure>,
}

/// What is proposed for a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanProposal {
    /// Its name.
    pub plan: String,
    /// Customers seen under it.
    pub customers: usize,
    /// Days on which they used something, all together.
    pub customer_days: usize,
    /// Days on which anybody did.
    pub days: usize,
    /// Why nothing is proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What to bear in mind.
    pub remarks: Vec<String>,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// Which limit a figure is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Nano-dollars a day.
    SpendDay,
    /// Nano-dollars a month.
    SpendMonth,
    /// Messages: a minute's worth, and the burst.
    Messages,
    /// Requests per minute.
    Rpm,
    /// Tokens per minute.
    Tpm,
}

impl Limit {
    /// Whether it is in dollars.
    #[must_use]
    pub const fn is_money(self) -> bool {
        matches!(self, Self::SpendDay | Self::SpendMonth)
    }

    /// As the configuration spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpendDay => "spend.day",
            Self::SpendMonth => "spend.month",
            Self::Messages => "messages",
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
        }
    }
}

/// One proposed limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Which.
    pub limit: Limit,
    /// How much: nano-dollars, requests or tokens.
    pub value: u64,
    /// The figure it comes from, in the same unit: a percentile, an average day, a price.
    pub basis: u64,
    /// How many observations that is of.
    pub observations: usize,
    /// How it was made, as a sentence.
    pub how: String,
    /// What it would have refused in the recorded days.
    pub refused: Refused,
}

/// What a limit would have refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Customers.
    pub customers: usize,
    /// Their days (or months).
    pub periods: usize,
    /// Requests, about; of a rate at least so many.
    pub requests: u64,
    /// Who, those with the most first; ten at most.
    pub ids: Vec<String>,
}
