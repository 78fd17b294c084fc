//! Documents in memory: the reference that the stores are compared with, and enough where nothing has to survive the process.

use super::{Collection, Document, Documents, Listed, MAX_PAGE, Page, StoreError, Write, Written, check_id};
use crate::domain::{Clock, Timestamp};
use crate::store::series::Series;
use crate::store::series::memory::MemorySeries;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module.
pub struct MemoryDocuments {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
    series: MemorySeries,
}

#[derive(Default)]
struct Kept {
    versions: u64,
    documents: BTreeMap<(Collection, String), Entry>,
}

#[derive(Clone)]
struct Entry {
    document: Document,
    rank: u64,
    until: Option<Timestamp>,
}

impl MemoryDocuments {
    /// No documents yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default(), series: MemorySeries::default() }
    }

    /// Everything that has not ended at `now`.
    fn kept(&self, now: Option<Timestamp>) -> parking_lot::MutexGuard<'_, Kept> {
        let now = now.unwrap_or_else(|| self.clock.now());
        let mut kept = self.kept.lock();
        kept.documents.retain(|_, entry| entry.until.is_none_or(|until| now < until));
        kept
    }

    fn write(&self, write: &Write, now: Option<Timestamp>) -> Written {
        let mut kept = self.kept(now);
        let key = (write.collection, write.id.clone());
        let found = kept.documents.get(&key).map(|entry| entry.document.clone());
        if !write.expects(found.as_ref()) {
            return Written::Found(found);
        }
        let Some(value) = write.value.clone() else {
            kept.documents.remove(&key);
            return Written::Done(0);
        };
        kept.versions += 1;
        let document = Document { version: kept.versions, value };
        let until = write.until(now.unwrap_or_else(|| self.clock.now()));
        let version = document.version;
        kept.documents.insert(key, Entry { document, rank: write.rank, until });
        Written::Done(version)
    }
}

impl std::fmt::Debug for MemoryDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryDocuments").finish_non_exhaustive()
    }
}

impl Documents for MemoryDocuments {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        let kept = self.kept(now);
        let found = kept.documents.get(&(collection, id.to_owned())).map(|entry| entry.document.clone());
        ready(Ok(found)).boxed()
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        ready(check_id(&write.id).map(|()| self.write(write, now))).boxed()
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(writes.iter().try_for_each(|write| check_id(&write.id).map(|()| drop(self.write(write, now))))).boxed()
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        let kept = self.kept(now);
        let of_kind = kept.documents.iter().filter(|((kind, _), _)| *kind == collection && collection.is_listed());
        let mut listed: Vec<Listed> = of_kind
            .map(|((_, id), entry)| Listed { id: id.clone(), rank: entry.rank, document: entry.document.clone() })
            .filter(|one| page.up_to.is_none_or(|most| one.rank <= most))
            .filter(|one| page.after.as_ref().is_none_or(|(rank, id)| (one.rank, &one.id) > (*rank, id)))
            .collect();
        listed.sort_by(|a, b| (a.rank, &a.id).cmp(&(b.rank, &b.id)));
        listed.truncate(page.limit.min(MAX_PAGE));
        ready(Ok(listed)).boxed()
    }

    fn series(&self) -> &dyn Series {
        &self.series
    }
}
