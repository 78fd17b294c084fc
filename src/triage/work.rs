//! What agents do with tickets, and what the app is told of its own.

use super::desk::{Desk, Inner};
use super::shelf::{Text, Unchanged};
use super::ticket::{Band, Conflict, Done, Standing, Ticket, after};
use super::{TicketId, view};
use crate::domain::{CustomerId, Timestamp};
use crate::store::StoreError;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Tickets looked at for one listing, at least.
const LOOKED_AT: usize = 2_000;
/// Tickets in one listing.
pub const MOST_LISTED: usize = 200;

/// Why the desk cannot do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// There is no such ticket (any more), or it is somebody else's.
    #[error("there is no such ticket")]
    NotFound,
    /// Its request is not kept.
    #[error("the ticket's request is not kept")]
    NoRequest,
    /// Its request is being asked again.
    #[error("the ticket's request is being asked again")]
    BeingResubmitted,
    /// It is not in a state for that.
    #[error("the ticket is not in a state for that")]
    Conflict(Conflict),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Unchanged> for Trouble {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Gone => Self::NotFound,
            Unchanged::Conflict(conflict) => Self::Conflict(conflict),
            Unchanged::Store(error) => Self::Store(error),
        }
    }
}

/// A ticket with what is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The ticket.
    pub ticket: Ticket,
    /// Its conversation, where that is kept.
    pub text: Option<Text>,
    /// Whether its latest request is kept, so that it can be asked again.
    pub resubmittable: bool,
}

/// Which tickets are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those that stand so; `None` = open and claimed.
    pub standing: Option<Standing>,
    /// Only those of a queue.
    pub queue: Option<String>,
    /// Only those of a customer.
    pub customer: Option<String>,
    /// At most so many, and at most `MOST_LISTED`.
    pub limit: usize,
    /// After this place, from [`Listing::next`].
    pub after: Option<(u64, TicketId)>,
}

/// Some tickets, in the order in which they are served; those that have ended, oldest end first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The tickets.
    pub tickets: Vec<Ticket>,
    /// Where to go on; `None` = these were all. A page may be short, even empty, and others follow: only so many tickets are looked at.
    pub next: Option<(u64, TicketId)>,
}

