//! The writer: one thread that turns changes into journal batches.
//!
//! It takes whatever has come in meanwhile into one batch, acknowledges it once the operating system has it, and flushes to the medium
//! once a second. Balances, which the ledger entries tell, are written once a second, too, with the [mark](Space::Mark) up to which they do:
//! with each settlement they were most of what was written. Only an admission is waited for by somebody's request, so only that wakes it at once: settlements go along, or wait a
//! moment ([`LINGER`]). When the disk fails (full, gone) nothing is acknowledged and nothing forgotten: the changes wait, the journal is
//! opened anew every second, and until that works [`Health`] turns new money away, so that no more than what was on its way can wait.

use super::books::Change;
use super::disk::{Disk, Space, Writes};
use super::record::{self, BalanceKey};
use crate::domain::{Clock, Timestamp};
use crate::store::StoreError;
use arc_swap::ArcSwapOption;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// Messages in one batch.
const BATCH: usize = 1_024;
/// How long what nobody waits for gathers, so that settlements are written with the next admission where there is one. A wake-up and a
/// write of its own cost as much as everything else in a small batch. The runtime's clock adds up to a millisecond.
const LINGER: Duration = Duration::from_micros(500);
/// Between flushes to the medium, and between attempts to reopen a failed journal.
const TICK: Duration = Duration::from_secs(1);
/// How long ledger entries are kept, microseconds: a month and some days, so that a month's balance can be recomputed.
const KEPT: u64 = 35 * 86_400_000_000;
/// Ledger entries pruned per tick, besides twice as many as were written: enough to catch up, too little to be noticed.
const PRUNED: usize = 512;

/// Sent back when a message is written.
pub type Ack = oneshot::Sender<Result<(), StoreError>>;

/// What the writer is told.
pub struct Message {
    /// What changed. Empty = only tell when everything before is written.
    pub changes: Vec<Change>,
    /// Who waits for it.
    pub ack: Option<Ack>,
    /// Whether it is an admission: void when nobody waits for it any more.
    pub admission: bool,
}

/// Keys of holds that were taken back after they had been told.
pub type TakenBack = Arc<Mutex<Vec<Vec<u8>>>>;

/// Whether the journal works; else why not.
#[derive(Clone, Default)]
pub struct Health(Arc<ArcSwapOption<StoreError>>);

