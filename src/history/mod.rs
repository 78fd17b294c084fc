//! The history of use: what each customer used over time, and what each model used per day.
//!
//! ```text
//! watch     what is counted of a request: its outcome when it ends, its use when it is settled
//! gather    what happened since the last flush, added up in memory, bounded
//! flush     off the request path, to the store, in batches that are added once however often they are sent
//! query     one customer's days and hours, a day's customers by spend, models per day, everybody's causes
//! ```
//!
//! Use is what settlement books, at the instant it is handed over and for the hour in which the store admitted it, so that the sum of a
//! customer's days is what the ledger says is spent: failed attempts, replaced reservations, clients that left and settlements that were
//! late among them. Days and hours are those of UTC, whatever `[budget] zone` says.
//!
//! Several gateways add to the same rows. What a gateway has gathered since its last flush (`[history] flush`, 10 s by default) is lost
//! when it is killed, and nothing else; SIGTERM flushes. While the store is away it is kept in memory and sent later. Not in here: holds
//! that the ledger books because their gateway died, since nobody knows what those requests used.

mod counts;
mod day;
mod flush;
mod gather;
mod query;
mod watch;

pub use day::{Day, NoDay};
pub use query::{Customers, MOST_DAYS, ModelUse, Use};
pub use watch::Teller;

use crate::config::policy;
use crate::domain::Clock;
use crate::store::StoreError;
use crate::store::documents::Documents;
use crate::telemetry::Metrics;
use flush::Flusher;
use gather::Gather;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// See the module.
pub struct History {
    gather: Arc<Gather>,
    documents: Arc<dyn Documents>,
    metrics: Arc<Metrics>,
    orders: mpsc::Sender<Order>,
    /// Whether nothing is kept at all.
    off: bool,
}

/// What the flushing task is told.
enum Order {
    /// There is much: do not wait for the interval.
    Soon,
    /// Flush, and say when everything counted before is in the store.
    Now(oneshot::Sender<()>),
}

impl History {
    /// Starts the task that flushes. It ends when the history is gone and everything is in the store.
    #[must_use]
    pub fn start(
        documents: Arc<dyn Documents>,
        settings: policy::History,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let gather = Arc::<Gather>::default();
        let (orders, told) = mpsc::channel(16);
        let flusher = Flusher::new(gather.clone(), documents.clone(), settings, clock, metrics.clone());
        tokio::spawn(flusher.run(told));
        Arc::new(Self { gather, documents, metrics, orders, off: settings.days == 0 })
    }

    /// Waits until everything counted so far is in the store, for so long. Gives whether it is.
    pub async fn flush(&self, patience: Duration) -> bool {
        let (ack, flushed) = oneshot::channel();
        let flushed = async { self.orders.send(Order::Now(ack)).await.is_ok() && flushed.await.is_ok() };
        timeout(patience, flushed).await.unwrap_or(false)
    }

    /// Says that there is much to flush. Never waits; one order is as good as several.
    fn soon(&self) {
        let _ = self.orders.try_send(Order::Soon);
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

/// A row that the store has and that is none of ours.
fn damaged(what: &str) -> StoreError {
    StoreError::Failed(format!("a row of the history is damaged: {what}"))
}

#[cfg(test)]
mod tests;
