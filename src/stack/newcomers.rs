//! The cap on customers that an application names for the first time within an hour (`new_customers_per_hour`).
//!
//! Limits per customer bound nothing for an application that sends an id of its own making with every request (a session's, say), and
//! every such id leaves balances in the store. So first namings are counted, by application and clock hour, and refused beyond the cap.
//!
//! Who was named before is remembered in this process, as hashes and not more than so many; that costs no store call. Of anybody else
//! the store is asked: a document says that the customer was seen; where there is none, something may have been said of it at run time,
//! or it may have balances from before the cap was set. Only who has none of these takes a place. The place is taken first, by
//! compare-and-set in a document of the application and the hour, and given back should another gateway have written meanwhile that it
//! saw the same customer. So gateways that share a store never let in more than the cap.
//!
//! Without a cap nothing here is called. While the store is away those who are remembered pass, as the outage rules then say; of others
//! nobody knows, and they are told so (503).

mod remembered;
#[cfg(test)]
mod tests;

use super::identify::away;
use crate::config::policy::{App, Identity};
use crate::domain::{Clock, CustomerId, Timestamp};
use crate::limit::{Scope, ScopeKey};
use crate::reply::Rejection;
use crate::store::documents::{Collection, Document, Documents, Expected, MAX_ID, Write, Written};
use crate::store::{Ledger, StoreError};
use crate::telemetry::Metrics;
use crate::telemetry::metrics::ResultLabels;
use bytes::Bytes;
use parking_lot::Mutex;
use remembered::{Digest, Remembered};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// Customers that are remembered without asking the store: the last so many, and up to twice as many.
const REMEMBERED: usize = 100_000;
/// A customer that does not come back for so long, and of whom the books know nothing, is new again. Written anew after half of it.
const SEEN: Duration = Duration::from_secs(90 * 86_400);
/// How long the count of an hour is kept.
const COUNTED: Duration = Duration::from_secs(7_200);
/// The counts of so many applications are at hand; of others they are read when needed. More than there can be keys.
const APPS: usize = 10_000;
/// Other gateways that may write a count between our look and our write, before we give up.
const TRIES: usize = 100;
/// A count that left no place is looked at again after this time, microseconds: another gateway may have given one back.
const TRUSTED: u64 = 1_000_000;
const HOUR: u64 = 3_600;

/// New customers that an application may name within an hour; `None` = any number.
pub fn cap(app: &App, identity: &Identity) -> Option<u64> {
    app.new_customers.or(identity.new_customers).filter(|most| *most < u64::MAX)
}

/// See the module.
pub struct Newcomers {
    documents: Arc<dyn Documents>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    remembered: Mutex<Remembered>,
    /// One newcomer of an application at a time in this process: they would only make each other's writes fail.
    apps: Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<Hour>>>>,
}

/// An application's count of an hour, as last seen.
#[derive(Debug, Default)]
struct Hour {
    /// Hours since the Unix epoch.
    number: u64,
    count: u64,
    /// Of the document; zero = there is none.
    version: u64,
    read_at: Timestamp,
    /// Whether it was logged that the cap is reached.
    warned: bool,
}

/// Who asks.
struct Newcomer {
    app: Arc<str>,
    id: CustomerId,
    digest: Digest,
    cap: u64,
}

impl Newcomers {
    /// Nobody is remembered yet.
    pub fn new(documents: Arc<dyn Documents>, ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        let remembered = Mutex::new(Remembered::at_least(REMEMBERED));
        Self { documents, ledger, clock, metrics, remembered, apps: Mutex::default() }
    }

    /// Lets a customer in that was named before, or for whom the application has a place left in this hour.
    ///
    /// # Errors
    /// [`Rejection::TooManyNewCustomers`] when it has none, [`Rejection::LimitsUnavailable`] when the store does not say.
    pub async fn admit(self: &Arc<Self>, app: &Arc<str>, id: &CustomerId, cap: u64) -> Result<(), Rejection> {
        let digest = Digest::of(id.as_str());
        if self.remembered.lock().knows(digest, self.clock.now()) {
            return Ok(());
        }
        let newcomer = Newcomer { app: app.clone(), id: id.clone(), digest, cap };
        // Boxed: few requests come here, and all would carry its state.
        Box::pin(self.meet(newcomer)).await
    }

    async fn meet(self: &Arc<Self>, newcomer: Newcomer) -> Result<(), Rejection> {
        if self.is_known(&newcomer.id).await.map_err(|error| self.unavailable(&error))? {
            self.remembered.lock().remember(newcomer.digest);
            return Ok(());
        }
        let turn = self.turn(&newcomer.app).lock_owned().await;
        if self.remembered.lock().knows(newcomer.digest, self.clock.now()) {
            return Ok(()); // it came twice at once
        }
        // In a task of its own, of which there is one for each application: a client that leaves in the middle of it would leave a place
        // taken for nobody.
        let this = self.clone();
        let counting = tokio::spawn(async move { this.let_in(turn, &newcomer).await });
        counting.await.map_err(|_| Rejection::Internal)?
    }

    /// Whether the store knows it.
    async fn is_known(&self, id: &CustomerId) -> Result<bool, StoreError> {
        let now = self.clock.now();
        if let Some(seen) = self.documents.get(Collection::SeenCustomers, id.as_str(), None).await? {
            // What cannot be read is as good as old.
            let at = Timestamp::from_secs(number_in(&seen).unwrap_or(0));
            if u128::from(now.since(at)) > SEEN.as_micros() / 2 {
                self.saw(id, Expected::Version(seen.version)).await?;
            }
            return Ok(true);
        }
        let scope = ScopeKey { scope: Scope::Customer, owner: id.key().as_ref().into() };
        let said = self.documents.get(Collection::Overrides, id.as_str(), None);
        let (said, balances) = futures_util::future::try_join(said, self.ledger.read(&scope)).await?;
        if said.is_none() && balances.is_empty() {
            return Ok(false);
        }
        self.saw(id, Expected::Nothing).await?;
        Ok(true)
    }

