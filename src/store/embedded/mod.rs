//! The embedded store: one process, state in memory, money in a journal.
//!
//! Every decision is made in memory by the pure functions of [`crate::limit::decide`]. What concerns money or quotas goes to one writer
//! thread and is acknowledged when the operating system has it, so killing the process loses no booking; a power cut may lose the last
//! second. Buckets and windows are not journaled: after a restart they are full. A directory serves one process.

mod audit;
mod books;
mod boot;
mod disk;
mod known;
mod open;
mod part;
mod place;
mod record;
pub(super) mod sync;
mod writer;

pub use audit::{Audit, Booked, Difference, Discrepancy, audit};
pub use books::Size;

pub use crate::config::policy::LostHold;

use super::{Balance, Ledger, Look, Seen, StoreError};
use crate::domain::{Clock, Timestamp};
use crate::limit::{Admission, Claim, Decision, ScopeKey, Settlement};
use books::{Admitted, Books, Change};
use disk::{Disk, Journal};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{Notify, mpsc, oneshot};
use writer::{Health, Message, TakenBack, Writer};

/// Messages on their way to the writer; beyond that, callers wait.
const INBOX: usize = 4_096;
/// Settlements told at once; far below [`INBOX`], which must hold them all.
const SETTLED_AT_ONCE: usize = 256;
/// Calls to settle at once: what a moment of the writer's brings.
const SETTLES_AT_ONCE: usize = 64;

/// The [`Ledger`] of a single process.
pub struct EmbeddedLedger {
    books: Books,
    /// `None` = in memory only.
    journal: Option<Writing>,
}

/// This side of the writer thread.
struct Writing {
    /// Present until the store is dropped.
    inbox: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    health: Health,
    taken_back: TakenBack,
    urgent: Arc<Notify>,
}

impl EmbeddedLedger {
    /// Opens the store in a directory, creating it where there is none, and books what was in flight when its last process ended.
    ///
    /// # Errors
    /// With the path and the reason when the directory is in use, damaged or not writable.
    pub fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>, lost_hold: LostHold) -> Result<Self, StoreError> {
        let mut journal = Journal::open(path.as_ref())?;
        let books = Books::new(Arc::clone(&clock), true);
        let next = boot::load(&mut journal, &books, lost_hold)?;
        Self::start(books, journal, clock, next)
    }

    /// A store without a journal, for the lab and for tests: as fast, as exact, forgotten with the process.
    #[must_use]
    pub fn in_memory(clock: Arc<dyn Clock>) -> Self {
        Self { books: Books::new(clock, false), journal: None }
    }

    fn start(books: Books, disk: impl Disk + 'static, clock: Arc<dyn Clock>, next: u64) -> Result<Self, StoreError> {
        let (inbox, messages) = mpsc::channel(INBOX);
        let writer = Writer::new(disk, messages, clock, next);
        let (health, taken_back, urgent) = (writer.health.clone(), Arc::clone(&writer.taken_back), Arc::clone(&writer.urgent));
        let failed = |error: std::io::Error| StoreError::Failed(format!("the journal's writer does not start: {error}"));
        // A thread of its own, since it blocks on the disk; a runtime of its own, for the one timer.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let run = move || runtime.block_on(writer.run());
        let thread = std::thread::Builder::new().name("tollgate-journal".into()).spawn(run).map_err(failed)?;
        let journal = Writing { inbox: Some(inbox), thread: Some(thread), health, taken_back, urgent };
        Ok(Self { books, journal: Some(journal) })
    }

    /// Waits until everything told so far is in the journal. Dropping the store does the same, blocking, and flushes to the medium.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let Some(writing) = &self.journal else { return Ok(()) };
        let (ack, written) = oneshot::channel();
        let permit = writing.inbox()?.reserve().await.map_err(|_| stopped())?;
        permit.send(Message { changes: Vec::new(), ack: Some(ack), admission: false });
        writing.urgent.notify_one();
        written.await.map_err(|_| stopped())?
    }

    /// Ends the store: writes what is left and flushes it to the medium. Dropping it does the same.
    pub fn close(self) {
        drop(self);
    }

    /// How much it keeps, for metrics. Takes every lock in turn.
    #[must_use]
    pub fn size(&self) -> Size {
        self.books.size()
    }

    /// Admits, in the place of an old reservation if there is one.
    async fn admit_journaled(
        &self,
        writing: &Writing,
        old: Option<&Settlement>,
        admission: &Admission,
        now: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        writing.health.check()?;
        // A place first: the message is then sent inside the lock, which must not wait.
        let permit = writing.inbox()?.reserve().await.map_err(|_| stopped())?;
        let (ack, written) = oneshot::channel();
        let mut told = false;
        let tell = |changes| {
            told = true;
            permit.send(Message { changes, ack: Some(ack), admission: true });
        };
        let Admitted { decision, part } = match old {
            Some(old) => self.books.replace(old, admission, now, Some(tell)),
            None => self.books.admit(admission, now, Some(tell)),
        };
        // Told of something else than the admission, there is nothing to wait for: what was forgotten may be so again.
        if !told || !decision.admitted {
            return Ok(decision);
        }
        writing.urgent.notify_one();
        let mut unwritten = Unwritten { store: self, writing, admission, decision: &decision, part, now, written: Some(written) };
        unwritten.wait().await?;
        drop(unwritten);
        Ok(decision)
    }

    async fn settle_journaled(&self, writing: &Writing, batch: &[Settlement], now: Option<Timestamp>) -> Result<(), StoreError> {
        for some in batch.chunks(SETTLED_AT_ONCE) {
            writing.health.check()?;
            let (ack, written) = oneshot::channel();
            // One message each, and one more that is acknowledged when all of them are written: also for those that a failed call
            // before this one had booked in memory already.
            let mut permits = writing.inbox()?.reserve_many(some.len() + 1).await.map_err(|_| stopped())?;
            for settlement in some {
                let permit = permits.next().expect("as many as settlements, and one");
                let tell = move |changes| permit.send(Message { changes, ack: None, admission: false });
                self.books.settle(settlement, now, Some(tell));
            }
            let permit = permits.next().expect("as many as settlements, and one");
            permit.send(Message { changes: Vec::new(), ack: Some(ack), admission: false });
            written.await.map_err(|_| stopped())??;
        }
        Ok(())
    }
}

