//! The settlement queue: off the reply's path, bounded, tracked to the end.
//!
//! A place is taken at admission, so that a settlement never has to wait for one: it can be handed over from a `Drop`. Memory is bounded
//! because places are. A ledger that can book without waiting does so at once ([`Ledger::settle_here`]): the next request finds what this one
//! gave back. Otherwise settlements go to it in the order in which they ended, many in one call; when the ledger fails they are kept and
//! repeated, which is safe because a settlement is an upsert. Where the ledger says so ([`Ledger::settles_at_once`]) further calls are
//! made while earlier ones are not through.

use super::ceilings::Ceilings;
use super::leases::{Held, Metered, Running};
use super::{Ledger, StoreError};
use crate::domain::{ReservationId, Timestamp};
use crate::limit::{Line, ScopeKey, Settlement};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Settlements in one call to the ledger.
const BATCH: usize = 128;
/// Between the first failure and the next attempt; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a batch at which the ledger panics is repeated.
const MOST_PANICS: u32 = 3;

/// Takes settlements and sees that the ledger gets every one of them.
pub struct Settler {
    ledger: Arc<dyn Ledger>,
    queue: mpsc::Sender<Queued>,
    counters: Arc<Counters>,
    running: Arc<Running>,
    ceilings: Option<Arc<Ceilings>>,
}

/// A place in the queue. Dropped unused it is given back.
pub struct SettlePlace {
    ledger: Arc<dyn Ledger>,
    place: mpsc::OwnedPermit<Queued>,
    outstanding: Outstanding,
    running: Arc<Running>,
    held: Option<Held>,
    ceilings: Option<Arc<Ceilings>>,
    /// When the ceilings were told of the claims.
    claimed: Timestamp,
}

/// What the queue has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlerStatus {
    /// Places taken whose settlement is not in the ledger yet.
    pub outstanding: usize,
    /// Settlements in the ledger.
    pub settled: u64,
    /// Calls to the ledger that failed and were repeated.
    pub retries: u64,
}

struct Counters {
    outstanding: watch::Sender<usize>,
    settled: AtomicU64,
    retries: AtomicU64,
}

/// Counts as outstanding while it exists.
struct Outstanding(Arc<Counters>);

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.outstanding.send_modify(|n| *n -= 1);
    }
}

struct Queued {
    settlement: Settlement,
    /// Ends with the queued settlement.
    outstanding: Outstanding,
    /// Renewed until the settlement is in the ledger.
    held: Option<Held>,
}

// === impl Settler ===

impl Settler {
    /// Starts the task that settles; it ends when the settler and all places are gone and everything is settled. At most `capacity`
    /// places (at least one) are taken at once.
    #[must_use]
    pub fn start(ledger: Arc<dyn Ledger>, capacity: usize) -> Self {
        let (queue, settlements) = mpsc::channel(capacity.max(1));
        let counters =
            Arc::new(Counters { outstanding: watch::Sender::new(0), settled: AtomicU64::new(0), retries: AtomicU64::new(0) });
        tokio::spawn(run(ledger.clone(), settlements, Arc::clone(&counters)));
        Self { ledger, queue, counters, running: Arc::default(), ceilings: None }
    }

    /// Tells these of everything that is claimed and settled.
    #[must_use]
    pub fn telling(self, ceilings: Arc<Ceilings>) -> Self {
        Self { ceilings: Some(ceilings), ..self }
    }

    /// Takes a place, waiting for one if need be.
    ///
    /// # Errors
    /// When the queue has ended, which only happens when its runtime is shutting down.
    pub async fn place(&self) -> Result<SettlePlace, StoreError> {
        let ended = |_| StoreError::Failed("the settlement queue has ended".into());
        let place = self.queue.clone().reserve_owned().await.map_err(ended)?;
        Ok(self.track(place))
    }

    /// Takes a place if there is one.
    #[must_use]
    pub fn try_place(&self) -> Option<SettlePlace> {
        let place = self.queue.clone().try_reserve_owned().ok()?;
        Some(self.track(place))
    }

    fn track(&self, place: mpsc::OwnedPermit<Queued>) -> SettlePlace {
        self.counters.outstanding.send_modify(|n| *n += 1);
        SettlePlace {
            ledger: Arc::clone(&self.ledger),
            place,
            outstanding: Outstanding(Arc::clone(&self.counters)),
            running: Arc::clone(&self.running),
            held: None,
            ceilings: self.ceilings.clone(),
            claimed: Timestamp::default(),
        }
    }

