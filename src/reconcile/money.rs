//! Amounts as exports write them: decimals of dollars or of cents, with more digits than a nano-dollar, some with an exponent.

/// `text` times 10 to the power of `places`, in whole units, rounded half up; `None` where it is no amount that is not negative.
///
/// Credits are negative and are passed over by whoever reads an export: they are about bills, not about use.
pub fn decimal(text: &str, places: i32) -> Option<u64> {
    let text = text.trim().trim_start_matches('$');
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    // So many of the digits stand before the point once it has moved.
    let before = i64::try_from(whole.len()).ok()? + i64::from(exponent) + i64::from(places);
    let mut value: u64 = 0;
    for at in 0..before.max(0) {
        let digit = usize::try_from(at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    let next = usize::try_from(before).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
    value.checked_add(u64::from(next >= 5))
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn amounts_become_whole_nano_dollars() {
        for (text, places, right) in [
            ("0.06", 9, Some(60_000_000)),
            ("0.8958740000000000", 9, Some(895_874_000)),
            ("$12", 9, Some(12_000_000_000)),
            ("123.45", 7, Some(1_234_500_000)), // cents
            ("1.5e-06", 9, Some(1_500)),
            ("2E2", 9, Some(200_000_000_000)),
            ("0.0000000004", 9, Some(0)),
            ("0.0000000005", 9, Some(1)),
            (".5", 0, Some(1)),
            ("7.", 0, Some(7)),
            ("1e-400", 9, Some(0)),
            ("", 9, None),
            (".", 9, None),
            ("-1", 9, None),
            ("1,5", 9, None),
            ("1e400", 9, None),
            ("99999999999999999999", 9, None),
        ] {
            assert_eq!(decimal(text, places), right, "{text}");
        }
    }
}
