//! Plans set, overrides said and gateway keys made at run time, beside and over those of the configuration. Keys stand in [`keys`], under
//! the number of the plans.
//!
//! What is said is a document in the store; what it amounts to is cached here, with the number under which it is in force. An admission
//! carries the numbers it was made by, and the store compares them in the same step ([`Ledger::admit_known`]): where they differ nothing
//! is claimed, what changed is read anew, and the request is admitted once more. So a change on one gateway holds for the next request on
//! any other, and a request by unchanged plans costs no call more. A customer of whom nothing was ever said has the number zero without
//! anybody asking, so it costs nothing here either.
//!
//! A writer changes the number before and after it writes the document. Should it die in between, what others read meanwhile is read
//! again after [`REREAD`]. The embedded store has one process, which reads everything at its first request and knows what it changes.

mod change;
mod current;
mod kept;
pub mod keys;
mod patch;
mod said;
mod view;

pub use change::{DirectoryError, Override, Set};
pub use current::{Assigned, Current, Draft};
pub use kept::{Credit, Suspension};
pub use patch::SUSPENDED;
pub use said::Entry;
pub use view::View;

use crate::config::Policy;
use crate::domain::{Clock, Timestamp};
use crate::store::documents::{Collection, Documents, Listed, MAX_PAGE, Page};
use crate::store::{Known, Ledger, StoreError};
use crate::trail::Trail;
use arc_swap::ArcSwap;
use foldhash::HashMap;
use kept::Kept;
use keys::{Uses, kept_key};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::OnceCell;

/// What was read of a customer is read again after this time, should whoever changed it have died over it.
pub const REREAD: Duration = Duration::from_secs(60);
/// Customers of whom something was said that are remembered, where the store tells of changes. Others are read when they come.
const REMEMBERED: usize = 100_000;

/// See the module.
pub struct Directory {
    documents: Arc<dyn Documents>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    trail: Arc<dyn Trail>,
    view: ArcSwap<View>,
    customers: Mutex<HashMap<Arc<str>, Arc<Entry>>>,
    /// Set once everything is read, where the store does not tell of changes.
    loaded: OnceCell<()>,
    /// When keys made at run time were used.
    uses: Uses,
    /// How often it was looked whether others changed anything, and what came of it the last time.
    looks: AtomicU64,
    looking: tokio::sync::Mutex<Result<(), StoreError>>,
    /// One reads the plans; the others wait for it.
    reading: tokio::sync::Mutex<()>,
}

