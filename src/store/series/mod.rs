//! Series: rows of named counters by day, to which any number of gateways add.
//!
//! A gateway adds in batches, off the request path. A batch has the name of its gateway and a number that grows, so one that is repeated
//! because its answer was lost is not added twice: within one process, that is; what a gateway that died had not sent is gone. Sums
//! add up over gateways; a peak is the largest sum of one minute, over all gateways too. Rows are forgotten some days after their day.
//!
//! What the counters mean is said in [`crate::history`]. Kept wherever documents are: see [`super::documents::Documents::series`].

pub mod memory;
pub(super) mod row;

use super::StoreError;
use futures_util::future::{BoxFuture, ready};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The counter by which listed rows are ranked.
pub const RANK: &str = "cost";
/// Rows in one answer at most, whatever was asked for.
pub const MAX_ROWS: usize = 1_000;
/// The longest name of a counter, bytes.
pub const MAX_NAME: usize = 128;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A customer's day.
    CustomerDay,
    /// A customer's hours of a day; the counters carry the hour in their names.
    CustomerHours,
    /// Everybody's day.
    TotalDay,
    /// Everybody's hours of a day.
    TotalHours,
    /// What a model did in a day.
    ModelDay,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::CustomerDay, Self::CustomerHours, Self::TotalDay, Self::TotalHours, Self::ModelDay];

    /// Its name in keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CustomerDay => "cd",
            Self::CustomerHours => "ch",
            Self::TotalDay => "td",
            Self::TotalHours => "th",
            Self::ModelDay => "md",
        }
    }

    /// Whether its rows of a day can be listed.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        matches!(self, Self::CustomerDay | Self::ModelDay)
    }
}

/// Which row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// What it is about.
    pub kind: Kind,
    /// Days since 1970-01-01, UTC.
    pub day: u32,
    /// Whose; empty for everybody's. At most [`super::documents::MAX_ID`] bytes.
    pub id: String,
}

/// A row: counters by name. One that was never added to is not there, and is as good as zero.
pub type Row = BTreeMap<String, u64>;

/// The name of a counter: visible ASCII, at most [`MAX_NAME`] bytes.
pub type Name = Cow<'static, str>;

/// What is added to one minute of a peak. The peak is the largest sum of any minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The counter that keeps it.
    pub name: Name,
    /// Minutes since 1970-01-01, UTC.
    pub minute: u64,
    /// How much.
    pub amount: u64,
}

/// What is added to one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Which.
    pub key: RowKey,
    /// Counters and how much they grow.
    pub sums: Vec<(Name, u64)>,
    /// Minutes of peaks.
    pub peaks: Vec<Peak>,
    /// Days for which it is kept after its own.
    pub keep: u32,
}

/// Additions that are made once, however often they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Who adds: a number that no other process has.
    pub gateway: u64,
    /// Grows with each batch of that gateway, which sends one after the other.
    pub number: u64,
    /// The present day; what is kept ends by it.
    pub today: u32,
    /// What is added; each row once.
    pub additions: Vec<Addition>,
}

/// Which rows of a ranking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Only ids that begin so.
    pub prefix: String,
    /// How many to pass over.
    pub skip: usize,
    /// How many at most; never more than [`MAX_ROWS`].
    pub limit: usize,
}

/// Rows of a listing, and where it goes on; `None` at its end.
pub type Scanned = (Vec<(String, Row)>, Option<String>);

/// Keeps series.
pub trait Series: Send + Sync {
    /// Adds a batch. Repeated until it succeeds, it is added once.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; some of it may be added, and repeating it adds the rest.
    fn add<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Rows by their keys, in that order; empty where there is nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn rows<'a>(&'a self, keys: &'a [RowKey]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// Rows of a listed kind and day, the largest by rank first, then by id.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn ranked<'a>(&'a self, kind: Kind, day: u32, ranking: &'a Ranking) -> BoxFuture<'a, Result<Vec<(String, Row)>, StoreError>>;

    /// All rows of a listed kind and day, in any order, a page at a time; `after` is what the page before said. What is added meanwhile
    /// may move a row over the edge of a page; a day that is over stands still.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked, or `after` is not what it said.
    fn scan<'a>(&'a self, kind: Kind, day: u32, after: Option<&'a str>) -> BoxFuture<'a, Result<Scanned, StoreError>>;
}

/// Keeps nothing: for stores of documents that have no series.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Series for Nowhere {
    fn add<'a>(&'a self, _: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn rows<'a>(&'a self, keys: &'a [RowKey]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(ready(Ok(vec![Row::new(); keys.len()])))
    }

    fn ranked<'a>(&'a self, _: Kind, _: u32, _: &'a Ranking) -> BoxFuture<'a, Result<Vec<(String, Row)>, StoreError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn scan<'a>(&'a self, _: Kind, _: u32, _: Option<&'a str>) -> BoxFuture<'a, Result<Scanned, StoreError>> {
        Box::pin(ready(Ok((Vec::new(), None))))
    }
}

/// Where a row stands in a ranking: lowest first.
pub(super) fn standing(id: String, row: Row) -> (std::cmp::Reverse<u64>, String, Row) {
    (std::cmp::Reverse(row.get(RANK).copied().unwrap_or(0)), id, row)
}

/// The end of a row: it is kept while `today` is not beyond.
pub(super) const fn last_day(key: &RowKey, keep: u32) -> u32 {
    key.day.saturating_add(keep)
}
