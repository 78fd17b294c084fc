//! Numbers of a price file, read exactly from their JSON text rather than through a float.

/// $1 per token, in pico-dollars; anything above is a misplaced decimal point.
pub(super) const MAX_PICO_PER_TOKEN: u64 = 1_000_000_000_000;

/// Why a JSON value is not the number it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NumberError {
    /// A string, a list, `true`.
    #[error("is not a number")]
    NotANumber,
    /// Below zero.
    #[error("is negative")]
    Negative,
    /// Beyond what makes sense.
    #[error("is too large")]
    TooLarge,
}

/// `json` x 10^`places` as an integer, rounded up; `json` is the text of one JSON value.
///
/// Price files are printed from floats, so `3e-07` may read `3.0000000000000004e-07`: a rest below a thousandth of the unit is taken
/// for that noise and dropped.
pub(super) fn scaled(json: &str, places: i32) -> Result<u64, NumberError> {
    let json = json.trim();
    let (number, exponent) = json.split_once(['e', 'E']).unwrap_or((json, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(NumberError::Negative);
    }
    let mantissa: u128 = digits.parse().map_err(|_| NumberError::TooLarge)?;
    let exponent: i32 = exponent.parse().map_err(|_| NumberError::TooLarge)?;
    let decimals = i32::try_from(fraction.len()).map_err(|_| NumberError::TooLarge)?;
    let shift = exponent.saturating_add(places).saturating_sub(decimals);
    let power = 10u128.checked_pow(shift.unsigned_abs());
    let integer = match power {
        Some(power) if shift >= 0 => mantissa.checked_mul(power).ok_or(NumberError::TooLarge)?,
        None if shift >= 0 => return Err(NumberError::TooLarge),
        Some(power) => {
            let (quotient, rest) = (mantissa / power, mantissa % power);
            let noise = quotient > 0 && rest < power / 1_000;
            quotient + u128::from(rest > 0 && !noise)
        }
        None => 1,
    };
    u64::try_from(integer).map_err(|_| NumberError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_json_numbers_exactly_and_rounds_up() {
        for (json, places, right) in [
            ("2.5e-06", 12, Ok(2_500_000)),
            ("2.5E-6", 12, Ok(2_500_000)),
            ("0.0000025", 12, Ok(2_500_000)),
            ("7.5e-08", 12, Ok(75_000)),
            ("3.0000000000000004e-07", 12, Ok(300_000)),
            ("2.9999999999999997e-06", 12, Ok(3_000_000)),
            ("1.23456789012345e-06", 12, Ok(1_234_568)),
            ("1e-15", 12, Ok(1)),
            ("1e-400", 12, Ok(1)),
            ("0", 12, Ok(0)),
            ("0.0", 12, Ok(0)),
            ("-0.0", 12, Ok(0)),
            ("0e99999999999", 12, Ok(0)),
            ("4096.0", 0, Ok(4_096)),
            ("1e6", 0, Ok(1_000_000)),
            ("1.1", 6, Ok(1_100_000)),
            ("-1e-06", 12, Err(NumberError::Negative)),
            ("1e400", 12, Err(NumberError::TooLarge)),
            ("1e99999999999", 12, Err(NumberError::TooLarge)),
            ("99999999999999999999999999999999999999999", 0, Err(NumberError::TooLarge)),
            ("\"nan\"", 12, Err(NumberError::NotANumber)),
            ("\"\"", 12, Err(NumberError::NotANumber)),
            ("NaN", 12, Err(NumberError::NotANumber)),
            ("Infinity", 12, Err(NumberError::NotANumber)),
            ("true", 12, Err(NumberError::NotANumber)),
            ("[1]", 12, Err(NumberError::NotANumber)),
            ("", 12, Err(NumberError::NotANumber)),
        ] {
            assert_eq!(scaled(json, places), right, "{json}");
        }
    }
}
