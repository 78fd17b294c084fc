//! How full each pool's ceiling is, and the level that follows from it.

use crate::config::policy::{Levels, LimitKind, Pool};
use crate::degrade::level::{Ladder, State, WHOLE};
use crate::domain::Timestamp;
use crate::limit::{LimitName, Line};
use std::collections::BTreeMap;

/// Seconds that count.
const SPAN: u64 = 60;

/// The use of one limit.
struct Use {
    name: LimitName,
    most: u64,
    /// What was or will be started in each second; what waits stands in the future.
    seconds: BTreeMap<u64, u64>,
}

/// A pool's use in the trailing minute, settled plus what requests in flight are expected to use.
pub struct Gauge {
    ladder: Ladder,
    state: State,
    limits: Vec<Use>,
}

impl Gauge {
    /// Of a pool that is idle.
    pub fn new(pool: &Pool, levels: &Levels) -> Self {
        let most = |kind| match kind {
            LimitKind::Bucket(bucket) => crate::limit::Bucket::per_minute(&bucket),
            LimitKind::Sliding(most) => most,
        };
        let minutes = pool.ceiling.iter().filter(|limit| !matches!(limit.name, LimitName::Rpd | LimitName::Tpd));
        Self {
            ladder: ladder(levels),
            state: State::default(),
            limits: minutes.map(|limit| Use { name: limit.name, most: most(limit.kind).max(1), seconds: BTreeMap::new() }).collect(),
        }
    }

    /// The level now.
    pub fn level(&mut self, now: Timestamp) -> u8 {
        let used = self.used(now);
        self.state = self.ladder.step(self.state, used, now);
        self.state.level
    }

    /// Thousandths of the ceiling that are used, of whichever limit is fullest.
    fn used(&mut self, now: Timestamp) -> u64 {
        let used = |limit: &mut Use| {
            limit.seconds = limit.seconds.split_off(&(now.secs() + 1).saturating_sub(SPAN));
            limit.seconds.range(..=now.secs()).map(|(_, amount)| amount).sum::<u64>().saturating_mul(WHOLE) / limit.most
        };
        self.limits.iter_mut().map(used).max().unwrap_or(0)
    }

    fn second(&mut self, line: &Line, start: Timestamp) -> Option<&mut u64> {
        let limit = self.limits.iter_mut().find(|limit| line.claim.is_ceiling() && limit.name == line.claim.limit)?;
        Some(limit.seconds.entry(start.secs()).or_default())
    }

    /// Takes note of what was taken of the ceiling, to be used from `start` on.
    pub fn take(&mut self, lines: &[Line], start: Timestamp) {
        for line in lines {
            if let Some(sum) = self.second(line, start) {
                *sum += line.claim.amount;
            }
        }
    }

    /// Replaces what was expected by what was used.
    pub fn settle(&mut self, lines: &[Line], started: Timestamp) {
        for line in lines {
            if let Some(sum) = self.second(line, started) {
                *sum = (*sum + line.actual).saturating_sub(line.claim.amount);
            }
        }
    }
}

/// The configured ladder.
fn ladder(levels: &Levels) -> Ladder {
    let hold = levels.hold.map(|hold| u64::try_from(hold.as_micros()).unwrap_or(u64::MAX));
    Ladder { up: levels.up.map(|percent| u64::from(percent) * WHOLE / 100), margin: u64::from(levels.margin) * WHOLE / 100, hold }
}
