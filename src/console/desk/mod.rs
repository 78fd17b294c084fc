//! `/console/desk`: those who wait for a person, and what is done for them.
//!
//! ```text
//! list    the queues, the tickets in the order in which they are served, claiming the next one
//! ticket  one ticket: who asked, what was said, what was tried
//! again   asking its request again, and what came of it
//! acts    claim, ask again, answer, hand back, end
//! ```

mod acts;
mod again;
mod list;
mod ticket;

use super::Shared;
use super::parts;
use crate::admin::Fault;
use crate::triage::{Standing, Ticket, TicketId};
use axum::Router;
use axum::routing::{get, post};
use maud::{Markup, html};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/console/desk", get(list::show))
        .route("/console/desk/next", post(list::claim_next))
        .route("/console/desk/{id}", get(ticket::show))
        .route("/console/desk/{id}/claim", post(acts::claim))
        .route("/console/desk/{id}/again", post(acts::again))
        .route("/console/desk/{id}/answer", post(acts::answer))
        .route("/console/desk/{id}/release", post(acts::release))
        .route("/console/desk/{id}/expire", post(acts::expire))
}

fn id(text: &str) -> Result<TicketId, Fault> {
    text.parse().map_err(|_| Fault::TicketNotFound)
}

/// The sentence for what has just been done, from the page's address; what is not one of these says nothing.
fn done(query: Option<&str>) -> Markup {
    let word =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).find_map(|(name, value)| (name == "done").then_some(value));
    let words = match word.as_deref() {
        Some("claim") => "The ticket is yours for now.",
        Some("answer") => "Answered. The customer's application finds it with its next look.",
        Some("again") => "The request was asked again; what came of it stands below.",
        Some("release") => "Handed back; it has kept its place in the queue.",
        Some("expire") => "Ended without an answer.",
        Some("none") => "No ticket waits there.",
        _ => return html! {},
    };
    parts::done(words)
}

/// How a ticket stands, and with whom.
fn standing(ticket: &Ticket, now: crate::domain::Timestamp) -> Markup {
    match ticket.holder(now) {
        Some((agent, until)) => html! { "claimed by " (parts::foreign(agent)) ", lease ends " (parts::apart(until, now)) },
        None => html! { (ticket.standing(now).as_str()) },
    }
}

/// Whether nobody can do anything with it any more.
fn has_ended(ticket: &Ticket, now: crate::domain::Timestamp) -> bool {
    matches!(ticket.standing(now), Standing::Answered | Standing::Expired)
}
