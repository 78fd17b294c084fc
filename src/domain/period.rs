//! Calendar periods of a budget: day, ISO week, month, in the operator's time zone.

use crate::domain::Timestamp;
use jiff::ToSpan;
use jiff::civil::Weekday;

/// The kind of period a budget or quota counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// A calendar day.
    Day,
    /// An ISO week, from Monday.
    Week,
    /// A calendar month.
    Month,
}

impl Period {
    /// All of them, shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// The spelling used in configuration, keys and error bodies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// The time zone in which budgets reset.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(jiff::tz::TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(jiff::tz::TimeZone::UTC)
    }
}

impl Zone {
    /// An IANA zone such as `America/New_York`.
    ///
    /// # Errors
    /// When the name is not in the time zone database.
    pub fn named(name: &str) -> Result<Self, jiff::Error> {
        jiff::tz::TimeZone::get(name).map(Self)
    }

    /// The periods around `now`, from the calendar rather than from a number of seconds: a day may have 23 or 25 hours.
    #[must_use]
    pub fn boundaries(&self, period: Period, now: Timestamp) -> Boundaries {
        let micros = i64::try_from(now.micros()).unwrap_or(i64::MAX);
        let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        let today = self.0.to_datetime(instant).date();
        let (start, step) = match period {
            Period::Day => (today, 1.day()),
            Period::Week => {
                let back = i64::from(today.weekday().since(Weekday::Monday));
                (today.saturating_sub(back.days()), 1.week())
            }
            Period::Month => (today.first_of_month(), 1.month()),
        };
        let at = |date: jiff::civil::Date| {
            let start = self.0.to_ambiguous_zoned_datetime(date.at(0, 0, 0, 0)).compatible();
            start.map_or(u64::MAX, |zoned| u64::try_from(zoned.timestamp().as_second()).unwrap_or(0))
        };
        let (previous, next) = (start.saturating_sub(step), start.saturating_add(step));
        Boundaries([at(previous), at(start), at(next), at(next.saturating_add(step))])
    }
}

/// Starts of the previous, the current, the next and the one after the next period, in Unix seconds.
///
/// The store's own clock decides which of them applies; a gateway whose clock is off by less than a period still books right.
/// A period is identified by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundaries(pub [u64; 4]);

impl Boundaries {
    /// Start and end, in Unix seconds, of the period in which `now` lies (the nearest one when it lies in none).
    #[must_use]
    pub fn at(&self, now: Timestamp) -> (u64, u64) {
        let secs = now.secs();
        let i = (1..3).take_while(|&i| secs >= self.0[i]).count();
        (self.0[i], self.0[i + 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> Timestamp {
        let instant: jiff::Timestamp = text.parse().expect("a timestamp");
        Timestamp(u64::try_from(instant.as_microsecond()).expect("after 1970"))
    }

    #[test]
    fn days_follow_the_calendar_of_the_zone() {
        for (zone, now, hours) in [
            ("America/New_York", "2026-03-08T12:00:00Z", 23),
            ("America/New_York", "2026-11-01T12:00:00Z", 25),
            ("America/New_York", "2026-07-01T12:00:00Z", 24),
            ("Asia/Tokyo", "2026-12-31T20:00:00Z", 24),
            ("UTC", "2026-12-31T23:59:59Z", 24),
        ] {
            let day = Zone::named(zone).expect("a zone").boundaries(Period::Day, ts(now));
            let (start, end) = day.at(ts(now));
            assert_eq!(end - start, hours * 3_600, "{zone} {now}");
            assert!((start..end).contains(&ts(now).secs()));
        }
    }

    #[test]
    fn weeks_start_on_monday_and_months_on_the_first() {
        let utc = Zone::default();
        let now = ts("2026-11-29T10:00:00Z"); // a Sunday
        assert_eq!(utc.boundaries(Period::Week, now).at(now).0, ts("2026-11-23T00:00:00Z").secs());
        assert_eq!(utc.boundaries(Period::Month, now).at(now).0, ts("2026-11-01T00:00:00Z").secs());
        assert_eq!(utc.boundaries(Period::Month, now).at(now).1, ts("2026-12-01T00:00:00Z").secs());
    }

    #[test]
    fn the_deciding_clock_picks_the_period() {
        let utc = Zone::default();
        let gateway = ts("2026-11-29T23:59:59Z");
        let boundaries = utc.boundaries(Period::Day, gateway);
        for (store, start) in [
            ("2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z"),
            ("2026-11-29T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("2026-11-28T23:59:59Z", "2026-11-28T00:00:00Z"),
        ] {
            assert_eq!(boundaries.at(ts(store)).0, ts(start).secs(), "{store}");
        }
    }
}
