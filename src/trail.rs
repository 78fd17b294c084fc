//! Who changed what while the gateways ran: kept in the store for those who ask later, and in the log (target `audit`).
//!
//! Every change through the admin listener is here: plans, overrides, credits, pinned levels, tickets. It is written when the change is
//! in force and before its author is answered; should the store go away in between, the log alone has it. What is written names no
//! secret and holds no words of a customer's.

use crate::domain::{Clock, Timestamp};
use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, Expected, MAX_PAGE, Page, Write};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a change is kept.
pub const KEEP: Duration = Duration::from_secs(400 * 86_400);
/// How many changes are kept; the oldest go first. Some are kept beyond that until they are counted again.
pub const MOST: usize = 20_000;
/// After so many changes by one process the kept ones are counted.
const COUNT_EVERY: u64 = 500;
/// The longest text of what was there before or after, bytes; of a longer one only the beginning is kept.
const LONGEST: usize = 16 << 10;

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Who, as the caller names itself.
    pub by: &'a str,
    /// Of what kind: `override`, `plan`, `key`, `level`, `ticket`.
    pub kind: &'static str,
    /// Of which customer, plan, key, pool or ticket.
    pub name: &'a str,
    /// What was there; `None` = nothing.
    pub before: Option<&'a Value>,
    /// What is there now; `None` = nothing.
    pub after: Option<&'a Value>,
}

/// Keeps changes for those who ask later.
pub trait Trail: Send + Sync + 'static {
    /// Something was changed, and is in force.
    fn changed<'a>(&'a self, change: &'a Change<'a>) -> BoxFuture<'a, ()>;
}

/// Keeps them in the process log alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTrail;

impl Trail for LogTrail {
    fn changed<'a>(&'a self, change: &'a Change<'a>) -> BoxFuture<'a, ()> {
        let Change { by, kind, name, before, after } = change;
        let text = |value: &Option<&Value>| value.map(ToString::to_string);
        tracing::info!(target: "audit", by, kind, name, before = text(before), after = text(after), "changed at run time");
        std::future::ready(()).boxed()
    }
}

/// Keeps them in the store, and in the process log.
pub struct StoredTrail {
    documents: Arc<dyn Documents>,
    clock: Arc<dyn Clock>,
    changes: AtomicU64,
}

/// A change that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// When, microseconds since the epoch.
    pub at: u64,
    /// Who, as they named themselves.
    pub by: String,
    /// Of what kind.
    pub kind: String,
    /// Of what.
    pub name: String,
    /// What was there before.
    #[serde(default)]
    pub before: Option<Value>,
    /// What is there since.
    #[serde(default)]
    pub after: Option<Value>,
}

/// Where a page of changes ends: the next one goes on after it.
pub type Cursor = (u64, String);

impl StoredTrail {
    /// In this store.
    #[must_use]
    pub fn new(documents: Arc<dyn Documents>, clock: Arc<dyn Clock>) -> Self {
        Self { documents, clock, changes: AtomicU64::new(0) }
    }

    /// Changes, the latest first, each with where a page goes on behind it. Fewer than `limit` are the last ones.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked, or holds something else.
    pub async fn read(&self, after: Option<Cursor>, limit: usize) -> Result<Vec<(Cursor, Kept)>, StoreError> {
        let page = Page { after, up_to: None, limit };
        let listed = self.documents.list(Collection::Audit, &page, None).await?;
        let kept = |one: crate::store::documents::Listed| {
            let kept = serde_json::from_slice(&one.document.value);
            Ok(((one.rank, one.id), kept.map_err(|error| StoreError::Failed(format!("a change: {error}")))?))
        };
        listed.into_iter().map(kept).collect()
    }

    async fn keep(&self, change: &Change<'_>) -> Result<(), StoreError> {
        let at = self.clock.now();
        let Change { by, kind, name, before, after } = *change;
        let (before, after) = (before.map(bounded), after.map(bounded));
        let kept = Kept { at: at.micros(), by: by.into(), kind: kind.into(), name: name.into(), before, after };
        let value = serde_json::to_vec(&kept).map_err(|error| StoreError::Failed(format!("a change: {error}")))?;
        let write = Write {
            collection: Collection::Audit,
            id: format!("{:016x}{:016x}", at.micros(), fastrand::u64(..)),
            expected: Expected::Nothing,
            value: Some(value.into()),
            keep: Some(KEEP),
            rank: rank(at),
        };
        self.documents.put(&write, None).await?;
        if self.changes.fetch_add(1, Ordering::Relaxed) % COUNT_EVERY == COUNT_EVERY - 1 {
            self.prune(MOST).await?;
        }
        Ok(())
    }

