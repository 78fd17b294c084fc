//! Numbers as people read them, and the few that tables and charts both need.

use super::scenario::{Path, Provider};
use crate::config::Policy;
use crate::config::policy::LimitKind;
use crate::config::value::matches;
use crate::limit::LimitName;

/// The requests or tokens per minute that the gateway lets through to an account: headroom x limit, of the pool with its models.
pub fn ceiling(policy: &Policy, provider: &Provider, path: Path, name: LimitName) -> Option<u64> {
    let pool = policy.pools.iter().find(|pool| {
        pool.models.iter().any(|model| provider.models.iter().any(|pattern| matches(pattern, model.trim_end_matches('*'))))
    });
    let limit = pool.filter(|_| path == Path::Tollgate)?.ceiling.iter().find(|limit| limit.name == name)?;
    Some(match limit.kind {
        LimitKind::Bucket(bucket) => bucket.per_minute(),
        LimitKind::Sliding(most) => most,
    })
}

/// `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A part of a whole in percent, rounded, `-` of nothing. A part that is not nothing and not all of it does not read as if it were.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let rounded = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
    match rounded {
        0 if part > 0 => "<0.1 %".to_owned(),
        1_000 if part < whole => ">99.9 %".to_owned(),
        _ if rounded % 10 == 0 => format!("{} %", rounded / 10),
        _ => format!("{}.{} %", rounded / 10, rounded % 10),
    }
}

/// A duration from microseconds: `0`, `12 ms`, `1.8 s`, `3m 20s`, `1h 05m`.
pub fn duration(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    match seconds {
        0 if micros == 0 => "0 s".to_owned(),
        0 => format!("{} ms", micros.div_ceil(1_000)),
        1..60 => {
            let tenths = micros / 100_000;
            if tenths.is_multiple_of(10) { format!("{seconds} s") } else { format!("{}.{} s", tenths / 10, tenths % 10) }
        }
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [(0, 0), (0, 9), (1, 3), (1, 2), (1, 100_000), (99_999, 100_000), (9, 9), (5, 4)].map(|(a, b)| percent(a, b)),
            ["-", "0 %", "33.3 %", "50 %", "<0.1 %", ">99.9 %", "100 %", "125 %"]
        );
        assert_eq!(
            [0, 1, 12_000, 1_000_000, 1_850_000, 200_000_000, 3_900_000_000].map(duration),
            ["0 s", "1 ms", "12 ms", "1 s", "1.8 s", "3m 20s", "1h 05m"]
        );
    }
}
