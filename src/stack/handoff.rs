//! Handing a request over to a person: the ticket, and the reply that says so.

use super::call::{Call, Rejected, Reply};
use super::gateway::Gateway;
use crate::degrade::Degraded;
use crate::degrade::chain::{Asked, Cause};
use crate::reply::{self, Handoff};
use std::sync::Arc;

/// A try at an answer, for whoever reads the ticket.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The model.
    pub model: Arc<str>,
    /// What came of it, a word.
    pub outcome: &'static str,
}

/// Whether a person's later answer can stand in for the model's.
pub fn permitted(call: &Call) -> bool {
    let Some(request) = &call.request else { return false };
    let features = &request.features;
    let asked = Asked {
        api: call.who.api,
        priority: call.who.priority,
        tools: features.tools || !features.server_tools.is_empty(),
        formatted: features.json_schema || features.audio_output,
        choices: request.choices,
    };
    asked.allows_handoff()
}

/// Opens a ticket and makes the reply. `None` only for a route that [`permitted`] does not let through.
pub async fn hand_off(
    call: &Call,
    first: &Rejected,
    why: (Cause, &'static str),
    tried: Vec<Tried>,
    gateway: &Gateway,
) -> Option<Reply> {
    let (cause, word) = why;
    let record = &call.who.record;
    let ticket = ticket(call, word, tried, gateway).await;
    let level = record.read(|facts| facts.pool_level);
    let mut reply = reply::hand_off(&Handoff {
        api: call.who.api,
        stream: call.streams(),
        include_usage: call.request.as_ref().is_some_and(|request| request.include_usage == Some(true)),
        message: &call.who.policy.handoff.message,
        request_id: record.id,
        at: gateway.clock.now(),
        cause,
        level,
        ticket: &ticket.0,
        ticket_url: &ticket.1,
    })?;
    if let Some(standing) = &first.standing {
        reply::rate_headers(reply.headers_mut(), standing, call.who.api.dialect());
    }
    record.note(|facts| {
        facts.degraded.push(Degraded::Handoff(cause));
        facts.ticket = Some(ticket.0.into());
        facts.cause = Some(word);
        facts.served_model = Some(reply::HANDOFF_MODEL.to_owned());
    });
    Some(reply)
}

/// Opens a ticket: its id and where its status is read.
async fn ticket(call: &Call, cause: &'static str, tried: Vec<Tried>, gateway: &Gateway) -> (String, String) {
    let _ = (call, cause, tried, gateway);
    let id = format!("tt_{:032x}", fastrand::u128(..));
    let url = format!("/v1/triage/{id}");
    (id, url)
}
