//! Leases: a hold belongs to a gateway that lives for as long as that renews it.
//!
//! [`Running`] knows the reservations of this process that hold something. A [`Keeper`] renews them three times a lease, all in one call,
//! and sweeps four times a lease, at times of its own, so that not all gateways come at once; more often where admissions take two steps,
//! since what died between them is to come back soon.
//!
//! After the store was away leases may be over whose gateways live. Whoever noticed sweeps again only when the others have had the time
//! to renew. Should a hold be booked all the same, its settlement corrects that.

use super::{Ledger, Renewal, StoreError};
use crate::domain::{NanoUsd, RequestId, ReservationId};
use crate::limit::ScopeKey;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// Renewals in a lease: two may fail.
const RENEWALS: u32 = 3;
/// Sweeps in a lease.
const SWEEPS: u32 = 4;

/// The reservations of this process that hold something.
#[derive(Debug, Default)]
pub struct Running(Mutex<HashMap<ReservationId, Entry>>);

#[derive(Debug)]
struct Entry {
    customer: ScopeKey,
    since: Instant,
    metered: Arc<Metered>,
}

/// What a request has used so far. Whoever passes its reply on looks whether that is wanted, and only then counts: once between two
/// renewals, however long the reply.
#[derive(Debug, Default)]
pub struct Metered {
    wanted: AtomicBool,
    nano_dollars: AtomicU64,
    about: OnceLock<About>,
}

/// Which request a reservation is of, for whoever looks.
#[derive(Clone, Debug)]
pub struct About {
    /// Our id of it.
    pub request: RequestId,
    /// The model it is held for.
    pub model: Arc<str>,
}

/// A reservation of this process that is in flight.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Which.
    pub reservation: ReservationId,
    /// For how long.
    pub age: Duration,
    /// Of which request; `None` where that was not told.
    pub about: Option<About>,
}

impl Metered {
    /// Tells which request it is of; the first word holds.
    pub fn concerns(&self, about: About) {
        let _ = self.about.set(about); // said before
    }

    /// Whether a renewal waits for a number.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// What is used by now.
    pub fn tell(&self, used: NanoUsd) {
        self.nano_dollars.fetch_max(used.get(), Ordering::Relaxed);
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// What was told last; zero if nothing was. Asks for the next number.
    fn ask(&self) -> u64 {
        self.wanted.store(true, Ordering::Relaxed);
        self.nano_dollars.load(Ordering::Relaxed)
    }
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Held {
    running: Arc<Running>,
    reservation: ReservationId,
    metered: Arc<Metered>,
}

impl Held {
    /// Where to tell what its request has used so far.
    #[must_use]
    pub fn metered(&self) -> Arc<Metered> {
        Arc::clone(&self.metered)
    }
}

impl Running {
    /// Adds one.
    #[must_use]
    pub fn hold(self: &Arc<Self>, reservation: ReservationId, customer: &ScopeKey) -> Held {
        let metered = Arc::<Metered>::default();
        let entry = Entry { customer: customer.clone(), since: Instant::now(), metered: Arc::clone(&metered) };
        self.0.lock().insert(reservation, entry);
        Held { running: Arc::clone(self), reservation, metered }
    }

    /// Those of a customer. Walks over all of them.
    #[must_use]
    pub fn of(&self, customer: &ScopeKey) -> Vec<InFlight> {
        let running = self.0.lock();
        let own = running.iter().filter(|(_, entry)| entry.customer == *customer);
        own.map(|(id, entry)| InFlight {
            reservation: *id,
            age: entry.since.elapsed(),
            about: entry.metered.about.get().cloned(),
        })
        .collect()
    }

    /// Signs of life of all of them. What one has used so far is told once it has run for a lease: so long may it go on unseen, and twice
    /// of what is told then covers that, too.
    #[must_use]
    pub fn renewals(&self, lease: Duration) -> Vec<Renewal> {
        let micros = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        let renewal = |(id, entry): (&ReservationId, &Entry)| Renewal {
            reservation: *id,
            customer: entry.customer.clone(),
            lease: micros,
            metered: if entry.since.elapsed() >= lease { entry.metered.ask() } else { 0 },
        };
        self.0.lock().iter().map(renewal).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.reservation);
    }
}

/// Renews and sweeps until it is dropped.
#[derive(Debug)]
pub struct Keeper([AbortHandle; 2]);

impl Keeper {
    /// Starts both tasks. Neither writes anything that another gateway, or the next process, would not write as well, so nothing waits
    /// for them at shutdown.
    #[must_use]
    pub fn start(ledger: &Arc<dyn Ledger>, running: Arc<Running>, lease: Duration) -> Self {
        let renewing = tokio::spawn(renew(Arc::clone(ledger), running, lease)).abort_handle();
        let sweeping = tokio::spawn(sweep(Arc::clone(ledger), lease)).abort_handle();
        Self([renewing, sweeping])
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

async fn renew(ledger: Arc<dyn Ledger>, running: Arc<Running>, lease: Duration) {
    loop {
        sleep(lease / RENEWALS).await;
        let batch = running.renewals(lease);
        if !batch.is_empty()
            && let Err(error) = ledger.renew(&batch, None).await
        {
            unless_away(&error, "holds could not be renewed");
        }
    }
}

async fn sweep(ledger: Arc<dyn Ledger>, lease: Duration) {
    // Whoever has just started does not know whether the store was away.
    let settling = lease / 2;
    let pause = (lease / SWEEPS).min(ledger.provisional().unwrap_or(lease));
    sleep(settling).await;
    loop {
        match ledger.sweep(None).await {
            Ok(0) => {}
            Ok(holds) => tracing::warn!(holds, "a gateway has died with requests in flight; their holds are booked"),
            Err(error) => {
                unless_away(&error, "holds of dead gateways could not be looked for");
                while ledger.ping().await.is_err() {
                    sleep(lease / RENEWALS / 4).await;
                }
                sleep(settling).await;
                continue;
            }
        }
        sleep(pause.mul_f64(0.75 + 0.5 * fastrand::f64())).await;
    }
}

/// A store that is away is logged once per outage, by whoever notices first.
fn unless_away(error: &StoreError, what: &str) {
    if !matches!(error, StoreError::Away(_)) {
        tracing::warn!(%error, "{what}");
    }
}

#[cfg(test)]
mod tests;
