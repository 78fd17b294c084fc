//! The task beside the calls: tells the store that this gateway lives, probes it while it is away, and catches up when it is back.

use super::StoreError;
use super::breaker::Fault;
use super::guard::Guard;
use super::journal::Waiting;
use crate::limit::Settlement;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// Between signs of life.
const BEAT: Duration = Duration::from_secs(5);
/// Seconds of silence after which a gateway counts as gone.
const PATIENCE: u64 = 15;
/// From the first probe on intervals double up to the configured one.
const FIRST_PROBE: Duration = Duration::from_millis(50);
/// The store must have answered for so long before the outage is over and what waits is sent: calls that were given up, on connections
/// that were given up, are through by then.
const CALM: Duration = Duration::from_millis(500);
/// Settlements in one call.
const BATCH: usize = 128;
/// How long the store certainly remembers reservations that ended, microseconds.
const REMEMBERED: u64 = 3_600_000_000;

/// Runs until it is aborted.
pub(super) async fn run(guard: Arc<Guard>) {
    let mut probe = FIRST_PROBE;
    loop {
        let alive = match guard.remote.beat(guard.gateway, PATIENCE).await {
            Ok(gateways) => {
                guard.gateways.store(gateways.max(1), Ordering::Relaxed);
                guard.breaker.close();
                true
            }
            Err(error) => {
                if guard.failed(&error) == Fault::Request {
                    tracing::warn!(%error, "the store takes no signs of life");
                }
                false
            }
        };
        if alive {
            probe = FIRST_PROBE;
            guard.catch_up().await;
        }
        guard.clone().flush().await;
        if guard.is_calm() {
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = guard.trouble.notified() => {}
            }
        } else {
            tokio::time::sleep(probe).await;
            probe = if alive { FIRST_PROBE } else { (probe * 2).min(guard.settings.probe) };
        }
    }
}

impl Guard {
    /// Whether there is nothing to do but to give signs of life.
    fn is_calm(&self) -> bool {
        self.burst.lock().is_none() && self.orphans.is_empty() && !self.replay.load(Ordering::Acquire) && !self.breaker.is_open()
    }

    /// Has the journal flushed to the medium, off the async threads.
    async fn flush(self: Arc<Self>) {
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || self.journal.sync()).await {
            tracing::error!(%error, "settlements that wait may not survive a power cut");
        }
    }

    /// The store answers: ends the outage, sends what waits.
    async fn catch_up(&self) {
        let failed = *self.last_failure.lock();
        if failed.is_some_and(|at| at.elapsed() < CALM) {
            return;
        }
        let over = self.burst.lock().take();
        if let Some(burst) = over {
            let totals = burst.end(&self.memory, &self.counts);
            let (lasted, alone, refused, waiting) = (totals.lasted, totals.alone, totals.refused, self.journal.len());
            tracing::warn!(?lasted, alone, refused, waiting, "the store is back; requests are decided there again");
        }
        let orphans = self.orphans.take(Instant::now().checked_sub(CALM).unwrap_or_else(Instant::now), BATCH);
        if !orphans.is_empty() && self.settle(&orphans, None).await.is_err() {
            tracing::error!(orphans = orphans.len(), "abandoned admissions could not be given back; they end with their leases");
        }
        if self.replay.swap(false, Ordering::AcqRel) && self.replay().await.is_err() {
            self.replay.store(true, Ordering::Release);
        }
    }

    /// Sends everything that waits, oldest first. Fails when the store is away again.
    async fn replay(&self) -> Result<(), StoreError> {
        let (mut from, mut replayed) = (0, 0);
        loop {
            let waiting = self.journal.waiting(from, BATCH)?;
            let Some(last) = waiting.last() else { break };
            from = last.number + 1;
            let batch = self.without_stale(waiting).await?;
            self.journal.trying(self.clock.now())?;
            match self.heard(self.remote.settle(&batch, None).await) {
                Ok(()) => {
                    self.journal.done(batch.iter().map(|settlement| settlement.reservation))?;
                    replayed += batch.len() as u64;
                }
                Err(error) if Fault::of(&error) == Fault::Request => replayed += self.one_by_one(&batch).await?,
                Err(error) => return Err(error),
            }
        }
        self.counts.replayed.fetch_add(replayed, Ordering::Relaxed);
        tracing::info!(replayed, waiting = self.journal.len(), "settlements that waited are in the store");
        Ok(())
    }

    /// Leaves out, and gives up, what may have been booked before the store began to forget, unless its hold is still there.
    async fn without_stale(&self, waiting: Vec<Waiting>) -> Result<Vec<Settlement>, StoreError> {
        let now = self.clock.now();
        let mut batch = Vec::with_capacity(waiting.len());
        for Waiting { mut settlement, tried, .. } in waiting {
            if tried.is_some_and(|tried| now.since(tried) >= REMEMBERED) {
                let known = self.heard(self.remote.known_lines(&settlement).await)?;
                let unknown: Vec<_> = settlement.lines.iter().filter(|line| !known.contains(line)).collect();
                if known.is_empty() || !unknown.is_empty() {
                    tracing::error!(
                        reservation = %settlement.reservation,
                        customer = %settlement.customer.owner,
                        lines = ?unknown,
                        "a settlement is too old to be repeated and its hold is gone; it is not booked (again)"
                    );
                    self.counts.stale.fetch_add(1, Ordering::Relaxed);
                }
                if known.is_empty() {
                    self.journal.done([settlement.reservation])?;
                    continue;
                }
                settlement.lines = known;
            }
            batch.push(settlement);
        }
        Ok(batch)
    }

    /// A settlement that the store cannot take must not keep the others back. It stays in the journal and is tried with the next ones.
    async fn one_by_one(&self, batch: &[Settlement]) -> Result<u64, StoreError> {
        let mut taken = 0;
        for settlement in batch {
            match self.heard(self.remote.settle(std::slice::from_ref(settlement), None).await) {
                Ok(()) => {
                    self.journal.done([settlement.reservation])?;
                    taken += 1;
                }
                Err(error) if Fault::of(&error) == Fault::Request => {
                    tracing::error!(%error, reservation = %settlement.reservation, "the store does not take a settlement; it is kept");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}
