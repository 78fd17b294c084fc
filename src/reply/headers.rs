//! The rate headers every answer carries: the customer's own limits, in all the spellings clients know.
//!
//! - `RateLimit-Policy` and `RateLimit`, draft-ietf-httpapi-ratelimit-headers-10: lists of all limits. The draft has no units for
//!   tokens or dollars, so those carry a parameter of ours, and dollars are integers of micro-dollars.
//! - `RateLimit-Limit`, `-Remaining`, `-Reset`: the spelling of the draft up to -06, for the tightest limit on requests.
//! - `x-ratelimit-*` as OpenAI sends them (durations until full) or `anthropic-ratelimit-*` (instants), by the route's dialect. Where
//!   several limits are of one dimension, the one with the least left.
//!
//! Values are never negative: a bucket in debt has nothing left.

use super::names::{
    ANTHROPIC_INPUT_TOKENS, ANTHROPIC_OUTPUT_TOKENS, ANTHROPIC_REQUESTS, ANTHROPIC_TOKENS, NOTICE, OLDER, OPENAI_REQUESTS,
    OPENAI_TOKENS, RATELIMIT, RATELIMIT_POLICY, Trio,
};
use super::standing::{Stand, Standing};
use super::text::{go_duration, header, number, rfc3339, seconds};
use crate::limit::{LimitName, Measure};
use crate::wire::Dialect;
use bytes::Bytes;
use http::{HeaderMap, HeaderName};

/// The largest integer a structured field may hold.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// What limits the number of requests.
const REQUESTS: [LimitName; 2] = [LimitName::Messages, LimitName::Rpm];

/// Puts a customer's limits on an answer, in place of whatever stood there under those names.
pub fn rate_headers(headers: &mut HeaderMap, standing: &Standing, dialect: Dialect) {
    if standing.limits.is_empty() {
        return;
    }
    let mut values = Values::default();
    values.add(RATELIMIT_POLICY, |text| policies(text, standing));
    values.add(RATELIMIT, |text| remainders(text, standing));
    let requests = standing.tightest(&REQUESTS);
    if let Some(stand) = requests {
        values.put(OLDER, stand, |text| number(text, seconds(stand.full_in)));
    }
    let tokens = standing.tightest(&[LimitName::Tpm]);
    match dialect {
        Dialect::OpenAi => {
            let tokens = tokens.or_else(|| standing.tightest(&[LimitName::InputTpm, LimitName::OutputTpm]));
            for (names, stand) in [(OPENAI_REQUESTS, requests), (OPENAI_TOKENS, tokens)] {
                if let Some(stand) = stand {
                    values.put(names, stand, |text| go_duration(text, stand.full_in));
                }
            }
        }
        Dialect::Anthropic => {
            for (names, stand) in [
                (ANTHROPIC_REQUESTS, requests),
                (ANTHROPIC_TOKENS, tokens),
                (ANTHROPIC_INPUT_TOKENS, standing.tightest(&[LimitName::InputTpm])),
                (ANTHROPIC_OUTPUT_TOKENS, standing.tightest(&[LimitName::OutputTpm])),
            ] {
                if let Some(stand) = stand {
                    values.put(names, stand, |text| text.push_str(&rfc3339(standing.at.plus(stand.full_in))));
                }
            }
        }
    }
    if let Some(notice) = standing.notice() {
        values.add(NOTICE, |text| text.push_str(notice));
    }
    values.insert(headers);
}

/// Values of headers, one behind the other in one text: an answer has a dozen of them, and so they take one allocation.
struct Values {
    text: String,
    /// Each name, and where its value ends.
    ends: Vec<(HeaderName, usize)>,
}

impl Default for Values {
    /// With room for what is usual.
    fn default() -> Self {
        Self { text: String::with_capacity(640), ends: Vec::with_capacity(16) }
    }
}

impl Values {
    fn add(&mut self, name: HeaderName, spell: impl FnOnce(&mut String)) {
        spell(&mut self.text);
        self.ends.push((name, self.text.len()));
    }

    fn put(&mut self, [limit, remaining, reset]: Trio, stand: &Stand, spell: impl FnOnce(&mut String)) {
        self.add(limit, |text| number(text, stand.max));
        self.add(remaining, |text| number(text, stand.remaining));
        self.add(reset, spell);
    }

    fn insert(self, headers: &mut HeaderMap) {
        // Those of the provider, and some of ours that follow.
        headers.reserve(self.ends.len() + 4);
        let (text, mut start) = (Bytes::from(self.text), 0);
        for (name, end) in self.ends {
            headers.insert(name, header(text.slice(start..end)));
            start = end;
        }
    }
}

/// Whether a header of a provider's answer states numbers of the account that all customers share, in any of the spellings known.
/// Such a header never reaches a client, who would pace on room that is not theirs.
#[must_use]
pub fn is_account_number(name: &HeaderName) -> bool {
    const PREFIXES: [&str; 5] = ["x-ratelimit-", "anthropic-ratelimit-", "anthropic-priority-", "anthropic-fast-", "ratelimit-"];
    let name = name.as_str();
    name == "ratelimit" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// `"rpm";q=60;w=60, "tpm";q=40000;w=60;tollgate-unit="tokens"`
fn policies(text: &mut String, standing: &Standing) {
    list(text, standing, |text, stand| {
        text.push_str(";q=");
        number(text, quantity(stand, stand.max));
        if let Some(window) = stand.window {
            text.push_str(";w=");
            number(text, window.min(MAX_INTEGER));
        }
        text.push_str(match stand.measure {
            Measure::Message | Measure::Request => "",
            Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => ";tollgate-unit=\"tokens\"",
            Measure::Money => ";tollgate-unit=\"micro-usd\"",
        });
    });
}

/// `"rpm";r=59;t=1, "tpm";r=39500;t=0`
fn remainders(text: &mut String, standing: &Standing) {
    list(text, standing, |text, stand| {
        text.push_str(";r=");
        number(text, quantity(stand, stand.remaining));
        text.push_str(";t=");
        number(text, seconds(stand.more_in).min(MAX_INTEGER));
    });
}

fn list(text: &mut String, standing: &Standing, parameters: impl Fn(&mut String, &Stand)) {
    for (index, stand) in standing.limits.iter().enumerate() {
        text.push_str(if index == 0 { "\"" } else { ", \"" });
        text.push_str(stand.limit.as_str());
        text.push('"');
        parameters(text, stand);
    }
}

/// An amount in the unit of the headers: dollars in whole micro-dollars, rounded down.
const fn quantity(stand: &Stand, amount: u64) -> u64 {
    let amount = if matches!(stand.measure, Measure::Money) { amount / 1_000 } else { amount };
    if amount > MAX_INTEGER { MAX_INTEGER } else { amount }
}

#[cfg(test)]
mod tests;
