//! The database on disk: a directory of its own beside the ledger's journal, so that a megabyte of a reply never stands before a
//! booking, and the audit of the ledger reads nothing else.

use super::format::{self, Record};
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Listed, MAX_PAGE, Page};
use crate::store::embedded::sync::Syncer;
use crate::store::series::{Row, row};
use arc_swap::ArcSwapOption;
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All journal files together, bytes.
const JOURNALS: u64 = 128 << 20;
/// Threads that write tables. With a second one fjall 3.1 hands compactions to and fro between the two, without a pause, for as long
/// as one is under way.
const WORKERS: usize = 1;
/// The cache of blocks read.
const CACHE: u64 = 16 << 20;
/// Where the last version given is kept: no collection's name begins so.
const LAST_VERSION: &[u8] = b"\0version";

/// The key spaces; see [`mod@format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// The documents.
    Documents,
    /// What stands where in listings.
    Order,
    /// What ends when.
    Ends,
    /// Rows of series.
    Series,
}

/// Writes that belong together, the last one per key: present values to put, absent ones to remove.
pub type Writes = BTreeMap<(Space, Vec<u8>), Option<Vec<u8>>>;

/// An entry of the ends: its key and its value.
pub type End = (Vec<u8>, Vec<u8>);

/// What the writer needs of a disk. A trait so that a test can have one that is full.
pub trait Disk: Send {
    /// One record, by its key.
    ///
    /// # Errors
    /// When it cannot be read.
    fn record(&self, key: &[u8]) -> Result<Option<Record>, StoreError>;

    /// The last version that was committed; zero for none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn last_version(&self) -> Result<u64, StoreError>;

    /// Writes all of it and the last version, or nothing, and returns when the operating system has it.
    ///
    /// # Errors
    /// When it is uncertain whether it was written.
    fn commit(&mut self, writes: &Writes, last_version: u64) -> Result<(), StoreError>;

    /// Entries of ends up to `now`, in order, from `from` on, until they are about `most` documents.
    ///
    /// # Errors
    /// When they cannot be read.
    fn ended(&self, from: &[u8], now: Timestamp, most: usize) -> Result<Vec<End>, StoreError>;

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
}

/// The real one. Clones read the same database.
#[derive(Clone)]
pub struct Files {
    path: Arc<Path>,
    /// Empty between a failed attempt to reopen and the next.
    open: Arc<ArcSwapOption<Open>>,
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

impl Files {
    /// Opens or creates the database in a directory.
    ///
    /// # Errors
    /// With the path and a reason, when another process has it open, it is damaged, or the directory cannot be used.
    pub fn open(path: PathBuf) -> Result<Self, StoreError> {
        let open = open(&path)?;
        Ok(Self { path: path.into(), open: Arc::new(ArcSwapOption::from_pointee(open)) })
    }

    /// What stands in a listing, as of one instant.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn list(&self, collection: Collection, page: &Page, now: Timestamp) -> Result<Vec<Listed>, StoreError> {
        let most = page.limit.min(MAX_PAGE);
        let mut listed = Vec::new();
        if most == 0 || !collection.is_listed() {
            return Ok(listed);
        }
        let open = self.ready()?;
        let from = match &page.after {
            Some((rank, id)) => Bound::Excluded(format::order_key(collection, *rank, id)),
            None => Bound::Included(format::order_key(collection, 0, "")),
        };
        let snapshot = open.database.snapshot();
        for item in snapshot.range(open.space(Space::Order), (from, Bound::Unbounded)) {
            let key = Guard::key(item).map_err(|error| self.failed(error))?;
            if !key.starts_with(collection.as_str().as_bytes()) || key.get(collection.as_str().len()) != Some(&0) {
                break;
            }
            let (rank, id) = format::read_order_key(collection, &key).ok_or_else(|| self.damaged())?;
            if page.up_to.is_some_and(|most| rank > most) {
                break;
            }
            let found = snapshot.get(open.space(Space::Documents), format::document_key(collection, id));
            let found = found.map_err(|error| self.failed(error))?;
            let Some(found) = found else { continue };
            let record = Record::decode(&found).ok_or_else(|| self.damaged())?;
            if record.lives(now) {
                listed.push(Listed { id: id.to_owned(), rank, document: record.document });
                if listed.len() == most {
                    break;
                }
            }
        }
        Ok(listed)
    }

    /// Reads and writes rows of series. The lock is its caller's: the writer of documents touches none of them.
    ///
    /// # Errors
    /// When it cannot be read or written; of a change nothing is written then.
    pub fn with_series<T>(&self, work: impl FnOnce(&Rows<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        work(&Rows { files: self, open: &*self.ready()? })
    }

    fn ready(&self) -> Result<Arc<Open>, StoreError> {
        self.open.load_full().ok_or_else(|| StoreError::Failed(format!("the documents in {} are closed", self.path.display())))
    }

    fn failed(&self, error: impl Into<fjall::Error>) -> StoreError {
        StoreError::Failed(format!("the documents in {}: {}", self.path.display(), error.into()))
    }

    fn damaged(&self) -> StoreError {
        StoreError::Failed(format!("the documents in {}: a record is damaged", self.path.display()))
    }
}

/// The rows of series in an open database.
pub struct Rows<'a> {
    files: &'a Files,
    open: &'a Open,
}

