//! The level of each pool, agreed on by all gateways of a store.
//!
//! Four times a second each gateway says in a document of the pool how much of the ceiling it used in the trailing minute, adds up what
//! all gateways say, and steps the ladder whose state stands in the same document. Compare-and-set makes them take turns. So there is one
//! state, it survives any of them, and all of them have read it a moment later. While the store is away each goes on from where the state
//! stood, by its own use alone.
//!
//! The clocks of gateways may differ by any amount, so no instant of one is compared with another's (`seen`): a gateway's word is stale
//! when the reader has not seen it change for a while, and how long the use has been low is passed on as a duration.

pub mod history;
mod keeper;
mod pin;
mod seen;
mod view;

pub use history::Why;
pub use keeper::LevelKeeper;
pub use pin::Pinned;
pub use view::PoolView;

use crate::config::policy::Levels as Policy;
use crate::degrade::level::{self, Ladder, State};
use crate::domain::{Clock, Timestamp};
use crate::store::StoreError;
use crate::store::ceilings::{Ceilings, Part};
use crate::store::documents::{Collection, Documents, Expected, Write, Written};
use foldhash::HashMap;
use history::History;
use parking_lot::{Mutex, RwLock};
use seen::{Low, Seen};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at the gauges.
pub const TICK: Duration = Duration::from_millis(250);
/// How often a write is tried against other gateways that write at the same time.
const TRIES: usize = 8;
/// The state of a pool nobody uses is forgotten.
const KEEP: Duration = Duration::from_secs(3_600);
/// Pins at most: one a pool, and there are few.
const PINS: usize = 1_000;
/// Millionths in a thousandth.
const PER_THOUSANDTH: u64 = 1_000;

/// See the module.
pub struct Levels {
    ceilings: Arc<Ceilings>,
    documents: Arc<dyn Documents>,
    clock: Arc<dyn Clock>,
    /// This gateway's name in the documents.
    gateway: String,
    pools: RwLock<HashMap<Arc<str>, Standing>>,
    pins: RwLock<HashMap<String, Pinned>>,
    /// When this gateway saw what in the documents, by its own clock.
    seen: Mutex<HashMap<Arc<str>, Seen>>,
    history: History,
}

/// How a pool stands, as last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The ladder's state.
    pub state: State,
    /// Use of the ceiling in the trailing minute, thousandths, all gateways together.
    pub used: u64,
    /// The last change of the level, the same on every gateway; `None` = none that anybody remembers.
    pub changed: Option<Change>,
}

/// When a level changed, and from which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// The level before.
    pub from: u8,
}

impl Standing {
    /// The next one, at this time.
    fn then(self, state: State, used: u64, now: Timestamp) -> Self {
        let change = Change { at: now, from: self.state.level };
        let changed = if state.level == self.state.level { self.changed } else { Some(change) };
        Self { state, used, changed }
    }
}

/// What gateways say of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Shared {
    level: u8,
    low: Option<Low>,
    #[serde(default)]
    changed: Option<Change>,
    said: BTreeMap<String, Said>,
}

impl Shared {
    /// With what the reader's own clock says of `low_since`.
    fn standing(&self, low_since: Option<Timestamp>) -> Standing {
        let state = State { level: self.level.min(3), low_since };
        Standing { state, used: total(&self.said), changed: self.changed }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Said {
    /// By its own clock, so that a new word differs from the one before; nobody else may compare it with a time.
    at: u64,
    /// By limit, millionths of the ceiling.
    used: BTreeMap<String, u64>,
}

impl Levels {
    /// All pools at level 0.
    #[must_use]
    pub fn new(ceilings: Arc<Ceilings>, documents: Arc<dyn Documents>, clock: Arc<dyn Clock>) -> Self {
        let gateway = format!("{:016x}", fastrand::u64(..));
        Self {
            history: History::new(documents.clone()),
            ceilings,
            documents,
            clock,
            gateway,
            pools: RwLock::default(),
            pins: RwLock::default(),
            seen: Mutex::default(),
        }
    }

    /// The level that holds for a ceiling (`pool`, or `pool/credential`).
    #[must_use]
    pub fn level(&self, owner: &str) -> u8 {
        let state = self.pools.read().get(owner).copied().unwrap_or_default().state;
        let pins = self.pins.read();
        if pins.is_empty() {
            return state.level;
        }
        level::effective(state, pins.get(pool_of(owner)).map(Pinned::pin), self.clock.now())
    }

    /// How every pool in use stands, and the level that holds there.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Standing, u8)> {
        let pools = self.pools.read().clone();
        pools.into_iter().map(|(owner, standing)| (owner.clone(), standing, self.level(&owner))).collect()
    }

    /// What became of a pool's level, oldest first: the latest [`history::KEPT`] changes.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn history(&self, pool: &str) -> Result<Vec<history::Change>, StoreError> {
        self.history.of(pool).await
    }

