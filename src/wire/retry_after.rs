//! When a provider says to come back, in all spellings that providers and the proxies before them use.
//!
//! In this order, the first that makes sense counts: `retry-after-ms` (milliseconds, with decimals), `retry-after` (seconds, also with
//! decimals, or a date), and only where neither is there the reset of a limit of which nothing is left: a Go duration such as `6m0s`
//! (OpenAI and its likes) or an instant (Anthropic). What makes no sense is no statement. Several values of one header: the longest.

use crate::domain::Timestamp;
use http::{HeaderMap, HeaderName};
use std::time::{Duration, UNIX_EPOCH};

/// The wait a reply states, zero for "now"; `None` where it states none.
#[must_use]
pub fn stated(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    longest(headers, "retry-after-ms", |text| decimal(text, 1_000))
        .or_else(|| longest(headers, "retry-after", |text| decimal(text, 1_000_000).or_else(|| date(text, now))))
        .or_else(|| resets(headers, now))
}

fn longest(headers: &HeaderMap, name: &str, read: impl Fn(&str) -> Option<Duration>) -> Option<Duration> {
    headers.get_all(name).iter().filter_map(|value| read(value.to_str().ok()?.trim())).max()
}

/// The latest reset among the limits of which nothing is left. A limit that has something left is reset later than the request would
/// fit; one that does not say what is left is taken to be the one that was reached.
fn resets(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let is_limit = |name: &str| ["x-ratelimit-", "anthropic-"].iter().any(|prefix| name.starts_with(prefix));
    let names = headers.keys().map(HeaderName::as_str).filter(|name| is_limit(name) && name.contains("reset"));
    let of = |name: &str| {
        let remaining = headers.get(name.replacen("reset", "remaining", 1)).and_then(|value| value.to_str().ok());
        let left = remaining.is_some_and(|text| text.bytes().any(|byte| matches!(byte, b'1'..=b'9')));
        if left { None } else { longest(headers, name, |text| go_duration(text).or_else(|| instant(text, now))) }
    };
    names.filter_map(of).max()
}

/// A decimal number of `unit` microseconds, rounded up; without sign, exponent or blanks inside. What is too large is as large as can be.
fn decimal(text: &str, unit: u64) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let number =
        |text: &str| text.bytes().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    // Nine decimals of a second are enough for any clock.
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = 10_u64.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let part = (u128::from(number(fraction)) * u128::from(unit)).div_ceil(u128::from(scale));
    let micros = number(whole).saturating_mul(unit).saturating_add(u64::try_from(part).unwrap_or(u64::MAX));
    Some(Duration::from_micros(micros))
}

/// An HTTP date in any of its three forms; one that is past means "now".
fn date(text: &str, now: Timestamp) -> Option<Duration> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(since.saturating_sub(Duration::from_micros(now.micros())))
}

/// An instant as RFC 3339 spells it.
fn instant(text: &str, now: Timestamp) -> Option<Duration> {
    let micros = text.parse::<jiff::Timestamp>().ok()?.as_microsecond();
    Some(Duration::from_micros(u64::try_from(micros).ok()?.saturating_sub(now.micros())))
}

