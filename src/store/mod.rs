//! Where the books are kept: one trait per concern, each with an embedded and a Redis implementation.

pub mod ceilings;
pub mod documents;
pub mod embedded;
pub mod leases;
pub mod outage;
pub mod redis;
pub mod reservation;
pub mod series;
pub mod settler;

use crate::domain::{Clock, NanoUsd, ReservationId, Timestamp};
use crate::limit::{Admission, Claim, Decision, LimitName, ScopeKey, Settlement, Verdict};
use documents::Documents;
use documents::embedded::EmbeddedDocuments;
use documents::memory::MemoryDocuments;
use embedded::{EmbeddedLedger, LostHold};
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Everything a gateway keeps.
#[derive(Clone)]
pub struct Stores {
    /// Balances.
    pub ledger: Arc<dyn Ledger>,
    /// Everything else.
    pub documents: Arc<dyn Documents>,
}

impl Stores {
    /// Both in one directory, for a single process: the ledger's journal in it, the documents in `documents` below.
    ///
    /// # Errors
    /// With the path and the reason when the directory is in use, damaged or not writable.
    pub fn embedded(path: &Path, clock: Arc<dyn Clock>, lost_hold: LostHold) -> Result<Self, StoreError> {
        let ledger = EmbeddedLedger::open(path, clock.clone(), lost_hold)?;
        let documents = EmbeddedDocuments::open(path.join("documents"), clock)?;
        Ok(Self { ledger: Arc::new(ledger), documents: Arc::new(documents) })
    }

    /// This ledger, and documents that end with the process.
    #[must_use]
    pub fn in_memory_beside(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self { ledger, documents: Arc::new(MemoryDocuments::new(clock)) }
    }
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

/// The ledger: admits, settles, reads.
///
/// `now` is for tests; production passes `None` and the store's own clock decides (Redis `TIME`, the embedded store's clock).
pub trait Ledger: Send + Sync + 'static {
    /// Decides all claims of a request in one atomic step; when admitted the hold is durable before this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot decide; nothing is claimed as far as the caller knows, and the hold, should it exist,
    /// ends with its lease.
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>>;

    /// As [`Ledger::admit`], if what the gateway goes by is in force, looked at in the same step; otherwise nothing is claimed, not even
    /// the message, and it is told what is.
    ///
    /// # Errors
    /// As there.
    fn admit_known<'a>(
        &'a self,
        admission: &'a Admission,
        known: &'a Known,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Asked, StoreError>> {
        let _ = known;
        Box::pin(async move { Ok(Asked::Decided(self.admit(admission, now).await?)) })
    }

    /// Whether [`Ledger::admit_known`] looks. Not where one process has the store to itself: it knows what it changed.
    fn tells(&self) -> bool {
        false
    }

    /// From now on this is what must be known of a customer's overrides, or (`None`) of the plans. Forgotten after `keep`, which is as
    /// good as zero.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn tell<'a>(
        &'a self,
        customer: Option<&'a ScopeKey>,
        number: u64,
        keep: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = (customer, number, keep);
        Box::pin(std::future::ready(Ok(())))
    }

    /// The number of the plans that is in force: what was told last, zero where nothing was or it is forgotten. `None` where nobody else
    /// tells.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn told(&self) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Ends reservations: an upsert by reservation id, so a batch may be repeated; what was settled before is not booked again.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; the batch is to be repeated.
    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Ends a reservation here and now, where that takes no waiting, as [`Ledger::settle`] does: it is booked when this returns, and on its
    /// way to be durable. Gives whether it was done; where it was not, nothing happened, and it is to be settled the other way.
    fn settle_here(&self, settlement: &Settlement) -> bool {
        let _ = settlement;
        false
    }

    /// How many calls of [`Ledger::settle`] may be under way at once. More than one where a batch is booked before the call has ended,
    /// which then only waits until it is durable: holds must not stand for longer because others' settlements are being written.
    fn settles_at_once(&self) -> usize {
        1
    }

    /// Puts an admission in the place of a reservation, in one atomic step: `old` is settled to its actual amounts and the claims are
    /// decided as if that had happened before. Where they do not pass nothing changes, and the old reservation stands: its owner settles
    /// it later, or asks again. Both are of one customer and have ids of their own; the admission claims no message, since the request
    /// has spent one.
    ///
    /// Admitted, the old id has ended: settling it again books nothing, so whoever does not hear the answer may settle it as ever. Of an
    /// old id that has ended already nothing is booked again, and the claims are decided alone.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot decide. Whether the old reservation stands is not known then: it is to be settled, which does
    /// no harm if it does not. A new hold, should it exist, ends with its lease, as after [`Ledger::admit`].
    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        let _ = (old, admission, now);
        Box::pin(std::future::ready(Err(StoreError::Failed("this ledger does not replace reservations".into()))))
    }

    /// How the budgets and quotas of a scope stand in the last period seen, in the order of their names. One without anything spent or
    /// held may be left out.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>>;

    /// How limits of a customer and of its users stand at one moment, what each would answer to its claim, and what the customer's
    /// requests in flight hold. Changes nothing. For whoever asks why a request was refused; requests never do.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn look<'a>(&'a self, look: &'a Look, now: Option<Timestamp>) -> BoxFuture<'a, Result<Seen, StoreError>> {
        let _ = (look, now);
        Box::pin(std::future::ready(Err(StoreError::Failed("this ledger cannot be looked at".into()))))
    }

    /// Whether the store answers (readiness).
    ///
    /// # Errors
    /// [`StoreError`] when it does not.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Prolongs the leases of reservations in flight. One whose hold is not there (any more) is passed over: it is settled, or was booked
    /// for lost, which its settlement will correct.
    ///
    /// Does nothing where holds have no leases: the embedded store knows at its next start that all holds it finds are lost.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; the holds stand until their leases end.
    fn renew<'a>(&'a self, batch: &'a [Renewal], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = (batch, now);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Books holds whose lease is over, whosever they were, and gives how many. Does nothing where holds have no leases.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; what is left is booked the next time.
    fn sweep(&self, now: Option<Timestamp>) -> BoxFuture<'_, Result<usize, StoreError>> {
        let _ = now;
        Box::pin(std::future::ready(Ok(0)))
    }

    /// How long a hold stands that is not confirmed, where admissions take two steps; `None` where they take one. Holds of gateways that
    /// died between the two are given back by whoever sweeps next.
    fn provisional(&self) -> Option<Duration> {
        None
    }

    /// How it stands, if it goes on alone while its store is away (see [`outage`]); `None` if it never does.
    fn standing(&self) -> Option<outage::Status> {
        None
    }
}

