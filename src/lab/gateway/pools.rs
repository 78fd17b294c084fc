//! How full each pool's ceiling is, by the gauges of the gateway itself under the virtual clock, and the level that follows.

use crate::config::policy::Levels;
use crate::degrade::level::{Ladder, State};
use crate::domain::{Clock, Timestamp};
use crate::limit::Line;
use crate::stack::levels::ladder;
use crate::store::ceilings::Ceilings;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Millionths in a thousandth.
const PER_THOUSANDTH: u64 = 1_000;

/// The instant of the present event.
#[derive(Default)]
struct Virtual(AtomicU64);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

/// The pools of a gateway.
pub struct Pools {
    clock: Arc<Virtual>,
    ceilings: Ceilings,
    ladder: Ladder,
    states: HashMap<Arc<str>, State>,
}

impl Pools {
    /// All idle.
    pub fn new(levels: &Levels) -> Self {
        let clock = Arc::new(Virtual::default());
        let ceilings = Ceilings::new(clock.clone());
        Self { clock, ceilings, ladder: ladder(levels), states: HashMap::new() }
    }

    /// The level of a pool since the last look.
    pub fn level(&self, pool: &str) -> u8 {
        self.states.get(pool).map_or(0, |state| state.level)
    }

    /// Looks at every gauge and gives the highest level.
    pub fn step(&mut self, now: Timestamp) -> u8 {
        self.clock.0.store(now.micros(), Ordering::Relaxed);
        let used: HashMap<Arc<str>, u64> = self
            .ceilings
            .parts()
            .into_iter()
            .map(|part| {
                let fullest = part.limits.iter().map(|(_, used)| *used).max().unwrap_or(0);
                (part.owner, fullest / PER_THOUSANDTH)
            })
            .collect();
        for owner in used.keys() {
            self.states.entry(Arc::clone(owner)).or_default();
        }
        for (owner, state) in &mut self.states {
            *state = self.ladder.step(*state, used.get(owner).copied().unwrap_or(0), now);
        }
        self.states.values().map(|state| state.level).max().unwrap_or(0)
    }

    /// These claims were admitted.
    pub fn claimed(&self, now: Timestamp, lines: &[Line]) {
        self.clock.0.store(now.micros(), Ordering::Relaxed);
        self.ceilings.claimed(lines);
    }

    /// These claims, admitted at `since`, are settled.
    pub fn settled(&self, now: Timestamp, since: Timestamp, lines: &[Line]) {
        self.clock.0.store(now.micros(), Ordering::Relaxed);
        self.ceilings.settled(since, lines);
    }
}
