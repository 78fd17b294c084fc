//! The journal on disk: atomic batches into four key spaces of a `fjall` database.

use super::record::{self, BalanceKey, Entry, RecordError};
use super::sync::Syncer;
use crate::domain::Timestamp;
use crate::store::StoreError;
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// All journal files together, bytes.
const JOURNALS: u64 = 128 << 20;
/// Threads that write tables. With a second one fjall 3.1 hands compactions to and fro between the two, without a pause, for as long
/// as one is under way.
const WORKERS: usize = 1;
/// The cache of blocks read; only the start-up and the audit read.
const CACHE: u64 = 4 << 20;

/// The key spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Balance -> spent.
    Balances,
    /// Reservation and part -> open entry.
    Holds,
    /// Running number -> ended entry.
    Ledger,
    /// One value: the number of the first ledger entry that the balances do not reflect yet.
    Mark,
}

/// Writes that belong together, the last one per key: present values to put, absent ones to remove.
pub type Writes = BTreeMap<(Space, Vec<u8>), Option<Vec<u8>>>;

/// Where the writer writes. A trait so that a test can have a disk that is full.
pub trait Disk: Send {
    /// Writes all of it or nothing, and returns when the operating system has it.
    ///
    /// # Errors
    /// When it is uncertain whether it was written; every write may then be repeated after [`Disk::reopen`].
    fn commit(&mut self, writes: &Writes) -> Result<(), StoreError>;

    /// Has everything committed flushed to the medium, soon.
    ///
    /// # Errors
    /// When that, or the time before, did not work.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Returns when everything committed is on the medium.
    ///
    /// # Errors
    /// When that did not work.
    fn finish(&mut self) -> Result<(), StoreError>;

    /// Starts over after an error.
    ///
    /// # Errors
    /// When the cause is still there.
    fn reopen(&mut self) -> Result<(), StoreError>;

    /// The numbers of at most `most` ledger entries from before `before`, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    fn expired(&mut self, before: Timestamp, most: usize) -> Result<Vec<u64>, StoreError>;
}

/// The real one.
pub struct Journal {
    path: PathBuf,
    /// `None` between a failed attempt to reopen and the next.
    open: Option<Open>,
    /// No ledger entry has a smaller number: saves walking over those removed.
    oldest: u64,
}

struct Open {
    // Declared, and so dropped, before the database they belong to.
    spaces: [Keyspace; 4],
    database: Database,
    syncer: Syncer,
}

impl Open {
    const fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

impl Journal {
    /// Opens or creates the journal in a directory.
    ///
    /// # Errors
    /// With the path and a reason, when another process has it open, it is damaged, or the directory cannot be used.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { path: path.to_path_buf(), open: Some(open(path)?), oldest: 0 })
    }

    /// One balance.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn balance(&self, key: &BalanceKey) -> Result<u64, StoreError> {
        let value = self.ready()?.space(Space::Balances).get(record::balance_key(key)).map_err(|e| self.failed(e))?;
        value.map_or(Ok(0), |value| record::read_balance_value(&value).map_err(|e| self.damaged("balance", e)))
    }

    /// The number of the first ledger entry that the balances do not reflect. Where none is kept, they reflect all, or there are none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn mark(&self) -> Result<u64, StoreError> {
        let open = self.ready()?;
        match open.space(Space::Mark).get(record::MARK).map_err(|e| self.failed(e))? {
            Some(value) => record::read_mark_value(&value).map_err(|e| self.damaged("mark", e)),
            None if open.space(Space::Balances).is_empty().map_err(|e| self.failed(e))? => Ok(0),
            None => self.next(),
        }
    }

    /// The number of the next ledger entry.
    ///
    /// # Errors
    /// When the last one cannot be read.
    pub fn next(&self) -> Result<u64, StoreError> {
        Ok(self.ledger()?.next().transpose()?.map_or(0, |(number, _)| number + 1))
    }

    /// Every ledger entry from this number on, oldest first.
    ///
    /// # Errors
    /// As an item, when it cannot be read.
    pub fn since(&self, number: u64) -> Result<impl Iterator<Item = Result<(u64, Entry), StoreError>> + '_, StoreError> {
        let entries = self.ready()?.space(Space::Ledger).range(record::ledger_key(number)..);
        Ok(entries.map(|item| self.read(item, "ledger entry", ledger_entry)))
    }

    /// Every balance, those of one limit oldest first.
    ///
    /// # Errors
    /// As an item, when it cannot be read.
    pub fn balances(&self) -> Result<impl Iterator<Item = Result<(BalanceKey, u64), StoreError>> + '_, StoreError> {
        Ok(self.ready()?.space(Space::Balances).iter().map(|item| {
            self.read(item, "balance", |key, value| Ok((record::read_balance_key(key)?, record::read_balance_value(value)?)))
        }))
    }

    /// Every hold, with its key.
    ///
    /// # Errors
    /// As an item, when it cannot be read.
    pub fn holds(&self) -> Result<impl Iterator<Item = Result<(Vec<u8>, Entry), StoreError>> + '_, StoreError> {
        let holds = self.ready()?.space(Space::Holds).iter();
        Ok(holds.map(|item| self.read(item, "hold", |key, value| Ok((key.to_vec(), record::read_entry_value(value)?)))))
    }

    /// Every ledger entry with its number, newest first.
    ///
    /// # Errors
    /// As an item, when it cannot be read.
    pub fn ledger(&self) -> Result<impl Iterator<Item = Result<(u64, Entry), StoreError>> + '_, StoreError> {
        let ledger = self.ready()?.space(Space::Ledger).iter().rev();
        Ok(ledger.map(|item| self.read(item, "ledger entry", ledger_entry)))
    }

    fn read<T>(
        &self,
        item: Guard,
        what: &str,
        decode: impl FnOnce(&[u8], &[u8]) -> Result<T, RecordError>,
    ) -> Result<T, StoreError> {
        let (key, value) = item.into_inner().map_err(|e| self.failed(e))?;
        decode(&key, &value).map_err(|e| self.damaged(what, e))
    }

    fn ready(&self) -> Result<&Open, StoreError> {
        self.open.as_ref().ok_or_else(|| StoreError::Failed(format!("the journal in {} is closed", self.path.display())))
    }

    fn failed(&self, error: impl Into<fjall::Error>) -> StoreError {
        StoreError::Failed(format!("the journal in {}: {}", self.path.display(), error.into()))
    }

    fn damaged(&self, what: &str, error: RecordError) -> StoreError {
        StoreError::Failed(format!("the journal in {}: a {what} {error}", self.path.display()))
    }
}

