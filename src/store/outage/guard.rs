//! The guarded ledger while calls go through it: what an answer, a failure and an outage mean for whoever asks.

use super::breaker::{Breaker, Fault};
use super::burst::Burst;
use super::journal::Journal;
use super::memory::Memory;
use super::taken::{Orphans, TakenAlone};
use super::{Remote, Status};
use crate::config::policy::Outage;
use crate::domain::{Clock, Timestamp};
use crate::limit::{Admission, Decision, Settlement};
use crate::store::{Asked, Known, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Owners (customers, users, apps, pools) whose limits are remembered.
const REMEMBERED: usize = 100_000;

/// The ledger that is guarded, and all that is known of it and of what happened while it was away.
pub(super) struct Guard {
    pub(super) remote: Arc<dyn Remote>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Outage,
    /// This process among the gateways.
    pub(super) gateway: u128,
    pub(super) breaker: Breaker,
    pub(super) memory: Memory,
    pub(super) journal: Journal,
    /// The outage, while there is one.
    pub(super) burst: Mutex<Option<Burst>>,
    pub(super) taken: TakenAlone,
    pub(super) orphans: Orphans,
    pub(super) gateways: AtomicUsize,
    pub(super) counts: Counts,
    /// There is something to look after before the next regular look.
    pub(super) trouble: Notify,
    pub(super) last_failure: Mutex<Option<Instant>>,
    /// Whether the journal may hold settlements to replay.
    pub(super) replay: AtomicBool,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) outages: AtomicU64,
    pub(super) alone: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) replayed: AtomicU64,
    pub(super) stale: AtomicU64,
}

impl Guard {
    /// Nothing is known of the ledger yet. What the journal has is to be replayed.
    pub(super) fn new(remote: Arc<dyn Remote>, settings: Outage, clock: Arc<dyn Clock>, journal: Journal) -> Self {
        Self {
            remote,
            clock,
            gateway: fastrand::u128(..),
            breaker: Breaker::new(settings.failures),
            memory: Memory::new(REMEMBERED),
            replay: AtomicBool::new(journal.len() > 0),
            journal,
            burst: Mutex::new(None),
            taken: TakenAlone::default(),
            orphans: Orphans::default(),
            gateways: AtomicUsize::new(1),
            counts: Counts::default(),
            trouble: Notify::new(),
            last_failure: Mutex::new(None),
            settings,
        }
    }

    pub(super) async fn admit(
        &self,
        admission: &Admission,
        known: Option<&Known>,
        now: Option<Timestamp>,
    ) -> Result<Asked, StoreError> {
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
    pub(super) async fn replace(
        &self,
        old: &Settlement,
        admission: &Admission,
        now: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
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

    pub(super) async fn settle(&self, batch: &[Settlement], now: Option<Timestamp>) -> Result<(), StoreError> {
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
    pub(super) fn ask(&self) -> Result<(), StoreError> {
        if self.breaker.is_open() { Err(StoreError::Away("it is probed")) } else { Ok(()) }
    }

    pub(super) fn heard<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match &result {
            Ok(_) => self.breaker.succeeded(),
            Err(error) => drop(self.failed(error)),
        }
        result
    }

    /// Notes a failure, and the beginning of an outage if it is one.
    pub(super) fn failed(&self, error: &StoreError) -> Fault {
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

    pub(super) fn status(&self) -> Status {
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
