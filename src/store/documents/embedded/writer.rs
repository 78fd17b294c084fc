//! The writer: one thread through which all writes go, so that a look and the write after it are one step.
//!
//! It takes whatever has come in meanwhile into one batch, answers once the operating system has it, flushes to the medium once a
//! second, and removes what has ended, a bounded number a second. When the disk fails nobody is told that something was written, and
//! writes fail until the database could be opened anew, which is tried each second.

use super::disk::{Disk, Space, Writes};
use super::format::{self, Record};
use crate::domain::{Clock, Timestamp};
use crate::store::StoreError;
use crate::store::documents::{Document, Write, Written};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// Messages taken into one batch.
const BATCH: usize = 256;
/// Between flushes to the medium, and between attempts to reopen a failed database.
const TICK: Duration = Duration::from_secs(1);
/// Documents removed per tick, besides twice as many as were written: enough to catch up, too little to be noticed.
const REMOVED: usize = 512;

/// Sent back when a message is written: what became of each write.
pub type Ack = oneshot::Sender<Result<Vec<Written>, StoreError>>;

/// What the writer is told.
pub struct Message {
    /// What to write, in this order.
    pub writes: Vec<Write>,
    /// The time, where a test passes it in.
    pub now: Option<Timestamp>,
    /// Who waits for it.
    pub ack: Ack,
}

/// The writer's own side.
pub struct Writer<D> {
    disk: D,
    inbox: mpsc::Receiver<Message>,
    clock: Arc<dyn Clock>,
    /// The last version given.
    version: u64,
    /// What the disk failed with, while it does.
    failing: Option<StoreError>,
    unsynced: bool,
    written: usize,
    /// Nothing ends before this key: saves walking over what was removed.
    ended: Vec<u8>,
}

/// What a batch changes.
#[derive(Default)]
struct Batch {
    writes: Writes,
    /// Documents as this batch leaves them.
    records: HashMap<Vec<u8>, Option<Record>>,
    /// Keys of documents that were written without a look, by their ends: one entry for all of them instead of one each, which took as
    /// much as the records of requests themselves.
    ends: BTreeMap<Timestamp, Vec<Vec<u8>>>,
}

