//! Settlements that wait for the store: an append-only file that survives the process, with an index in memory.
//!
//! A directory serves any number of processes: each takes the first pair of files in it (`0.journal` and its lock, `1.journal`, ...)
//! that no other process holds, and takes over what dead ones left in theirs. Every write is with the operating system before it
//! counts, so `kill -9` loses nothing; the medium has it after [`Journal::sync`]. Settlements that are in the store are marked and
//! the file starts over as soon as nothing waits, or is written anew when most of it is no longer needed.
//!
//! Calls block for a write to the page cache. They happen only while the store is away.

use super::record::{Record, Stored, read_id, time};
use crate::domain::{ReservationId, Timestamp};
use crate::limit::Settlement;
use crate::store::StoreError;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Processes that can share a directory.
const MOST_PROCESSES: usize = 256;

/// See the module.
pub struct Journal {
    files: Mutex<Files>,
    /// Whether something was written since the last [`Journal::sync`].
    dirty: AtomicBool,
    /// Held as long as the journal is open.
    _lock: File,
}

struct Files {
    path: PathBuf,
    file: File,
    /// Bytes in the file, and how many of them still matter.
    length: u64,
    live: u64,
    most: u64,
    slots: BTreeMap<u64, Slot>,
    ids: HashMap<ReservationId, u64>,
    next: u64,
    full: bool,
}

/// One settlement that waits: where it is written and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    id: ReservationId,
    offset: u64,
    length: u64,
    /// Not in flight any more.
    ended: bool,
    tried: Option<Timestamp>,
}

/// One settlement that is to be replayed.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its number, ascending in the order in which they ended.
    pub number: u64,
    /// It.
    pub settlement: Settlement,
    /// When it may first have reached the store.
    pub tried: Option<Timestamp>,
}

impl Journal {
    /// Opens a journal in a directory, creating it where there is none. What was in flight when its last process ended has ended: as
    /// it was held. Files grow to at most `most` bytes.
    ///
    /// # Errors
    /// With the path, when the directory cannot be used.
    pub fn open(directory: &Path, most: u64) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::Failed(format!("the journal of settlements in {} cannot be used: {error}", directory.display()))
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let mut own = None;
        for n in 0..MOST_PROCESSES {
            let path = directory.join(format!("{n}.journal"));
            if own.is_some() && !path.exists() {
                continue;
            }
            let Some(lock) = lock(&directory.join(format!("{n}.lock"))).map_err(failed)? else { continue };
            let mut files = Files::open(path, most).map_err(failed)?;
            match &own {
                None => own = Some(Self { files: Mutex::new(files), dirty: AtomicBool::new(false), _lock: lock }),
                Some(own) => own.take_over(&mut files).map_err(failed)?,
            }
        }
        own.ok_or_else(|| failed(std::io::Error::other("too many processes use it")))
    }

    fn take_over(&self, left: &mut Files) -> std::io::Result<()> {
        let mut own = self.files.lock();
        for Waiting { settlement, tried, .. } in left.waiting(0, usize::MAX)? {
            own.put(&settlement, true, tried)?;
        }
        own.file.sync_data()?;
        left.clear()
    }

    /// A request was admitted without the store. Should this process die it ends as this settlement says.
    ///
    /// # Errors
    /// When it cannot be written: it must not be admitted then.
    pub fn hold(&self, settlement: &Settlement) -> Result<(), StoreError> {
        self.write(|files| files.put(settlement, false, None))
    }

    /// Settlements are to wait. Those of requests that were held replace what was written then.
    ///
    /// # Errors
    /// When they cannot be written; all of them may be repeated.
    pub fn keep(&self, batch: &[Settlement], tried: Option<Timestamp>) -> Result<(), StoreError> {
        self.write(|files| {
            for settlement in batch {
                // What reached the store once stays tried.
                let before = files.ids.get(&settlement.reservation).and_then(|number| files.slots.get(number));
                let tried = before.and_then(|slot| slot.tried).or(tried);
                files.put(settlement, true, tried)?;
            }
            Ok(())
        })
    }

    /// At most `most` settlements that wait, from number `from` on, oldest first. What is still in flight is not among them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn waiting(&self, from: u64, most: usize) -> Result<Vec<Waiting>, StoreError> {
        self.files.lock().waiting(from, most).map_err(|error| unusable(&error))
    }

    /// Everything that waits is about to be sent.
    ///
    /// # Errors
    /// When that cannot be written: it must not be sent then.
    pub fn trying(&self, now: Timestamp) -> Result<(), StoreError> {
        self.write(|files| {
            if files.slots.values().any(|slot| slot.ended && slot.tried.is_none()) {
                files.append(&Record::Tried(now.micros()))?;
                files.mark_tried(now);
            }
            Ok(())
        })
    }

    /// These are in the store, or have come to nothing. Ids that do not wait are no matter.
    ///
    /// # Errors
    /// When it cannot be written: they are then repeated, which does no harm.
    pub fn done(&self, ids: impl IntoIterator<Item = ReservationId>) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        let known: Vec<_> = ids.into_iter().filter(|id| files.ids.contains_key(id)).collect();
        if known.is_empty() {
            return Ok(());
        }
        let done = Record::Done(known.iter().map(ToString::to_string).collect());
        known.iter().for_each(|id| files.forget(*id));
        let written = if files.slots.is_empty() { files.clear() } else { files.append(&done).map(drop) };
        written.map_err(|error| unusable(&error))
    }

    /// How many settlements wait.
    pub fn len(&self) -> usize {
        self.files.lock().slots.values().filter(|slot| slot.ended).count()
    }

    /// Has what was written so far flushed to the medium, if anything was.
    ///
    /// # Errors
    /// When that did not work.
    pub fn sync(&self) -> Result<(), StoreError> {
        if !self.dirty.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        // Not under the lock: an admission may be waiting to write.
        let file = self.files.lock().file.try_clone();
        file.and_then(|file| file.sync_data()).map_err(|error| unusable(&error))
    }

    fn write(&self, write: impl FnOnce(&mut Files) -> std::io::Result<()>) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        self.dirty.store(true, Ordering::Relaxed);
        let written = write(&mut files);
        let broken = written.is_err();
        if broken && !files.full {
            tracing::error!(path = %files.path.display(), error = ?written, "the journal of settlements takes no more");
        }
        files.full = broken;
        written.map_err(|error| unusable(&error))
    }
}