    /// Writes that a customer was seen. Whether it is we who wrote it.
    async fn saw(&self, id: &CustomerId, expected: Expected) -> Result<bool, StoreError> {
        let write = Write {
            collection: Collection::SeenCustomers,
            id: id.as_str().to_owned(),
            expected,
            value: Some(Bytes::from(self.clock.now().secs().to_string())),
            keep: Some(SEEN),
            rank: 0,
        };
        Ok(matches!(self.documents.put(&write, None).await?, Written::Done(_)))
    }

    fn turn(&self, app: &Arc<str>) -> Arc<tokio::sync::Mutex<Hour>> {
        let mut apps = self.apps.lock();
        if apps.len() >= APPS && !apps.contains_key(app) {
            apps.retain(|_, hour| Arc::strong_count(hour) > 1);
        }
        apps.entry(app.clone()).or_default().clone()
    }

    /// Takes a place and writes that the customer was seen, or refuses.
    async fn let_in(&self, mut hour: OwnedMutexGuard<Hour>, newcomer: &Newcomer) -> Result<(), Rejection> {
        let now = self.clock.now();
        if hour.number != now.secs() / HOUR {
            *hour = Hour { number: now.secs() / HOUR, ..Hour::default() };
        }
        if !self.take(&mut hour, newcomer).await.map_err(|error| self.unavailable(&error))? {
            self.counted("refused");
            if !std::mem::replace(&mut hour.warned, true) {
                tracing::warn!(
                    app = &*newcomer.app,
                    limit = newcomer.cap,
                    "an application names more new customers than new_customers_per_hour; they are refused until the hour ends",
                );
            }
            let retry_in = Timestamp::from_secs((hour.number + 1) * HOUR).since(now);
            return Err(Rejection::TooManyNewCustomers { limit: newcomer.cap, retry_in });
        }
        match self.saw(&newcomer.id, Expected::Nothing).await {
            Ok(true) => self.counted("admitted"),
            Ok(false) => {
                // Another gateway let it in meanwhile. A place that cannot be given back is lost for the hour, which harms nobody else.
                let _ = self.give_back(&mut hour, &newcomer.app).await;
            }
            Err(error) => {
                let _ = self.give_back(&mut hour, &newcomer.app).await;
                return Err(self.unavailable(&error));
            }
        }
        // Before the next one's turn: it may be the same customer.
        self.remembered.lock().remember(newcomer.digest);
        Ok(())
    }

    /// Takes a place in the hour; whether there was one.
    async fn take(&self, hour: &mut Hour, newcomer: &Newcomer) -> Result<bool, StoreError> {
        if hour.count >= newcomer.cap && self.clock.now().since(hour.read_at) >= TRUSTED {
            let found = self.documents.get(Collection::NewCustomers, &count_id(hour, &newcomer.app), None).await?;
            self.found(hour, found.as_ref())?;
        }
        for _ in 0..TRIES {
            if hour.count >= newcomer.cap {
                return Ok(false);
            }
            let next = hour.count + 1;
            if self.count(hour, &newcomer.app, next).await? {
                return Ok(true);
            }
        }
        Err(StoreError::Failed("the count of new customers changes too often".into()))
    }

    async fn give_back(&self, hour: &mut Hour, app: &str) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let before = hour.count.saturating_sub(1);
            if self.count(hour, app, before).await? {
                break;
            }
        }
        Ok(())
    }

    /// Writes another count in the place of the one last seen; whether nobody else had. Otherwise theirs is the last seen.
    async fn count(&self, hour: &mut Hour, app: &str, count: u64) -> Result<bool, StoreError> {
        let write = Write {
            collection: Collection::NewCustomers,
            id: count_id(hour, app),
            expected: if hour.version == 0 { Expected::Nothing } else { Expected::Version(hour.version) },
            value: Some(Bytes::from(count.to_string())),
            keep: Some(COUNTED),
            rank: 0,
        };
        match self.documents.put(&write, None).await? {
            Written::Done(version) => {
                (hour.count, hour.version, hour.read_at) = (count, version, self.clock.now());
                Ok(true)
            }
            Written::Found(found) => {
                self.found(hour, found.as_ref())?;
                Ok(false)
            }
        }
    }

    fn found(&self, hour: &mut Hour, found: Option<&Document>) -> Result<(), StoreError> {
        let count = found.map_or(Some(0), number_in);
        let count = count.ok_or_else(|| StoreError::Failed("the count of new customers is no number".into()))?;
        (hour.count, hour.version, hour.read_at) = (count, found.map_or(0, |found| found.version), self.clock.now());
        Ok(())
    }

    fn unavailable(&self, error: &StoreError) -> Rejection {
        self.counted("unavailable");
        away(error)
    }

    fn counted(&self, result: &'static str) {
        self.metrics.newcomers.get_or_create(&ResultLabels { result }).inc();
    }
}

/// The document of an application's hour.
fn count_id(hour: &Hour, app: &str) -> String {
    let id = format!("{app}:{}", hour.number);
    // A name from the configuration may be of any length. No other name is spelled like this, since the number has no colon.
    if id.len() <= MAX_ID { id } else { format!("{}::{}", blake3::hash(app.as_bytes()).to_hex(), hour.number) }
}

fn number_in(document: &Document) -> Option<u64> {
    std::str::from_utf8(&document.value).ok()?.parse().ok()
}