impl Health {
    /// # Errors
    /// What the journal failed with, while it does.
    pub fn check(&self) -> Result<(), StoreError> {
        self.0.load().as_deref().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// The writer's own side.
pub struct Writer<D> {
    /// Where it writes.
    pub disk: D,
    /// What it is told.
    pub inbox: mpsc::Receiver<Message>,
    /// What was taken back.
    pub taken_back: TakenBack,
    /// What others see of its state.
    pub health: Health,
    /// Wakes it from lingering: somebody's request waits.
    pub urgent: Arc<Notify>,
    /// For the age of ledger entries.
    pub clock: Arc<dyn Clock>,
    /// The number of the next ledger entry.
    pub next: u64,
    waiting: Writes,
    /// Balances that moved since the mark.
    moved: HashMap<BalanceKey, u64>,
    acks: Vec<Ack>,
    unsynced: bool,
    written: usize,
}

impl<D: Disk> Writer<D> {
    /// A writer that was told nothing yet.
    pub fn new(disk: D, inbox: mpsc::Receiver<Message>, clock: Arc<dyn Clock>, next: u64) -> Self {
        Self {
            disk,
            inbox,
            taken_back: TakenBack::default(),
            health: Health::default(),
            urgent: Arc::default(),
            clock,
            next,
            waiting: Writes::new(),
            moved: HashMap::default(),
            acks: Vec::new(),
            unsynced: false,
            written: 0,
        }
    }

    /// Works until everybody who could send is gone and everything sent is written (or cannot be).
    pub async fn run(mut self) {
        let mut messages = Vec::new();
        let mut tick = Instant::now() + TICK;
        // Whether there was something a moment ago, so that more is likely to come soon.
        let mut busy = false;
        loop {
            let woken = busy && timeout_at(tick.min(Instant::now() + LINGER), self.urgent.notified()).await.is_ok();
            let ends = self.receive(&mut messages, tick, !busy).await;
            // Woken for nothing: for what the batch before had taken already.
            busy = woken || !messages.is_empty();
            // First what was taken back: a message of the same reservation that is here already was sent after that, or is void.
            self.take_back();
            for message in messages.drain(..) {
                self.take(message);
            }
            if self.health.check().is_ok() && !(self.waiting.is_empty() && self.acks.is_empty()) {
                self.commit();
            }
            self.fail_acks();
            if ends || Instant::now() >= tick {
                self.tick();
                tick = Instant::now() + TICK;
            }
            if ends {
                self.finish();
                return;
            }
        }
    }

    /// Takes what is there, or what comes first where it is to wait for it. Gives whether nobody can send any more.
    async fn receive(&mut self, messages: &mut Vec<Message>, tick: Instant, wait: bool) -> bool {
        if wait {
            return timeout_at(tick, self.inbox.recv_many(messages, BATCH)).await == Ok(0);
        }
        while messages.len() < BATCH {
            match self.inbox.try_recv() {
                Ok(message) => messages.push(message),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return messages.is_empty(),
            }
        }
        false
    }

    /// Takes a message into what is to be written.
    pub(super) fn take(&mut self, Message { changes, ack, admission }: Message) {
        // Nobody waits for this admission any more: it is being taken back, or was already.
        let void = admission && ack.as_ref().is_none_or(Ack::is_closed);
        let mut forgets = false;
        for change in changes {
            match change {
                Change::Hold(..) if void => {}
                Change::Hold(part, entry) => {
                    let key = record::hold_key(entry.reservation, part);
                    self.waiting.insert((Space::Holds, key), Some(record::entry_value(&entry)));
                }
                Change::Balance(key, spent) => drop(self.moved.insert(key, spent)),
                Change::Forget(key) => {
                    self.moved.remove(&key);
                    self.waiting.insert((Space::Balances, record::balance_key(&key)), None);
                    forgets = true;
                }
                Change::GivenBack(parts, reservation) => {
                    let keys = (0..parts).map(|part| record::hold_key(reservation, part));
                    self.waiting.extend(keys.map(|key| ((Space::Holds, key), None)));
                }
                Change::Ended(parts, entry) => {
                    for part in 0..parts {
                        self.waiting.insert((Space::Holds, record::hold_key(entry.reservation, part)), None);
                    }
                    self.waiting.insert((Space::Ledger, record::ledger_key(self.next)), Some(record::entry_value(&entry)));
                    self.next += 1;
                    self.written += 1;
                }
            }
        }
        if forgets {
            // Or a start might find in the ledger what moved it last, and remember that part of it.
            self.mark();
        }
        self.acks.extend(ack);
    }

    /// Has the balances written as they are now. Between messages only: the balances that an entry moves are told before it.
    fn mark(&mut self) {
        if self.moved.is_empty() {
            return;
        }
        let balance = |(key, spent)| ((Space::Balances, record::balance_key(&key)), Some(record::balance_value(spent)));
        self.waiting.extend(self.moved.drain().map(balance));
        self.waiting.insert((Space::Mark, record::MARK.to_vec()), Some(record::mark_value(self.next)));
    }

    fn take_back(&mut self) {
        let keys = std::mem::take(&mut *self.taken_back.lock());
        self.waiting.extend(keys.into_iter().map(|key| ((Space::Holds, key), None)));
    }

    /// Writes what is to be written.
    pub(super) fn commit(&mut self) {
        match self.disk.commit(&self.waiting) {
            Ok(()) => {
                self.waiting.clear();
                self.unsynced = true;
                for ack in self.acks.drain(..) {
                    // Whoever left meanwhile takes its admission back.
                    let _ = ack.send(Ok(()));
                }
            }
            Err(error) => self.fails(error),
        }
    }

    fn fails(&mut self, error: StoreError) {
        if self.health.check().is_ok() {
            tracing::error!(%error, "the journal failed; nothing that costs money is admitted until it works again");
        }
        self.health.0.store(Some(Arc::new(error)));
    }

    fn fail_acks(&mut self) {
        if let Err(error) = self.health.check() {
            for ack in self.acks.drain(..) {
                let _ = ack.send(Err(error.clone()));
            }
        }
    }

    /// What is done once a second.
    pub(super) fn tick(&mut self) {
        self.mark();
        if self.health.check().is_err() {
            match self.disk.reopen().and_then(|()| self.disk.commit(&self.waiting)) {
                Ok(()) => {
                    self.waiting.clear();
                    self.unsynced = true;
                    self.health.0.store(None);
                    tracing::warn!("the journal works again");
                }
                Err(error) => return self.fails(error),
            }
        }
        if let Err(error) = self.upkeep() {
            self.fails(error);
        }
    }

    fn finish(&mut self) {
        if !self.waiting.is_empty() {
            tracing::error!(changes = self.waiting.len(), "the journal failed; these changes are lost with the process");
        } else if let Err(error) = self.disk.finish() {
            tracing::error!(%error, "the journal could not be flushed at the end");
        }
    }

    fn upkeep(&mut self) -> Result<(), StoreError> {
        if !self.waiting.is_empty() {
            self.disk.commit(&self.waiting)?;
            self.waiting.clear();
            self.unsynced = true;
        }
        let before = Timestamp(self.clock.now().micros().saturating_sub(KEPT));
        let expired = self.disk.expired(before, PRUNED + 2 * std::mem::take(&mut self.written))?;
        if !expired.is_empty() {
            self.disk.commit(&expired.into_iter().map(|n| ((Space::Ledger, record::ledger_key(n)), None)).collect())?;
            self.unsynced = true;
        }
        if std::mem::take(&mut self.unsynced) {
            self.disk.sync()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
