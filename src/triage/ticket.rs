//! A ticket and what may happen to it: pure, the time passed in.

mod acts;

use super::again::Resubmission;
use super::{NewTicket, TicketId};
use crate::config::policy;
use crate::domain::{Priority, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Attempts that are listed with a request.
const ATTEMPTS: usize = 8;
/// Characters of a foreign word (a model, a class, an outcome) that are kept.
const WORD: usize = 100;
/// How long a ticket that ran out of time can still be read as expired.
const AFTERWARDS: Duration = Duration::from_secs(86_400);
/// The queue of what has no class.
pub const GENERAL: &str = "general";

/// A ticket, as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// Whose it is.
    pub customer: Box<str>,
    /// The person inside the customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Box<str>>,
    /// The application that asked.
    pub app: Box<str>,
    /// The customer's plan when it was opened.
    pub plan: Box<str>,
    /// The class of the request, or `general`.
    pub queue: Box<str>,
    /// Who is served first.
    pub priority: Priority,
    /// The conversation, if the app named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Box<str>>,
    /// When it was opened.
    pub opened: Timestamp,
    /// When it expires unless it is answered.
    pub deadline: Timestamp,
    /// Where it stands.
    pub state: State,
    /// Its requests: the first, and the latest.
    pub requests: Vec<Asked>,
    /// Requests that are not listed any more.
    #[serde(default)]
    pub more: u64,
    /// Requests of the customer outside this conversation that got no ticket, noted here because it was the oldest.
    #[serde(default)]
    pub without_ticket: u64,
    /// Who changed what, the latest.
    #[serde(default)]
    pub history: Vec<Entry>,
    /// What came of asking its request again, the latest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resubmitted: Vec<Resubmission>,
}

/// Where a ticket stands, as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum State {
    /// It waits.
    Open,
    /// Somebody works on it.
    Claimed {
        /// Who.
        agent: Box<str>,
        /// Until when it is theirs.
        until: Timestamp,
    },
    /// It is answered.
    Answered {
        /// By whom.
        agent: Box<str>,
        /// What the customer is told.
        text: Box<str>,
        /// When.
        at: Timestamp,
    },
    /// Nobody will answer it.
    Expired {
        /// Who decided so; `None` = its time was over.
        agent: Option<Box<str>>,
        /// When.
        at: Timestamp,
    },
}

/// Where a ticket stands at an instant: leases and times that have ended count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It waits.
    Open,
    /// Somebody works on it.
    Claimed,
    /// It is answered.
    Answered,
    /// Nobody will answer it.
    Expired,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Claimed, Self::Answered, Self::Expired];

    /// The word used everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Claimed => "claimed",
            Self::Answered => "answered",
            Self::Expired => "expired",
        }
    }
}

/// One request of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Our id of it.
    pub request: Box<str>,
    /// When it was handed off.
    pub at: Timestamp,
    /// Why no model answered.
    pub cause: Box<str>,
    /// The model that was asked for.
    pub model: Box<str>,
    /// What was tried.
    pub attempts: Vec<Attempt>,
    /// What that cost, nano-dollars.
    pub cost: u64,
}

/// One try at an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The model.
    pub model: Box<str>,
    /// What came of it: a word.
    pub outcome: Box<str>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// Who; `None` = the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Box<str>>,
    /// What.
    pub what: Box<str>,
}

/// Why something cannot happen to a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// It is somebody else's for now.
    Held {
        /// Whose.
        agent: Box<str>,
        /// Until when.
        until: Timestamp,
    },
    /// It has ended.
    Ended {
        /// How.
        standing: Standing,
        /// Who ended it; `None` = its time was over.
        agent: Option<Box<str>>,
    },
}

/// What an action did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It changed the ticket: the word for log and metrics.
    Changed(&'static str),
    /// The ticket was so already.
    Same,
}

type Outcome = Result<Done, Conflict>;

/// Cuts a foreign word to what is kept of it.
pub(super) fn word(text: &str) -> Box<str> {
    text.chars().take(WORD).collect::<String>().into()
}