impl Desk {
    /// The desk's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.shelf.now()
    }

    /// A ticket.
    ///
    /// # Errors
    /// When there is none, or the store does not answer.
    pub async fn ticket(&self, id: TicketId) -> Result<Found, Trouble> {
        self.inner.appears(id).await;
        let ticket = self.inner.shelf.find(id).await?.ok_or(Trouble::NotFound)?;
        let text = self.inner.shelf.text(ticket.id).await?;
        let resubmittable = self.inner.shelf.request(ticket.id).await?.is_some();
        Ok(Found { ticket, text, resubmittable })
    }

    /// Tickets in the order in which they are served.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn list(&self, query: &Query) -> Result<Listing, Trouble> {
        self.inner.count_fresh().await; // so that leases that ended show as open
        let (from, to) = match query.standing {
            None => (Band::Open, Band::Claimed),
            Some(Standing::Open) => (Band::Open, Band::Claimed),
            Some(Standing::Claimed) => (Band::Claimed, Band::Claimed),
            Some(Standing::Answered | Standing::Expired) => (Band::Ended, Band::Ended),
        };
        let limit = query.limit.clamp(1, MOST_LISTED);
        let now = self.now();
        let wanted = |ticket: &Ticket| {
            let standing = ticket.standing(now);
            query.standing.map_or(matches!(standing, Standing::Open | Standing::Claimed), |wanted| standing == wanted)
                && query.queue.as_deref().is_none_or(|queue| *ticket.queue == *queue)
                && query.customer.as_deref().is_none_or(|customer| *ticket.customer == *customer)
        };
        let mut after = match query.after {
            Some((rank, id)) => Some((rank, id.to_string())),
            None => from.first().checked_sub(1).map(|before| (before, String::new())),
        };
        let (mut tickets, mut looked_at) = (Vec::new(), 0);
        loop {
            let page = self.inner.shelf.page(after, to).await?;
            for (rank, ticket) in page.tickets {
                looked_at += 1;
                let place = (rank, ticket.id);
                if wanted(&ticket) {
                    tickets.push(ticket);
                }
                if tickets.len() == limit || looked_at == LOOKED_AT {
                    return Ok(Listing { tickets, next: Some(place) });
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(Listing { tickets, next: None });
            }
        }
    }

    /// Gives a ticket to an agent for the time of a lease, or for another one.
    ///
    /// # Errors
    /// When somebody else has it, or it has ended.
    pub async fn claim(&self, id: TicketId, agent: &str) -> Result<Ticket, Trouble> {
        let lease = self.inner.shelf.settings().lease;
        self.act(id, agent, |ticket, now| ticket.claim(agent, now, lease)).await
    }

    /// Answers a ticket that nobody else has. The same answer again is the same as once.
    ///
    /// # Errors
    /// When somebody else has it, or it has ended in another way.
    pub async fn answer(&self, id: TicketId, agent: &str, text: &str) -> Result<Ticket, Trouble> {
        self.act(id, agent, |ticket, now| ticket.answer(agent, text, now)).await
    }

    /// Hands a ticket back to the queue, where it keeps its place.
    ///
    /// # Errors
    /// When somebody else has it, or it has ended.
    pub async fn release(&self, id: TicketId, agent: &str) -> Result<Ticket, Trouble> {
        self.act(id, agent, |ticket, now| ticket.release(agent, now)).await
    }

    /// Ends a ticket without an answer.
    ///
    /// # Errors
    /// When somebody else has it, or it has ended in another way.
    pub async fn expire(&self, id: TicketId, agent: &str) -> Result<Ticket, Trouble> {
        self.act(id, agent, |ticket, now| ticket.expire(agent, now)).await
    }

    pub(super) async fn act<F>(&self, id: TicketId, agent: &str, change: F) -> Result<Ticket, Trouble>
    where
        F: FnMut(&mut Ticket, Timestamp) -> Result<Done, Conflict>,
    {
        self.inner.appears(id).await;
        let id = self.inner.shelf.find(id).await?.ok_or(Trouble::NotFound)?.id;
        let (ticket, done) = self.inner.shelf.change(id, change).await?;
        match done {
            Done::Changed(event) => self.inner.happened(event, &ticket, Some(agent)),
            // Repeated because the first reply was lost: so may be the news of it.
            Done::Same if ticket.standing(self.now()) == Standing::Answered => self.inner.tell("answered", &ticket),
            Done::Same => {}
        }
        if matches!(ticket.standing(self.now()), Standing::Answered | Standing::Expired) {
            self.inner.ended(&ticket).await;
        }
        Ok(ticket)
    }

    /// What the app is told of its customer's ticket, and whether that will change.
    ///
    /// # Errors
    /// When there is none of this customer and app, or the store does not answer.
    pub async fn status(&self, id: TicketId, customer: &CustomerId, app: &str) -> Result<(Value, Standing), Trouble> {
        let now = self.now();
        if let Some(pending) = self.inner.pending(id) {
            if pending.customer != *customer || *pending.app != *app {
                return Err(Trouble::NotFound);
            }
            let deadline = after(pending.at, self.inner.shelf.settings().keep);
            return Ok((view::unwritten(id, pending.at, deadline), Standing::Open));
        }
        let ticket = self.inner.shelf.find(id).await?.ok_or(Trouble::NotFound)?;
        if *ticket.customer != *customer.as_str() || *ticket.app != *app {
            return Err(Trouble::NotFound);
        }
        let standing = ticket.standing(now);
        let position = if standing == Standing::Open { self.inner.position(ticket.id).await } else { None };
        Ok((view::for_app(id, &ticket, position, now), standing))
    }
}

/// How long an agent waits for a ticket that is just being written, and how often that is looked at.
const APPEARS: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Inner {
    /// Waits for a ticket that was handed off here a moment ago.
    async fn appears(&self, id: TicketId) {
        let deadline = Instant::now() + APPEARS;
        while self.pending(id).is_some() && Instant::now() < deadline {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes a ticket that has ended from its customer's list. Should that fail, the next one to look at the list does it.
    async fn ended(&self, ticket: &Ticket) {
        if let Err(error) = self.shelf.strike(&CustomerId::from_trusted(&ticket.customer), ticket.id).await {
            tracing::warn!(ticket = %ticket.id, %error, "an ended ticket stays in its customer's list for now");
        }
    }
}