    /// One look at every gauge.
    pub async fn tick(&self, policy: &Policy) {
        let ladder = ladder(policy);
        self.read_pins().await;
        let parts: HashMap<Arc<str>, Part> = self.ceilings.parts().into_iter().map(|part| (part.owner.clone(), part)).collect();
        let known: Vec<Arc<str>> = self.pools.read().keys().cloned().collect();
        let idle = known.into_iter().filter(|owner| !parts.contains_key(owner));
        let owners: Vec<Arc<str>> = parts.keys().cloned().chain(idle).collect();
        for owner in owners {
            let own = said(parts.get(&owner), self.clock.now());
            let before = self.pools.read().get(&owner).copied().unwrap_or_default();
            let after = self.step(&owner, &own, before, &ladder).await;
            report(&owner, before, after);
            let over = after.state.level == 0 && own.used.values().all(|used| *used == 0) && !parts.contains_key(&owner);
            if over {
                self.seen.lock().remove(&owner);
                self.pools.write().remove(&owner);
            } else {
                self.pools.write().insert(owner, after);
            }
        }
        self.history.flush().await;
    }

    /// Steps the shared ladder of a pool; without the store, this gateway's own.
    async fn step(&self, owner: &Arc<str>, own: &Said, before: Standing, ladder: &Ladder) -> Standing {
        let Ok(mut found) = self.documents.get(Collection::Levels, owner, None).await else {
            let used = own.used.values().copied().max().unwrap_or(0) / PER_THOUSANDTH;
            let now = self.clock.now();
            let standing = before.then(ladder.step(before.state, used, now), used, now);
            self.history.step(owner, now, before.state, standing, Why::Alone);
            return standing;
        };
        for _ in 0..TRIES {
            let now = self.clock.now();
            let mut shared: Shared =
                found.as_ref().and_then(|document| serde_json::from_slice(&document.value).ok()).unwrap_or_default();
            shared.said.insert(self.gateway.clone(), own.clone());
            let low_since = self.freshen(owner, &mut shared, now);
            let used = total(&shared.said);
            let stood = shared.standing(low_since);
            let standing = stood.then(ladder.step(stood.state, used, now), used, now);
            shared.low = Low::after(shared.low, stood.state, standing.state, now);
            shared.level = standing.state.level;
            shared.changed = standing.changed;
            let write = Write {
                collection: Collection::Levels,
                id: owner.to_string(),
                expected: found.as_ref().map_or(Expected::Nothing, |document| Expected::Version(document.version)),
                value: Some(serde_json::to_vec(&shared).unwrap_or_default().into()),
                keep: Some(KEEP),
                rank: 0,
            };
            match self.documents.put(&write, None).await {
                // Whether it stands after an error is not known; should it not, the next look makes the same step.
                Ok(Written::Done(_)) | Err(_) => {
                    self.seen.lock().entry(owner.clone()).or_default().passed_on(shared.low, now);
                    self.history.step(owner, now, stood.state, standing, Why::Gauge);
                    return standing;
                }
                Ok(Written::Found(other)) => found = other,
            }
        }
        // Others stepped it so often meanwhile that it is up to date; what this gateway used is said a tick later.
        let shared: Option<Shared> = found.and_then(|document| serde_json::from_slice(&document.value).ok());
        shared.map_or(before, |mut shared| {
            let low_since = self.freshen(owner, &mut shared, self.clock.now());
            shared.standing(low_since)
        })
    }

    /// Drops words that have not changed for too long, and tells since when, by this gateway's clock, the use has been low.
    fn freshen(&self, owner: &Arc<str>, shared: &mut Shared, now: Timestamp) -> Option<Timestamp> {
        let mut seen = self.seen.lock();
        let seen = seen.entry(owner.clone()).or_default();
        seen.retain_fresh(&mut shared.said, now);
        seen.low_since(shared.low, now)
    }
}

impl std::fmt::Debug for Levels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Levels").finish_non_exhaustive()
    }
}

/// The ladder of a policy.
#[must_use]
pub fn ladder(policy: &Policy) -> Ladder {
    let thousandths = |percent: u8| u64::from(percent) * 10;
    Ladder {
        up: policy.up.map(thousandths),
        margin: thousandths(policy.margin),
        hold: policy.hold.map(|hold| u64::try_from(hold.as_micros()).unwrap_or(u64::MAX)),
    }
}

fn said(part: Option<&Part>, now: Timestamp) -> Said {
    let used = part.into_iter().flat_map(|part| &part.limits).map(|(limit, used)| (limit.as_str().to_owned(), *used));
    Said { at: now.micros(), used: used.collect() }
}

/// The use of the fullest limit, thousandths, all gateways together.
fn total(said: &BTreeMap<String, Said>) -> u64 {
    let mut by_limit: HashMap<&str, u64> = HashMap::default();
    for (limit, used) in said.values().flat_map(|said| &said.used) {
        let sum = by_limit.entry(limit).or_default();
        *sum = sum.saturating_add(*used);
    }
    by_limit.values().copied().max().unwrap_or(0) / PER_THOUSANDTH
}

/// The pool of a ceiling: in passthrough mode each credential has its own ceiling of each pool.
#[must_use]
pub fn pool_of(owner: &str) -> &str {
    owner.split_once('/').map_or(owner, |(pool, _)| pool)
}

fn report(owner: &str, before: Standing, after: Standing) {
    let (from, to) = (before.state.level, after.state.level);
    if from != to {
        tracing::warn!(pool = pool_of(owner), from, to, used_permille = after.used, "the level of a pool has changed");
    }
}

#[cfg(test)]
mod tests;
