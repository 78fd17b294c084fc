//! What became of each pool's level, and why: for whoever asks in the morning what happened at night.
//!
//! One document a pool, written only when something changes, by the gateway that made it change; the latest [`KEPT`] changes for
//! [`KEEP`]. While the store is away changes wait in memory, the latest `WAITING`, and are written when it is back.

use super::{Standing, pool_of};
use crate::degrade::level::State;
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, Expected, Write, Written};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Changes kept of a pool. In passthrough mode its accounts share them.
pub const KEPT: usize = 500;
/// How long after the latest change they are kept.
pub const KEEP: Duration = Duration::from_secs(90 * 86_400);
/// Changes that wait for the store.
const WAITING: usize = 200;
/// How often a write is tried against other gateways that write at the same time.
const TRIES: usize = 8;

/// Why a level changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The use of the ceiling.
    Gauge,
    /// The use by one gateway alone, while the store was away.
    Alone,
    /// The store was back, and with it the level that all gateways share.
    StoreBack,
    /// An operator pinned it.
    Pinned,
    /// An operator let the gauge decide again.
    Unpinned,
    /// The time of a pin was over.
    PinEnded,
}

impl Why {
    /// The word used everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Alone => "alone",
            Self::StoreBack => "store_back",
            Self::Pinned => "pinned",
            Self::Unpinned => "unpinned",
            Self::PinEnded => "pin_ended",
        }
    }
}

/// One change of a pool's level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// The level before: the gauge's, or that in force where a pin is concerned.
    pub from: u8,
    /// The level after.
    pub to: u8,
    /// Why.
    pub why: Why,
    /// Use of the ceiling in the minute before, thousandths, where that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Who pinned, or took the pin back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Until when it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whose account at the provider, in passthrough mode: a hash of the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl Change {
    /// A change that nothing more is known of.
    pub(super) const fn new(at: Timestamp, from: u8, to: u8, why: Why) -> Self {
        Self { at, from, to, why, used: None, by: None, until: None, account: None }
    }

    /// Whether it says nothing that the changes so far do not say: another gateway saw the same, or a write was repeated.
    fn is_known(&self, changes: &[Self]) -> bool {
        let same = || changes.iter().rev().find(|known| known.why == self.why && known.account == self.account);
        match self.why {
            // After a step to a level only one to another can follow.
            Why::Gauge => same().is_some_and(|known| known.to == self.to),
            // A pin ends once, and not if it was taken back or replaced before.
            Why::PinEnded => {
                let of_pins = |known: &&Self| matches!(known.why, Why::Pinned | Why::Unpinned | Why::PinEnded);
                let last = changes.iter().rev().filter(of_pins).find(|known| known.at <= self.at);
                last.is_some_and(|last| last.why != Why::Pinned || last.until != Some(self.at))
            }
            Why::Alone | Why::StoreBack | Why::Pinned | Why::Unpinned => same().is_some_and(|known| known == self),
        }
    }
}

/// The changes of a pool, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    changes: Vec<Change>,
}

/// See the module.
pub(super) struct History {
    documents: Arc<dyn Documents>,
    waiting: Mutex<VecDeque<(String, Change)>>,
    /// Ceilings whose level this gateway changed alone, and to what; as many at most as there are ceilings.
    alone: Mutex<HashMap<String, u8>>,
}

