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
mod guard;
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
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use guard::Guard;
use journal::Journal;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

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
        let guard = Arc::new(Guard::new(remote, settings, clock, journal));
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