    /// The reservations that hold something: no more than there are places.
    #[must_use]
    pub fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running)
    }

    /// Waits until every place taken is settled or given back, at most `deadline`. Gives how many are left.
    pub async fn drain(&self, deadline: Duration) -> usize {
        let mut outstanding = self.counters.outstanding.subscribe();
        // The sender lives as long as `self`, so the wait ends only with the condition or the deadline.
        let _ = tokio::time::timeout(deadline, outstanding.wait_for(|n| *n == 0)).await;
        *self.counters.outstanding.borrow()
    }

    /// What the queue has done so far.
    #[must_use]
    pub fn status(&self) -> SettlerStatus {
        let Counters { outstanding, settled, retries } = &*self.counters;
        SettlerStatus {
            outstanding: *outstanding.borrow(),
            settled: settled.load(Ordering::Relaxed),
            retries: retries.load(Ordering::Relaxed),
        }
    }
}

// === impl SettlePlace ===

impl SettlePlace {
    /// Says which reservation it is taken for: its hold is renewed until its settlement is in the ledger.
    pub fn hold(&mut self, reservation: ReservationId, customer: &ScopeKey) {
        self.held = Some(self.running.hold(reservation, customer));
    }

    /// Where to tell what its request has used so far; `None` before [`SettlePlace::hold`].
    #[must_use]
    pub fn metered(&self) -> Option<Arc<Metered>> {
        self.held.as_ref().map(Held::metered)
    }

    /// Says what was admitted for it.
    pub fn claimed(&mut self, lines: &[Line]) {
        if let Some(ceilings) = &self.ceilings {
            self.claimed = ceilings.claimed(lines);
        }
    }

    /// Settles, or hands the settlement over. Never waits.
    pub fn settle(self, settlement: Settlement) {
        let Self { ledger, place, outstanding, held, running: _, ceilings, claimed } = self;
        if let Some(ceilings) = ceilings {
            ceilings.settled(claimed, &settlement.lines);
        }
        // Called from a `Drop`, where a panic of the ledger would end the process: the task takes it as it comes.
        if catch_unwind(AssertUnwindSafe(|| ledger.settle_here(&settlement))).unwrap_or(false) {
            outstanding.0.settled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        place.send(Queued { settlement, outstanding, held });
    }
}

async fn run(ledger: Arc<dyn Ledger>, mut settlements: mpsc::Receiver<Queued>, counters: Arc<Counters>) {
    let mut queued = Vec::with_capacity(BATCH);
    let mut under_way = FuturesUnordered::new();
    let most = ledger.settles_at_once();
    loop {
        tokio::select! {
            biased;
            received = settlements.recv_many(&mut queued, BATCH), if under_way.len() < most => {
                if received == 0 {
                    break;
                }
                let queued = queued.drain(..).map(|q| (q.settlement, (q.outstanding, q.held)));
                let (batch, outstanding): (Vec<_>, Vec<_>) = queued.unzip();
                let (ledger, counters) = (&*ledger, &*counters);
                under_way.push(async move {
                    settle(ledger, &batch, counters).await;
                    counters.settled.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    drop(outstanding);
                });
            }
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
        }
    }
    while under_way.next().await.is_some() {}
}

/// Settles a batch, however long it takes. A ledger that panics is a fault of ours that repeating does not cure: after a few times the
/// batch is given up, loudly, so that it does not hold up everybody else's.
async fn settle(ledger: &dyn Ledger, batch: &[Settlement], counters: &Counters) {
    let (mut pause, mut panics) = (FIRST_PAUSE, 0);
    loop {
        let settling = AssertUnwindSafe(async { ledger.settle(batch, None).await }).catch_unwind().await;
        let error = match settling {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) if panics == MOST_PANICS => {
                let lost: Vec<_> = batch.iter().map(|settlement| settlement.reservation.to_string()).collect();
                tracing::error!(?lost, "the ledger panics at these settlements; they are given up, and their holds stay");
                return;
            }
            Err(_) => {
                panics += 1;
                StoreError::Failed("it panicked".into())
            }
        };
        if pause == FIRST_PAUSE {
            tracing::warn!(%error, settlements = batch.len(), "the store does not take settlements; they are kept and repeated");
        }
        counters.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
pub(super) mod tests;
