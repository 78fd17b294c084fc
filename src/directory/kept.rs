//! What is kept of what was said of a customer: the keys of `[customers.ID]`, until when they hold, a suspension, and credits.

use crate::domain::{Boundaries, NanoUsd, Period, Timestamp};
use crate::store::StoreError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The keys of `[customers.ID]`.
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// The first instant at which they do not hold any more, microseconds since the epoch; `None` = for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// That the customer is suspended, beside the fields and with an end of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// Dollars on top of caps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credits: Vec<Credit>,
}

/// That nothing is served to a customer, until an operator lifts it or it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// The first instant at which it does not hold any more, microseconds since the epoch; `None` = until it is lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

impl Suspension {
    /// Whether it holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now.micros() < until)
    }
}

/// Dollars on top of a cap, in one calendar period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// `day`, `week` or `month`: of which cap.
    pub period: Box<str>,
    /// When the period began, Unix seconds.
    pub start: u64,
    /// When it ends, Unix seconds.
    pub end: u64,
    /// How much.
    pub nano_usd: u64,
}

impl Kept {
    /// From a document.
    pub fn read(value: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(value).map_err(|error| StoreError::Failed(format!("an override: {error}")))
    }

    /// As a document.
    pub fn write(&self) -> Result<Bytes, StoreError> {
        serde_json::to_vec(self).map(Bytes::from).map_err(|error| StoreError::Failed(format!("an override: {error}")))
    }

    /// Whether the fields hold.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now.micros() < until)
    }

    /// Without what is over; `None` when nothing is left.
    pub fn pruned(mut self, now: Timestamp) -> Option<Self> {
        if !self.holds(now) {
            self.fields.clear();
        }
        if self.fields.is_empty() {
            self.until = None;
        }
        self.suspended = self.suspended.filter(|suspended| suspended.holds(now));
        self.credits.retain(|credit| now.secs() < credit.end);
        (!self.fields.is_empty() || self.suspended.is_some() || !self.credits.is_empty()).then_some(self)
    }

    /// The first instant at which all of it is over; `None` = never.
    pub fn over(&self) -> Option<Timestamp> {
        let for_ever = Timestamp(u64::MAX);
        let fields = (!self.fields.is_empty()).then(|| self.until.map_or(for_ever, Timestamp));
        let suspended = self.suspended.map(|suspended| suspended.until.map_or(for_ever, Timestamp));
        let credits = self.credits.iter().map(|credit| Timestamp::from_secs(credit.end));
        credits.chain(fields).chain(suspended).max().filter(|over| *over < for_ever)
    }
}

impl Credit {
    /// For the period around now.
    pub fn of(period: Period, boundaries: Boundaries, now: Timestamp, amount: NanoUsd) -> Self {
        let (start, end) = boundaries.at(now);
        Self { period: word(period).into(), start, end, nano_usd: amount.get() }
    }

    /// Whether it counts now.
    pub fn counts(&self, now: Timestamp) -> bool {
        (self.start..self.end).contains(&now.secs())
    }

    /// Of which cap.
    pub fn of_period(&self) -> Option<Period> {
        Period::ALL.into_iter().find(|period| word(*period) == &*self.period)
    }
}

const fn word(period: Period) -> &'static str {
    match period {
        Period::Day => "day",
        Period::Week => "week",
        Period::Month => "month",
    }
}
