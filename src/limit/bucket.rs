//! The token bucket: exact integer arithmetic, no drift, no overflow.
//!
//! A rate such as 5 per minute earns 1/12,000,000 token a microsecond. Instead of fractions the level is kept in *units* chosen per
//! bucket so that one microsecond earns a whole number of them: the rate is reduced to lowest terms `gain / unit`, a token is worth
//! `unit` units and a microsecond earns `gain`. Every number stays below 2⁵³, so a Lua script computes the very same.
//!
//! **Mirrors.** A claim is taken at once and corrected at settlement. While the request runs the bucket fills up again, so a refund could
//! give back what the refill has given already. For a limit of our own that is a kindness. A bucket that mirrors an account which is
//! charged with what was used would show room that the account does not have. So such a bucket knows how much of the claims in flight is
//! `held`: level and held together are what the account has, and never more than a full bucket, as nothing is earned there either. A
//! refund is at most what is held, and what was used is charged when it is settled. What nobody ends (its gateway died) is paid back
//! slowly: of what a full account would have earned, one part in sixteen goes from held to the level.

use crate::domain::Timestamp;

/// Numbers above this are not exact in the doubles of a Lua script.
pub const MAX_EXACT: u64 = 1 << 53;

/// A clock that jumps back by less than this is jitter between readers; by more, and the stored time is the wrong one.
pub const JITTER_MICROS: u64 = 1_000_000;

/// One part in so many of what cannot be earned pays back what is held of a mirror; after as many refills of a whole bucket without any
/// request nothing is.
const HEALING: u64 = 16;

/// A bucket of `capacity` tokens that refills at `gain / unit` tokens per microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    capacity: u64,
    gain: u64,
    unit: u64,
}

/// Why a rate and capacity make no bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// The period is zero.
    #[error("the period of a rate cannot be zero")]
    NoPeriod,
    /// `capacity x unit` leaves the exact range.
    #[error("this rate and capacity cannot be counted exactly; use a rounder or smaller number")]
    NotExact,
}

/// What is in a bucket. A bucket never seen is full, so no state means full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketState {
    /// Units in the bucket at `at`; negative when in debt.
    pub level: i64,
    /// When `level` was right.
    pub at: Timestamp,
    /// Units per token at that time, so that a changed limit can convert the level.
    pub unit: u64,
    /// Of a mirror: units of claims in flight.
    pub held: u64,
}

impl BucketState {
    /// A level of which nothing is held.
    #[must_use]
    pub const fn of(level: i64, at: Timestamp, unit: u64) -> Self {
        Self { level, at, unit, held: 0 }
    }
}

/// Whether an amount fits a bucket or window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// At once.
    Now,
    /// It may start after this many microseconds, within the claim's `max_wait`.
    Starts(u64),
    /// Not within `max_wait`; it will be admitted after this many microseconds.
    Refused(u64),
    /// Never: more than the limit itself.
    Never,
}

impl Bucket {
    /// A bucket of `capacity` tokens refilled by `amount` tokens every `period` microseconds.
    ///
    /// # Errors
    /// When the numbers cannot be kept exactly (see [`BucketError`]).
    pub fn new(capacity: u64, amount: u64, period: u64) -> Result<Self, BucketError> {
        Self::scaled(capacity, u128::from(amount), u128::from(period))
    }

    /// As [`Bucket::new`], refilled at only `headroom` millionths of the rate.
    ///
    /// # Errors
    /// As [`Bucket::new`].
    pub fn with_headroom(capacity: u64, amount: u64, period: u64, headroom: u32) -> Result<Self, BucketError> {
        Self::scaled(capacity, u128::from(amount) * u128::from(headroom), u128::from(period) * 1_000_000)
    }

    fn scaled(capacity: u64, amount: u128, period: u128) -> Result<Self, BucketError> {
        if period == 0 {
            return Err(BucketError::NoPeriod);
        }
        let common = gcd(amount, period);
        let (gain, unit) = (amount / common, period / common);
        let exact = |n: u128| u64::try_from(n).ok().filter(|&n| n <= MAX_EXACT / 4);
        let (Some(gain), Some(unit)) = (exact(gain), exact(unit)) else { return Err(BucketError::NotExact) };
        // A debt of one capacity and a wait on top of it must stay exact too, hence the quarter.
        exact(u128::from(capacity.max(1)) * u128::from(unit)).ok_or(BucketError::NotExact)?;
        Ok(Self { capacity, gain, unit })
    }

    /// Tokens in a full bucket.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units earned per microsecond.
    #[must_use]
    pub const fn gain(&self) -> u64 {
        self.gain
    }

    /// Units per token.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// The bucket's rate in tokens per minute, rounded down: what the headers state.
    #[must_use]
    pub fn per_minute(&self) -> u64 {
        u64::try_from(u128::from(self.gain) * 60_000_000 / u128::from(self.unit)).unwrap_or(u64::MAX)
    }

    const fn full(&self) -> i64 {
        (self.capacity * self.unit).cast_signed()
    }

