//! Counting the open tickets, knowing their order, and letting time take effect on them.
//!
//! One pass through the open and claimed tickets does all three. It runs every [`COUNT_EVERY`], and sooner for whoever needs a fresh
//! figure; in between, a gateway adds what it opens itself. So its count misses none of its own tickets, and is too high at times.

use super::TicketId;
use super::desk::Inner;
use super::shelf::Unchanged;
use super::ticket::{Band, Done, Standing, Ticket};
use crate::domain::{CustomerId, Timestamp};
use crate::store::StoreError;
use std::sync::Weak;
use std::time::Duration;

/// How often time takes effect where nobody asks sooner.
pub const COUNT_EVERY: Duration = Duration::from_secs(30);
/// How old a count may be for whoever would be refused by it, and the order for whoever asks for a place in it.
const FRESH: Duration = Duration::from_secs(2);

/// How many tickets are open, and in which order they wait.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// When they were counted; `None` = never yet.
    at: Option<Timestamp>,
    /// Open and claimed ones, as counted.
    counted: usize,
    /// Places taken here that no pass has counted.
    opened: usize,
    /// Those of them whose tickets are written, so that the next pass finds them.
    written: usize,
    /// The open ones in the order in which they are served, as counted.
    order: Vec<TicketId>,
}

impl Count {
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| now.since(at) < u64::try_from(FRESH.as_micros()).unwrap_or(u64::MAX))
    }

    fn open(&self) -> usize {
        self.counted + self.opened
    }

    /// Takes a place for a new ticket, if there is one.
    fn take(&mut self, most: usize) -> bool {
        let room = self.open() < most;
        self.opened += usize::from(room);
        room
    }

    /// Gives back a place that was not used.
    pub(super) fn give_back(&mut self) {
        self.opened = self.opened.saturating_sub(1);
    }

    /// The ticket of a place is in the store.
    pub(super) fn wrote(&mut self) {
        self.written += 1;
    }
}

/// Counts again and again, as long as the desk exists.
pub(super) async fn run(desk: Weak<Inner>) {
    let mut ticks = tokio::time::interval(COUNT_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await; // the first is at once, when nothing can have run out of time yet
    loop {
        ticks.tick().await;
        let Some(desk) = desk.upgrade() else { return };
        if let Err(error) = desk.pass().await {
            tracing::warn!(%error, "open tickets cannot be counted");
        }
    }
}

impl Inner {
    /// Counts unless that was done before.
    pub(super) async fn count_once(&self) -> Result<(), StoreError> {
        if self.count.lock().at.is_some() {
            return Ok(());
        }
        let turn = self.counting.lock().await;
        let counted = self.count.lock().at.is_some();
        if counted { Ok(()) } else { self.count_in_turn(&turn).await }
    }

    /// Counts, unless somebody just did or is at it.
    pub(super) async fn count_fresh(&self) {
        let fresh = self.count.lock().is_fresh(self.shelf.now());
        let Ok(turn) = self.counting.try_lock() else { return };
        if !fresh && let Err(error) = self.count_in_turn(&turn).await {
            tracing::warn!(%error, "open tickets cannot be counted");
        }
    }

    /// Whether there may be one more ticket; if so its place is taken. A count that says no is made afresh first.
    pub(super) async fn room(&self, now: Timestamp) -> bool {
        let most = self.shelf.settings().open;
        if self.count.lock().take(most) {
            return true;
        }
        let fresh = self.count.lock().is_fresh(now);
        if fresh {
            return false;
        }
        self.count_fresh().await;
        self.count.lock().take(most)
    }

    /// The place of an open ticket in the queue, from 1, as of a moment ago; `None` if it is too new to be known.
    pub(super) async fn position(&self, id: TicketId) -> Option<usize> {
        self.count_fresh().await;
        self.count.lock().order.iter().position(|other| *other == id).map(|before| before + 1)
    }

    /// One pass.
    pub(super) async fn pass(&self) -> Result<(), StoreError> {
        let turn = self.counting.lock().await;
        self.count_in_turn(&turn).await
    }

    async fn count_in_turn(&self, _turn: &tokio::sync::MutexGuard<'_, ()>) -> Result<(), StoreError> {
        let began = self.shelf.now();
        // What is written from here on may or may not be seen by the pass. It counts beside it, so at worst twice until the next one.
        let before = self.count.lock().written;
        let (mut counted, mut order, mut after) = (0, Vec::new(), None);
        loop {
            let page = self.shelf.page(after, Band::Claimed).await?;
            for (_, ticket) in &page.tickets {
                match self.aged(ticket).await? {
                    Some(Standing::Open) => {
                        counted += 1;
                        order.push(ticket.id);
                    }
                    Some(Standing::Claimed) => counted += 1,
                    _ => {}
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut count = self.count.lock();
        let (opened, written) = (count.opened.saturating_sub(before), count.written.saturating_sub(before));
        *count = Count { at: Some(began), counted, opened, written, order };
        self.metrics.triage.open.set(i64::try_from(count.open()).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Lets time take effect on a ticket; where it stands then, `None` if it is gone.
    async fn aged(&self, ticket: &Ticket) -> Result<Option<Standing>, StoreError> {
        let now = self.shelf.now();
        if ticket.clone().age(now) == Done::Same {
            return Ok(Some(ticket.standing(now)));
        }
        match self.shelf.change(ticket.id, |ticket, now| Ok(ticket.age(now))).await {
            Ok((ticket, done)) => {
                if let Done::Changed(event) = done {
                    self.happened(event, &ticket, None);
                }
                let standing = ticket.standing(now);
                if standing == Standing::Expired {
                    self.shelf.strike(&CustomerId::from_trusted(&ticket.customer), ticket.id).await?;
                }
                Ok(Some(standing))
            }
            Err(Unchanged::Store(error)) => Err(error),
            Err(Unchanged::Gone | Unchanged::Conflict(_)) => Ok(None),
        }
    }
}
