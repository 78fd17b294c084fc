//! What one gateway has seen in the document of a pool, by its own clock: the only one it may compare with.

use super::Said;
use crate::degrade::level::State;
use crate::domain::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// What a gateway said counts for so long after it was last seen to change, microseconds.
const COUNTS: u64 = 5_000_000;

/// A time of low use, as gateways tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Low {
    /// Which one: another each time the use has become low.
    id: u64,
    /// How long it has lasted, microseconds.
    lasted: u64,
}

impl Low {
    /// What is passed on after the ladder was stepped from `before` to `after` at `now`.
    pub(super) fn after(passed_on: Option<Self>, before: State, after: State, now: Timestamp) -> Option<Self> {
        let since = after.low_since?;
        // A level that has ended begins another time of its own.
        let goes_on = before.level == after.level && before.low_since == after.low_since;
        let id = passed_on.filter(|_| goes_on).map_or_else(|| fastrand::u64(..), |low| low.id);
        Some(Self { id, lasted: now.since(since) })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last word of each gateway, and when it was new.
    words: HashMap<String, (u64, Timestamp)>,
    /// The time of low use, and when this gateway saw it last for so long.
    low: Option<(Low, Timestamp)>,
}

impl Seen {
    /// Drops the words that have not changed for too long. One seen for the first time is new.
    pub(super) fn retain_fresh(&mut self, said: &mut BTreeMap<String, Said>, now: Timestamp) {
        // What is dropped now may be found again, should somebody else's write come first: it is not new then.
        self.words.retain(|gateway, _| said.contains_key(gateway));
        said.retain(|gateway, word| {
            let (at, new_at) = self.words.entry(gateway.clone()).or_insert((word.at, now));
            // A clock of ours that was set back makes no word older, and none younger than now.
            if *at != word.at || *new_at > now {
                (*at, *new_at) = (word.at, now);
            }
            now.since(*new_at) < COUNTS
        });
    }

    /// What this gateway itself passed on.
    pub(super) fn passed_on(&mut self, low: Option<Low>, now: Timestamp) {
        self.low = low.map(|low| (low, now));
    }

    /// Since when the use has been low: for as long as was passed on, or, where this gateway has seen more of the same time, for that.
    pub(super) fn low_since(&mut self, low: Option<Low>, now: Timestamp) -> Option<Timestamp> {
        let mut low = match low {
            Some(low) => low,
            None => {
                self.low = None;
                return None;
            }
        };
        if let Some((known, at)) = self.low.filter(|(known, _)| known.id == low.id) {
            low.lasted = low.lasted.max(known.lasted.saturating_add(now.since(at)));
        }
        self.low = Some((low, now));
        Some(Timestamp(now.micros().saturating_sub(low.lasted)))
    }
}