impl<D: Disk> Writer<D> {
    /// A writer that was told nothing yet.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn new(disk: D, inbox: mpsc::Receiver<Message>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let version = disk.last_version()?;
        Ok(Self { disk, inbox, clock, version, failing: None, unsynced: false, written: 0, ended: Vec::new() })
    }

    /// Works until everybody who could send is gone and everything sent is written (or cannot be).
    pub async fn run(mut self) {
        let mut messages = Vec::new();
        let mut tick = Instant::now() + TICK;
        loop {
            let received = timeout_at(tick, self.inbox.recv_many(&mut messages, BATCH)).await;
            self.write(&mut messages);
            let ends = received == Ok(0);
            if ends || Instant::now() >= tick {
                self.tick();
                tick = Instant::now() + TICK;
            }
            if ends {
                if let Err(error) = self.disk.finish() {
                    tracing::error!(%error, "documents could not be flushed at the end");
                }
                return;
            }
        }
    }

    /// Writes what these messages say, and answers them.
    fn write(&mut self, messages: &mut Vec<Message>) {
        let mut answers = Vec::with_capacity(messages.len());
        let mut batch = Batch::default();
        for Message { writes, now, ack } in messages.drain(..) {
            let now = now.unwrap_or_else(|| self.clock.now());
            let mut decide = |write| match &self.failing {
                Some(error) => Err(error.clone()),
                None => self.decide(&mut batch, write, now),
            };
            // A record that cannot be read is the trouble of whoever asks for it.
            answers.push((ack, writes.iter().map(&mut decide).collect::<Result<Vec<_>, _>>()));
        }
        for (until, keys) in std::mem::take(&mut batch.ends) {
            let value = format::common_end_value(keys.iter().map(Vec::as_slice));
            self.ends(&mut batch, format::common_end_key(until, self.version), value);
        }
        let committed = if batch.writes.is_empty() { Ok(()) } else { self.commit(&batch.writes) };
        if let Err(error) = &committed {
            self.fails(error.clone());
        }
        for (ack, written) in answers {
            // Whoever left meanwhile does not learn what became of it.
            let _ = ack.send(committed.clone().and(written));
        }
    }

    fn decide(&mut self, batch: &mut Batch, write: &Write, now: Timestamp) -> Result<Written, StoreError> {
        let key = format::document_key(write.collection, &write.id);
        let found = match batch.records.get(&key) {
            Some(found) => found.clone(),
            None if write.is_blind() => None,
            None => self.disk.record(&key)?,
        };
        let seen = found.as_ref().filter(|record| record.lives(now)).map(|record| &record.document);
        if !write.expects(seen) {
            return Ok(Written::Found(seen.cloned()));
        }
        if let Some(found) = &found {
            batch.remove(&key, found, Some(write));
        }
        let Some(value) = write.value.clone() else {
            batch.records.insert(key, None);
            return Ok(Written::Done(0));
        };
        // Never one that was given before, also where the directory is a copy of yesterday's.
        self.version = self.clock.now().micros().max(self.version + 1);
        let version = self.version;
        let record = Record { document: Document { version, value }, rank: write.rank, until: write.until(now) };
        match record.until {
            Some(until) if write.is_blind() => batch.ends.entry(until).or_default().push(key.clone()),
            Some(until) => self.ends(batch, format::end_key(until, &key), Vec::new()),
            None => {}
        }
        if write.collection.is_listed() {
            let order = format::order_key(write.collection, write.rank, &write.id);
            batch.writes.insert((Space::Order, order), Some(Vec::new()));
        }
        batch.writes.insert((Space::Documents, key.clone()), Some(record.encode()));
        batch.records.insert(key, Some(record));
        self.written += 1;
        Ok(Written::Done(version))
    }

    /// Adds an entry to the ends.
    fn ends(&mut self, batch: &mut Batch, key: Vec<u8>, value: Vec<u8>) {
        if key < self.ended {
            self.ended.clone_from(&key);
        }
        batch.writes.insert((Space::Ends, key), Some(value));
    }

    fn commit(&mut self, writes: &Writes) -> Result<(), StoreError> {
        self.disk.commit(writes, self.version)?;
        self.unsynced = true;
        Ok(())
    }

    fn fails(&mut self, error: StoreError) {
        if self.failing.is_none() {
            tracing::error!(%error, "documents cannot be written");
        }
        self.failing = Some(error);
    }

    fn tick(&mut self) {
        if self.failing.is_some() {
            match self.disk.reopen() {
                Ok(()) => {
                    self.failing = None;
                    tracing::warn!("documents can be written again");
                }
                Err(error) => return self.fails(error),
            }
        }
        if let Err(error) = self.upkeep() {
            self.fails(error);
        }
    }

    /// Removes what has ended, and has the last second flushed.
    fn upkeep(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let ended = self.disk.ended(&self.ended, now, REMOVED + 2 * std::mem::take(&mut self.written))?;
        if let Some((last, _)) = ended.last().cloned() {
            let mut batch = Batch::default();
            for (end, value) in ended {
                // What cannot be read must not keep the others from ending.
                let (until, keys) = format::read_end(&end, &value).unwrap_or_default();
                for key in keys {
                    if let Ok(Some(record)) = self.disk.record(key)
                        && record.until == Some(until)
                    {
                        batch.remove(key, &record, None);
                    }
                }
                batch.writes.insert((Space::Ends, end), None);
            }
            self.commit(&batch.writes)?;
            self.ended = last;
        }
        if std::mem::take(&mut self.unsynced) {
            self.disk.sync()?;
        }
        Ok(())
    }
}

impl Batch {
    /// Takes a record out, with everything that leads to it. What its successor writes anyway is left to that.
    fn remove(&mut self, key: &[u8], record: &Record, successor: Option<&Write>) {
        if let Some(until) = record.until {
            self.writes.insert((Space::Ends, format::end_key(until, key)), None);
        }
        if let Some((collection, id)) = format::read_document_key(key)
            && collection.is_listed()
        {
            self.writes.insert((Space::Order, format::order_key(collection, record.rank, id)), None);
        }
        if successor.is_none_or(|write| write.value.is_none()) {
            self.writes.insert((Space::Documents, key.to_vec()), None);
        }
    }
}

#[cfg(test)]
mod tests;
