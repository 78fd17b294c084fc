//! Reading an export, whichever of the known ones it is.
//!
//! | from | format | told by |
//! |---|---|---|
//! | OpenAI, usage page | CSV or TSV | columns `start_time_iso` or `start_time`, `num_model_requests`, `input_tokens`, `output_tokens` |
//! | OpenAI, cost page | CSV or TSV | columns `start_time_iso` or `start_time`, `amount_value`, `line_item` |
//! | OpenAI, `/v1/organization/usage/..` | JSON pages | results of `organization.usage...` |
//! | OpenAI, `/v1/organization/costs` | JSON pages | results of `organization.costs.result` |
//! | Anthropic, usage page | CSV | columns `usage_date_utc`, `model_version`, `usage_input_tokens_no_cache` |
//! | Anthropic, cost page | CSV | columns `usage_date_utc`, `model`, `cost_usd` |
//! | Anthropic, `/v1/organizations/usage_report/messages` | JSON pages | results with `uncached_input_tokens` |
//! | Anthropic, `/v1/organizations/cost_report` | JSON pages | results with `amount` in cents and `currency` |
//!
//! JSON may be several pages one after the other, or a list of them. Buckets shorter than a day are added up.

mod json;
mod sheet;

use super::Theirs;
use crate::history::Day;
use serde::Serialize;
use std::collections::BTreeMap;

/// Whose export it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
}

impl Provider {
    /// As it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
        }
    }
}

/// An export that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Whose.
    pub provider: Provider,
    /// What it says, a row for each day and model, in that order.
    pub rows: Vec<Theirs>,
    /// What to bear in mind, as sentences.
    pub remarks: Vec<String>,
}

/// Why an export cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is empty.
    #[error("the file is empty")]
    Empty,
    /// It is none of the known ones.
    #[error("this is none of the exports that are known ({0}); docs/reconcile.md lists them")]
    Unknown(String),
    /// A line or result makes no sense.
    #[error("{place}: {reason}")]
    Damaged {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
}

/// Reads an export.
///
/// # Errors
/// [`Unreadable`], with a sentence for whoever has the file.
pub fn read(text: &str) -> Result<Export, Unreadable> {
    let text = text.trim_start_matches('\u{feff}').trim();
    match text.as_bytes().first() {
        None => Err(Unreadable::Empty),
        Some(b'{' | b'[') => json::read(text),
        Some(_) => sheet::read(text),
    }
}

/// Rows by day and model, added up.
#[derive(Default)]
struct Sums(BTreeMap<(Day, String), Theirs>);

impl Sums {
    fn add(&mut self, row: Theirs) {
        let sum = self.0.entry((row.day, row.model.clone())).or_insert_with(|| Theirs {
            day: row.day,
            model: row.model.clone(),
            ..Theirs::default()
        });
        for (sum, amount) in [
            (&mut sum.requests, row.requests),
            (&mut sum.input, row.input),
            (&mut sum.cached, row.cached),
            (&mut sum.output, row.output),
            (&mut sum.cost, row.cost),
        ] {
            if let Some(amount) = amount {
                *sum = Some(sum.unwrap_or(0).saturating_add(amount));
            }
        }
        sum.batch = sum.batch.saturating_add(row.batch);
    }

    fn export(self, provider: Provider, remarks: Vec<String>) -> Export {
        Export { provider, rows: self.0.into_values().collect(), remarks }
    }
}

/// The day of a bucket: seconds since 1970, an instant, or a date.
fn day_of(text: &str) -> Option<Day> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Day::of(crate::domain::Timestamp(seconds.checked_mul(1_000_000)?)));
    }
    text.get(..10)?.parse().ok()
}

/// The model of an OpenAI line item, which reads `gpt-4o-mini-2024-07-18, input`.
fn model_of(line_item: &str) -> String {
    line_item.split(',').next().unwrap_or_default().trim().to_owned()
}

/// What to say where dollars come in another currency.
fn other_currency(place: &str, currency: &str) -> Unreadable {
    Unreadable::Damaged {
        place: place.to_owned(),
        reason: format!("the amount is in {currency:?}, and only dollars can be compared"),
    }
}

#[cfg(test)]
mod tests;
