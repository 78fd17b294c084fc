//! How a ticket is shown: to the app that asked, to those who work at the desk, to a webhook. JSON, so that what customers wrote stays
//! data whoever shows it.

use super::{Asked, Found, Resubmission, Standing, State, Ticket, TicketId};
use crate::domain::{NanoUsd, Timestamp};
use crate::reply::rfc3339;
use serde_json::{Map, Value, json};

/// For the app: where it stands, and the answer. `id` is the one it asked for; who answers is not its business.
#[must_use]
pub fn for_app(id: TicketId, ticket: &Ticket, position: Option<usize>, now: Timestamp) -> Value {
    let answer = match &ticket.state {
        State::Answered { text, at, .. } => json!({ "text": text, "answered_at": rfc3339(*at) }),
        _ => Value::Null,
    };
    json!({
        "id": id,
        "object": "triage.ticket",
        "status": ticket.standing(now).as_str(),
        "position": position,
        "opened_at": rfc3339(ticket.opened),
        "expires_at": rfc3339(ticket.deadline),
        "answer": answer,
    })
}

/// For the app, of a ticket that is not written yet.
#[must_use]
pub fn unwritten(id: TicketId, opened: Timestamp, deadline: Timestamp) -> Value {
    json!({
        "id": id,
        "object": "triage.ticket",
        "status": Standing::Open.as_str(),
        "position": null,
        "opened_at": rfc3339(opened),
        "expires_at": rfc3339(deadline),
        "answer": null,
    })
}

/// For the desk, in a listing.
#[must_use]
pub fn for_desk(ticket: &Ticket, now: Timestamp) -> Map<String, Value> {
    let Ticket { id, customer, user, app, plan, queue, priority, conversation, opened, deadline, .. } = ticket;
    let holder = ticket.holder(now).map(|(agent, until)| json!({ "agent": agent, "until": rfc3339(until) }));
    let latest = ticket.requests.last();
    let mut view = json!({
        "id": id,
        "status": ticket.standing(now).as_str(),
        "claimed_by": holder,
        "customer": customer,
        "user": user,
        "app": app,
        "plan": plan,
        "queue": queue,
        "priority": priority,
        "conversation": conversation,
        "opened_at": rfc3339(*opened),
        "expires_at": rfc3339(*deadline),
        "cause": latest.map(|asked| &asked.cause),
        "model": latest.map(|asked| &asked.model),
        "requests": ticket.requests.len() as u64 + ticket.more,
        "without_ticket": ticket.without_ticket,
        "cost_usd": usd(ticket.requests.iter().fold(0, |sum: u64, asked| sum.saturating_add(asked.cost))),
    });
    match &ticket.state {
        State::Answered { agent, text, at } => {
            view["answer"] = json!({ "agent": agent, "text": text, "answered_at": rfc3339(*at) });
        }
        State::Expired { agent, at } => view["expired"] = json!({ "agent": agent, "at": rfc3339(*at) }),
        State::Open | State::Claimed { .. } => {}
    }
    match view {
        Value::Object(view) => view,
        _ => Map::new(),
    }
}

/// For the desk, one ticket whole.
#[must_use]
pub fn whole(found: &Found, now: Timestamp) -> Value {
    let Found { ticket, text, resubmittable } = found;
    let mut view = for_desk(ticket, now);
    let asked = |asked: &Asked| {
        let Asked { request, at, cause, model, attempts, cost } = asked;
        let at = rfc3339(*at);
        json!({ "request_id": request, "at": at, "cause": cause, "model": model, "attempts": attempts, "cost_usd": usd(*cost) })
    };
    let history = ticket.history.iter().map(|entry| json!({ "at": rfc3339(entry.at), "who": entry.who, "what": entry.what }));
    view.insert("asked".to_owned(), ticket.requests.iter().map(asked).collect());
    view.insert("history".to_owned(), history.collect());
    view.insert("text".to_owned(), json!(text));
    view.insert("resubmittable".to_owned(), json!(resubmittable));
    view.insert("resubmitted".to_owned(), ticket.resubmitted.iter().map(resubmission).collect());
    Value::Object(view)
}

fn resubmission(done: &Resubmission) -> Value {
    let Resubmission { by, at, ended, request, status, code, model, degraded, cost, text, truncated } = done;
    json!({
        "agent": by,
        "at": rfc3339(*at),
        "ended_at": rfc3339(*ended),
        "request_id": request,
        "status": status,
        "code": code,
        "model": model,
        "degraded": degraded,
        "cost_usd": usd(*cost),
        "text": text,
        "truncated": truncated,
    })
}

/// For a webhook: `triage.opened`, `triage.answered`. Never the conversation.
#[must_use]
pub fn news(event: &str, ticket: &Ticket, now: Timestamp) -> Value {
    json!({ "type": format!("triage.{event}"), "timestamp": rfc3339(now), "data": for_desk(ticket, now) })
}

/// Dollars with all their decimals, as text: a JSON number may lose some.
fn usd(nano: u64) -> String {
    NanoUsd::new(nano).to_string().trim_start_matches('$').to_owned()
}
