//! A shared store that may be away, and a gateway that goes on without it for a while.
//!
//! [`Guarded`] stands in front of the remote ledger. While that answers, nothing is added to a call but remembering what it said. When
//! calls fail (no reply within the deadline, refused connections, a server that is loading, read-only, full, busy or wants another
//! password) an *outage* begins:
//!
//! - After a few failures in a row the **breaker** opens: the store is no longer asked, so nobody waits for a deadline. One probe at a
//!   time, at intervals that grow to a second, finds out when it is back; nothing needs a restart.
//! - Admissions are decided **alone**, for a limited time, inside a small share of what the store last said is left of each limit,
//!   divided by the number of gateways that lived then. Whose limits were never seen has nothing. What the share or the time does not
//!   cover is [`StoreError::Away`]: a 503, never a 429, since it says nothing about the customer.
//! - **Settlements** wait in a journal on disk and are replayed in order. They are upserts by reservation id, so repeating one does no
//!   harm for as long as the store remembers ended reservations; older ones that may have arrived are booked only if their hold is
//!   still known. What was admitted alone is journaled at once: should the process die, it is charged as held.
//!
//! What this costs at most: all gateways together admit alone no more than the share of what each limit had left, beside what was
//! admitted before. After the outage a cap can be exceeded by that much, since the store does not know of it until it is settled.
//! Rates start again as the store remembers them. With `kill -9` while the store answers, settlements on their way (as long as the
//! deadline of one call) are left to the holds' leases; nothing is written to disk then.

mod breaker;
mod burst;
mod journal;
mod memory;
mod record;
mod share;
mod taken;
mod watch;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use super::{Asked, Balance, Known, Ledger, Look, Renewal, Seen, StoreError};
use crate::config::policy::Outage;
use crate::domain::{Clock, Timestamp};
use crate::limit::{Admission, Decision, Line, ScopeKey, Settlement};
use breaker::{Breaker, Fault};
use burst::Burst;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use journal::Journal;
use memory::Memory;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use taken::{Orphans, TakenAlone};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Owners (customers, users, apps, pools) whose limits are remembered.
const REMEMBERED: usize = 100_000;

/// The remote ledger, and what is asked of it beside the books.
pub trait Remote: Ledger {
    /// Tells it that this gateway lives, and learns how many do; one that is silent for `patience` seconds does not. Must need all that
    /// an admission needs of the store, since it is also the probe.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not take it.
    fn beat(&self, gateway: u128, patience: u64) -> BoxFuture<'_, Result<usize, StoreError>>;

    /// Those lines of a settlement whose holds are still known, or that they were booked for lost: what may be settled whatever ends
    /// the store has forgotten. All or none, unless the store keeps its books in parts.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn known_lines<'a>(&'a self, settlement: &'a Settlement) -> BoxFuture<'a, Result<Vec<Line>, StoreError>>;

    /// Budgets so far of which the store had lost what was spent, and that were repaired.
    fn repaired(&self) -> u64 {
        0
    }

    /// Calls so far that it answered late. They count as answered: slow is not away.
    fn late(&self) -> u64 {
        0
    }

    /// Whether the store may throw books away when its memory is full; `None` while that is not known.
    fn may_evict(&self) -> Option<bool> {
        None
    }
}

/// How a guarded ledger stands: for readiness, metrics and alerts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether there is an outage.
    pub away: bool,
    /// Whether the store is not even asked.
    pub breaker_open: bool,
    /// Until when admissions are decided alone; `None` when there is no outage, or no deciding alone (any more).
    pub alone_until: Option<Timestamp>,
    /// Outages so far.
    pub outages: u64,
    /// Requests admitted alone.
    pub alone: u64,
    /// Requests refused because the store was away.
    pub refused_alone: u64,
    /// Settlements that wait in the journal.
    pub waiting: usize,
    /// Settlements that went from the journal to the store.
    pub replayed: u64,
    /// Settlements not booked, since they may have been booked before and the store no longer knows.
    pub stale: u64,
    /// Gateways that live, as last seen.
    pub gateways: usize,
    /// Budgets of which the store had lost what was spent, and that were repaired.
    pub repaired: u64,
    /// Calls that the store answered late.
    pub late: u64,
    /// Whether the store is known to throw books away when its memory is full.
    pub evicts: bool,
}

/// See the module. Dropping it ends its probes; what is in the journal stays there.
pub struct Guarded {
    guard: Arc<Guard>,
    watch: AbortHandle,
}

struct Guard {
    remote: Arc<dyn Remote>,
    clock: Arc<dyn Clock>,
    settings: Outage,
    /// This process among the gateways.
    gateway: u128,
    breaker: Breaker,
    memory: Memory,
    journal: Journal,
    /// The outage, while there is one.
    burst: Mutex<Option<Burst>>,
    taken: TakenAlone,
    orphans: Orphans,
    gateways: AtomicUsize,
    counts: Counts,
    /// There is something to look after before the next regular look.
    trouble: Notify,
    last_failure: Mutex<Option<Instant>>,
    /// Whether the journal may hold settlements to replay.
    replay: AtomicBool,
}

