//! What is kept of each request, to be looked up when a customer complains: by our id or by the provider's.
//!
//! A record is handed over when its request has ended and is written off the path: through a bounded queue, many in one call. When the
//! queue is full, because the store is away or slow, records are dropped and counted; nobody waits for them, and nothing else depends
//! on them. They are forgotten after `[records] keep`.

mod customers;
mod entry;
mod notable;
mod queue;

pub use customers::{REMEMBERED, Seen};
pub use entry::Entry;
pub use notable::{Notable, Outcome};

use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, MAX_ID};
use crate::telemetry::Metrics;
use crate::telemetry::record::{Ended, Sink};
use queue::Told;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Records that wait to be written; one takes some kilobytes at most.
const WAITING: usize = 8_192;

/// See the module.
pub struct Records {
    documents: Arc<dyn Documents>,
    metrics: Arc<Metrics>,
    queue: mpsc::Sender<Told>,
}

impl Records {
    /// Starts the task that writes. It ends when the records are gone and everything is written.
    #[must_use]
    pub fn start(documents: Arc<dyn Documents>, metrics: Arc<Metrics>) -> Self {
        let (queue, told) = mpsc::channel(WAITING);
        tokio::spawn(queue::run(documents.clone(), told, metrics.clone()));
        Self { documents, metrics, queue }
    }

    /// What is kept of a request, by our id or the provider's; `None` when there is nothing (any more).
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked, or holds something else.
    pub async fn find(&self, id: &str) -> Result<Option<Entry>, StoreError> {
        if id.is_empty() || id.len() > MAX_ID {
            return Ok(None);
        }
        if let Some(entry) = self.by_ours(id).await? {
            return Ok(Some(entry));
        }
        let Some(named) = self.documents.get(Collection::ProviderRequests, id, None).await? else { return Ok(None) };
        match std::str::from_utf8(&named.value) {
            Ok(ours) => self.by_ours(ours).await,
            Err(_) => Err(StoreError::Failed("the name of a request is damaged".into())),
        }
    }

    async fn by_ours(&self, id: &str) -> Result<Option<Entry>, StoreError> {
        let Some(found) = self.documents.get(Collection::Requests, id, None).await? else { return Ok(None) };
        serde_json::from_slice(&found.value)
            .map(Some)
            .map_err(|error| StoreError::Failed(format!("a record of a request: {error}")))
    }

    /// The latest requests of a customer that were not served as asked, the latest first; at most [`REMEMBERED`], and as old as records
    /// are kept.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn refusals(&self, customer: &str) -> Result<Vec<Notable>, StoreError> {
        customers::refusals(&*self.documents, customer).await
    }

    /// When a customer was seen; `None` = not in the last three months.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn seen(&self, customer: &str) -> Result<Option<Seen>, StoreError> {
        customers::seen(&*self.documents, customer).await
    }

    /// Customers that were seen in the last three months, by id, after this one.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn customers(&self, after: &str, limit: usize) -> Result<Vec<(String, Seen)>, StoreError> {
        customers::list(&*self.documents, after, limit).await
    }

    /// Waits until everything handed over so far is written, for so long. Gives whether it is.
    pub async fn drain(&self, patience: Duration) -> bool {
        let (ack, written) = oneshot::channel();
        let flushed = async { self.queue.send(Told::Flush(ack)).await.is_ok() && written.await.is_ok() };
        timeout(patience, flushed).await.unwrap_or(false)
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl Sink for Records {
    fn ended(&self, ended: Ended) {
        if self.queue.try_send(Told::Ended(Box::new(ended))).is_err() {
            self.metrics.records_dropped.inc();
        }
    }
}

#[cfg(test)]
mod tests;
