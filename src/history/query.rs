//! Asking the history. Days that have nothing are all zeros, so that a chart has no holes.

use super::counts::{CAUSE, Count, ModelCount, PLAN, Peaks, SHADOW};
use super::day::Day;
use super::{History, damaged};
use crate::domain::NanoUsd;
use crate::store::StoreError;
use crate::store::series::{Kind, Ranking, Row, RowKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Days in one answer at most: the last ones.
pub const MOST_DAYS: u32 = 400;
/// Models of one day at most: as many as gateways tell apart.
const MOST_MODELS: usize = 10_000;

/// What somebody, or everybody, used in an hour or a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Requests, each in exactly one of the six that follow.
    pub requests: u64,
    /// Answered by the model that was asked for, unabridged.
    pub served: u64,
    /// Answered with something given up: a shorter answer, a cheaper model.
    pub degraded: u64,
    /// Handed off to a person.
    pub handed_off: u64,
    /// Turned away by the gateway; see `refusals`.
    pub refused: u64,
    /// Failed at the provider, or broke off.
    pub failed: u64,
    /// The client left before there was an answer.
    pub left: u64,
    /// Input tokens booked.
    pub input_tokens: u64,
    /// Those of them that the provider read from its cache.
    pub cached_tokens: u64,
    /// Output tokens booked.
    pub output_tokens: u64,
    /// What was booked.
    pub cost_nano_usd: u64,
    /// Refused requests by cause: `scope.limit` of the limit, or the code of the error.
    pub refusals: BTreeMap<String, u64>,
    /// Requests that a proposed plan would have refused, by limit.
    #[serde(default)]
    pub shadow: BTreeMap<String, u64>,
    /// Requests by plan (days only).
    pub plans: BTreeMap<String, u64>,
    /// Most messages in one minute (days only).
    pub peak_messages: u64,
    /// Most admitted requests in one minute (days only).
    pub peak_requests: u64,
    /// Most tokens in one minute (days only).
    pub peak_tokens: u64,
}

impl Use {
    /// What was booked.
    #[must_use]
    pub const fn cost(&self) -> NanoUsd {
        NanoUsd::new(self.cost_nano_usd)
    }

    /// The plan under which most requests were made.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        let most = self.plans.iter().max_by_key(|(name, requests)| (**requests, std::cmp::Reverse(*name)));
        most.map(|(name, _)| name.as_str())
    }

    /// Adds another: sums add up, of peaks the larger stands.
    pub fn add(&mut self, other: &Self) {
        let Self {
            requests,
            served,
            degraded,
            handed_off,
            refused,
            failed,
            left,
            input_tokens,
            cached_tokens,
            output_tokens,
            cost_nano_usd,
            refusals,
            shadow,
            plans,
            peak_messages,
            peak_requests,
            peak_tokens,
        } = other;
        let sums = [
            (&mut self.requests, requests),
            (&mut self.served, served),
            (&mut self.degraded, degraded),
            (&mut self.handed_off, handed_off),
            (&mut self.refused, refused),
            (&mut self.failed, failed),
            (&mut self.left, left),
            (&mut self.input_tokens, input_tokens),
            (&mut self.cached_tokens, cached_tokens),
            (&mut self.output_tokens, output_tokens),
            (&mut self.cost_nano_usd, cost_nano_usd),
        ];
        for (sum, amount) in sums {
            *sum = sum.saturating_add(*amount);
        }
        for (sums, amounts) in [(&mut self.refusals, refusals), (&mut self.shadow, shadow), (&mut self.plans, plans)] {
            for (name, amount) in amounts {
                *sums.entry(name.clone()).or_default() += amount;
            }
        }
        self.peak_messages = self.peak_messages.max(*peak_messages);
        self.peak_requests = self.peak_requests.max(*peak_requests);
        self.peak_tokens = self.peak_tokens.max(*peak_tokens);
    }

    /// Takes in a counter by its name in the store. Names that are not known are of a newer version, and passed over.
    fn take(&mut self, name: &str, value: u64) {
        for (prefix, map) in [(CAUSE, &mut self.refusals), (SHADOW, &mut self.shadow), (PLAN, &mut self.plans)] {
            if let Some(name) = name.strip_prefix(prefix) {
                map.insert(name.to_owned(), value);
                return;
            }
        }
        if let Some(count) = Count::ALL.iter().find(|count| count.as_str() == name) {
            *self.counter(*count) = value;
        } else if let Some(peak) = Peaks::ALL.iter().find(|peak| peak.as_str() == name) {
            match peak {
                Peaks::Messages => self.peak_messages = value,
                Peaks::Requests => self.peak_requests = value,
                Peaks::Tokens => self.peak_tokens = value,
            }
        }
    }

    const fn counter(&mut self, count: Count) -> &mut u64 {
        match count {
            Count::Requests => &mut self.requests,
            Count::Served => &mut self.served,
            Count::Degraded => &mut self.degraded,
            Count::HandedOff => &mut self.handed_off,
            Count::Refused => &mut self.refused,
            Count::Failed => &mut self.failed,
            Count::Left => &mut self.left,
            Count::Input => &mut self.input_tokens,
            Count::CachedInput => &mut self.cached_tokens,
            Count::Output => &mut self.output_tokens,
            Count::Cost => &mut self.cost_nano_usd,
        }
    }

    fn of_day(row: &Row) -> Self {
        let mut all = Self::default();
        row.iter().for_each(|(name, value)| all.take(name, *value));
        all
    }

    fn of_hours(row: &Row) -> Vec<Self> {
        let mut hours = vec![Self::default(); 24];
        for (name, value) in row {
            let Some((hour, name)) = name.split_once('.') else { continue };
            if let Some(hour) = hour.parse().ok().and_then(|hour: usize| hours.get_mut(hour)) {
                hour.take(name, *value);
            }
        }
        hours
    }
}

