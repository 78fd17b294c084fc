//! Tickets in the store: how each is read, written by compare-and-set, and found.
//!
//! Beside the ticket itself (listed) there are, by id only: the customer's list of open tickets, the conversation's text, and second
//! ids, which lead to the ticket that a conversation had already.

use super::ticket::{Band, Conflict, Done, Ticket};
use super::{NewTicket, TicketId};
use crate::config::policy;
use crate::domain::{Clock, CustomerId, Timestamp};
use crate::store::StoreError;
use crate::store::documents::{Collection, Document, Documents, Expected, Listed, Page, Write, Written};
use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Compare-and-set attempts at one document; so many losses in a row mean that something is wrong.
const TRIES: u32 = 64;
/// Tickets read at once.
const PAGE: usize = 200;

/// The tickets of one store.
pub(super) struct Shelf {
    documents: Arc<dyn Documents>,
    clock: Arc<dyn Clock>,
    settings: ArcSwap<policy::Triage>,
}

/// One open ticket in its customer's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: TicketId,
    /// A hash of app and conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) conversation: Option<String>,
    /// When the ticket was promised; it is written a moment later.
    pub(super) at: Timestamp,
    /// When it can be forgotten, whatever became of it.
    pub(super) until: Timestamp,
}

/// The text of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Its end, as much as is kept.
    pub text: String,
    /// Whether there was more before.
    pub truncated: bool,
}

impl Text {
    /// The end of a text, at most so many bytes, from a character on: the question stands at the end.
    pub(super) fn end_of(text: &str, most: usize) -> Self {
        let from = text.len().saturating_sub(most);
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        Self { text: text[from..].to_owned(), truncated: from > 0 }
    }
}

/// Why a ticket did not change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// There is none (any more).
    Gone,
    /// What it is does not allow it.
    Conflict(Conflict),
    /// The store.
    Store(StoreError),
}

impl From<StoreError> for Unchanged {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// How a conversation is told from others of its customer: apps name theirs independently.
pub(super) fn conversation_key(new: &NewTicket) -> Option<String> {
    let conversation = new.conversation.as_deref()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(new.app.as_bytes()).update(&[0]).update(conversation.as_bytes());
    Some(hasher.finalize().to_hex()[..32].to_owned())
}

fn customer_key(customer: &CustomerId) -> String {
    format!("c/{}", customer.key())
}

fn decode<T: for<'de> Deserialize<'de>>(document: &Document) -> Result<T, StoreError> {
    serde_json::from_slice(&document.value)
        .map_err(|error| StoreError::Failed(format!("a document of triage is damaged: {error}")))
}

fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("what triage keeps is strings and numbers").into()
}

fn lost() -> StoreError {
    StoreError::Failed("others changed a document of triage again and again".into())
}

/// A moment, longer with every loss, so that writers of one document come apart.
async fn step_back(tries: u32) {
    if tries > 2 {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..=500 * u64::from(tries)))).await;
    }
}

impl Shelf {
    pub(super) fn new(documents: Arc<dyn Documents>, clock: Arc<dyn Clock>, settings: policy::Triage) -> Self {
        Self { documents, clock, settings: ArcSwap::from_pointee(settings) }
    }

    /// The settings in force.
    pub(super) fn settings(&self) -> Arc<policy::Triage> {
        self.settings.load_full()
    }