impl Rows<'_> {
    /// One row; empty where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn row(&self, key: &[u8]) -> Result<Row, StoreError> {
        let found = self.open.space(Space::Series).get(key).map_err(|error| self.files.failed(error))?;
        found.map_or_else(|| Ok(Row::new()), |bytes| row::decode(&bytes).ok_or_else(|| self.files.damaged()))
    }

    /// Rows from one key to another, in order, until `each` has enough.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn range(
        &self,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        mut each: impl FnMut(&[u8], Row) -> bool,
    ) -> Result<(), StoreError> {
        for item in self.open.database.snapshot().range(self.open.space(Space::Series), bounds) {
            let (key, bytes) = item.into_inner().map_err(|error| self.files.failed(error))?;
            if !each(&key, row::decode(&bytes).ok_or_else(|| self.files.damaged())?) {
                break;
            }
        }
        Ok(())
    }

    /// Writes rows and removes those that are absent, all of it or nothing, and returns when the operating system has it.
    ///
    /// # Errors
    /// When it is uncertain whether it was written.
    pub fn commit(&self, rows: impl IntoIterator<Item = (Vec<u8>, Option<Row>)>) -> Result<(), StoreError> {
        let space = self.open.space(Space::Series);
        let mut batch = self.open.database.batch().durability(Some(PersistMode::Buffer));
        for (key, row) in rows {
            match row {
                Some(row) => batch.insert(space, key, row::encode(&row)),
                None => batch.remove(space, key),
            }
        }
        batch.commit().map_err(|error| self.files.failed(error))
    }
}

impl Disk for Files {
    fn record(&self, key: &[u8]) -> Result<Option<Record>, StoreError> {
        let found = self.ready()?.space(Space::Documents).get(key).map_err(|error| self.failed(error))?;
        found.map(|bytes| Record::decode(&bytes).ok_or_else(|| self.damaged())).transpose()
    }

    fn last_version(&self) -> Result<u64, StoreError> {
        let found = self.ready()?.space(Space::Documents).get(LAST_VERSION).map_err(|error| self.failed(error))?;
        let Some(bytes) = found else { return Ok(0) };
        Ok(u64::from_be_bytes((*bytes).try_into().map_err(|_| self.damaged())?))
    }

    fn commit(&mut self, writes: &Writes, last_version: u64) -> Result<(), StoreError> {
        let open = self.ready()?;
        let mut batch = open.database.batch().durability(Some(PersistMode::Buffer));
        for ((space, key), value) in writes {
            match value {
                Some(value) => batch.insert(open.space(*space), key.as_slice(), value.as_slice()),
                None => batch.remove(open.space(*space), key.as_slice()),
            }
        }
        batch.insert(open.space(Space::Documents), LAST_VERSION, last_version.to_be_bytes());
        batch.commit().map_err(|error| self.failed(error))
    }

    fn ended(&self, from: &[u8], now: Timestamp, most: usize) -> Result<Vec<End>, StoreError> {
        let open = self.ready()?;
        let until = format::end_key(now.plus(1), &[]);
        let (mut ends, mut documents) = (Vec::new(), 0);
        for item in open.space(Space::Ends).range::<&[u8], _>((Bound::Included(from), Bound::Excluded(until.as_slice()))) {
            let (key, value) = item.into_inner().map_err(|error| self.failed(error))?;
            documents += format::read_end(&key, &value).map_or(1, |(_, documents)| documents.len());
            ends.push((key.to_vec(), value.to_vec()));
            if documents >= most {
                break;
            }
        }
        Ok(ends)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.ready()?.syncer.ask().map_err(|error| self.failed(error))
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.ready()?.database.persist(PersistMode::SyncAll).map_err(|error| self.failed(error))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        // After a failed write fjall takes no more until the database is opened anew; the old one must go first, it holds the lock.
        // Where a reader still has it, this attempt fails and the next one does not.
        drop(self.open.swap(None));
        self.open.store(Some(Arc::new(open(&self.path)?)));
        Ok(())
    }
}

fn open(path: &Path) -> Result<Open, StoreError> {
    // Opening a damaged directory can panic inside fjall; the operator gets a sentence instead.
    catch_unwind(AssertUnwindSafe(|| try_open(path))).unwrap_or_else(|_| Err(fjall::Error::Unrecoverable)).map_err(|error| {
        let path = path.display();
        StoreError::Failed(match error {
            fjall::Error::Locked => format!("{path} is in use by another process; one directory serves one gateway"),
            fjall::Error::Io(error) => format!("cannot use the directory {path}: {error}"),
            error => format!(
                "the documents in {path} cannot be read ({error}); restore them from a backup, or move them away to start afresh"
            ),
        })
    })
}

fn try_open(path: &Path) -> fjall::Result<Open> {
    let database = Database::builder(path).cache_size(CACHE).max_journaling_size(JOURNALS).worker_threads(WORKERS).open()?;
    let space =
        |name, megabytes: u64| database.keyspace(name, || KeyspaceCreateOptions::default().max_memtable_size(megabytes << 20));
    // Each with the megabytes of keys and values that wait in memory for their table. Where they are small, as in all but documents, the
    // list they wait in takes three times as much.
    let spaces = [space("documents", 8)?, space("order", 2)?, space("ends", 2)?, space("series", 4)?];
    Ok(Open { spaces, database, syncer: Syncer::start(path)? })
}