/// By which plans and overrides a request is decided: numbers that change with every change, zero where nothing was ever said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What was said of the customer.
    pub customer: u64,
    /// The plans that were set at run time.
    pub plans: u64,
}

/// What came of an admission whose plans may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It was decided.
    Decided(Decision),
    /// It was not: these are in force.
    Stale(Known),
}

/// What is looked at, see [`Ledger::look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whose reservations.
    pub customer: ScopeKey,
    /// Limits of this customer and of its users, and what would be asked of them. None may be anybody else's.
    pub claims: Vec<Claim>,
}

/// How things stood when they were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, by the deciding clock.
    pub at: Timestamp,
    /// One per claim, in order: what the limit would have answered, and how it stood without that.
    pub verdicts: Vec<Verdict>,
    /// What reservations in flight hold of budgets and quotas, by reservation.
    pub holds: Vec<Holding>,
}

/// What one reservation in flight holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which.
    pub reservation: ReservationId,
    /// When it is taken for lost unless it is renewed; `None` where holds have no leases.
    pub until: Option<Timestamp>,
    /// The most it holds in dollars; zero if it holds none. Of several caps each holds the same.
    pub money: NanoUsd,
}

/// A sign of life of one reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Which.
    pub reservation: ReservationId,
    /// The customer it is kept with.
    pub customer: ScopeKey,
    /// Microseconds from now until it is taken for lost unless it is renewed again.
    pub lease: u64,
    /// Nano-dollars that its request has used so far; zero where that is not known, or the request is younger than a lease.
    pub metered: u64,
}

/// One budget or quota of a scope, as it stands in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Which.
    pub limit: LimitName,
    /// Start of the period, Unix seconds.
    pub period: u64,
    /// Settled: nano-dollars, tokens or requests.
    pub spent: u64,
    /// Reserved by requests in flight.
    pub held: u64,
}

impl Balance {
    /// What is spent, where the limit is in dollars.
    #[must_use]
    pub const fn spent_usd(&self) -> NanoUsd {
        NanoUsd::new(self.spent)
    }
}

/// Why a store did not answer. The text is for the log, never for a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It did not answer in time, or could not be reached.
    #[error("the store is unreachable: {0}")]
    Unreachable(String),
    /// It answered something that makes no sense or an error of its own.
    #[error("the store failed: {0}")]
    Failed(String),
    /// It is known to be away, and what may be decided without it does not cover the request. Logged once per outage by whoever
    /// decides alone, not per request.
    #[error("the store is away: {0}")]
    Away(&'static str),
}