impl History {
    pub(super) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents, waiting: Mutex::default(), alone: Mutex::default() }
    }

    /// Notes a change, to be written with the next [`History::flush`].
    pub(super) fn note(&self, pool: &str, change: Change) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING {
            waiting.pop_front();
        }
        waiting.push_back((pool.to_owned(), change));
    }

    /// Notes a step of a ceiling's ladder, or that it stayed where it is.
    pub(super) fn step(&self, owner: &str, now: Timestamp, before: State, after: Standing, why: Why) {
        let note = |from: u8, to: u8, why: Why, used: Option<u64>| {
            if from != to {
                let account = owner.split_once('/').map(|(_, account)| account.to_owned());
                self.note(pool_of(owner), Change { used, account, ..Change::new(now, from, to, why) });
            }
        };
        if why == Why::Alone {
            self.alone.lock().insert(owner.to_owned(), after.state.level);
        } else if let Some(alone) = self.alone.lock().remove(owner) {
            note(alone, before.level, Why::StoreBack, None);
        }
        note(before.level, after.state.level, why, Some(after.used));
    }

    /// Writes what waits. What cannot be written now waits on.
    pub(super) async fn flush(&self) {
        loop {
            let Some((pool, change)) = self.waiting.lock().pop_front() else { return };
            if let Err(error) = self.append(&pool, &change).await {
                tracing::debug!(pool, %error, "a change of a level waits to be written");
                let mut waiting = self.waiting.lock();
                if waiting.len() < WAITING {
                    waiting.push_front((pool, change));
                }
                return;
            }
        }
    }

    async fn append(&self, pool: &str, change: &Change) -> Result<(), StoreError> {
        let mut found = self.documents.get(Collection::LevelHistory, pool, None).await?;
        for _ in 0..TRIES {
            let kept = found.as_ref().and_then(|document| serde_json::from_slice::<Kept>(&document.value).ok());
            let mut changes = kept.unwrap_or_default().changes;
            if change.is_known(&changes) {
                return Ok(());
            }
            // By time: one that waited for the store may be older than what others wrote meanwhile.
            let at = changes.partition_point(|known| known.at <= change.at);
            changes.insert(at, change.clone());
            let over = changes.len().saturating_sub(KEPT);
            changes.drain(..over);
            let value = serde_json::to_vec(&Kept { changes }).expect("strings and numbers");
            let write = Write {
                collection: Collection::LevelHistory,
                id: pool.to_owned(),
                expected: found.as_ref().map_or(Expected::Nothing, |document| Expected::Version(document.version)),
                value: Some(value.into()),
                keep: Some(KEEP),
                rank: 0,
            };
            match self.documents.put(&write, None).await? {
                Written::Done(_) => return Ok(()),
                Written::Found(other) => found = other,
            }
        }
        Err(StoreError::Failed("others wrote the history of a level again and again".into()))
    }

    /// The changes of a pool, oldest first.
    pub(super) async fn of(&self, pool: &str) -> Result<Vec<Change>, StoreError> {
        let found = self.documents.get(Collection::LevelHistory, pool, None).await?;
        let Some(document) = found else { return Ok(Vec::new()) };
        serde_json::from_slice::<Kept>(&document.value)
            .map(|kept| kept.changes)
            .map_err(|error| StoreError::Failed(format!("the history of a level is damaged: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(secs: u64, from: u8, to: u8, why: Why) -> Change {
        Change::new(Timestamp::from_secs(secs), from, to, why)
    }

    #[test]
    fn what_several_gateways_saw_is_one_change() {
        let pinned = |secs, until| Change { until: Some(Timestamp::from_secs(until)), ..change(secs, 0, 3, Why::Pinned) };
        let known = [change(1, 0, 1, Why::Gauge), pinned(2, 5), change(5, 3, 1, Why::PinEnded), pinned(10, 20)];
        for (new, right) in [
            (change(9, 0, 1, Why::Gauge), true),
            (change(9, 1, 2, Why::Gauge), false),
            (Change { account: Some("ab".into()), ..change(9, 0, 1, Why::Gauge) }, false),
            (change(5, 3, 0, Why::PinEnded), true),
            (change(20, 3, 1, Why::PinEnded), false),
            (change(19, 3, 1, Why::PinEnded), true),
            (pinned(10, 20), true),
            (pinned(3, 20), false),
            (change(2, 3, 0, Why::Unpinned), false),
        ] {
            assert_eq!(new.is_known(&known), right, "{new:?}");
        }
        assert!(!change(1, 0, 1, Why::Gauge).is_known(&[]));
    }
}
