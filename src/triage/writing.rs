//! How a hand-off is written: appended to its conversation's open ticket, or as a new ticket within the caps.
//!
//! A new ticket is promised in its customer's list first, which decides by compare-and-set who opens the one ticket of a conversation
//! and whether the customer may have another; then it is written. Whoever finds a promise whose ticket is not there yet waits a moment;
//! a promise that is never kept (its gateway died) is struck by the next one to look.

use super::desk::Inner;
use super::shelf::{Entry, Text, Unchanged, conversation_key};
use super::ticket::{Asked, Done, Ticket, after};
use super::{NewTicket, TicketId};
use crate::domain::{CustomerId, Timestamp};
use crate::store::StoreError;
use std::time::Duration;

/// Attempts at writing a hand-off, and the pause after the first failure, which doubles.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(100);
/// How long the ticket behind a promise may take to appear.
const APPEARS: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of a hand-off.
#[derive(Debug)]
enum Written {
    /// A ticket of its own.
    Opened(Box<Ticket>),
    /// The conversation's ticket has it.
    Appended(Box<Ticket>),
    /// It was written before.
    Already,
    /// No ticket, for this reason.
    Dropped(&'static str),
}

/// What the customer's list says about a hand-off.
enum Place {
    /// The conversation has this ticket.
    Known(Entry),
    /// The customer has as many as may be; this is the oldest.
    Full(Entry),
    /// A place was made for it.
    Taken,
    /// All tickets together are as many as may be; the customer's oldest, if there is one.
    NoRoom(Option<Entry>),
}

impl Inner {
    /// Writes a hand-off under this id, however often the store fails within reason. `known` says that the id is that of the
    /// conversation's open ticket.
    pub(super) async fn write(&self, id: TicketId, known: bool, new: NewTicket) {
        let _turn = self.writers.acquire().await; // never closed
        // The client holds the known id; should that ticket have ended meanwhile, a new one needs an id of its own.
        let own = if known { self.ids.next() } else { id };
        let (mut pause, mut promised) = (PAUSE, false);
        for attempt in 1..=ATTEMPTS {
            let error = match self.try_write(id, own, &new, &mut promised).await {
                Ok(Written::Opened(ticket)) => return self.happened("opened", &ticket, None),
                Ok(Written::Appended(ticket)) => return self.happened("appended", &ticket, None),
                Ok(Written::Already) => return,
                Ok(Written::Dropped(reason)) => {
                    self.metrics.triage.dropped(reason);
                    tracing::warn!(ticket = %id, request_id = %new.request, customer = %new.customer, reason, "a hand-off has no ticket");
                    return;
                }
                Err(error) => error,
            };
            if attempt == ATTEMPTS {
                if promised {
                    self.count.lock().give_back();
                }
                self.metrics.triage.dropped("store");
                tracing::error!(ticket = %id, request_id = %new.request, %error, "a hand-off has no ticket: the store did not take it");
                return;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// `own` is the id of a ticket that is opened; `promised` tells whether that took a place.
    async fn try_write(&self, id: TicketId, own: TicketId, new: &NewTicket, promised: &mut bool) -> Result<Written, StoreError> {
        self.count_once().await?;
        loop {
            let now = self.shelf.now();
            match self.place(own, new, now).await? {
                Place::Taken => {
                    *promised = true;
                    return self.open(own, new, now).await.map(|ticket| Written::Opened(Box::new(ticket)));
                }
                // An earlier attempt promised it, and may have written it.
                Place::Known(entry) if entry.id == own => return self.keep_promise(own, new, now).await,
                Place::Known(entry) => {
                    if let Some(ticket) = self.append(&entry, new).await? {
                        if entry.id != id {
                            self.shelf.lead(id, entry.id).await?;
                        }
                        self.keep_said(entry.id, new).await?;
                        return Ok(Written::Appended(Box::new(ticket)));
                    }
                }
                Place::Full(entry) => {
                    if self.note(&entry, &new.customer).await? {
                        return Ok(Written::Dropped("customer_full"));
                    }
                }
                Place::NoRoom(oldest) => {
                    if let Some(entry) = oldest {
                        self.note(&entry, &new.customer).await?;
                    }
                    return Ok(Written::Dropped("full"));
                }
            }
        }
    }

    /// Finds the conversation's ticket in the customer's list, or promises this one there.
    async fn place(&self, id: TicketId, new: &NewTicket, now: Timestamp) -> Result<Place, StoreError> {
        let conversation = conversation_key(new);
        let most = self.shelf.settings().open_per_customer;
        let until = after(now, self.shelf.settings().keep + self.shelf.settings().lease);
        let room = self.room(now).await;
        let decide = |entries: &mut Vec<Entry>| {
            let same = |entry: &&Entry| entry.id == id || (conversation.is_some() && entry.conversation == conversation);
            if let Some(entry) = entries.iter().find(same) {
                return (false, Place::Known(entry.clone()));
            }
            match entries.first() {
                Some(oldest) if entries.len() >= most => (false, Place::Full(oldest.clone())),
                oldest if !room => (false, Place::NoRoom(oldest.cloned())),
                _ => {
                    entries.push(Entry { id, conversation: conversation.clone(), at: now, until });
                    (true, Place::Taken)
                }
            }
        };
        let place = self.shelf.change_list(&new.customer, decide).await;
        if room && !matches!(place, Ok(Place::Taken)) {
            self.count.lock().give_back();
        }
        place
    }

    /// Writes the ticket that was promised.
    async fn open(&self, id: TicketId, new: &NewTicket, now: Timestamp) -> Result<Ticket, StoreError> {
        let ticket = Ticket::open(id, new, &self.shelf.settings(), now);
        // What was said first: whoever sees the ticket finds it.
        self.keep_said(id, new).await?;
        self.shelf.create(&ticket).await?;
        self.count.lock().wrote();
        Ok(ticket)
    }

    /// Writes it again after an attempt of which nobody knows how far it came.
    async fn keep_promise(&self, id: TicketId, new: &NewTicket, now: Timestamp) -> Result<Written, StoreError> {
        match self.shelf.ticket(id).await? {
            Some(_) => Ok(Written::Already),
            None => self.open(id, new, now).await.map(|ticket| Written::Opened(Box::new(ticket))),
        }
    }

    async fn keep_said(&self, id: TicketId, new: &NewTicket) -> Result<(), StoreError> {
        if let Some(text) = &new.text {
            self.shelf.keep_text(id, &Text::end_of(text, self.shelf.settings().conversation_max)).await?;
        }
        match &new.again {
            Some(request) => self.shelf.keep_request(id, request.clone()).await,
            None => Ok(()),
        }
    }

    /// Appends to the conversation's ticket; `None` if that has ended, and is struck from the list.
    async fn append(&self, entry: &Entry, new: &NewTicket) -> Result<Option<Ticket>, StoreError> {
        let appended = self.when_it_appears(entry, || async {
            self.shelf.change(entry.id, |ticket, now| ticket.append(Asked::of(new, now), now)).await
        });
        self.or_strike(appended.await, entry, &new.customer).await
    }

    /// Notes on the customer's oldest ticket that another request found no place; false if that has ended, and is struck from the list.
    async fn note(&self, entry: &Entry, customer: &CustomerId) -> Result<bool, StoreError> {
        let noted = self.when_it_appears(entry, || async {
            self.shelf.change(entry.id, |ticket, now| ticket.note_without_ticket(now)).await
        });
        Ok(self.or_strike(noted.await, entry, customer).await?.is_some())
    }

    async fn or_strike(
        &self,
        changed: Result<(Ticket, Done), Unchanged>,
        entry: &Entry,
        customer: &CustomerId,
    ) -> Result<Option<Ticket>, StoreError> {
        match changed {
            Ok((ticket, _)) => Ok(Some(ticket)),
            Err(Unchanged::Store(error)) => Err(error),
            Err(Unchanged::Gone | Unchanged::Conflict(_)) => {
                self.shelf.strike(customer, entry.id).await?;
                Ok(None)
            }
        }
    }

    /// Tries again while a promise is so young that its ticket may just be being written.
    async fn when_it_appears<F>(&self, entry: &Entry, mut change: impl FnMut() -> F) -> Result<(Ticket, Done), Unchanged>
    where
        F: Future<Output = Result<(Ticket, Done), Unchanged>>,
    {
        let looks = APPEARS.as_millis() / LOOK_AGAIN.as_millis();
        for _ in 0..looks {
            match change().await {
                Err(Unchanged::Gone) if self.shelf.now() < after(entry.at, APPEARS) => tokio::time::sleep(LOOK_AGAIN).await,
                changed => return changed,
            }
        }
        Err(Unchanged::Gone)
    }
}
