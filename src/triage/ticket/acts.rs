//! What may happen to a ticket: who may do what with it when, and what is noted of that.

use super::{Asked, Conflict, Done, Entry, Outcome, Standing, State, Ticket, after};
use crate::domain::Timestamp;
use std::time::Duration;

/// Requests that are listed with a ticket; of further ones only the latest are.
pub(super) const LISTED: usize = 20;
/// Changes that are remembered with a ticket; the latest.
pub(super) const REMEMBERED: usize = 30;

impl Ticket {
    /// Gives it to an agent for a while; to whom it belongs already, for another while.
    pub(in crate::triage) fn claim(&mut self, agent: &str, now: Timestamp, lease: Duration) -> Outcome {
        let held = self.yields_to(agent, now)?;
        self.state = State::Claimed { agent: agent.into(), until: after(now, lease) };
        if !held {
            self.note(now, Some(agent), "claimed");
        }
        Ok(Done::Changed(if held { "renewed" } else { "claimed" }))
    }

    /// Answers it. The same answer of the same agent may be given again.
    pub(in crate::triage) fn answer(&mut self, agent: &str, text: &str, now: Timestamp) -> Outcome {
        if matches!(&self.state, State::Answered { agent: by, text: given, .. } if **by == *agent && **given == *text) {
            return Ok(Done::Same);
        }
        self.yields_to(agent, now)?;
        self.state = State::Answered { agent: agent.into(), text: text.into(), at: now };
        self.note(now, Some(agent), "answered");
        Ok(Done::Changed("answered"))
    }

    /// Hands it back to the queue, where it keeps its place.
    pub(in crate::triage) fn release(&mut self, agent: &str, now: Timestamp) -> Outcome {
        if !self.yields_to(agent, now)? {
            return Ok(Done::Same);
        }
        self.state = State::Open;
        self.note(now, Some(agent), "released");
        Ok(Done::Changed("released"))
    }

    /// Ends it without an answer.
    pub(in crate::triage) fn expire(&mut self, agent: &str, now: Timestamp) -> Outcome {
        if matches!(&self.state, State::Expired { agent: Some(by), .. } if **by == *agent) {
            return Ok(Done::Same);
        }
        self.yields_to(agent, now)?;
        self.state = State::Expired { agent: Some(agent.into()), at: now };
        self.note(now, Some(agent), "expired");
        Ok(Done::Changed("expired"))
    }

    /// Lets the time that has passed take effect: a lease that is over, a deadline that is.
    pub(in crate::triage) fn age(&mut self, now: Timestamp) -> Done {
        match (self.standing(now), &self.state) {
            (Standing::Expired, State::Open | State::Claimed { .. }) => {
                self.state = State::Expired { agent: None, at: now };
                self.note(now, None, "expired");
                Done::Changed("expired")
            }
            (Standing::Open, State::Claimed { .. }) => {
                self.state = State::Open;
                self.note(now, None, "lease ended");
                Done::Changed("lease_ended")
            }
            _ => Done::Same,
        }
    }

    /// Adds a later request of the conversation.
    pub(in crate::triage) fn append(&mut self, asked: Asked, now: Timestamp) -> Outcome {
        self.still_waits(now)?;
        if self.requests.iter().any(|known| known.request == asked.request) {
            return Ok(Done::Same);
        }
        self.push(asked);
        Ok(Done::Changed("appended"))
    }

    /// Notes a request of the same customer that belongs to no ticket.
    pub(in crate::triage) fn note_without_ticket(&mut self, now: Timestamp) -> Outcome {
        self.still_waits(now)?;
        self.without_ticket += 1;
        Ok(Done::Changed("noted"))
    }

    fn push(&mut self, asked: Asked) {
        if self.requests.len() >= LISTED {
            self.requests.remove(1); // the first says how it began
            self.more += 1;
        }
        self.requests.push(asked);
    }

    pub(in crate::triage) fn note(&mut self, at: Timestamp, who: Option<&str>, what: &str) {
        if self.history.len() >= REMEMBERED {
            self.history.remove(0);
        }
        self.history.push(Entry { at, who: who.map(Into::into), what: what.into() });
    }

    /// Whether it waits for an answer, claimed or not.
    fn still_waits(&self, now: Timestamp) -> Result<(), Conflict> {
        let standing = self.standing(now);
        let agent = match &self.state {
            State::Answered { agent, .. } => Some(agent.clone()),
            State::Expired { agent, .. } => agent.clone(),
            State::Open | State::Claimed { .. } => None,
        };
        match standing {
            Standing::Open | Standing::Claimed => Ok(()),
            Standing::Answered | Standing::Expired => Err(Conflict::Ended { standing, agent }),
        }
    }

    /// Whether an agent may do something with it; true when it is theirs already.
    fn yields_to(&self, agent: &str, now: Timestamp) -> Result<bool, Conflict> {
        self.still_waits(now)?;
        match self.holder(now) {
            None => Ok(false),
            Some((holder, _)) if holder == agent => Ok(true),
            Some((holder, until)) => Err(Conflict::Held { agent: holder.into(), until }),
        }
    }
}