impl Disk for Journal {
    fn commit(&mut self, writes: &Writes) -> Result<(), StoreError> {
        let open = self.ready()?;
        let mut batch = open.database.batch().durability(Some(PersistMode::Buffer));
        for ((space, key), value) in writes {
            match value {
                Some(value) => batch.insert(open.space(*space), key.as_slice(), value.as_slice()),
                None => batch.remove(open.space(*space), key.as_slice()),
            }
        }
        batch.commit().map_err(|e| self.failed(e))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.ready()?.syncer.ask().map_err(|e| self.failed(e))
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.ready()?.database.persist(PersistMode::SyncAll).map_err(|e| self.failed(e))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        // After a failed write fjall takes no more until the database is opened anew; the old one must go first, it holds the lock.
        self.open = None;
        self.open = Some(open(&self.path)?);
        Ok(())
    }

    fn expired(&mut self, before: Timestamp, most: usize) -> Result<Vec<u64>, StoreError> {
        let mut expired = Vec::new();
        let entries = self.ready()?.space(Space::Ledger).range(record::ledger_key(self.oldest)..);
        for item in entries.take(most) {
            let (number, entry) = self.read(item, "ledger entry", ledger_entry)?;
            if entry.time >= before {
                break;
            }
            expired.push(number);
        }
        self.oldest = expired.last().map_or(self.oldest, |last| last + 1);
        Ok(expired)
    }
}

fn ledger_entry(key: &[u8], value: &[u8]) -> Result<(u64, Entry), RecordError> {
    Ok((record::read_ledger_key(key)?, record::read_entry_value(value)?))
}

fn open(path: &Path) -> Result<Open, StoreError> {
    // Opening a damaged directory can panic inside fjall; the operator gets a sentence instead.
    catch_unwind(AssertUnwindSafe(|| try_open(path))).unwrap_or_else(|_| Err(fjall::Error::Unrecoverable)).map_err(|error| {
        let path = path.display();
        StoreError::Failed(match error {
            fjall::Error::Locked => {
                format!("{path} is in use by another process; one directory serves one gateway, and is audited while none runs")
            }
            fjall::Error::Io(error) => format!("cannot use the directory {path}: {error}"),
            error => format!(
                "the journal in {path} cannot be read ({error}); restore it from a backup, or move it away to start afresh"
            ),
        })
    })
}

fn try_open(path: &Path) -> fjall::Result<Open> {
    let database = Database::builder(path).cache_size(CACHE).max_journaling_size(JOURNALS).worker_threads(WORKERS).open()?;
    let space =
        |name, megabytes: u64| database.keyspace(name, || KeyspaceCreateOptions::default().max_memtable_size(megabytes << 20));
    // Each with the megabytes of keys and values that wait in memory for their table. Where they are small, as in all but the ledger, the
    // list they wait in takes three times as much.
    let spaces = [space("balances", 4)?, space("holds", 4)?, space("ledger", 4)?, space("mark", 1)?];
    Ok(Open { spaces, database, syncer: Syncer::start(path)? })
}
