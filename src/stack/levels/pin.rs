//! An operator's word against the gauge's.

use super::history::{Change, Why};
use super::{Levels, PINS};
use crate::degrade::level::Pin;
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Expected, Page, Write};
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An operator's pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The level that holds.
    pub level: u8,
    /// Until when, microseconds since the Unix epoch.
    pub until: u64,
    /// Who pinned it.
    pub by: String,
}

impl Pinned {
    pub(super) const fn pin(&self) -> Pin {
        Pin { level: self.level, until: Timestamp(self.until) }
    }
}

impl Levels {
    /// The pins, as last read.
    #[must_use]
    pub fn pinned(&self) -> HashMap<String, Pinned> {
        self.pins.read().clone()
    }

    /// Pins a pool's level until `until`, for all gateways; `None` lets the gauge decide again.
    ///
    /// # Errors
    /// When the store does not answer; nothing is changed as far as is known.
    pub async fn pin(&self, pool: &str, pin: Option<Pinned>) -> Result<(), StoreError> {
        match pin {
            Some(pin) => self.set_pin(pool, Some(pin), None).await,
            None => self.set_pin(pool, None, None).await,
        }
    }

    /// Lets the gauge decide again, on the word of this operator.
    ///
    /// # Errors
    /// When the store does not answer; nothing is changed as far as is known.
    pub async fn unpin(&self, pool: &str, by: &str) -> Result<(), StoreError> {
        self.set_pin(pool, None, Some(by)).await
    }

    async fn set_pin(&self, pool: &str, pin: Option<Pinned>, by: Option<&str>) -> Result<(), StoreError> {
        let before = self.look(pool).await;
        let now = self.clock.now();
        let keep = pin.as_ref().map(|pin| Duration::from_micros(Timestamp(pin.until).since(now).max(1)));
        let value = pin.as_ref().map(|pin| serde_json::to_vec(pin).unwrap_or_default().into());
        let write =
            Write { collection: Collection::Pins, id: pool.to_owned(), expected: Expected::Anything, value, keep, rank: 0 };
        self.documents.put(&write, None).await?;
        match pin {
            Some(pin) => {
                let change = Change::new(now, before.level, pin.level, Why::Pinned);
                let (by, until) = (Some(pin.by.clone()), Some(Timestamp(pin.until)));
                self.history.note(pool, Change { by, until, ..change });
                self.pins.write().insert(pool.to_owned(), pin);
            }
            None if before.pinned.is_some() => {
                let change = Change::new(now, before.level, before.gauge, Why::Unpinned);
                self.history.note(pool, Change { by: by.map(ToOwned::to_owned), ..change });
                self.pins.write().remove(pool);
            }
            None => drop(self.pins.write().remove(pool)),
        }
        self.history.flush().await;
        Ok(())
    }

    pub(super) async fn read_pins(&self) {
        let page = Page { limit: PINS, ..Page::default() };
        // While the store is away, the pins stay as they were: they end by themselves.
        let Ok(listed) = self.documents.list(Collection::Pins, &page, None).await else { return };
        let pin = |value: &[u8]| serde_json::from_slice::<Pinned>(value).ok();
        let new: HashMap<_, _> = listed.into_iter().filter_map(|one| Some((one.id, pin(&one.document.value)?))).collect();
        let old = std::mem::replace(&mut *self.pins.write(), new.clone());
        let now = self.clock.now();
        for (pool, pin) in old {
            let until = Timestamp(pin.until);
            // Every gateway sees it end; the history takes it once.
            if until <= now && new.get(&pool).is_none_or(|other| *other == pin) {
                let gauge = self.look(&pool).await.gauge;
                self.history.note(&pool, Change::new(until, pin.level, gauge, Why::PinEnded));
            }
        }
    }
}