#[derive(Default)]
struct Counts {
    outages: AtomicU64,
    alone: AtomicU64,
    refused: AtomicU64,
    replayed: AtomicU64,
    stale: AtomicU64,
}

// === impl Guarded ===

impl Guarded {
    /// Guards a ledger. Must be called inside a runtime: it starts the task that probes and replays.
    ///
    /// # Errors
    /// When the journal's directory cannot be used.
    pub fn new(remote: Arc<dyn Remote>, settings: Outage, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let journal = Journal::open(&settings.journal, settings.journal_max)?;
        let left = journal.len();
        if left > 0 {
            tracing::warn!(settlements = left, "an earlier process left settlements; they are replayed");
        }
        let guard = Arc::new(Guard {
            remote,
            clock,
            gateway: fastrand::u128(..),
            breaker: Breaker::new(settings.failures),
            memory: Memory::new(REMEMBERED),
            journal,
            burst: Mutex::new(None),
            taken: TakenAlone::default(),
            orphans: Orphans::default(),
            gateways: AtomicUsize::new(1),
            counts: Counts::default(),
            trouble: Notify::new(),
            last_failure: Mutex::new(None),
            replay: AtomicBool::new(left > 0),
            settings,
        });
        // It writes nothing that is not repeated by the next process, so nothing waits for it at shutdown.
        let watch = tokio::spawn(watch::run(guard.clone())).abort_handle();
        Ok(Self { guard, watch })
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.guard.status()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Ledger for Guarded {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        async move {
            match self.guard.admit(admission, None, now).await? {
                Asked::Decided(decision) => Ok(decision),
                Asked::Stale(_) => Err(StoreError::Failed("nothing was said to be known".into())),
            }
        }
        .boxed()
    }

    fn admit_known<'a>(
        &'a self,
        admission: &'a Admission,
        known: &'a Known,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Asked, StoreError>> {
        self.guard.admit(admission, Some(known), now).boxed()
    }

    fn tells(&self) -> bool {
        self.guard.remote.tells()
    }

    fn tell<'a>(
        &'a self,
        customer: Option<&'a ScopeKey>,
        number: u64,
        keep: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.tell(customer, number, keep).await)
        }
        .boxed()
    }

    fn told(&self) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.told().await)
        }
        .boxed()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.guard.settle(batch, now).boxed()
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.guard.replace(old, admission, now).boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.read(scope).await)
        }
        .boxed()
    }

    fn look<'a>(&'a self, look: &'a Look, now: Option<Timestamp>) -> BoxFuture<'a, Result<Seen, StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.look(look, now).await)
        }
        .boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.ping().await)
        }
        .boxed()
    }

    fn renew<'a>(&'a self, batch: &'a [Renewal], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.renew(batch, now).await)
        }
        .boxed()
    }

    fn sweep(&self, now: Option<Timestamp>) -> BoxFuture<'_, Result<usize, StoreError>> {
        async move {
            self.guard.ask()?;
            self.guard.heard(self.guard.remote.sweep(now).await)
        }
        .boxed()
    }

    fn provisional(&self) -> Option<Duration> {
        self.guard.remote.provisional()
    }

    fn standing(&self) -> Option<Status> {
        Some(self.status())
    }
}

// === impl Guard ===

impl Guard {
    async fn admit(&self, admission: &Admission, known: Option<&Known>, now: Option<Timestamp>) -> Result<Asked, StoreError> {
        if self.breaker.is_open() {
            return self.alone(admission, now, false).map(Asked::Decided);
        }
        // A caller that leaves before the store has answered may leave a hold behind.
        let abandoned = self.orphans.unless_heard(admission, &*self.clock, &self.trouble);
        let result = match known {
            Some(known) => self.remote.admit_known(admission, known, now).await,
            None => self.remote.admit(admission, now).await.map(Asked::Decided),
        };
        abandoned.heard();
        let Err(error) = &result else {
            self.breaker.succeeded();
            return result.inspect(|asked| {
                if let Asked::Decided(decision) = asked {
                    self.memory.saw(admission, decision);
                }
            });
        };
        match self.failed(error) {
            Fault::Request => result,
            fault => self.alone(admission, now, fault == Fault::Silent).map(Asked::Decided),
        }
    }

    /// Asks the store, or nobody: while it is away a request keeps what it has. The store holds its old claims, so what it would need
    /// instead cannot be decided as if they were gone; and most of what a fallback asks for is more of a share that is scarce.
    async fn replace(&self, old: &Settlement, admission: &Admission, now: Option<Timestamp>) -> Result<Decision, StoreError> {
        self.ask()?;
        if self.taken.knows(old.reservation) {
            return Err(StoreError::Away("the request was admitted without it"));
        }
        let abandoned = self.orphans.unless_heard(admission, &*self.clock, &self.trouble);
        let result = self.remote.replace(old, admission, now).await;
        abandoned.heard();
        let Err(error) = &result else {
            self.breaker.succeeded();
            // A refusal tells how things would stand, not how they do.
            return result.inspect(|decision| {
                if decision.admitted {
                    self.memory.saw(admission, decision)
                }
            });
        };
        match self.failed(error) {
            Fault::Request => result,
            fault => {
                if fault == Fault::Silent {
                    // It may have taken it all the same. The old reservation is settled by its owner either way.
                    self.orphans.leave(admission, now.unwrap_or_else(|| self.clock.now()));
                }
                Err(StoreError::Away("a request keeps what it has"))
            }
        }
    }

