//! The jobs of a store: taken in, looked for, ended, cancelled.
//!
//! A job is at most four documents: itself (listed, small), its request, its marker while it runs, and its reply once it has one. They
//! are written in an order in which a gateway may die at any point: the request before the job, the reply before the job's end.

use super::job::{ENDED, Job, Request, State};
use super::kept::Entry;
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Document, Documents, Expected, Listed, Page, Write, Written};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// How many jobs are read at a time.
const PAGE: usize = 1_000;

/// The jobs of a store. Clones share it.
#[derive(Clone)]
pub struct Jobs(Arc<dyn Documents>);

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Jobs")
    }
}

/// How many jobs there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// That wait or run.
    pub all: usize,
    /// Of one customer.
    pub per_customer: usize,
}

/// What came of taking a job in.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// It is stored.
    Stored,
    /// Too many.
    Full,
    /// The customer has too many.
    CustomerFull,
}

/// A job as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub job: Job,
    /// The version of its document.
    pub version: u64,
}

/// A new id: hard to guess, though only its owner may use it.
#[must_use]
pub fn new_id() -> String {
    format!("job_{:032x}", fastrand::u128(..))
}

/// Whether a text can be an id.
#[must_use]
pub fn is_id(text: &str) -> bool {
    text.strip_prefix("job_").is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// Where the marker of a job is.
#[must_use]
pub fn marker(id: &str) -> String {
    format!("{id}/marker")
}

fn request(id: &str) -> String {
    format!("{id}/request")
}

fn reply(id: &str) -> String {
    format!("{id}/reply")
}

impl Jobs {
    /// Those of this store.
    #[must_use]
    pub const fn new(documents: Arc<dyn Documents>) -> Self {
        Self(documents)
    }

    /// Takes a job in, unless there are too many. Counting and writing are two calls: one gateway makes them one after the other, so
    /// several gateways together exceed a bound by their own number at most.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; then it is not taken in.
    pub async fn add(&self, id: &str, job: &Job, asked: &Request, bounds: Bounds, keep: Duration) -> Result<Added, StoreError> {
        let (mut all, mut own) = (0, 0);
        self.each_open(|other| {
            all += 1;
            own += usize::from(other.customer == job.customer);
            all < bounds.all
        })
        .await?;
        if all >= bounds.all {
            return Ok(Added::Full);
        }
        if own >= bounds.per_customer {
            return Ok(Added::CustomerFull);
        }
        self.write(Collection::Replies, request(id), Expected::Anything, Some(asked.encode()), keep, 0).await?;
        self.write(Collection::Jobs, id.to_owned(), Expected::Nothing, Some(job.encode()), keep, job.rank()).await?;
        Ok(Added::Stored)
    }

    /// How many wait, and how many run.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn count(&self) -> Result<(usize, usize), StoreError> {
        let (mut queued, mut running) = (0, 0);
        self.each_open(|job| {
            match job.state {
                State::Running => running += 1,
                _ => queued += 1,
            }
            true
        })
        .await?;
        Ok((queued, running))
    }

    /// Shows each job that has not ended, until `go_on` says no.
    async fn each_open(&self, mut go_on: impl FnMut(&Job) -> bool) -> Result<(), StoreError> {
        let mut page = Page { after: None, up_to: Some(ENDED - 1), limit: PAGE };
        loop {
            let listed = self.0.list(Collection::Jobs, &page, None).await?;
            for Listed { document, .. } in &listed {
                if let Some(job) = Job::decode(&document.value)
                    && !go_on(&job)
                {
                    return Ok(());
                }
            }
            match listed.into_iter().nth(PAGE - 1) {
                Some(last) => page.after = Some((last.rank, last.id)),
                None => return Ok(()),
            }
        }
    }

    /// Jobs that are to be looked at by now, those that wait longest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Found>, StoreError> {
        let page = Page { after: None, up_to: Some(now.micros().min(ENDED - 1)), limit };
        let listed = self.0.list(Collection::Jobs, &page, None).await?;
        Ok(listed.into_iter().filter_map(|Listed { id, document, .. }| found(id, &document)).collect())
    }

    /// One of them.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn get(&self, id: &str) -> Result<Option<Found>, StoreError> {
        let document = self.0.get(Collection::Jobs, id, None).await?;
        Ok(document.and_then(|document| found(id.to_owned(), &document)))
    }

    /// What was asked.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn request(&self, id: &str) -> Result<Option<Request>, StoreError> {
        let document = self.0.get(Collection::Replies, &request(id), None).await?;
        Ok(document.and_then(|document| Request::decode(&document.value)))
    }

    /// The reply, once there is one.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn reply(&self, id: &str) -> Result<Option<Entry>, StoreError> {
        let document = self.0.get(Collection::Replies, &reply(id), None).await?;
        Ok(document.and_then(|document| Entry::decode(&document.value)))
    }

    /// Writes how a job stands, if it still stands as it was found; gives whether it did.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; it may have written.
    pub async fn update(&self, found: &mut Found, keep: Duration) -> Result<bool, StoreError> {
        let (value, expected) = (found.job.encode(), Expected::Version(found.version));
        let written =
            self.write(Collection::Jobs, found.id.clone(), expected, Some(value.clone()), keep, found.job.rank()).await?;
        let version = match written {
            Written::Done(version) => version,
            // An earlier try of ours whose answer was lost.
            Written::Found(Some(document)) if document.value == value => document.version,
            Written::Found(_) => return Ok(false),
        };
        found.version = version;
        Ok(true)
    }

    /// Ends a job with this reply; gives whether it was still there to be ended.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; it may have written, and can be asked again.
    pub async fn end(&self, found: &mut Found, last: &Entry, keep: Duration) -> Result<bool, StoreError> {
        self.write(Collection::Replies, reply(&found.id), Expected::Anything, Some(last.encode()), keep, 0).await?;
        let ended = self.update(found, keep).await?;
        let gone = if ended { request(&found.id) } else { reply(&found.id) };
        self.write(Collection::Replies, gone, Expected::Anything, None, keep, 0).await?;
        Ok(ended)
    }

    /// Forgets a job. A gateway that runs it finds its marker gone.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; some of it may be left.
    pub async fn remove(&self, id: &str) -> Result<(), StoreError> {
        self.write(Collection::Jobs, id.to_owned(), Expected::Anything, None, Duration::ZERO, 0).await?;
        for part in [marker(id), request(id), reply(id)] {
            self.write(Collection::Replies, part, Expected::Anything, None, Duration::ZERO, 0).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        collection: Collection,
        id: String,
        expected: Expected,
        value: Option<Bytes>,
        keep: Duration,
        rank: u64,
    ) -> Result<Written, StoreError> {
        self.0.put(&Write { collection, id, expected, value, keep: Some(keep), rank }, None).await
    }
}

fn found(id: String, document: &Document) -> Option<Found> {
    Some(Found { id, job: Job::decode(&document.value)?, version: document.version })
}