impl Directory {
    /// Over this configuration and what the store holds.
    #[must_use]
    pub fn new(
        policy: Arc<Policy>,
        documents: Arc<dyn Documents>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        trail: Arc<dyn Trail>,
    ) -> Self {
        Self {
            documents,
            ledger,
            clock,
            trail,
            view: ArcSwap::from_pointee(View::of(policy)),
            customers: Mutex::default(),
            loaded: OnceCell::new(),
            uses: Uses::default(),
            looks: AtomicU64::new(0),
            looking: tokio::sync::Mutex::new(Ok(())),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// The plans in force over this configuration.
    ///
    /// # Errors
    /// [`StoreError`] when what was said before this process began could not be read.
    pub async fn view(&self, policy: &Arc<Policy>) -> Result<Arc<View>, StoreError> {
        if !self.ledger.tells() {
            self.loaded.get_or_try_init(|| self.load()).await?;
        }
        let view = self.view.load_full();
        if Arc::ptr_eq(&view.policy, policy) {
            return Ok(view);
        }
        // A request that began before the configuration was replaced, or ends after it: its own view, for it alone.
        Ok(Arc::new(View::with(policy.clone(), view.number, view.said.clone(), view.keys.clone(), &self.uses)))
    }

    /// Lays what was said at run time over another configuration. What is said meanwhile is not lost.
    pub fn replace(&self, policy: &Arc<Policy>) {
        self.view.rcu(|view| Arc::new(View::with(policy.clone(), view.number, view.said.clone(), view.keys.clone(), &self.uses)));
        // Whether what was said of a customer is sound depends on the plans there are. Found out beside the lock: there may be many.
        let book = self.view.load().book.clone();
        let known: Vec<_> = self.customers.lock().iter().map(|(id, entry)| (id.clone(), entry.clone())).collect();
        for (id, old) in known {
            let new = Arc::new(old.over(&id, &book));
            let mut customers = self.customers.lock();
            if let Some(entry) = customers.get_mut(&id).filter(|entry| Arc::ptr_eq(entry, &old)) {
                *entry = new;
            }
        }
    }

    /// What was said of a customer, as far as this gateway knows; `None` for nothing.
    pub async fn said(&self, id: &str) -> Option<Arc<Entry>> {
        let entry = self.customers.lock().get(id).cloned()?;
        let now = self.clock.now();
        if !self.ledger.tells() || now.since(entry.read_at) < u64::try_from(REREAD.as_micros()).unwrap_or(u64::MAX) {
            return Some(entry);
        }
        // While the store is away the old one is the best there is.
        Some(self.read(id, entry.number).await.unwrap_or(entry))
    }

    /// Reads what is in force now, as the store told.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be read.
    pub async fn refresh(&self, id: &str, in_force: Known) -> Result<(), StoreError> {
        self.refresh_view(in_force.plans).await?;
        let known = self.customers.lock().get(id).map_or(0, |entry| entry.number);
        if known != in_force.customer {
            self.read(id, in_force.customer).await?;
        }
        Ok(())
    }

    /// Reads the plans and keys, unless those of this number are at hand.
    async fn refresh_view(&self, number: u64) -> Result<(), StoreError> {
        if self.view.load().number != number {
            let _turn = self.reading.lock().await;
            if self.view.load().number != number {
                self.read_view(number).await?;
            }
        }
        Ok(())
    }

    /// Reads the plans and keys that are in force under this number; `reading` is held.
    async fn read_view(&self, number: u64) -> Result<(), StoreError> {
        let said = self.all(Collection::Plans, said_plan).await?;
        let keys = self.all(Collection::Keys, kept_key).await?;
        let keys = Arc::new(keys);
        // Over the configuration of the moment.
        self.view.rcu(|view| Arc::new(View::with(view.policy.clone(), number, said.clone(), keys.clone(), &self.uses)));
        Ok(())
    }

    /// Reads the plans and keys again, should whoever changed them last have died over it.
    async fn reread(&self) -> Result<(), StoreError> {
        let number = self.view.load().number;
        if !self.ledger.tells() || number == 0 {
            return Ok(());
        }
        let _turn = self.reading.lock().await;
        self.read_view(number).await
    }

    /// From now on what is written of plans and keys is in force, here and on all gateways.
    async fn publish(&self) -> Result<(), StoreError> {
        let number = number();
        // As of before the number: what is read now may be older than what the number stands for, never the other way round.
        let _turn = self.reading.lock().await;
        self.ledger.tell(None, number, None).await?;
        self.read_view(number).await
    }

    /// Reads what was said of a customer, in force under this number.
    async fn read(&self, id: &str, number: u64) -> Result<Arc<Entry>, StoreError> {
        let read_at = self.clock.now();
        let found = self.documents.get(Collection::Overrides, id, None).await?;
        let kept = found.map(|found| Kept::read(&found.value)).transpose()?;
        let entry = Arc::new(Entry::new(id, kept, &self.view.load().book, number, read_at));
        self.remember(id, entry.clone());
        Ok(entry)
    }

    fn remember(&self, id: &str, entry: Arc<Entry>) {
        let mut customers = self.customers.lock();
        if entry.number == 0 && entry.is_empty() {
            customers.remove(id);
            return;
        }
        if self.ledger.tells() && customers.len() >= REMEMBERED && !customers.contains_key(id) {
            // Whoever is forgotten is read again when it comes.
            let some = customers.keys().next().cloned();
            some.map(|some| customers.remove(&some));
        }
        customers.insert(id.into(), entry);
    }

    /// Reads everything, where nobody else changes it.
    async fn load(&self) -> Result<(), StoreError> {
        {
            let _turn = self.reading.lock().await;
            self.read_view(number()).await?;
        }
        let book = self.view.load().book.clone();
        let overrides = self.all(Collection::Overrides, |one| Ok((one.id.clone(), Kept::read(&one.document.value)?))).await?;
        let now = self.clock.now();
        for (id, kept) in overrides {
            let entry = Entry::new(&id, Some(kept), &book, number(), now);
            self.remember(&id, Arc::new(entry));
        }
        Ok(())
    }

    async fn all<T>(
        &self,
        collection: Collection,
        read: impl Fn(&Listed) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let (mut all, mut page) = (Vec::new(), Page { limit: MAX_PAGE, ..Page::default() });
        loop {
            let listed = self.documents.list(collection, &page, None).await?;
            for one in &listed {
                all.push(read(one)?);
            }
            match listed.last() {
                Some(last) if listed.len() == MAX_PAGE => page.after = Some((last.rank, last.id.clone())),
                _ => return Ok(all),
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

fn said_plan(one: &Listed) -> Result<(Arc<str>, serde_json::Value), StoreError> {
    let said = serde_json::from_slice(&one.document.value);
    Ok((one.id.as_str().into(), said.map_err(|error| StoreError::Failed(format!("the plan {:?}: {error}", one.id)))?))
}

/// A number that was not in force before: stores keep 53 bits exactly, and zero is nothing.
fn number() -> u64 {
    fastrand::u64(1..1 << 53)
}