    /// From now on these.
    pub(super) fn set(&self, settings: policy::Triage) {
        self.settings.store(Arc::new(settings));
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A ticket by its id.
    pub(super) async fn ticket(&self, id: TicketId) -> Result<Option<Ticket>, StoreError> {
        let found = self.documents.get(Collection::Tickets, &id.to_string(), None).await?;
        found.as_ref().map(decode).transpose()
    }

    /// A ticket by its id or a second one.
    pub(super) async fn find(&self, id: TicketId) -> Result<Option<Ticket>, StoreError> {
        if let Some(ticket) = self.ticket(id).await? {
            return Ok(Some(ticket));
        }
        match self.documents.get(Collection::OpenTickets, &format!("t/{id}"), None).await? {
            Some(second) => self.ticket(decode(&second)?).await,
            None => Ok(None),
        }
    }

    /// Writes a new ticket. Writing it again changes nothing.
    pub(super) async fn create(&self, ticket: &Ticket) -> Result<(), StoreError> {
        self.documents.put(&self.write(ticket, Expected::Nothing), None).await.map(drop)
    }

    /// Changes a ticket, whoever else does: `change` sees it as it is when it is written.
    pub(super) async fn change<F>(&self, id: TicketId, mut change: F) -> Result<(Ticket, Done), Unchanged>
    where
        F: FnMut(&mut Ticket, Timestamp) -> Result<Done, Conflict>,
    {
        let key = id.to_string();
        let mut found = self.documents.get(Collection::Tickets, &key, None).await?;
        for tries in 0..TRIES {
            let document = found.ok_or(Unchanged::Gone)?;
            let mut ticket: Ticket = decode(&document)?;
            let done = change(&mut ticket, self.now()).map_err(Unchanged::Conflict)?;
            if done == Done::Same {
                return Ok((ticket, done));
            }
            match self.documents.put(&self.write(&ticket, Expected::Version(document.version)), None).await? {
                Written::Done(_) => return Ok((ticket, done)),
                Written::Found(now) => found = now,
            }
            step_back(tries).await;
        }
        Err(Unchanged::Store(lost()))
    }

    fn write(&self, ticket: &Ticket, expected: Expected) -> Write {
        Write {
            collection: Collection::Tickets,
            id: ticket.id.to_string(),
            expected,
            value: Some(encode(ticket)),
            keep: Some(ticket.keep(&self.settings(), self.now())),
            rank: ticket.rank(),
        }
    }

    /// A customer's open tickets, oldest first.
    pub(super) async fn open_of(&self, customer: &CustomerId) -> Result<Vec<Entry>, StoreError> {
        Ok(self.list_of(customer).await?.0)
    }

    async fn list_of(&self, customer: &CustomerId) -> Result<(Vec<Entry>, Expected), StoreError> {
        let found = self.documents.get(Collection::OpenTickets, &customer_key(customer), None).await?;
        let Some(document) = found else { return Ok((Vec::new(), Expected::Nothing)) };
        let now = self.now();
        let mut entries: Vec<Entry> = decode(&document)?;
        entries.retain(|entry| now < entry.until);
        Ok((entries, Expected::Version(document.version)))
    }

    /// Changes a customer's list, whoever else does. `change` says whether there is anything to write.
    pub(super) async fn change_list<T>(
        &self,
        customer: &CustomerId,
        mut change: impl FnMut(&mut Vec<Entry>) -> (bool, T),
    ) -> Result<T, StoreError> {
        for tries in 0..TRIES {
            let (mut entries, expected) = self.list_of(customer).await?;
            let (changed, result) = change(&mut entries);
            if !changed {
                return Ok(result);
            }
            let now = self.now();
            let longest = entries.iter().map(|entry| entry.until.since(now)).max();
            let write = Write {
                collection: Collection::OpenTickets,
                id: customer_key(customer),
                expected,
                value: longest.is_some().then(|| encode(&entries)),
                keep: longest.map(Duration::from_micros),
                rank: 0,
            };
            // A list that is not there needs no removal.
            if write.value.is_none() && expected == Expected::Nothing {
                return Ok(result);
            }
            if let Written::Done(_) = self.documents.put(&write, None).await? {
                return Ok(result);
            }
            step_back(tries).await;
        }
        Err(lost())
    }

    /// Takes a ticket that has ended, or never came to be, from its customer's list.
    pub(super) async fn strike(&self, customer: &CustomerId, id: TicketId) -> Result<(), StoreError> {
        let strike = |entries: &mut Vec<Entry>| {
            let before = entries.len();
            entries.retain(|entry| entry.id != id);
            (entries.len() < before, ())
        };
        self.change_list(customer, strike).await
    }

    /// Makes `second` lead to `id`.
    pub(super) async fn lead(&self, second: TicketId, id: TicketId) -> Result<(), StoreError> {
        let keep = self.settings().keep;
        self.aside(format!("t/{second}"), encode(&id), keep).await
    }

    /// Keeps the text of a ticket's conversation, in place of what was kept before.
    pub(super) async fn keep_text(&self, id: TicketId, text: &Text) -> Result<(), StoreError> {
        self.aside(format!("x/{id}"), encode(text), self.settings().keep).await
    }

    /// The text of a ticket's conversation.
    pub(super) async fn text(&self, id: TicketId) -> Result<Option<Text>, StoreError> {
        let found = self.documents.get(Collection::OpenTickets, &format!("x/{id}"), None).await?;
        found.as_ref().map(decode).transpose()
    }

    /// Keeps the latest request of a ticket, in place of what was kept before.
    pub(super) async fn keep_request(&self, id: TicketId, request: Bytes) -> Result<(), StoreError> {
        self.aside(format!("r/{id}"), request, self.settings().keep).await
    }

    /// The latest request of a ticket that was kept.
    pub(super) async fn request(&self, id: TicketId) -> Result<Option<Bytes>, StoreError> {
        let found = self.documents.get(Collection::OpenTickets, &format!("r/{id}"), None).await?;
        Ok(found.map(|document| document.value))
    }

    async fn aside(&self, id: String, value: Bytes, keep: Duration) -> Result<(), StoreError> {
        let write = Write {
            collection: Collection::OpenTickets,
            id,
            expected: Expected::Anything,
            value: Some(value),
            keep: Some(keep),
            rank: 0,
        };
        self.documents.put(&write, None).await.map(drop)
    }

    /// The next tickets after this place, up to the end of a band. What cannot be read is passed over, loudly: one damaged ticket must
    /// not hide all others.
    pub(super) async fn page(&self, after: Option<(u64, String)>, to: Band) -> Result<Tickets, StoreError> {
        let page = Page { after, up_to: Some(to.last()), limit: PAGE };
        let listed = self.documents.list(Collection::Tickets, &page, None).await?;
        let next = (listed.len() == PAGE).then(|| listed.last().map(|last| (last.rank, last.id.clone()))).flatten();
        let read = |one: Listed| match decode::<Ticket>(&one.document) {
            Ok(ticket) => Some((one.rank, ticket)),
            Err(error) => {
                tracing::error!(ticket = one.id, %error, "a ticket cannot be read");
                None
            }
        };
        Ok(Tickets { tickets: listed.into_iter().filter_map(read).collect(), next })
    }
}

/// Part of the listing.
pub(super) struct Tickets {
    /// With their ranks.
    pub(super) tickets: Vec<(u64, Ticket)>,
    /// After what it goes on; `None` = this was the end.
    pub(super) next: Option<(u64, String)>,
}