    /// Decides without the store. Without an await: whoever is admitted here hears of it.
    fn alone(&self, admission: &Admission, now: Option<Timestamp>, silent: bool) -> Result<Decision, StoreError> {
        let now = now.unwrap_or_else(|| self.clock.now());
        let decided = match &mut *self.burst.lock() {
            Some(burst) => burst.admit(admission, &self.memory, now).map(|decision| (decision, burst.number)),
            None => Err("it is just coming back"),
        };
        let admitted = decided.and_then(|(decision, outage)| {
            let held = TakenAlone::as_held(admission, &decision);
            if !held.lines.is_empty() && self.journal.hold(&held).is_err() {
                self.release_here(admission, &decision, now);
                return Err("the journal takes no more");
            }
            self.taken.took(admission, now, outage, silent);
            Ok(decision)
        });
        if admitted.is_err() && silent {
            // The store may have taken it all the same.
            self.orphans.leave(admission, now);
        }
        let count = if admitted.is_ok() { &self.counts.alone } else { &self.counts.refused };
        count.fetch_add(1, Ordering::Relaxed);
        admitted.map_err(StoreError::Away)
    }

    fn release_here(&self, admission: &Admission, decision: &Decision, now: Timestamp) {
        let Admission { reservation, ref customer, .. } = *admission;
        let settlement = Settlement { reservation, customer: customer.clone(), lines: admission.lines(decision) };
        if let Some(burst) = &mut *self.burst.lock() {
            burst.settle(&settlement, now);
        }
    }

    async fn settle(&self, batch: &[Settlement], now: Option<Timestamp>) -> Result<(), StoreError> {
        let here = now.unwrap_or_else(|| self.clock.now());
        let (batch, alone) = self.taken.as_the_store_knows(batch, here, |outage, settlement| {
            if let Some(burst) = self.burst.lock().as_mut().filter(|burst| burst.number == outage) {
                burst.settle(settlement, here);
            }
        });
        let mut tried = None;
        if !self.breaker.is_open() {
            match self.remote.settle(&batch, now).await {
                Ok(()) => {
                    self.breaker.succeeded();
                    self.taken.settled(&alone);
                    // Should this fail they are repeated after a restart, which does no harm.
                    return if alone.is_empty() { Ok(()) } else { self.journal.done(alone).or(Ok(())) };
                }
                Err(error) => {
                    if self.failed(&error) == Fault::Request {
                        tracing::warn!(%error, settlements = batch.len(), "the store did not take settlements; they are tried one by one");
                    }
                    tried = Some(here);
                }
            }
        }
        self.journal.keep(&batch, tried)?;
        self.taken.settled(&alone);
        self.replay.store(true, Ordering::Release);
        self.trouble.notify_one();
        Ok(())
    }

    /// Whether the store may be asked.
    fn ask(&self) -> Result<(), StoreError> {
        if self.breaker.is_open() { Err(StoreError::Away("it is probed")) } else { Ok(()) }
    }

    fn heard<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match &result {
            Ok(_) => self.breaker.succeeded(),
            Err(error) => drop(self.failed(error)),
        }
        result
    }

    /// Notes a failure, and the beginning of an outage if it is one.
    fn failed(&self, error: &StoreError) -> Fault {
        let fault = Fault::of(error);
        if fault != Fault::Request {
            *self.last_failure.lock() = Some(Instant::now());
            self.breaker.failed();
            let mut burst = self.burst.lock();
            if burst.is_none() {
                let gateways = self.gateways.load(Ordering::Relaxed);
                self.counts.outages.fetch_add(1, Ordering::Relaxed);
                *burst = Some(Burst::begin(&self.settings, gateways, self.clock.now(), &self.counts));
                tracing::warn!(%error, gateways, longest = ?self.settings.max, "the store is away; requests are decided alone");
            }
            drop(burst);
            self.trouble.notify_one();
        }
        fault
    }

    fn status(&self) -> Status {
        let (away, until) = match &*self.burst.lock() {
            Some(burst) => (true, burst.until()),
            None => (false, None),
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            away,
            breaker_open: self.breaker.is_open(),
            alone_until: until.filter(|_| !self.memory.is_empty()),
            outages: count(&self.counts.outages),
            alone: count(&self.counts.alone),
            refused_alone: count(&self.counts.refused),
            waiting: self.journal.len(),
            replayed: count(&self.counts.replayed),
            stale: count(&self.counts.stale),
            gateways: self.gateways.load(Ordering::Relaxed),
            repaired: self.remote.repaired(),
            late: self.remote.late(),
            evicts: self.remote.may_evict() == Some(true),
        }
    }
}