/// What a model used in a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUse {
    /// The upstream that was asked.
    pub upstream: String,
    /// The model that it was asked for.
    pub model: String,
    /// The model that it says has answered: often a dated name of the same.
    pub served_model: String,
    /// Requests.
    pub requests: u64,
    /// Input tokens, cached ones among them.
    pub input_tokens: u64,
    /// Those of them that were read from the provider's cache.
    pub cached_tokens: u64,
    /// Those of them that were written to it.
    pub cache_write_tokens: u64,
    /// Output tokens, reasoning among them.
    pub output_tokens: u64,
    /// Those of them that were reasoning.
    pub reasoning_tokens: u64,
    /// What was booked.
    pub cost_nano_usd: u64,
}

impl ModelUse {
    fn of(id: &str, row: &Row) -> Result<Self, StoreError> {
        let mut names = id.split('\t').map(str::to_owned);
        let (Some(upstream), Some(model), Some(served_model)) = (names.next(), names.next(), names.next()) else {
            return Err(damaged("a model without its names"));
        };
        let n = |count: ModelCount| row.get(count.as_str()).copied().unwrap_or(0);
        Ok(Self {
            upstream,
            model,
            served_model,
            requests: n(ModelCount::Requests),
            input_tokens: n(ModelCount::Input),
            cached_tokens: n(ModelCount::CachedInput),
            cache_write_tokens: n(ModelCount::CacheWrite),
            output_tokens: n(ModelCount::Output),
            reasoning_tokens: n(ModelCount::Reasoning),
            cost_nano_usd: n(ModelCount::Cost),
        })
    }
}

/// Customers and what they used in a day.
pub type Customers = Vec<(String, Use)>;

impl History {
    /// A customer's days, from the first to the last, both included; the last [`MOST_DAYS`] of them.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn customer_days(&self, id: &str, first: Day, last: Day) -> Result<Vec<(Day, Use)>, StoreError> {
        self.days(Kind::CustomerDay, id, first, last).await
    }

    /// The 24 hours of a customer's day; zeros where they are not kept any more.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn customer_hours(&self, id: &str, day: Day) -> Result<Vec<Use>, StoreError> {
        self.hours(Kind::CustomerHours, id, day).await
    }

    /// Everybody's days; otherwise as [`History::customer_days`].
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn total_days(&self, first: Day, last: Day) -> Result<Vec<(Day, Use)>, StoreError> {
        self.days(Kind::TotalDay, "", first, last).await
    }

    /// The 24 hours of everybody's day.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn total_hours(&self, day: Day) -> Result<Vec<Use>, StoreError> {
        self.hours(Kind::TotalHours, "", day).await
    }

    /// A day's customers, those who spent most first. At most 1,000 in one answer.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn top_customers(&self, day: Day, ranking: &Ranking) -> Result<Customers, StoreError> {
        let rows = self.documents.series().ranked(Kind::CustomerDay, day.0, ranking).await?;
        Ok(rows.into_iter().map(|(id, row)| (id, Use::of_day(&row))).collect())
    }

    /// All customers of a day, in any order, a page at a time. `after`: what the page before said; `None` at the end.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked, or `after` makes no sense to it.
    pub async fn all_customers(&self, day: Day, after: Option<&str>) -> Result<(Customers, Option<String>), StoreError> {
        let (rows, next) = self.documents.series().scan(Kind::CustomerDay, day.0, after).await?;
        Ok((rows.into_iter().map(|(id, row)| (id, Use::of_day(&row))).collect(), next))
    }

    /// What each model used in a day, by upstream and name.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn models(&self, day: Day) -> Result<Vec<ModelUse>, StoreError> {
        let (mut models, mut after): (Vec<ModelUse>, Option<String>) = (Vec::new(), None);
        loop {
            let (rows, next) = self.documents.series().scan(Kind::ModelDay, day.0, after.as_deref()).await?;
            for (id, row) in rows {
                models.push(ModelUse::of(&id, &row)?);
            }
            if next.is_none() || models.len() >= MOST_MODELS {
                break;
            }
            after = next;
        }
        models.sort_by(|a, b| (&a.upstream, &a.model, &a.served_model).cmp(&(&b.upstream, &b.model, &b.served_model)));
        Ok(models)
    }

    async fn days(&self, kind: Kind, id: &str, first: Day, last: Day) -> Result<Vec<(Day, Use)>, StoreError> {
        let days = first.through(last, MOST_DAYS);
        let keys: Vec<_> = days.clone().map(|day| RowKey { kind, day: day.0, id: id.to_owned() }).collect();
        let rows = self.documents.series().rows(&keys).await?;
        Ok(days.zip(rows.iter().map(Use::of_day)).collect())
    }

    async fn hours(&self, kind: Kind, id: &str, day: Day) -> Result<Vec<Use>, StoreError> {
        let rows = self.documents.series().rows(&[RowKey { kind, day: day.0, id: id.to_owned() }]).await?;
        Ok(Use::of_hours(&rows.into_iter().next().unwrap_or_default()))
    }
}
