//! Documents: small versioned values with an end, for everything that is not a balance.
//!
//! Tickets, request records, stored replies, jobs, plans and overrides have the same needs: read one, write one only if nobody else did
//! meanwhile, forget it at its time, list the newest or oldest of a kind. So one trait has the two implementations and the conformance
//! suite, and each concern is ordinary code over it, the same on both stores.

pub mod embedded;
pub mod memory;

use super::StoreError;
use super::series::{Nowhere, Series};
use crate::domain::Timestamp;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// The longest id, bytes.
pub const MAX_ID: usize = 512;
/// Documents in one page of a listing at most, whatever was asked for.
pub const MAX_PAGE: usize = 1_000;

/// A kind of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collection {
    /// What is kept of a request, by our id.
    Requests,
    /// Our ids of requests, by the provider's.
    ProviderRequests,
    /// Replies kept for repeats, by customer and idempotency key.
    Replies,
    /// Asynchronous requests.
    Jobs,
    /// Triage tickets.
    Tickets,
    /// What belongs to triage tickets and is never listed: the open ones of a customer, conversations, second ids.
    OpenTickets,
    /// Plans changed at run time.
    Plans,
    /// What is different for a customer.
    Overrides,
    /// Levels pinned by an operator, by pool.
    Pins,
    /// How near pools are to their ceilings.
    Levels,
    /// Who changed what at run time, the latest first.
    Audit,
    /// Customers that were seen, by id.
    Customers,
    /// Requests of a customer that were not served as asked, lately.
    Refusals,
    /// What became of pools' levels.
    LevelHistory,
    /// Gateway keys made at run time.
    Keys,
    /// When each was last used.
    KeyUses,
    /// What operators were told of.
    Alerts,
    /// That they were told, so that nobody tells them again.
    AlertMarks,
    /// Customers that were named before.
    SeenCustomers,
    /// How many were named for the first time, by application and hour.
    NewCustomers,
}

impl Collection {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Requests,
        Self::ProviderRequests,
        Self::Replies,
        Self::Jobs,
        Self::Tickets,
        Self::OpenTickets,
        Self::Plans,
        Self::Overrides,
        Self::Pins,
        Self::Levels,
        Self::Audit,
        Self::Customers,
        Self::Refusals,
        Self::LevelHistory,
        Self::Keys,
        Self::KeyUses,
        Self::Alerts,
        Self::AlertMarks,
        Self::SeenCustomers,
        Self::NewCustomers,
    ];

    /// Its name in keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::ProviderRequests => "provider_request",
            Self::Replies => "reply",
            Self::Jobs => "job",
            Self::Tickets => "ticket",
            Self::OpenTickets => "open_tickets",
            Self::Plans => "plan",
            Self::Overrides => "override",
            Self::Pins => "pin",
            Self::Levels => "level",
            Self::Audit => "audit",
            Self::Customers => "customer",
            Self::Refusals => "refusals",
            Self::LevelHistory => "level_history",
            Self::Keys => "key",
            Self::KeyUses => "key_use",
            Self::Alerts => "alert",
            Self::AlertMarks => "alert_mark",
            Self::SeenCustomers => "seen_customer",
            Self::NewCustomers => "new_customers",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().as_bytes() == name)
    }

    /// Whether its documents can be listed. Those of the others, of which there is one or more a request, can only be read by id.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        matches!(
            self,
            Self::Jobs
                | Self::Tickets
                | Self::Plans
                | Self::Overrides
                | Self::Pins
                | Self::Audit
                | Self::Customers
                | Self::Keys
                | Self::KeyUses
                | Self::Alerts
        )
    }
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Changes with every write; never zero.
    pub version: u64,
    /// What it says; the concern's own format.
    pub value: Bytes,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything or nothing.
    Anything,
    /// No document.
    Nothing,
    /// This version.
    Version(u64),
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which kind.
    pub collection: Collection,
    /// Which document: at most [`MAX_ID`] bytes of anything.
    pub id: String,
    /// What has to be there.
    pub expected: Expected,
    /// What is written; `None` removes the document.
    pub value: Option<Bytes>,
    /// When it is forgotten, from now; `None` = never.
    pub keep: Option<Duration>,
    /// Where it stands in a listing (listed collections): lowest first.
    pub rank: u64,
}

impl Write {
    /// The first instant at which what it writes is forgotten.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.keep.map(|keep| now.plus(u64::try_from(keep.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Whether it can be written without a look at what is there: it expects nothing of it, and no listing leads to it. Records of
    /// requests are so written, one or two a request. Should there be an older document, its end finds a younger one and leaves it.
    #[must_use]
    pub const fn is_blind(&self) -> bool {
        matches!(self.expected, Expected::Anything) && self.value.is_some() && !self.collection.is_listed()
    }

    /// Whether it may be written, having found this.
    #[must_use]
    pub fn expects(&self, found: Option<&Document>) -> bool {
        match self.expected {
            Expected::Anything => true,
            Expected::Nothing => found.is_none(),
            Expected::Version(version) => found.is_some_and(|found| found.version == version),
        }
    }
}

/// Whether an id is short enough to be kept.
///
/// # Errors
/// [`StoreError::Failed`] when it is not. A limit of its own in each store would let the others differ.
pub fn check_id(id: &str) -> Result<(), StoreError> {
    if id.len() <= MAX_ID {
        return Ok(());
    }
    Err(StoreError::Failed(format!("an id of {} bytes is longer than {MAX_ID}", id.len())))
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It stands, with this version (zero: it is removed).
    Done(u64),
    /// Something else was found than was expected; nothing was written.
    Found(Option<Document>),
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which document.
    pub id: String,
    /// Where it stands.
    pub rank: u64,
    /// What it says.
    pub document: Document,
}

/// Where a listing begins and how it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// After this rank and id; `None` = from the beginning.
    pub after: Option<(u64, String)>,
    /// Only ranks up to this one; `None` = all.
    pub up_to: Option<u64>,
    /// Documents at most; never more than [`MAX_PAGE`].
    pub limit: usize,
}

/// Keeps documents. `now` is for tests, as in [`super::Ledger`].
pub trait Documents: Send + Sync + 'static {
    /// Reads one; `None` when there is none (any more).
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>>;

    /// Writes one, atomically with the look at what was there; durable as a booking of the ledger is.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; whether it wrote is not known then.
    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>>;

    /// Writes many that expect [`Expected::Anything`], each on its own, in one call where that is possible. For what is written with
    /// every request.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked; some may be written.
    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Documents of a listed collection, by rank and then id.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>>;

    /// The series that are kept beside them.
    fn series(&self) -> &dyn Series {
        &Nowhere
    }
}
