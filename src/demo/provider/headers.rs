//! Reply headers as the two providers send them, the ones a gateway must keep to itself included.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::limits::Standing;
use crate::wire::Dialect;

/// Headers of every reply. The account's limits, its name, the cookie and the server's name are in here so that tests can
/// prove that none of them reaches a gateway's client.
pub(super) fn of_reply(dialect: Dialect, request_id: &str, standing: &Standing) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(header::SERVER, HeaderValue::from_static("stand-in"));
    headers.insert(header::SET_COOKIE, HeaderValue::from_static("__cf_bm=stand-in; path=/; HttpOnly"));
    headers.insert("cf-ray", HeaderValue::from_static("0000000000000000-FRA"));
    let (id, org) = match dialect {
        Dialect::OpenAi => ("x-request-id", "openai-organization"),
        Dialect::Anthropic => ("request-id", "anthropic-organization-id"),
    };
    headers.insert(id, text(request_id));
    headers.insert(org, HeaderValue::from_static("org-demo"));
    match dialect {
        Dialect::OpenAi => {
            headers.insert("openai-version", HeaderValue::from_static("2020-10-01"));
            headers.insert("openai-processing-ms", HeaderValue::from_static("12"));
            for (what, (limit, remaining)) in [("requests", standing.requests), ("tokens", standing.tokens)] {
                headers.insert(name(&format!("x-ratelimit-limit-{what}")), limit.into());
                headers.insert(name(&format!("x-ratelimit-remaining-{what}")), remaining.into());
                headers.insert(name(&format!("x-ratelimit-reset-{what}")), HeaderValue::from_static("120ms"));
            }
        }
        Dialect::Anthropic => {
            for (what, (limit, remaining)) in [
                ("requests", standing.requests),
                ("tokens", standing.tokens),
                ("input-tokens", standing.input),
                ("output-tokens", standing.output),
            ] {
                headers.insert(name(&format!("anthropic-ratelimit-{what}-limit")), limit.into());
                headers.insert(name(&format!("anthropic-ratelimit-{what}-remaining")), remaining.into());
                headers.insert(name(&format!("anthropic-ratelimit-{what}-reset")), text(&reset_instant()));
            }
        }
    }
    headers
}

/// The next whole second, as RFC 3339: when a bucket that is nearly full is full again.
fn reset_instant() -> String {
    jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 1).unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn name(name: &str) -> HeaderName {
    HeaderName::from_bytes(name.as_bytes()).expect("built from letters and dashes")
}

fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("built from visible ASCII")
}
