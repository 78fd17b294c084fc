//! The triage queue: those whom no model could answer wait here for a person.
//!
//! ```text
//!             hand_off                claim              answer
//!  request ------------> open  ----------------> claimed -------> answered
//!                         ^  |                    |   |
//!                         |  +--- its time ends --)---+---------> expired
//!                         +---- release, or the lease ends
//! ```
//!
//! While it waits, an agent may ask its request again ([`Resubmission`]): as a request of its own, metered like any other.
//!
//! [`Desk`] is what others use. A hand-off never fails and never waits for the store to write: the reply goes out with an id made here,
//! and the ticket is written behind it, through a bounded queue that SIGTERM drains. What the store holds is written by compare-and-set
//! only, so any number of gateways and agents may work on it at once.
//!
//! **One open ticket a conversation.** Later requests of a conversation (`X-Conversation-Id` of one customer and app) are appended to its
//! open ticket. A hand-off looks for that ticket for at most [`LOOK`]; if it cannot know in time, it gives out an id of its own, and that
//! id leads to the conversation's ticket as soon as the store shows there is one.
//!
//! **Bounds.** A customer has at most `open_per_customer` open tickets, all together `open`. Beyond either the customer is answered all
//! the same, but no ticket is kept: the request is noted on the customer's oldest open ticket, if there is one, and counted as dropped.
//! `open` is exact with one gateway; each of several may exceed it by what the others opened since it last counted
//! ([`COUNT_EVERY`]).

mod again;
mod counting;
mod desk;
mod hook;
mod id;
mod shelf;
mod ticket;
mod transcript;
pub mod view;
mod work;
mod writing;

pub use again::{Kept, LONGEST_TEXT, Resubmission};
pub use counting::COUNT_EVERY;
pub use desk::{Desk, LOOK, QUEUE};
pub use id::{NoTicketId, TicketId};
pub use shelf::Text;
pub use ticket::{Asked, Attempt, Conflict, Entry, GENERAL, Standing, State, Ticket};
pub use transcript::transcript;
pub use work::{Found, Listing, MOST_LISTED, Query, Trouble};

use crate::domain::{CustomerId, NanoUsd, Priority, RequestId, UserId};
use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use std::sync::Arc;

/// Which conversation of the customer a request belongs to; the app's own id.
pub const CONVERSATION: HeaderName = HeaderName::from_static("x-conversation-id");

/// The longest conversation id that is kept as it is, in bytes; of a longer one a hash is kept.
const LONGEST_CONVERSATION: usize = 256;

/// The conversation a request says it belongs to. Blank or not visible ASCII is none.
#[must_use]
pub fn conversation(headers: &HeaderMap) -> Option<Arc<str>> {
    let id = headers.get(CONVERSATION)?.to_str().ok()?.trim();
    match id.len() {
        0 => None,
        1..=LONGEST_CONVERSATION => Some(id.into()),
        _ => Some(format!("#{}", blake3::hash(id.as_bytes()).to_hex()).into()),
    }
}

/// A request that is handed to a person.
#[derive(Clone, Debug)]
pub struct NewTicket {
    /// Whose it is.
    pub customer: CustomerId,
    /// The person inside the customer.
    pub user: Option<UserId>,
    /// The calling application.
    pub app: Arc<str>,
    /// The customer's plan.
    pub plan: Arc<str>,
    /// What kind of question it is; also the queue it waits in.
    pub class: Option<Box<str>>,
    /// Who is served first.
    pub priority: Priority,
    /// The conversation, from [`conversation`].
    pub conversation: Option<Arc<str>>,
    /// Why no model answered: [`crate::reply::Rejection::cause`], or another word of the same kind.
    pub cause: &'static str,
    /// What was tried before.
    pub attempts: Vec<Attempt>,
    /// What the attempts cost.
    pub cost: NanoUsd,
    /// The model that was asked for.
    pub model: Arc<str>,
    /// Our id of the request.
    pub request: RequestId,
    /// The conversation as text (`transcript`); forgotten unless [`Desk::keeps_text`].
    pub text: Option<String>,
    /// The request as it came, [`Kept::encode`]d, to be asked again; forgotten unless [`Desk::keeps_request`].
    pub again: Option<Bytes>,
}

/// What a hand-off gives the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketRef {
    /// The id of the ticket.
    pub id: TicketId,
    /// Where its status is read, from the root of the gateway: `/v1/triage/{id}`.
    pub url: String,
}

impl From<TicketId> for TicketRef {
    fn from(id: TicketId) -> Self {
        Self { id, url: format!("/v1/triage/{id}") }
    }
}