    /// Forgets all but the latest.
    async fn prune(&self, most: usize) -> Result<(), StoreError> {
        let (mut page, mut seen) = (Page { limit: MAX_PAGE, ..Page::default() }, 0);
        loop {
            let listed = self.documents.list(Collection::Audit, &page, None).await?;
            let Some(last) = listed.last() else { return Ok(()) };
            page.after = Some((last.rank, last.id.clone()));
            for (n, one) in listed.iter().enumerate() {
                if seen + n >= most {
                    let remove = Write {
                        collection: Collection::Audit,
                        id: one.id.clone(),
                        expected: Expected::Anything,
                        value: None,
                        keep: None,
                        rank: one.rank,
                    };
                    self.documents.put(&remove, None).await?;
                }
            }
            seen += listed.len();
        }
    }
}

impl Trail for StoredTrail {
    fn changed<'a>(&'a self, change: &'a Change<'a>) -> BoxFuture<'a, ()> {
        async move {
            LogTrail.changed(change).await;
            if let Err(error) = self.keep(change).await {
                tracing::warn!(%error, "a change is in force and in this log, but not kept in the store");
            }
        }
        .boxed()
    }
}

impl std::fmt::Debug for StoredTrail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredTrail").finish_non_exhaustive()
    }
}

/// The latest comes first.
fn rank(at: Timestamp) -> u64 {
    u64::MAX - at.micros()
}

fn bounded(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= LONGEST {
        return value.clone();
    }
    let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    json!({ "too_long": text.len(), "beginning": text[..end] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::documents::memory::MemoryDocuments;
    use std::sync::atomic::AtomicU64;

    /// A clock that a microsecond passes on whenever it is looked at.
    #[derive(Default)]
    struct Ticks(AtomicU64);

    impl Clock for Ticks {
        fn now(&self) -> Timestamp {
            Timestamp(1_796_040_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    fn trail() -> StoredTrail {
        let clock = Arc::<Ticks>::default();
        StoredTrail::new(Arc::new(MemoryDocuments::new(clock.clone())), clock)
    }

    async fn change(trail: &StoredTrail, name: &str, after: Option<&Value>) {
        trail.changed(&Change { by: "ann", kind: "plan", name, before: None, after }).await;
    }

    fn names(kept: &[(Cursor, Kept)]) -> Vec<&str> {
        kept.iter().map(|(_, kept)| &*kept.name).collect()
    }

    #[tokio::test]
    async fn changes_are_read_page_by_page_the_latest_first() {
        let trail = trail();
        for n in 0..5 {
            change(&trail, &format!("p{n}"), Some(&json!({ "rpm": n }))).await;
        }
        let first = trail.read(None, 3).await.expect("it answers");
        assert_eq!(names(&first), ["p4", "p3", "p2"]);
        let (behind, latest) = (first[2].0.clone(), &first[0].1);
        assert_eq!((&*latest.by, &*latest.kind, &latest.after), ("ann", "plan", &Some(json!({ "rpm": 4 }))));
        assert_eq!(names(&trail.read(Some(behind), 3).await.expect("it answers")), ["p1", "p0"]);
    }

    #[tokio::test]
    async fn only_so_many_are_kept_and_only_so_much_of_each() {
        let trail = trail();
        change(&trail, "long", Some(&json!("é".repeat(LONGEST)))).await;
        let kept = trail.read(None, 1).await.expect("it answers");
        let after = kept[0].1.after.as_ref().expect("something");
        assert_eq!(after["too_long"], 2 * LONGEST as u64 + 2);
        assert!(after["beginning"].as_str().is_some_and(|text| text.len() > LONGEST - 4 && text.len() <= LONGEST));
        for n in 0..20 {
            change(&trail, &n.to_string(), None).await;
        }
        trail.prune(7).await.expect("it answers");
        let kept = trail.read(None, 100).await.expect("it answers");
        assert_eq!(names(&kept), ["19", "18", "17", "16", "15", "14", "13"]);
    }
}