impl Asked {
    /// What is kept of a request.
    #[must_use]
    pub fn of(new: &NewTicket, at: Timestamp) -> Self {
        let kept = |attempt: &Attempt| Attempt { model: word(&attempt.model), outcome: word(&attempt.outcome) };
        Self {
            request: new.request.to_string().into(),
            at,
            cause: word(new.cause),
            model: word(&new.model),
            attempts: new.attempts.iter().take(ATTEMPTS).map(kept).collect(),
            cost: new.cost.get(),
        }
    }
}

impl Ticket {
    /// A ticket that is opened at `now`.
    #[must_use]
    pub fn open(id: TicketId, new: &NewTicket, settings: &policy::Triage, now: Timestamp) -> Self {
        let mut ticket = Self {
            id,
            customer: new.customer.as_str().into(),
            user: new.user.as_ref().map(|user| user.as_str().into()),
            app: (*new.app).into(),
            plan: (*new.plan).into(),
            queue: new.class.as_deref().filter(|class| !class.is_empty()).map_or_else(|| GENERAL.into(), word),
            priority: new.priority,
            conversation: new.conversation.as_deref().map(Into::into),
            opened: now,
            deadline: after(now, settings.keep),
            state: State::Open,
            requests: vec![Asked::of(new, now)],
            more: 0,
            without_ticket: 0,
            history: Vec::new(),
            resubmitted: Vec::new(),
        };
        ticket.note(now, None, "opened");
        ticket
    }

    /// Where it stands at `now`.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        match &self.state {
            State::Answered { .. } => Standing::Answered,
            State::Expired { .. } => Standing::Expired,
            State::Claimed { until, .. } if now < *until => Standing::Claimed,
            State::Open | State::Claimed { .. } if self.deadline <= now => Standing::Expired,
            State::Open | State::Claimed { .. } => Standing::Open,
        }
    }

    /// Whose it is at `now`, and until when.
    #[must_use]
    pub fn holder(&self, now: Timestamp) -> Option<(&str, Timestamp)> {
        match &self.state {
            State::Claimed { agent, until } if now < *until => Some((agent, *until)),
            _ => None,
        }
    }

    /// How long the store keeps it, from `now`: what has ended as long again as an open ticket, so that the app finds the answer.
    pub(super) fn keep(&self, settings: &policy::Triage, now: Timestamp) -> Duration {
        match &self.state {
            State::Open | State::Claimed { .. } => Duration::from_micros(self.deadline.since(now)) + settings.lease + AFTERWARDS,
            State::Answered { at, .. } | State::Expired { at, .. } => {
                settings.keep.saturating_sub(Duration::from_micros(now.since(*at))).max(Duration::from_secs(1))
            }
        }
    }

    /// Where it stands in the store's listing.
    #[must_use]
    pub fn rank(&self) -> u64 {
        let (band, instant) = match &self.state {
            State::Open => (Band::Open, self.opened),
            State::Claimed { until, .. } => (Band::Claimed, *until),
            State::Answered { at, .. } | State::Expired { at, .. } => (Band::Ended, *at),
        };
        let priority = match (band, self.priority) {
            (Band::Open, Priority::Internal) => 1,
            (Band::Open, Priority::Background) => 2,
            _ => 0,
        };
        band.first() | priority << BITS_OF_TIME | (instant.micros() / 1_000).min((1 << BITS_OF_TIME) - 1)
    }
}

/// Milliseconds since 1970 until the year 2109.
const BITS_OF_TIME: u32 = 42;

/// The listing holds the open tickets first, by priority and age, then the claimed ones by the end of their leases, then those that have
/// ended by when they did. Ranks stay below 2^53, which every store keeps exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Band {
    Open,
    Claimed,
    Ended,
}

impl Band {
    /// The lowest rank in it.
    pub(super) const fn first(self) -> u64 {
        (self as u64) << (BITS_OF_TIME + 2)
    }

    /// The highest rank in it.
    pub(super) const fn last(self) -> u64 {
        self.first() + (1 << (BITS_OF_TIME + 2)) - 1
    }
}

pub(super) fn after(now: Timestamp, duration: Duration) -> Timestamp {
    now.plus(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
