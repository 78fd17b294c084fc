//! `/admin/triage`: the desk.

use super::{Fault, Shared, input, json, name};
use crate::stack::resubmit::resubmit as ask_again;
use crate::triage::{LONGEST_TEXT, Query, Standing, Ticket, TicketId, view};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

/// Tickets in a listing when nothing is said.
const LISTED: usize = 50;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/admin/triage", get(list))
        .route("/admin/triage/{id}", get(read))
        .route("/admin/triage/{id}/claim", post(claim))
        .route("/admin/triage/{id}/answer", post(answer))
        .route("/admin/triage/{id}/release", post(release))
        .route("/admin/triage/{id}/expire", post(expire))
        .route("/admin/triage/{id}/resubmit", post(resubmit))
}

/// Who does it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct By {
    agent: String,
}

/// Who says what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    agent: String,
    text: String,
}

/// Who asks again, and whether what a model says then is the ticket's answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    agent: String,
    #[serde(default)]
    answer: bool,
}

fn agent(text: &str) -> Result<&str, Fault> {
    name("agent", text)
}

fn id(text: &str) -> Result<TicketId, Fault> {
    text.parse().map_err(|_| Fault::TicketNotFound)
}

async fn list(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [state, queue, customer, limit, after] = input::query(&request, ["state", "queue", "customer", "limit", "after"])?;
    let standing = match state.as_deref() {
        None => None,
        Some(word) => Some(Standing::ALL.into_iter().find(|standing| standing.as_str() == word).ok_or_else(|| {
            let all = Standing::ALL.map(Standing::as_str).join(", ");
            Fault::InvalidRequest(format!("`state` is one of {all}; without it, open and claimed tickets are listed."))
        })?),
    };
    let limit = match limit.as_deref().map(str::parse) {
        None => LISTED,
        Some(Ok(limit)) if (1..=200).contains(&limit) => limit,
        Some(_) => return Err(Fault::InvalidRequest("`limit` is a number from 1 to 200.".to_owned())),
    };
    let after = match after.as_deref() {
        None => None,
        Some(text) => Some(
            cursor(text).ok_or_else(|| Fault::InvalidRequest("`after` is what `next` of the page before said.".to_owned()))?,
        ),
    };
    let query = Query { standing, queue: queue.map(Into::into), customer: customer.map(Into::into), limit, after };
    let desk = &shared.gateway.triage;
    let listing = desk.list(&query).await?;
    let now = desk.now();
    let tickets: Vec<Value> = listing.tickets.iter().map(|ticket| Value::Object(view::for_desk(ticket, now))).collect();
    let next = listing.next.map(|(rank, id)| format!("{rank}-{id}"));
    Ok(json(StatusCode::OK, &json!({ "tickets": tickets, "next": next })))
}

/// A place in a listing, as `next` says it.
pub(crate) fn cursor(text: &str) -> Option<(u64, TicketId)> {
    let (rank, id) = text.split_once('-')?;
    Some((rank.parse().ok()?, id.parse().ok()?))
}

async fn read(State(shared): State<Shared>, Path(path): Path<String>) -> Result<Response, Fault> {
    let desk = &shared.gateway.triage;
    let found = desk.ticket(id(&path)?).await?;
    Ok(json(StatusCode::OK, &view::whole(&found, desk.now())))
}

async fn claim(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let By { agent: by } = input::body(request).await?;
    let ticket = shared.gateway.triage.claim(id(&path)?, agent(&by)?).await?;
    Ok(changed(&shared, &ticket))
}

async fn answer(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let Said { agent: by, text } = input::body(request).await?;
    input::text("text", &text, LONGEST_TEXT)?;
    let ticket = shared.gateway.triage.answer(id(&path)?, agent(&by)?, &text).await?;
    Ok(changed(&shared, &ticket))
}

async fn release(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let By { agent: by } = input::body(request).await?;
    let ticket = shared.gateway.triage.release(id(&path)?, agent(&by)?).await?;
    Ok(changed(&shared, &ticket))
}

async fn expire(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let By { agent: by } = input::body(request).await?;
    let ticket = shared.gateway.triage.expire(id(&path)?, agent(&by)?).await?;
    Ok(changed(&shared, &ticket))
}

async fn resubmit(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let Again { agent: by, answer } = input::body(request).await?;
    let ticket = ask_again(&shared.gateway, id(&path)?, agent(&by)?, answer).await?;
    let desk = &shared.gateway.triage;
    let found = desk.ticket(ticket.id).await?;
    Ok(json(StatusCode::OK, &view::whole(&found, desk.now())))
}

fn changed(shared: &Shared, ticket: &Ticket) -> Response {
    json(StatusCode::OK, &Value::Object(view::for_desk(ticket, shared.gateway.triage.now())))
}
