//! Money as integers: nano-dollars for amounts, pico-dollars per token for rates.
//!
//! A rate of `$0.075` per million tokens is 75 nano-dollars per thousand tokens, so nano-dollars per token would already lose
//! digits; every published rate fits pico-dollars per token exactly. A request's cost is summed in pico-dollars and rounded up
//! to nano-dollars once.

use std::fmt;

/// An amount of money in nano-dollars (10⁻⁹ USD). Never negative.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(u64);

impl NanoUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount a cap or a counter may hold: $9,000,000, which stays exact in the doubles of a Lua script (2⁵³).
    pub const MAX: Self = Self(9_000_000_000_000_000);

    /// From a count of nano-dollars; saturates at [`NanoUsd::MAX`].
    #[must_use]
    pub const fn new(nano: u64) -> Self {
        if nano > Self::MAX.0 { Self::MAX } else { Self(nano) }
    }

    /// From pico-dollars, rounded up, saturating: the one place where a request's cost is rounded.
    #[must_use]
    pub fn from_pico_ceil(pico: u128) -> Self {
        Self::new(u64::try_from(pico.div_ceil(1_000)).unwrap_or(u64::MAX))
    }

    /// Reads a decimal number of dollars such as `0.50`, exactly.
    ///
    /// # Errors
    /// When it is not a plain non-negative decimal, has more than nine decimals, or exceeds [`NanoUsd::MAX`].
    pub fn from_usd(text: &str) -> Result<Self, MoneyError> {
        let nano = decimal(text, 9)?;
        u64::try_from(nano).ok().filter(|&n| n <= Self::MAX.0).map(Self).ok_or(MoneyError::TooLarge)
    }

    /// Nano-dollars.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Sum, saturating at [`NanoUsd::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self::new(self.0.saturating_add(other.0))
    }

    /// Difference, zero when the other is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for NanoUsd {
    /// Dollars with at least two decimals and no trailing zeros beyond: `$0.50`, `$0.00021`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let digits = format!("{fraction:09}");
        let kept = digits.trim_end_matches('0');
        write!(f, "${whole}.{kept:0<2}")
    }
}

impl fmt::Debug for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A price in pico-dollars per token, which is micro-dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Free.
    pub const ZERO: Self = Self(0);
    /// $1,000,000 per million tokens; anything above is a misplaced decimal point.
    const MAX: u64 = 1_000_000_000_000;

    /// From pico-dollars per token.
    #[must_use]
    pub const fn from_pico(pico: u64) -> Self {
        Self(pico)
    }

    /// Reads a decimal number of dollars per million tokens, exactly (six decimals).
    ///
    /// # Errors
    /// When it is not a plain non-negative decimal, has more than six decimals, or is absurdly large.
    pub fn per_million(text: &str) -> Result<Self, MoneyError> {
        let pico = decimal(text, 6)?;
        u64::try_from(pico).ok().filter(|&p| p <= Self::MAX).map(Self).ok_or(MoneyError::TooLarge)
    }

    /// Pico-dollars per token.
    #[must_use]
    pub const fn pico(self) -> u64 {
        self.0
    }

    /// What this many tokens cost, in pico-dollars, unrounded.
    #[must_use]
    pub fn times(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }
}

/// Why a number is not an amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Not digits with at most one point; negative, `nan` and `inf` land here.
    #[error("is not a non-negative decimal number")]
    NotDecimal,
    /// More decimals than the unit can hold.
    #[error("has more decimals than can be kept exactly")]
    TooPrecise,
    /// Beyond the largest amount.
    #[error("is too large")]
    TooLarge,
}

/// `text` x 10^`places` as an integer, exactly.
fn decimal(text: &str, places: usize) -> Result<u128, MoneyError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = if fraction.len() > places { fraction.trim_end_matches('0') } else { fraction };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(MoneyError::NotDecimal);
    }
    if fraction.len() > places {
        return Err(MoneyError::TooPrecise);
    }
    if whole.len() > 20 {
        return Err(MoneyError::TooLarge);
    }
    format!("{whole}{fraction:0<places$}").parse().map_err(|_| MoneyError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_exact_decimals() {
        for (text, nano, shown) in [
            ("0.50", 500_000_000, "$0.50"),
            ("5", 5_000_000_000, "$5.00"),
            ("0.00021", 210_000, "$0.00021"),
            ("0.000000001", 1, "$0.000000001"),
        ] {
            let money = NanoUsd::from_usd(text).expect("a decimal");
            assert_eq!(money.get(), nano, "{text}");
            assert_eq!(money.to_string(), shown);
        }
        assert_eq!(Rate::per_million("0.075").expect("a rate").pico(), 75_000);
    }

    #[test]
    fn refuses_what_is_no_amount() {
        for text in ["", "-1", "nan", "inf", "1e3", "1.2.3", " 1", "0x1"] {
            assert_eq!(NanoUsd::from_usd(text), Err(MoneyError::NotDecimal), "{text}");
        }
        assert_eq!(NanoUsd::from_usd("0.0000000001"), Err(MoneyError::TooPrecise));
        assert_eq!(NanoUsd::from_usd("9000000.01"), Err(MoneyError::TooLarge));
    }

    #[test]
    fn a_cost_is_rounded_up_once() {
        assert_eq!(NanoUsd::from_pico_ceil(1).get(), 1);
        assert_eq!(NanoUsd::from_pico_ceil(1_000).get(), 1);
        assert_eq!(NanoUsd::from_pico_ceil(1_001).get(), 2);
    }
}
