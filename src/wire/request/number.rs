//! Whole numbers, read exactly: `100.0` and `1e2` are 100 to the provider, so they are 100 here; nothing is rounded or wrapped.

/// The largest count a client may ask for. Two of them (tokens times choices) multiply without overflow in a `u64`.
pub(super) const MAX_COUNT: u64 = u32::MAX as u64;

/// What a JSON number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// A whole number up to [`MAX_COUNT`].
    Count(u64),
    /// A whole number below zero.
    Negative,
    /// A whole number above [`MAX_COUNT`].
    TooLarge,
    /// Not whole.
    Fraction,
}

/// Reads a number token that follows the JSON grammar. Takes time linear in its length, whatever the exponent says.
pub(super) fn whole(token: &str) -> Whole {
    let (negative, token) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || integer.bytes().chain(fraction.bytes()).map(|digit| u64::from(digit - b'0'));
    if digits().all(|digit| digit == 0) {
        return Whole::Count(0);
    }
    // An exponent that does not fit an i64 is as good as the largest one that does.
    let exponent = exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let length = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let zeros = digits().rev().take_while(|digit| *digit == 0).count();
    let significant = integer.len() + fraction.len() - zeros;
    // The value is the digits before `zeros`, times ten to this power.
    let power = exponent.saturating_sub(length(fraction.len())).saturating_add(length(zeros));
    if power < 0 {
        return Whole::Fraction;
    }
    if negative {
        return Whole::Negative;
    }
    let zeros = std::iter::repeat_n(0, usize::try_from(power.min(20)).unwrap_or(20));
    let mut value = 0_u64;
    for digit in digits().take(significant).chain(zeros) {
        value = value * 10 + digit;
        if value > MAX_COUNT {
            return Whole::TooLarge;
        }
    }
    Whole::Count(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        for (token, right) in [
            ("0", Whole::Count(0)),
            ("-0", Whole::Count(0)),
            ("0.0e999999999999999999999", Whole::Count(0)),
            ("1", Whole::Count(1)),
            ("100.0", Whole::Count(100)),
            ("1e2", Whole::Count(100)),
            ("1E+2", Whole::Count(100)),
            ("100000e-3", Whole::Count(100)),
            ("1.250e2", Whole::Count(125)),
            ("0.0001e6", Whole::Count(100)),
            ("4294967295", Whole::Count(4_294_967_295)),
            ("4294967296", Whole::TooLarge),
            ("18446744073709551616", Whole::TooLarge),
            ("1e30", Whole::TooLarge),
            ("1e400", Whole::TooLarge),
            ("1e99999999999999999999", Whole::TooLarge),
            ("-1", Whole::Negative),
            ("-1e400", Whole::Negative),
            ("1.5", Whole::Fraction),
            ("-1.5", Whole::Fraction),
            ("1.25e1", Whole::Fraction),
            ("1e-1", Whole::Fraction),
            ("1e-99999999999999999999", Whole::Fraction),
            ("1.00000000000000000000000000001", Whole::Fraction),
        ] {
            assert_eq!(whole(token), right, "{token}");
        }
    }

    #[test]
    fn two_counts_multiply_without_overflow() {
        assert!(MAX_COUNT.checked_mul(MAX_COUNT).is_some());
    }
}
