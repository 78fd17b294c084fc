//! Durations, instants and header values as text.

use crate::domain::Timestamp;
use bytes::Bytes;
use http::HeaderValue;

/// Whole seconds, rounded up: who waits this long has waited long enough.
pub(super) const fn seconds(micros: u64) -> u64 {
    micros.div_ceil(1_000_000)
}

/// A duration as Go prints it, in milliseconds rounded up: `120ms`, `1.5s`, `6m0s`, `1h0m0s`.
pub(super) fn go_duration(text: &mut String, micros: u64) {
    let ms = micros.div_ceil(1_000);
    if ms < 1_000 {
        if ms > 0 {
            number(text, ms);
        }
        return text.push_str(if ms > 0 { "ms" } else { "0s" });
    }
    let (hours, minutes, seconds, rest) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
    if hours > 0 {
        number(text, hours);
        text.push('h');
    }
    if hours > 0 || minutes > 0 {
        number(text, minutes);
        text.push('m');
    }
    number(text, seconds);
    if rest > 0 {
        // Three digits behind the point, without the zeros at their end.
        text.push('.');
        text.push_str(format!("{rest:03}").trim_end_matches('0'));
    }
    text.push('s');
}

/// An integer.
pub(super) fn number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// An instant in RFC 3339, UTC, rounded up to the second: `2026-11-29T23:11:59Z`.
pub fn rfc3339(at: Timestamp) -> String {
    let secs = i64::try_from(seconds(at.micros())).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(secs).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// A duration for people, rounded up: `1 second`, `8 minutes`, `3 hours`, `12 days`.
pub(super) fn in_words(micros: u64) -> String {
    let secs = seconds(micros).max(1);
    let (count, unit) = match secs {
        0..120 => (secs, "second"),
        120..7_200 => (secs.div_ceil(60), "minute"),
        7_200..172_800 => (secs.div_ceil(3_600), "hour"),
        _ => (secs.div_ceil(86_400), "day"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

/// At most `max` characters of something foreign, nothing in it that could break a line or a terminal.
pub(super) fn snippet(foreign: &str, max: usize) -> String {
    let mut short: String = foreign.chars().take(max).flat_map(char::escape_default).collect();
    if foreign.chars().nth(max).is_some() {
        short.push_str("...");
    }
    short
}

/// Text made of visible ASCII and spaces as a header value.
pub(super) fn header(text: impl Into<Bytes>) -> HeaderValue {
    HeaderValue::from_maybe_shared(text.into()).expect("the gateway's own header values are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(micros: u64) -> String {
        let mut text = String::new();
        go_duration(&mut text, micros);
        text
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn durations_read_like_gos() {
        for (micros, right) in [
            (0, "0s"),
            (1, "1ms"),
            (120_000, "120ms"),
            (999_001, "1s"),
            (SECOND, "1s"),
            (1_500_000, "1.5s"),
            (59_880_000, "59.88s"),
            (90 * SECOND, "1m30s"),
            (60_050_000, "1m0.05s"),
            (360 * SECOND, "6m0s"),
            (3_600 * SECOND, "1h0m0s"),
            (100 * 3_600 * SECOND + 1, "100h0m0.001s"),
        ] {
            assert_eq!(spelled(micros), right, "{micros}");
        }
    }

    #[test]
    fn people_are_told_a_time_that_is_long_enough() {
        for (micros, right) in [
            (0, "1 second"),
            (SECOND, "1 second"),
            (SECOND + 1, "2 seconds"),
            (119 * SECOND, "119 seconds"),
            (120 * SECOND, "2 minutes"),
            (121 * SECOND, "3 minutes"),
            (7_200 * SECOND, "2 hours"),
            (172_801 * SECOND, "3 days"),
        ] {
            assert_eq!(in_words(micros), right, "{micros}");
        }
    }

    #[test]
    fn instants_round_up_and_never_fail() {
        assert_eq!(rfc3339(Timestamp::from_secs(1_796_083_200)), "2026-12-01T00:00:00Z");
        assert_eq!(rfc3339(Timestamp(1_796_083_200_000_001)), "2026-12-01T00:00:01Z");
        assert!(rfc3339(Timestamp(u64::MAX)).starts_with("9999-"));
    }

    #[test]
    fn what_is_foreign_is_cut_and_escaped() {
        assert_eq!(snippet("gpt-4o", 64), "gpt-4o");
        assert_eq!(snippet("a\r\nb", 64), "a\\r\\nb");
        assert_eq!(snippet("xxxx", 3), "xxx...");
    }
}
