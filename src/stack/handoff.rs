//! Handing a request over to a person: the ticket, and the reply that says so.

use super::call::{Call, Rejected, Reply};
use super::gateway::Gateway;
use super::resubmit;
use crate::degrade::Degraded;
use crate::degrade::chain::{Asked, Cause};
use crate::reply::{self, Handoff};
use crate::triage::{self, Attempt, NewTicket, TicketRef};

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
        later: call.who.record.read(|facts| facts.job.is_some() || facts.resubmitted_by.is_some()),
    };
    asked.allows_handoff()
}

/// Opens a ticket and makes the reply. `None` only for a route that [`permitted`] does not let through.
pub async fn hand_off(
    call: &Call,
    first: &Rejected,
    why: (Cause, &'static str),
    tried: Vec<Attempt>,
    gateway: &Gateway,
) -> Option<Reply> {
    let (cause, word) = why;
    let record = &call.who.record;
    let ticket = ticket(call, word, tried, gateway).await;
    let id = ticket.id.to_string();
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
        ticket: &id,
        ticket_url: &ticket.url,
    })?;
    if let Some(standing) = &first.standing {
        reply::rate_headers(reply.headers_mut(), standing, call.who.api.dialect());
    }
    record.note(|facts| {
        facts.degraded = vec![Degraded::Handoff(cause)];
        facts.ticket = Some(id.into());
        facts.cause = Some(word);
        facts.served_model = Some(reply::HANDOFF_MODEL.to_owned());
    });
    Some(reply)
}

/// Opens a ticket. Never fails, and waits only to find out whether the conversation has one already.
async fn ticket(call: &Call, cause: &'static str, tried: Vec<Attempt>, gateway: &Gateway) -> TicketRef {
    let (who, desk) = (&call.who, &gateway.triage);
    let text = desk.keeps_text().then(|| triage::transcript(&call.body, desk.most_text()));
    let again = resubmit::kept(call, desk);
    let new = NewTicket {
        customer: who.customer.id.clone(),
        user: who.customer.user.as_ref().map(|(user, _)| user.clone()),
        app: who.app.name.clone(),
        plan: who.customer.plan.name.clone(),
        class: who.class.clone(),
        priority: who.priority,
        conversation: triage::conversation(&who.head.headers),
        cause,
        attempts: tried,
        cost: who.record.read(|facts| facts.cost),
        model: call.target.model.clone(),
        request: who.record.id,
        text,
        again,
    };
    desk.hand_off(new).await
}
