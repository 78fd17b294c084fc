//! Days and hours of UTC, in which history counts.

use crate::domain::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Seconds of a day.
const DAY: u64 = 86_400;
/// The first day.
const EPOCH: jiff::civil::Date = jiff::civil::date(1970, 1, 1);

/// A day of UTC: how many there were since 1970-01-01. Written as in `2026-11-30`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    /// The day of an instant.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        Self(u32::try_from(at.secs() / DAY).unwrap_or(u32::MAX))
    }

    /// So many days before, not before the first.
    #[must_use]
    pub const fn back(self, days: u32) -> Self {
        Self(self.0.saturating_sub(days))
    }

    /// The day after.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// From this day to that, both included; at most `most` of them, the last ones.
    pub fn through(self, last: Self, most: u32) -> impl DoubleEndedIterator<Item = Self> + Clone {
        let first = self.0.max(last.0.saturating_sub(most.saturating_sub(1)));
        (first..=last.0).map(Self)
    }

    /// The calendar date.
    fn date(self) -> jiff::civil::Date {
        EPOCH.saturating_add(jiff::SignedDuration::from_hours(24 * i64::from(self.0)))
    }

    /// Year and month.
    #[must_use]
    pub fn month(self) -> (i16, i8) {
        let date = self.date();
        (date.year(), date.month())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date().fmt(f)
    }
}

/// Not a date such as `2026-11-30`, or one before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a date such as 2026-11-30")]
pub struct NoDay;

impl FromStr for Day {
    type Err = NoDay;

    fn from_str(text: &str) -> Result<Self, NoDay> {
        let date: jiff::civil::Date = text.parse().map_err(|_| NoDay)?;
        let hours = date.duration_since(EPOCH).as_hours();
        u32::try_from(hours / 24).ok().filter(|_| date >= EPOCH).map(Self).ok_or(NoDay)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The hour of UTC in which an instant lies: how many there were since 1970.
pub(super) fn hour_of(at: Timestamp) -> u32 {
    u32::try_from(at.secs() / 3_600).unwrap_or(u32::MAX)
}

/// The minute, likewise.
pub(super) const fn minute_of(at: Timestamp) -> u64 {
    at.secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_and_read_as_a_date_of_utc() {
        for (secs, date) in [(0, "1970-01-01"), (86_399, "1970-01-01"), (86_400, "1970-01-02"), (1_796_040_000, "2026-11-30")] {
            let day = Day::of(Timestamp::from_secs(secs));
            assert_eq!(day.to_string(), date);
            assert_eq!(date.parse(), Ok(day));
        }
        for wrong in ["", "2026-13-01", "2026-02-30", "1969-12-31", "30.11.2026", "today"] {
            assert_eq!(wrong.parse::<Day>(), Err(NoDay), "{wrong}");
        }
    }

    #[test]
    fn a_range_holds_both_ends_and_no_more_than_its_bound() {
        let days = |from, to, most| Day(from).through(Day(to), most).map(|day| day.0).collect::<Vec<_>>();
        assert_eq!(days(3, 5, 10), [3, 4, 5]);
        assert_eq!(days(3, 3, 10), [3]);
        assert_eq!(days(4, 3, 10), [0_u32; 0]);
        assert_eq!(days(0, 100, 2), [99, 100]);
    }
}