impl Files {
    fn open(path: PathBuf, most: u64) -> std::io::Result<Self> {
        let file = private(&path)?;
        let (slots, ids) = (BTreeMap::new(), HashMap::new());
        let mut files = Self { path, file, length: 0, live: 0, most, slots, ids, next: 0, full: false };
        files.load()?;
        Ok(files)
    }

    fn load(&mut self) -> std::io::Result<()> {
        let mut lines = BufReader::new(self.file.try_clone()?);
        lines.seek(SeekFrom::Start(0))?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)? as u64;
            if length == 0 || !line.ends_with(b"\n") {
                break; // what the process was writing when it died never counted
            }
            let offset = self.length;
            self.length += length;
            match serde_json::from_slice(&line) {
                Ok(record) => self.read_again(record, offset, length),
                Err(error) => tracing::error!(path = %self.path.display(), offset, %error, "a line of the journal is damaged"),
            }
        }
        self.file.set_len(self.length)?;
        for slot in self.slots.values_mut() {
            slot.ended = true; // its process is gone
        }
        Ok(())
    }

    fn read_again(&mut self, record: Record, offset: u64, length: u64) {
        let (stored, ended, tried) = match record {
            Record::Held(stored) => (stored, false, None),
            Record::Ended { settlement, tried } => (settlement, true, tried.map(Timestamp)),
            Record::Tried(at) => return self.mark_tried(Timestamp(at)),
            Record::Done(ids) => return ids.iter().filter_map(|id| read_id(id)).for_each(|id| self.forget(id)),
        };
        match stored.read() {
            Some(settlement) => self.index(Slot { id: settlement.reservation, offset, length, ended, tried }),
            None => tracing::error!(path = %self.path.display(), offset, "a line of the journal is not understood"),
        }
    }

    fn put(&mut self, settlement: &Settlement, ended: bool, tried: Option<Timestamp>) -> std::io::Result<()> {
        let stored = Stored::of(settlement);
        let record = if ended { Record::Ended { settlement: stored, tried: time(tried) } } else { Record::Held(stored) };
        let (offset, length) = self.append(&record)?;
        self.index(Slot { id: settlement.reservation, offset, length, ended, tried });
        Ok(())
    }

    fn index(&mut self, slot: Slot) {
        self.forget(slot.id);
        self.live += slot.length;
        self.ids.insert(slot.id, self.next);
        self.slots.insert(self.next, slot);
        self.next += 1;
    }

    fn forget(&mut self, id: ReservationId) {
        if let Some(slot) = self.ids.remove(&id).and_then(|number| self.slots.remove(&number)) {
            self.live -= slot.length;
        }
    }

    fn mark_tried(&mut self, now: Timestamp) {
        for slot in self.slots.values_mut().filter(|slot| slot.ended) {
            slot.tried = slot.tried.or(Some(now));
        }
    }

    fn append(&mut self, record: &Record) -> std::io::Result<(u64, u64)> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let length = line.len() as u64;
        if self.length + length > self.most {
            // Worth it only if it makes room for long.
            if self.live > self.most / 2 {
                return Err(std::io::Error::other(format!("it has reached {} bytes", self.most)));
            }
            self.compact()?;
        }
        let offset = self.length;
        self.file.seek(SeekFrom::Start(offset))?;
        if let Err(error) = self.file.write_all(&line) {
            self.file.set_len(offset)?;
            return Err(error);
        }
        self.length += length;
        Ok((offset, length))
    }

    fn waiting(&mut self, from: u64, most: usize) -> std::io::Result<Vec<Waiting>> {
        let ended = self.slots.range(from..).filter(|(_, slot)| slot.ended);
        let slots: Vec<_> = ended.map(|(number, slot)| (*number, *slot)).take(most).collect();
        let mut waiting = Vec::with_capacity(slots.len());
        for (number, slot) in slots {
            match self.read(slot)? {
                Some(settlement) => waiting.push(Waiting { number, settlement, tried: slot.tried }),
                None => {
                    tracing::error!(path = %self.path.display(), reservation = %slot.id, "a settlement cannot be read any more");
                    self.forget(slot.id);
                }
            }
        }
        Ok(waiting)
    }

    fn read(&mut self, slot: Slot) -> std::io::Result<Option<Settlement>> {
        let mut line = vec![0; usize::try_from(slot.length).map_err(std::io::Error::other)?];
        self.file.seek(SeekFrom::Start(slot.offset))?;
        self.file.read_exact(&mut line)?;
        Ok(match serde_json::from_slice(&line) {
            Ok(Record::Held(stored) | Record::Ended { settlement: stored, .. }) => stored.read(),
            _ => None,
        })
    }

    fn clear(&mut self) -> std::io::Result<()> {
        self.slots.clear();
        self.ids.clear();
        (self.length, self.live) = (0, 0);
        self.file.set_len(0)
    }

    /// Writes what still matters into a new file that takes the place of this one.
    fn compact(&mut self) -> std::io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut fresh = private(&beside)?;
        fresh.set_len(0)?;
        let (mut length, mut moved) = (0, self.slots.clone());
        for slot in moved.values_mut() {
            let Some(settlement) = self.read(*slot)? else { continue };
            let stored = Stored::of(&settlement);
            let tried = time(slot.tried);
            let record = if slot.ended { Record::Ended { settlement: stored, tried } } else { Record::Held(stored) };
            let mut line = serde_json::to_vec(&record)?;
            line.push(b'\n');
            fresh.write_all(&line)?;
            (slot.offset, slot.length) = (length, line.len() as u64);
            length += slot.length;
        }
        fresh.sync_data()?;
        std::fs::rename(&beside, &self.path)?;
        (self.file, self.slots, self.length, self.live) = (fresh, moved, length, length);
        Ok(())
    }
}

/// A file of this process's user alone: it names customers.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The lock, unless another process holds it.
fn lock(path: &Path) -> std::io::Result<Option<File>> {
    let file = private(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn unusable(error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("the journal of settlements: {error}"))
}

#[cfg(test)]
mod tests;