impl Ledger for EmbeddedLedger {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        match self.journal.as_ref().filter(|_| admission.claims.iter().any(Claim::is_budget)) {
            Some(writing) => self.admit_journaled(writing, None, admission, now).boxed(),
            None => async move { Ok(self.books.admit(admission, now, None::<fn(Vec<Change>)>).decision) }.boxed(),
        }
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        let held = || old.lines.iter().any(|line| line.claim.is_budget());
        match self.journal.as_ref().filter(|_| admission.claims.iter().any(Claim::is_budget) || held()) {
            Some(writing) => self.admit_journaled(writing, Some(old), admission, now).boxed(),
            None => async move { Ok(self.books.replace(old, admission, now, None::<fn(Vec<Change>)>).decision) }.boxed(),
        }
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        let budget = |settlement: &Settlement| settlement.lines.iter().any(|line| line.claim.is_budget());
        match self.journal.as_ref().filter(|_| batch.iter().any(budget)) {
            Some(writing) => self.settle_journaled(writing, batch, now).boxed(),
            None => async move {
                for settlement in batch {
                    self.books.settle(settlement, now, None::<fn(Vec<Change>)>);
                }
                Ok(())
            }
            .boxed(),
        }
    }

    fn settle_here(&self, settlement: &Settlement) -> bool {
        let journal = self.journal.as_ref().filter(|_| settlement.lines.iter().any(|line| line.claim.is_budget()));
        let Some(writing) = journal else {
            self.books.settle(settlement, None, None::<fn(Vec<Change>)>);
            return true;
        };
        // The writer forgets nothing that it was told, and dropping the store waits for it.
        let permit = writing.health.check().ok().and_then(|()| writing.inbox.as_ref()?.try_reserve().ok());
        let Some(permit) = permit else { return false };
        let tell = move |changes| permit.send(Message { changes, ack: None, admission: false });
        self.books.settle(settlement, None, Some(tell));
        true
    }

    fn settles_at_once(&self) -> usize {
        SETTLES_AT_ONCE
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        std::future::ready(Ok(self.books.read(scope))).boxed()
    }

    fn look<'a>(&'a self, look: &'a Look, now: Option<Timestamp>) -> BoxFuture<'a, Result<Seen, StoreError>> {
        std::future::ready(Ok(self.books.look(look, now))).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        std::future::ready(self.journal.as_ref().map_or(Ok(()), |writing| writing.health.check())).boxed()
    }
}

impl Writing {
    fn inbox(&self) -> Result<&mpsc::Sender<Message>, StoreError> {
        self.inbox.as_ref().ok_or_else(stopped)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The writer ends when nobody can send any more, after everything that was sent.
        self.inbox = None;
        self.urgent.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the journal's writer panicked");
        }
    }
}

/// An admission that is in memory and told, but not known to be written. Unless that turns out well it is taken back: also when its
/// caller goes away meanwhile. What it replaced has ended all the same.
struct Unwritten<'a> {
    store: &'a EmbeddedLedger,
    writing: &'a Writing,
    admission: &'a Admission,
    decision: &'a Decision,
    /// The part of the reservation that is held, if money is.
    part: Option<u8>,
    now: Option<Timestamp>,
    /// `None` once it turned out well.
    written: Option<oneshot::Receiver<Result<(), StoreError>>>,
}

impl Unwritten<'_> {
    async fn wait(&mut self) -> Result<(), StoreError> {
        let Some(written) = &mut self.written else { return Ok(()) };
        written.await.map_err(|_| stopped())??;
        self.written = None;
        Ok(())
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        let Some(written) = self.written.take() else { return };
        // In this order: the writer either sees the closed channel before it writes the hold, or learns afterwards to remove it.
        drop(written);
        self.store.books.release(self.admission, self.decision, self.part, self.now);
        let key = self.part.map(|part| record::hold_key(self.admission.reservation, part));
        self.writing.taken_back.lock().extend(key);
    }
}

fn stopped() -> StoreError {
    StoreError::Failed("the journal's writer has stopped".into())
}

#[cfg(test)]
mod tests;
