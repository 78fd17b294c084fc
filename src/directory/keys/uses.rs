//! When each key was last used: noted in memory by every request, written to the store now and then by a task of its own.

use crate::directory::{Directory, REREAD};
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Expected, Write};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::AbortHandle;

/// How often uses are written, at most: as old as what another gateway shows may be.
const TICK: Duration = Duration::from_secs(10);
/// How long it is known when a key was last used.
const KEEP: Duration = Duration::from_secs(400 * 86_400);

/// When one key was last used here, microseconds of the Unix epoch; zero = not since this process began.
#[derive(Debug, Default)]
pub struct Used {
    last: AtomicU64,
    written: AtomicU64,
}

impl Used {
    pub(super) fn note(&self, now: Timestamp) {
        self.last.fetch_max(now.micros(), Ordering::Relaxed);
    }
}

/// All keys' uses here. As many as there are keys.
#[derive(Debug, Default)]
pub struct Uses {
    by_name: Mutex<HashMap<Arc<str>, Arc<Used>>>,
}

impl Uses {
    pub(super) fn of(&self, name: &Arc<str>) -> Arc<Used> {
        self.by_name.lock().entry(name.clone()).or_default().clone()
    }

    /// When a key was last used here.
    pub(super) fn last(&self, name: &str) -> Option<Timestamp> {
        let last = self.by_name.lock().get(name)?.last.load(Ordering::Relaxed);
        (last > 0).then_some(Timestamp(last))
    }

    /// Forgets keys that are not there any more.
    pub(in crate::directory) fn keep(&self, names: &[&str]) {
        let names: std::collections::HashSet<&str> = names.iter().copied().collect();
        self.by_name.lock().retain(|name, _| names.contains(&**name));
    }

    fn unwritten(&self) -> Vec<(Arc<str>, Arc<Used>, u64)> {
        let all = self.by_name.lock();
        let of = |(name, used): (&Arc<str>, &Arc<Used>)| {
            let last = used.last.load(Ordering::Relaxed);
            (last > used.written.load(Ordering::Relaxed)).then(|| (name.clone(), used.clone(), last))
        };
        all.iter().filter_map(of).collect()
    }
}

impl Directory {
    /// Writes down which keys were used since the last time.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; they are written the next time.
    pub async fn write_uses(&self) -> Result<(), StoreError> {
        let used = self.uses.unwritten();
        if used.is_empty() {
            return Ok(());
        }
        let write = |(name, _, last): &(Arc<str>, Arc<Used>, u64)| Write {
            collection: Collection::KeyUses,
            id: name.to_string(),
            expected: Expected::Anything,
            value: Some(Bytes::from(last.to_string())),
            keep: Some(KEEP),
            rank: 0,
        };
        self.documents.put_all(&used.iter().map(write).collect::<Vec<_>>(), None).await?;
        for (_, key, last) in used {
            key.written.fetch_max(last, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Writes uses down, and reads keys and plans again now and then in case somebody died over a change, until it is dropped.
#[derive(Debug)]
pub struct KeyKeeper(AbortHandle);

impl KeyKeeper {
    /// Starts the task.
    #[must_use]
    pub fn start(directory: Arc<Directory>) -> Self {
        let ticking = async move {
            for ticks in 1_u64.. {
                tokio::time::sleep(TICK).await;
                let mut done = directory.write_uses().await;
                if ticks.is_multiple_of(REREAD.as_secs() / TICK.as_secs()) && done.is_ok() {
                    done = directory.reread().await;
                }
                if let Err(error) = done {
                    tracing::debug!(%error, "what concerns gateway keys waits for the store");
                }
            }
        };
        Self(tokio::spawn(ticking).abort_handle())
    }
}

impl Drop for KeyKeeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
