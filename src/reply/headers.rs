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
use super::text::{go_duration, header, rfc3339, seconds};
use crate::limit::{LimitName, Measure};
use crate::wire::Dialect;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt::Write as _;

/// The largest integer a structured field may hold.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// What limits the number of requests.
const REQUESTS: [LimitName; 2] = [LimitName::Messages, LimitName::Rpm];

/// Puts a customer's limits on an answer, in place of whatever stood there under those names.
pub fn rate_headers(headers: &mut HeaderMap, standing: &Standing, dialect: Dialect) {
    if standing.limits.is_empty() {
        return;
    }
    headers.insert(RATELIMIT_POLICY, header(policies(standing)));
    headers.insert(RATELIMIT, header(remainders(standing)));
    let requests = standing.tightest(&REQUESTS);
    if let Some(stand) = requests {
        put(headers, OLDER, stand, HeaderValue::from(seconds(stand.full_in)));
    }
    let tokens = standing.tightest(&[LimitName::Tpm]);
    match dialect {
        Dialect::OpenAi => {
            let tokens = tokens.or_else(|| standing.tightest(&[LimitName::InputTpm, LimitName::OutputTpm]));
            for (names, stand) in [(OPENAI_REQUESTS, requests), (OPENAI_TOKENS, tokens)] {
                if let Some(stand) = stand {
                    put(headers, names, stand, header(go_duration(stand.full_in)));
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
                    put(headers, names, stand, header(rfc3339(standing.at.plus(stand.full_in))));
                }
            }
        }
    }
    if let Some(notice) = standing.notice() {
        headers.insert(NOTICE, header(notice.to_owned()));
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

fn put(headers: &mut HeaderMap, [limit, remaining, reset]: Trio, stand: &Stand, reset_value: HeaderValue) {
    headers.insert(limit, HeaderValue::from(stand.max));
    headers.insert(remaining, HeaderValue::from(stand.remaining));
    headers.insert(reset, reset_value);
}

/// `"rpm";q=60;w=60, "tpm";q=40000;w=60;tollgate-unit="tokens"`
fn policies(standing: &Standing) -> String {
    list(standing, |text, stand| {
        let _ = write!(text, ";q={}", quantity(stand, stand.max));
        if let Some(window) = stand.window {
            let _ = write!(text, ";w={}", window.min(MAX_INTEGER));
        }
        text.push_str(match stand.measure {
            Measure::Message | Measure::Request => "",
            Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => ";tollgate-unit=\"tokens\"",
            Measure::Money => ";tollgate-unit=\"micro-usd\"",
        });
    })
}

/// `"rpm";r=59;t=1, "tpm";r=39500;t=0`
fn remainders(standing: &Standing) -> String {
    list(standing, |text, stand| {
        let (r, t) = (quantity(stand, stand.remaining), seconds(stand.more_in).min(MAX_INTEGER));
        let _ = write!(text, ";r={r};t={t}");
    })
}

fn list(standing: &Standing, parameters: impl Fn(&mut String, &Stand)) -> String {
    let mut text = String::with_capacity(64 * standing.limits.len());
    for stand in &standing.limits {
        if !text.is_empty() {
            text.push_str(", ");
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "\"{}\"", stand.limit.as_str());
        parameters(&mut text, stand);
    }
    text
}

/// An amount in the unit of the headers: dollars in whole micro-dollars, rounded down.
const fn quantity(stand: &Stand, amount: u64) -> u64 {
    let amount = if matches!(stand.measure, Measure::Money) { amount / 1_000 } else { amount };
    if amount > MAX_INTEGER { MAX_INTEGER } else { amount }
}

#[cfg(test)]
mod tests;
