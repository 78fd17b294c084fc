//! Series in memory: the reference that the stores are compared with, and enough where nothing has to survive the process.

use super::row::{self, Minutes};
use super::{Batch, Kind, MAX_ROWS, Ranking, Row, RowKey, Scanned, Series, StoreError, last_day, standing};
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// See the module.
#[derive(Debug, Default)]
pub struct MemorySeries(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    rows: BTreeMap<RowKey, Row>,
    /// The last day on which a row is kept.
    ends: BTreeMap<RowKey, u32>,
    minutes: Minutes,
    /// The last batch of each gateway.
    batches: HashMap<u64, u64>,
}

impl Kept {
    fn add(&mut self, batch: &Batch) {
        if self.batches.get(&batch.gateway).is_some_and(|last| *last >= batch.number) {
            return;
        }
        self.batches.insert(batch.gateway, batch.number);
        for addition in &batch.additions {
            let row = self.rows.entry(addition.key.clone()).or_default();
            row::add(row, addition, &mut self.minutes);
            self.ends.insert(addition.key.clone(), last_day(&addition.key, addition.keep));
        }
        self.minutes.close(batch);
        let ended: Vec<_> = self.ends.iter().filter(|(_, end)| **end < batch.today).map(|(key, _)| key.clone()).collect();
        for key in ended {
            self.rows.remove(&key);
            self.ends.remove(&key);
        }
    }

    fn of_day(&self, kind: Kind, day: u32, after: Option<&str>) -> impl Iterator<Item = (&RowKey, &Row)> {
        let first = RowKey { kind, day, id: after.unwrap_or_default().to_owned() };
        let from = if after.is_some() { Bound::Excluded(first) } else { Bound::Included(first) };
        self.rows.range((from, Bound::Unbounded)).take_while(move |(key, _)| key.kind == kind && key.day == day)
    }
}

impl Series for MemorySeries {
    fn add<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.lock().add(batch);
        Box::pin(ready(Ok(())))
    }

    fn rows<'a>(&'a self, keys: &'a [RowKey]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let kept = self.0.lock();
        let rows = keys.iter().map(|key| kept.rows.get(key).cloned().unwrap_or_default()).collect();
        Box::pin(ready(Ok(rows)))
    }

    fn ranked<'a>(&'a self, kind: Kind, day: u32, ranking: &'a Ranking) -> BoxFuture<'a, Result<Vec<(String, Row)>, StoreError>> {
        let kept = self.0.lock();
        let matching = kept.of_day(kind, day, None).filter(|(key, _)| key.id.starts_with(&ranking.prefix));
        let mut all: Vec<_> = matching.map(|(key, row)| standing(key.id.clone(), row.clone())).collect();
        all.sort();
        let page = all.into_iter().skip(ranking.skip).take(ranking.limit.min(MAX_ROWS));
        Box::pin(ready(Ok(page.map(|(_, id, row)| (id, row)).collect())))
    }

    fn scan<'a>(&'a self, kind: Kind, day: u32, after: Option<&'a str>) -> BoxFuture<'a, Result<Scanned, StoreError>> {
        let kept = self.0.lock();
        let rows: Vec<_> = kept.of_day(kind, day, after).take(MAX_ROWS).map(|(key, row)| (key.id.clone(), row.clone())).collect();
        let next = (rows.len() == MAX_ROWS).then(|| rows.last().map(|(id, _)| id.clone())).flatten();
        Box::pin(ready(Ok((rows, next))))
    }
}
