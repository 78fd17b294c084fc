//! Series of a single process: a key space of their own in the database of the documents.
//!
//! One batch of a gateway is one batch of the database, so killing the process leaves all of it or nothing. Rows of a kind and day lie
//! together; a ranking reads the day, which takes about a second for a million customers and runs off the async threads.

use super::disk::{Files, Rows};
use super::in_time;
use crate::store::StoreError;
use crate::store::series::row::{self, Minutes};
use crate::store::series::{Batch, Kind, MAX_ROWS, Ranking, Row, RowKey, Scanned, Series, standing};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Rows removed with one batch, besides twice as many as it adds to: enough to catch up, too little to be noticed.
const REMOVED: usize = 512;

/// See the module.
pub struct EmbeddedSeries {
    files: Files,
    adding: Arc<Mutex<Adding>>,
}

/// What adding has to remember. The lock is held while a batch is written, so that a look and the write after it are one step.
#[derive(Default)]
struct Adding {
    minutes: Minutes,
    /// The last batch of each gateway. There is one, but a test may have two.
    batches: HashMap<u64, u64>,
}

impl EmbeddedSeries {
    /// Series in this database.
    pub fn new(files: Files) -> Self {
        Self { files, adding: Arc::default() }
    }

    fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Rows<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let files = self.files.clone();
        in_time(async move {
            let task = tokio::task::spawn_blocking(move || files.with_series(work));
            task.await.map_err(|_| StoreError::Failed("work on series panicked".into()))?
        })
        .boxed()
    }
}

/// How a row's key lies on disk: sorted by kind, day and id.
fn key_of(kind: Kind, day: u32, id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(6 + id.len());
    key.extend_from_slice(kind.as_str().as_bytes());
    key.extend_from_slice(&day.to_be_bytes());
    key.extend_from_slice(id.as_bytes());
    key
}

fn read_id(key: &[u8]) -> String {
    String::from_utf8_lossy(key.get(6..).unwrap_or_default()).into_owned()
}

/// Everything of a kind and day, from `after` on.
fn of_day(kind: Kind, day: u32, after: Option<&str>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let from = match after {
        Some(id) => Bound::Excluded(key_of(kind, day, id)),
        None => Bound::Included(key_of(kind, day, "")),
    };
    let beyond = day.checked_add(1).map_or(Bound::Unbounded, |next| Bound::Excluded(key_of(kind, next, "")));
    (from, beyond)
}

fn add(adding: &mut Adding, rows: &Rows<'_>, batch: &Batch) -> Result<(), StoreError> {
    if adding.batches.get(&batch.gateway).is_some_and(|last| *last >= batch.number) {
        return Ok(());
    }
    let mut writes: BTreeMap<Vec<u8>, Option<Row>> = BTreeMap::new();
    for kind in Kind::ALL {
        let keep = batch.additions.iter().filter(|addition| addition.key.kind == kind).map(|addition| addition.keep).max();
        let Some(first) = keep.and_then(|keep| batch.today.checked_sub(keep)) else { continue };
        let most = REMOVED + 2 * batch.additions.len();
        let mut ended = Vec::new();
        rows.range((Bound::Included(key_of(kind, 0, "")), Bound::Excluded(key_of(kind, first, ""))), |key, _| {
            ended.push(key.to_vec());
            ended.len() < most
        })?;
        writes.extend(ended.into_iter().map(|key| (key, None)));
    }
    for addition in &batch.additions {
        let RowKey { kind, day, id } = &addition.key;
        let key = key_of(*kind, *day, id);
        let mut row = rows.row(&key)?;
        row::add(&mut row, addition, &mut adding.minutes);
        writes.insert(key, Some(row));
    }
    // Minutes were added to already: should the database fail, a repetition may count them twice. It is a peak, not money.
    rows.commit(writes)?;
    adding.batches.insert(batch.gateway, batch.number);
    adding.minutes.close(batch);
    Ok(())
}

/// The rows of a page, chosen without holding more than what stands before its end.
fn ranked(rows: &Rows<'_>, kind: Kind, day: u32, ranking: &Ranking) -> Result<Vec<(String, Row)>, StoreError> {
    let limit = ranking.limit.min(MAX_ROWS);
    let most = ranking.skip.saturating_add(limit);
    let mut best = BinaryHeap::new();
    rows.range(of_day(kind, day, None), |key, row| {
        let id = read_id(key);
        if id.starts_with(&ranking.prefix) {
            best.push(standing(id, row));
            if best.len() > most {
                best.pop(); // the last of them
            }
        }
        true
    })?;
    let page = best.into_sorted_vec().into_iter().skip(ranking.skip).take(limit);
    Ok(page.map(|(_, id, row)| (id, row)).collect())
}

impl Series for EmbeddedSeries {
    fn add<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        let (adding, batch) = (Arc::clone(&self.adding), batch.clone());
        self.off_thread(move |rows| add(&mut adding.lock(), rows, &batch))
    }

    fn rows<'a>(&'a self, keys: &'a [RowKey]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let keys: Vec<_> = keys.iter().map(|key| key_of(key.kind, key.day, &key.id)).collect();
        self.off_thread(move |rows| keys.iter().map(|key| rows.row(key)).collect())
    }

    fn ranked<'a>(&'a self, kind: Kind, day: u32, ranking: &'a Ranking) -> BoxFuture<'a, Result<Vec<(String, Row)>, StoreError>> {
        let ranking = ranking.clone();
        self.off_thread(move |rows| ranked(rows, kind, day, &ranking))
    }

    fn scan<'a>(&'a self, kind: Kind, day: u32, after: Option<&'a str>) -> BoxFuture<'a, Result<Scanned, StoreError>> {
        let bounds = of_day(kind, day, after);
        self.off_thread(move |rows| {
            let mut page = Vec::new();
            rows.range(bounds, |key, row| {
                page.push((read_id(key), row));
                page.len() < MAX_ROWS
            })?;
            let next = (page.len() == MAX_ROWS).then(|| page.last().map(|(id, _): &(String, Row)| id.clone())).flatten();
            Ok((page, next))
        })
    }
}