/// A duration as Go prints it: `1s`, `6m0s`, `120ms`, `1h0m0.5s`.
fn go_duration(text: &str) -> Option<Duration> {
    /// Units in nanoseconds, the longer spelling of two first.
    const UNITS: [(&str, u64); 8] = [
        ("ms", 1_000_000),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ns", 1),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
    ];
    let (mut rest, mut sum) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let (unit, nanos) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        // In nanoseconds as if they were microseconds, so that no decimal of a small unit is lost.
        let nanos = decimal(number, *nanos)?.as_micros();
        sum = sum.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        rest = &behind[unit.len()..];
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    /// 2026-11-29T23:11:50Z
    const NOW: Timestamp = Timestamp::from_secs(1_795_993_910);

    fn wait(pairs: &[(&'static str, &str)]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        }
        stated(&headers, NOW).map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    }

    #[test]
    fn every_spelling_of_retry_after_is_read() {
        for (value, right) in [
            ("7", Some(7_000)),
            ("0", Some(0)),
            (" 2 ", Some(2_000)),
            ("1.5", Some(1_500)),
            ("0.3", Some(300)),
            (".5", Some(500)),
            ("3.", Some(3_000)),
            ("999999999999", Some(999_999_999_999_000)),
            ("99999999999999999999999999", Some(u64::MAX / 1_000)),
            ("Sun, 29 Nov 2026 23:11:53 GMT", Some(3_000)),
            ("Sunday, 29-Nov-26 23:11:53 GMT", Some(3_000)),
            ("Sun Nov 29 23:11:53 2026", Some(3_000)),
            ("Sun, 29 Nov 2026 23:11:40 GMT", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("-1", None),
            ("+1", None),
            ("abc", None),
            ("", None),
            (".", None),
            ("NaN", None),
            ("inf", None),
            ("1e3", None),
            ("1,5", None),
            ("5s", None),
        ] {
            assert_eq!(wait(&[("retry-after", value)]), right, "{value:?}");
        }
        assert_eq!(wait(&[("retry-after", "1"), ("retry-after", "5")]), Some(5_000), "the longer of two");
        assert_eq!(wait(&[("retry-after", "abc"), ("retry-after", "5")]), Some(5_000), "the one that makes sense");
    }

    #[test]
    fn milliseconds_come_first_and_resets_last() {
        let reset = ("x-ratelimit-reset-requests", "9s");
        for (headers, right) in [
            (vec![("retry-after-ms", "250"), ("retry-after", "7"), reset], Some(250)),
            (vec![("retry-after-ms", "12.5")], Some(12)),
            (vec![("retry-after-ms", "NaN"), ("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", "7"), reset], Some(7_000)),
            (vec![("retry-after", "soon"), reset], Some(9_000)),
            (vec![], None),
        ] {
            assert_eq!(wait(&headers), right, "{headers:?}");
        }
    }

    #[test]
    fn the_reset_of_a_limit_that_is_used_up_is_a_wait() {
        for (headers, right) in [
            (vec![("x-ratelimit-reset-requests", "1s")], Some(1_000)),
            (vec![("x-ratelimit-reset-tokens", "6m0s"), ("x-ratelimit-remaining-tokens", "0")], Some(360_000)),
            (vec![("x-ratelimit-reset-tokens", "6m0s"), ("x-ratelimit-remaining-tokens", "149,984")], None),
            (vec![("x-ratelimit-reset-tokens", "120ms"), ("x-ratelimit-reset-requests", "59.88s")], Some(59_880)),
            (vec![("x-ratelimit-reset-tokens", "1h0m0s")], Some(3_600_000)),
            (vec![("x-ratelimit-reset-tokens", "1m30s")], Some(90_000)),
            (vec![("x-ratelimit-reset-tokens", "2m59.56s")], Some(179_560)),
            (vec![("x-ratelimit-reset-tokens", "1500us")], Some(1)),
            (vec![("x-ratelimit-reset-project-tokens", "3s")], Some(3_000)),
            (vec![("x-ratelimit-reset-tokens", "6")], None),
            (vec![("x-ratelimit-reset-tokens", "s")], None),
            (vec![("x-ratelimit-reset-tokens", "1x")], None),
            (vec![("anthropic-ratelimit-requests-reset", "2026-11-29T23:11:59Z")], Some(9_000)),
            (
                vec![
                    ("anthropic-ratelimit-requests-reset", "2026-11-29T23:11:59Z"),
                    ("anthropic-ratelimit-requests-remaining", "12"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-11-29T23:11:54Z"),
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ],
                Some(4_000),
            ),
            (vec![("anthropic-ratelimit-tokens-reset", "2026-11-29T20:00:00Z")], Some(0)),
            (vec![("anthropic-priority-input-tokens-reset", "2026-11-29T23:12:00Z")], Some(10_000)),
            (vec![("anthropic-ratelimit-tokens-reset", "tomorrow")], None),
            (vec![("x-reset", "5s")], None),
        ] {
            assert_eq!(wait(&headers), right, "{headers:?}");
        }
    }

    /// Header values as providers write them, nearly so, and not at all.
    fn spelling() -> impl Strategy<Value = Vec<u8>> {
        let spelled = prop_oneof![
            "[0-9]{0,25}(\\.[0-9]{0,25})?",
            "([0-9.]{0,22}(h|m|s|ms|us|µs|ns)){0,4}",
            "(Sun|Sunday), [0-9]{1,2}[ -](Nov|Feb)[ -][0-9]{2,5} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT)?",
            "[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})?",
            "\\PC{0,12}",
        ];
        let damaged = (spelled, any::<prop::sample::Index>(), prop::option::weighted(0.3, any::<u8>()));
        damaged.prop_map(|(text, at, byte)| {
            let mut bytes = text.into_bytes();
            if let Some(byte) = byte {
                bytes.insert(at.index(bytes.len() + 1), byte);
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn any_bytes_are_a_wait_or_no_statement(values in proptest::collection::vec((0..5_usize, spelling()), 1..5)) {
            let names = [
                "retry-after",
                "retry-after-ms",
                "x-ratelimit-reset-tokens",
                "x-ratelimit-remaining-tokens",
                "anthropic-ratelimit-requests-reset",
            ];
            let mut headers = HeaderMap::new();
            for (name, value) in &values {
                if let Ok(value) = HeaderValue::from_bytes(value) {
                    headers.append(names[*name], value);
                }
            }
            let alone = |name: &str| {
                let of = headers.iter().filter(|(other, _)| other.as_str() == name);
                stated(&of.map(|(name, value)| (name.clone(), value.clone())).collect(), NOW)
            };
            // Whatever stands beside it: what comes first counts where it makes sense.
            let right = alone("retry-after-ms").or_else(|| alone("retry-after"));
            if right.is_some() {
                prop_assert_eq!(stated(&headers, NOW), right);
            }
        }

        #[test]
        fn a_decimal_is_read_up_to_the_microsecond(micros in prop_oneof![0..10_000_000_u64, 0..u64::MAX / 2], zeros in 0..4_usize) {
            let seconds = format!("{}.{:06}{}", micros / 1_000_000, micros % 1_000_000, "0".repeat(zeros));
            let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, seconds.parse().expect("ASCII"))]);
            prop_assert_eq!(stated(&headers, NOW), Some(Duration::from_micros(micros)));
        }

        #[test]
        fn a_duration_is_read_as_go_prints_it(hours in 0..1_000_u64, minutes in 0..60_u64, millis in 0..60_000_u64) {
            let text = format!("{hours}h{minutes}m{}.{:03}s", millis / 1_000, millis % 1_000);
            prop_assert_eq!(go_duration(&text), Some(Duration::from_millis((hours * 60 + minutes) * 60_000 + millis)));
        }
    }
}
