//! Documents of a single process: a `fjall` database in a directory.
//!
//! Nothing is kept in memory but what the database caches (some tens of megabytes): there is a record of every request. Writes go
//! through one thread (see `writer`) and are acknowledged when the operating system has them, so killing the process loses none; a
//! power cut may lose the last second. Reads go to the database, off the async threads, a bounded number at once. Neither outlasts a
//! deadline, whatever the disk does.

mod disk;
mod format;
mod series;
mod writer;

use self::series::EmbeddedSeries;
use super::{Collection, Document, Documents, Listed, Page, StoreError, Write, Written, check_id};
use crate::domain::{Clock, Timestamp};
use crate::store::series::Series;
use disk::{Disk, Files};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use writer::{Message, Writer};

/// Messages on their way to the writer; beyond that, callers wait.
const INBOX: usize = 1_024;
/// Reads at once.
const READS: usize = 32;
/// How long a call may take. A disk that takes longer is as good as away.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module. Dropping it writes what is left and flushes it to the medium, blocking.
pub struct EmbeddedDocuments {
    files: Files,
    clock: Arc<dyn Clock>,
    reads: Arc<Semaphore>,
    /// Present until the store is dropped.
    inbox: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    series: EmbeddedSeries,
}

impl EmbeddedDocuments {
    /// Opens the documents in a directory, creating it where there is none.
    ///
    /// # Errors
    /// With the path and the reason when the directory is in use, damaged or not writable.
    pub fn open(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let files = Files::open(path.into())?;
        let (inbox, messages) = mpsc::channel(INBOX);
        let writer = Writer::new(files.clone(), messages, Arc::clone(&clock))?;
        let failed = |error: std::io::Error| StoreError::Failed(format!("the writer of documents does not start: {error}"));
        // A thread of its own, since it blocks on the disk; a runtime of its own, for the one timer.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let run = move || runtime.block_on(writer.run());
        let thread = std::thread::Builder::new().name("tollgate-documents".into()).spawn(run).map_err(failed)?;
        let reads = Arc::new(Semaphore::new(READS));
        let series = EmbeddedSeries::new(files.clone());
        Ok(Self { files, clock, reads, inbox: Some(inbox), thread: Some(thread), series })
    }

    /// Ends the store: writes what is left and flushes it to the medium. Dropping it does the same.
    pub fn close(self) {
        drop(self);
    }

    async fn write(&self, writes: Vec<Write>, now: Option<Timestamp>) -> Result<Vec<Written>, StoreError> {
        writes.iter().try_for_each(|write| check_id(&write.id))?;
        let inbox = self.inbox.as_ref().ok_or_else(stopped)?;
        let (ack, written) = oneshot::channel();
        in_time(async {
            inbox.send(Message { writes, now, ack }).await.map_err(|_| stopped())?;
            written.await.map_err(|_| stopped())?
        })
        .await
    }

    /// Reads off the async threads.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Files) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        in_time(async {
            // Held until the read has ended, also one that nobody waits for any more.
            let permit = Arc::clone(&self.reads).acquire_owned().await.map_err(|_| stopped())?;
            let files = self.files.clone();
            let work = move || {
                let _permit = permit;
                read(&files)
            };
            tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Failed("a read of documents panicked".into()))?
        })
        .await
    }
}

impl std::fmt::Debug for EmbeddedDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedDocuments").finish_non_exhaustive()
    }
}

impl Documents for EmbeddedDocuments {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        let key = format::document_key(collection, id);
        let now = now.unwrap_or_else(|| self.clock.now());
        self.read(move |files| Ok(files.record(&key)?.filter(|record| record.lives(now)).map(|record| record.document))).boxed()
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        async move {
            let written = self.write(vec![write.clone()], now).await?;
            written.into_iter().next().ok_or_else(stopped)
        }
        .boxed()
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(writes.to_vec(), now).map(|written| written.map(drop)).boxed()
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        let page = page.clone();
        let now = now.unwrap_or_else(|| self.clock.now());
        self.read(move |files| files.list(collection, &page, now)).boxed()
    }

    fn series(&self) -> &dyn Series {
        &self.series
    }
}

impl Drop for EmbeddedDocuments {
    fn drop(&mut self) {
        // The writer ends when nobody can send any more, after everything that was sent.
        self.inbox = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of documents panicked");
        }
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Unreachable(format!("the disk did not answer within {PATIENCE:?}"));
    timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(late()))
}

fn stopped() -> StoreError {
    StoreError::Failed("the writer of documents has stopped".into())
}
