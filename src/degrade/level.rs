//! Levels: how near a pool is to its ceiling, as a number from 0 to 3 that goes up at once and comes down slowly.
//!
//! Up at once, because the provider's refusals come at once. Down one level at a time, and only after the use has stayed well below that
//! level's threshold for long enough: each action of a level lowers the use, so that a level which ended with its cause would come back
//! in the next minute, twice a minute, and every customer would see it.
//!
//! Gateways that share a store share the state too, and take turns in stepping it.

use crate::domain::Timestamp;

/// Parts of the ceiling are in thousandths of it.
pub const WHOLE: u64 = 1_000;

/// By how much the clocks of gateways that share a level may differ, microseconds.
const SKEW: u64 = 5_000_000;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Thousandths of the ceiling in use from which level 1, 2 and 3 hold; ascending.
    pub up: [u64; 3],
    /// Below its threshold by this much, thousandths, a level begins to end.
    pub margin: u64,
    /// For how long the use has to stay below, microseconds, per level.
    pub hold: [u64; 3],
}

/// Where a pool stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// 0 to 3.
    pub level: u8,
    /// Since when the use has been low enough for the next lower level; `None` when it is not.
    pub low_since: Option<Timestamp>,
}

impl Ladder {
    /// Where a pool stands after its use, in thousandths of the ceiling, was found to be `used` at `now`.
    #[must_use]
    pub fn step(&self, state: State, used: u64, now: Timestamp) -> State {
        let reached = self.up.iter().take_while(|threshold| used >= **threshold).count() as u8;
        if reached > state.level {
            return State { level: reached, low_since: None };
        }
        let Some(at) = usize::from(state.level).checked_sub(1) else { return State::default() };
        if used >= self.up[at].saturating_sub(self.margin) {
            return State { low_since: None, ..state };
        }
        // A clock that was set back starts the wait anew; it must not end it. The clocks of several gateways may differ a little.
        let since = state.low_since.filter(|since| *since <= now.plus(SKEW)).unwrap_or(now);
        if now.since(since) < self.hold[at] {
            return State { low_since: Some(since), ..state };
        }
        // The next level has to wait for its own time, which begins only when the use is low enough for that one.
        let level = state.level - 1;
        let low = usize::from(level).checked_sub(1).is_some_and(|at| used < self.up[at].saturating_sub(self.margin));
        State { level, low_since: low.then_some(now) }
    }
}

/// An operator's word against the gauge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The level that holds meanwhile.
    pub level: u8,
    /// Until when.
    pub until: Timestamp,
}

/// The level that holds: the pinned one while its time lasts, else the ladder's.
#[must_use]
pub fn effective(state: State, pin: Option<Pin>, now: Timestamp) -> u8 {
    pin.filter(|pin| now < pin.until).map_or(state.level, |pin| pin.level.min(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: Ladder = Ladder { up: [700, 850, 950], margin: 100, hold: [600_000_000; 3] };

    /// Levels after each `(second, use)`.
    fn walk(steps: &[(u64, u64)]) -> Vec<u8> {
        let mut state = State::default();
        let step = |(at, used): &(u64, u64)| {
            state = LADDER.step(state, *used, Timestamp::from_secs(*at));
            state.level
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn goes_up_at_once_as_far_as_the_use_says() {
        assert_eq!(walk(&[(0, 699), (1, 700), (2, 850), (3, 950)]), [0, 1, 2, 3]);
        assert_eq!(walk(&[(0, 2_000)]), [3]);
    }

    #[test]
    fn comes_down_one_level_each_time_the_use_stayed_low_for_ten_minutes() {
        let steps = [(0, 960), (1, 849), (600, 849), (601, 849), (602, 740), (1_201, 740), (1_202, 700)];
        assert_eq!(walk(&steps), [3, 3, 3, 2, 2, 2, 1], "749 is low enough for level 2 to end, its ten minutes begin at 602");
        assert_eq!(walk(&[(0, 960), (1, 0), (601, 0), (1_200, 0), (1_201, 0), (1_801, 0), (9_000, 0)]), [3, 3, 2, 2, 1, 0, 0]);
    }

    #[test]
    fn use_between_the_thresholds_holds_the_level_and_starts_the_wait_anew() {
        assert_eq!(walk(&[(0, 700), (1, 599), (500, 600), (501, 599), (1_100, 599), (1_101, 599)]), [1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_gauge_that_swings_around_a_threshold_moves_the_level_once() {
        let steps: Vec<(u64, u64)> = (0..3_600).map(|second| (second, if second % 20 < 10 { 860 } else { 640 })).collect();
        let levels = walk(&steps);
        assert_eq!(levels.windows(2).filter(|pair| pair[0] != pair[1]).count(), 0, "up in the first second, and there it stays");
        assert_eq!(levels[0], 2);
    }

    #[test]
    fn a_clock_set_back_ends_no_level() {
        assert_eq!(walk(&[(10_000, 700), (10_001, 0), (5_000, 0), (5_599, 0), (5_600, 0)]), [1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_pin_holds_until_it_ends() {
        let state = State { level: 1, low_since: None };
        let pin = Some(Pin { level: 3, until: Timestamp::from_secs(10) });
        assert_eq!(effective(state, pin, Timestamp::from_secs(9)), 3);
        assert_eq!(effective(state, pin, Timestamp::from_secs(10)), 1);
        assert_eq!(effective(state, None, Timestamp::from_secs(0)), 1);
    }
}