    /// The state at `now`: refilled, converted to the present limit, never above capacity.
    #[must_use]
    pub fn advance(&self, state: Option<BucketState>, now: Timestamp) -> BucketState {
        let Some(old) = state else { return BucketState::of(self.full(), now, self.unit) };
        let (mut level, mut held) = (old.level, old.held);
        if old.unit != self.unit {
            held = (held / old.unit.max(1)).saturating_mul(self.unit).min(MAX_EXACT);
            level = level.div_euclid(old.unit.max(1).cast_signed()).saturating_mul(self.unit.cast_signed());
            level = level.max(-MAX_EXACT.cast_signed());
        }
        level = level.min(self.full());
        // A little backwards is two readers of one clock: nothing is earned and time does not go back, else it would be earned
        // twice. A lot backwards is a stored time that was wrong: it is repaired, and nobody is locked out for the difference.
        let at = if old.at > now && old.at.since(now) <= JITTER_MICROS { old.at } else { now };
        let missing = u64::try_from(self.full() - level).unwrap_or(0);
        let elapsed = at.since(old.at);
        level = if self.gain > 0 && elapsed > missing / self.gain {
            self.full()
        } else {
            level + (elapsed * self.gain).cast_signed()
        };
        if self.gain > 0 && elapsed > HEALING * (self.full().unsigned_abs() / self.gain) {
            held = 0;
        }
        let beyond = u64::try_from(level - (self.full() - held.cast_signed())).unwrap_or(0);
        if held > 0 && beyond > 0 {
            let healed = beyond.div_ceil(HEALING).min(held);
            level -= (beyond - healed).cast_signed();
            held -= healed;
        }
        BucketState { level, at, unit: self.unit, held }
    }

    /// Whether `amount` tokens fit an advanced state, waiting at most `max_wait` microseconds from `now`.
    #[must_use]
    pub fn fit(&self, state: BucketState, now: Timestamp, amount: u64, max_wait: u64) -> Fit {
        if amount > self.capacity {
            return Fit::Never;
        }
        let missing = (amount * self.unit).cast_signed() - state.level;
        match u64::try_from(missing) {
            Err(_) | Ok(0) => Fit::Now,
            Ok(_) if self.gain == 0 => Fit::Never,
            // It fills from the time of its level on, which a clock that lags has yet to reach.
            Ok(missing) => match missing.div_ceil(self.gain) + state.at.since(now) {
                wait if wait <= max_wait => Fit::Starts(wait),
                wait => Fit::Refused(wait - max_wait),
            },
        }
    }

    /// Takes `amount` tokens, into debt if need be.
    pub fn take(&self, state: &mut BucketState, amount: u64) {
        state.level = state.level.saturating_sub(self.in_units(amount)).max(-MAX_EXACT.cast_signed());
    }

    /// Takes `amount` tokens of a mirror, which are held until [`Bucket::settle`].
    pub fn hold(&self, state: &mut BucketState, amount: u64) {
        self.take(state, amount);
        state.held = (state.held + self.in_units(amount).unsigned_abs()).min(MAX_EXACT);
    }

    /// Ends a hold of a mirror: it is given back, as far as anything is held, and what was used is charged.
    pub fn settle(&self, state: &mut BucketState, claimed: u64, actual: u64) {
        let given = self.in_units(claimed).unsigned_abs().min(state.held);
        state.held -= given;
        state.level = state.level.saturating_add_unsigned(given).min(self.full());
        self.take(state, actual);
    }

    /// Corrects `claimed` to `actual`: a refund never above capacity, an overrun into debt.
    ///
    /// With `forgive` the debt of an overrun ends at minus one capacity (unless it was deeper before).
    pub fn correct(&self, state: &mut BucketState, claimed: u64, actual: u64, forgive: bool) {
        if actual <= claimed {
            state.level = state.level.saturating_add(self.in_units(claimed - actual)).min(self.full());
        } else {
            let floor = if forgive { state.level.min(-self.full()) } else { i64::MIN };
            state.level = state.level.saturating_sub(self.in_units(actual - claimed)).max(floor);
        }
        state.level = state.level.max(-MAX_EXACT.cast_signed());
    }

    /// Whole tokens left, zero when in debt.
    #[must_use]
    pub fn remaining(&self, state: BucketState) -> u64 {
        u64::try_from(state.level).unwrap_or(0) / self.unit
    }

    /// Tokens missing to a full bucket, rounded up: more than the capacity when in debt.
    #[must_use]
    pub fn used(&self, state: BucketState) -> u64 {
        u64::try_from(self.full() - state.level).unwrap_or(0).div_ceil(self.unit)
    }

    /// Microseconds until the bucket is full; a year when it never refills.
    #[must_use]
    pub fn until_full(&self, state: BucketState) -> u64 {
        let missing = u64::try_from(self.full() - state.level).unwrap_or(0);
        if missing == 0 {
            0
        } else {
            missing.checked_div(self.gain).map_or(365 * 86_400_000_000, |_| missing.div_ceil(self.gain))
        }
    }

    /// Microseconds from `now` until the bucket is full.
    #[must_use]
    pub fn full_in(&self, state: BucketState, now: Timestamp) -> u64 {
        match self.until_full(state) {
            0 => 0,
            wait => wait + state.at.since(now),
        }
    }

    fn in_units(&self, tokens: u64) -> i64 {
        tokens.saturating_mul(self.unit).min(MAX_EXACT).cast_signed()
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
