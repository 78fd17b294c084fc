//! Two small numbers in the slots of [`super::part`]: which limit, and until when. A million customers have five slots each.

use crate::limit::{LimitName, Scope};

/// Which limit of an owner, in a byte. The scope belongs to it because a user, an app and a pool may share a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u8);

const SCOPES: [Scope; 6] = [Scope::User, Scope::Customer, Scope::App, Scope::Share, Scope::Pool, Scope::Gateway];

impl Place {
    /// The place of a limit of this scope.
    pub const fn of(scope: Scope, limit: LimitName) -> Self {
        let scope = match scope {
            Scope::User => 0,
            Scope::Customer => 1,
            Scope::App => 2,
            Scope::Share => 3,
            Scope::Pool => 4,
            Scope::Gateway => 5,
        };
        Self(scope << 4 | limit.ordinal())
    }

    /// The scope.
    pub const fn scope(self) -> Scope {
        SCOPES[(self.0 >> 4) as usize]
    }

    /// The limit.
    pub const fn limit(self) -> LimitName {
        LimitName::ALL[(self.0 & 15) as usize]
    }
}

/// A minute within some weeks of now: the last sixteen bits of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute(u16);

/// How far ahead a minute may be, seconds: a day less than half of what sixteen bits tell apart.
const MOST_AHEAD: u64 = (1 << 15) * 60 - 86_400;

impl Minute {
    /// The minute at whose end the Unix second `until` has passed; `None` where that is too far from `now`.
    pub fn of(now: u64, until: u64) -> Option<Self> {
        (until.saturating_sub(now) <= MOST_AHEAD).then(|| Self((until.div_ceil(60) & 0xffff) as u16))
    }

    /// Whether it was over at the Unix second `now`. One that was over for weeks may seem to lie ahead again, for some weeks.
    pub const fn is_over(self, now: u64) -> bool {
        let since = ((now / 60) as u16).wrapping_sub(self.0);
        since > 0 && since < 1 << 15
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_says_which_limit_it_is_of() {
        let mut seen = std::collections::HashSet::new();
        for scope in SCOPES {
            for limit in LimitName::ALL {
                let place = Place::of(scope, limit);
                assert_eq!((place.scope(), place.limit()), (scope, limit));
                assert!(seen.insert(place.0));
            }
        }
    }

    #[test]
    fn a_minute_is_over_when_it_is_and_not_before() {
        // On both sides of where sixteen bits begin anew.
        for now in [1_800_000_000, 65_536 * 60 * 460 - 30, 65_536 * 60 * 460, 59, 0] {
            for ahead in [0, 1, 3_600, 86_400, MOST_AHEAD] {
                let minute = Minute::of(now, now + ahead).expect("near enough");
                assert!(!minute.is_over(now) && !minute.is_over(now + ahead), "{now} {ahead}");
                assert!(minute.is_over(now + ahead + 120) && minute.is_over(now + ahead + 20 * 86_400), "{now} {ahead}");
            }
            assert_eq!(Minute::of(now, now + MOST_AHEAD + 1), None);
        }
    }
}
