//! `/admin/triage`: the desk.

use super::{Fault, Shared, input, name, reply};
use crate::stack::Gateway;
use crate::stack::resubmit::resubmit;
use crate::trail::{Change, Trail};
use crate::triage::{LONGEST_TEXT, Query, Standing, Ticket, TicketId, view};
use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_tickets))
        .routes(routes!(read_ticket))
        .routes(routes!(claim_ticket))
        .routes(routes!(answer_ticket))
        .routes(routes!(release_ticket))
        .routes(routes!(expire_ticket))
        .routes(routes!(resubmit_ticket))
}

/// Who does it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct By {
    /// The name of who works at the desk.
    #[schema(min_length = 1, max_length = 128)]
    pub agent: String,
}

/// Who says what.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// The name of who works at the desk.
    #[schema(min_length = 1, max_length = 128)]
    pub agent: String,
    /// What the customer is told, at most 16 KiB.
    #[schema(min_length = 1, max_length = 16384)]
    pub text: String,
}

/// Who asks again, and whether what a model says then is the ticket's answer.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Again {
    /// The name of who works at the desk.
    #[schema(min_length = 1, max_length = 128)]
    pub agent: String,
    /// Whether what a model says then is the ticket's answer at once.
    #[serde(default)]
    pub answer: bool,
}

/// A page of tickets.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TicketPage {
    /// In the order in which they are to be worked on.
    #[schema(value_type = Vec<TicketShape>)]
    pub tickets: Vec<Map<String, Value>>,
    /// What to send as `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// A ticket of somebody who waits for a person. Further members depend on where it stands; one ticket read by itself has them all.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TicketShape {
    /// Its id.
    pub id: String,
    /// `open`, `claimed`, `answered` or `expired`.
    pub status: String,
    /// Who works on it: `agent`, `until`.
    #[schema(value_type = Option<Object>)]
    pub claimed_by: Option<Value>,
    /// Whose it is.
    pub customer: String,
    /// The person inside the customer.
    pub user: Option<String>,
    /// The application that asked.
    pub app: String,
    /// The customer's plan when it was opened.
    pub plan: String,
    /// The class of the request, or `general`.
    pub queue: String,
    /// `live`, `internal` or `background`.
    pub priority: String,
    /// The conversation, if the app named one.
    pub conversation: Option<String>,
    /// When it was opened, RFC 3339.
    pub opened_at: String,
    /// When it expires unless it is answered, RFC 3339.
    pub expires_at: String,
    /// Why no model answered the latest request.
    pub cause: Option<String>,
    /// The model the latest request asked for.
    pub model: Option<String>,
    /// How many requests it stands for.
    pub requests: u64,
    /// Requests of the customer outside this conversation that got no ticket.
    pub without_ticket: u64,
    /// What the attempts cost, dollars.
    pub cost_usd: String,
}

fn id(text: &str) -> Result<TicketId, Fault> {
    text.parse().map_err(|_| Fault::TicketNotFound)
}

/// What an agent does with a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act<'a> {
    /// Takes it, for as long as a lease.
    Claim,
    /// Answers the customer.
    Answer(&'a str),
    /// Puts it back into its place.
    Release,
    /// Ends it without an answer.
    Expire,
    /// Asks its latest request again; `true`: what a model says then is its answer.
    Resubmit(bool),
}

impl Act<'_> {
    const fn word(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Answer(_) => "answer",
            Self::Release => "release",
            Self::Expire => "expire",
            Self::Resubmit(_) => "resubmit",
        }
    }
}

/// Does something with a ticket; the trail tells who did what, never what a customer was told.
///
/// # Errors
/// [`Fault::TicketNotFound`], [`Fault::TicketClaimed`], [`Fault::TicketEnded`], [`Fault::RequestNotKept`], [`Fault::TicketResubmitting`],
/// [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn act(gateway: &Arc<Gateway>, ticket: &str, agent: &str, act: Act<'_>) -> Result<Ticket, Fault> {
    let (desk, id, agent) = (&gateway.triage, id(ticket)?, name("agent", agent)?);
    let done = match act {
        Act::Claim => desk.claim(id, agent).await?,
        Act::Answer(text) => {
            input::text("text", text, LONGEST_TEXT)?;
            desk.answer(id, agent, text).await?
        }
        Act::Release => desk.release(id, agent).await?,
        Act::Expire => desk.expire(id, agent).await?,
        Act::Resubmit(answers) => resubmit(gateway, id, agent, answers).await?,
    };
    noted(gateway, agent, act.word(), &done).await;
    Ok(done)
}

/// Puts into the trail what an agent has done with a ticket.
pub(crate) async fn noted(gateway: &Gateway, agent: &str, done: &str, ticket: &Ticket) {
    let after = json!({ "done": done, "status": ticket.standing(gateway.triage.now()).as_str() });
    let name = ticket.id.to_string();
    let change = Change { by: agent, kind: "ticket", name: &name, before: None, after: Some(&after) };
    gateway.trail.changed(&change).await;
}

fn changed(gateway: &Gateway, ticket: &Ticket) -> Response {
    reply(&view::for_desk(ticket, gateway.triage.now()))
}

// === routes ===

/// Tickets in the order in which they are to be worked on.
#[utoipa::path(
    get, path = "/admin/triage", tag = "triage", operation_id = "list_tickets",
    params(
        ("state" = Option<String>, Query, description = "`open`, `claimed`, `answered` or `expired`; absent: open and claimed"),
        ("queue" = Option<String>, Query, description = "the class, or `general`"),
        ("customer" = Option<String>, Query, description = "whose"),
        ("limit" = Option<u32>, Query, description = "how many, 50 when absent", minimum = 1, maximum = 200),
        ("after" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "a page", body = TicketPage)),
)]
async fn list_tickets(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [state, queue, customer, limit, after] = input::query(&request, ["state", "queue", "customer", "limit", "after"])?;
    let standing = match state.as_deref() {
        None => None,
        Some(word) => Some(Standing::ALL.into_iter().find(|standing| standing.as_str() == word).ok_or_else(|| {
            let all = Standing::ALL.map(Standing::as_str).join(", ");
            Fault::InvalidRequest(format!("`state` is one of {all}; without it, open and claimed tickets are listed."))
        })?),
    };
    let limit = input::limit(limit.as_deref(), 50, 200)?;
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
    let tickets = listing.tickets.iter().map(|ticket| view::for_desk(ticket, now)).collect();
    let next = listing.next.map(|(rank, id)| format!("{rank}-{id}"));
    Ok(reply(&TicketPage { tickets, next }))
}

/// A place in a listing, as `next` says it.
pub(crate) fn cursor(text: &str) -> Option<(u64, TicketId)> {
    let (rank, id) = input::cursor(text)?;
    Some((rank, id.parse().ok()?))
}

/// One ticket whole: its requests, their attempts, who did what, and the conversation where it is kept.
#[utoipa::path(
    get, path = "/admin/triage/{id}", tag = "triage", operation_id = "read_ticket",
    params(("id" = String, Path, description = "its id", min_length = 1)),
    responses((status = 200, description = "the ticket", body = TicketShape)),
)]
async fn read_ticket(State(shared): State<Shared>, input::Name(path): input::Name) -> Result<Response, Fault> {
    let desk = &shared.gateway.triage;
    let found = desk.ticket(id(&path)?).await?;
    Ok(reply(&view::whole(&found, desk.now())))
}

/// Takes a ticket for as long as a lease.
#[utoipa::path(
    post, path = "/admin/triage/{id}/claim", tag = "triage", operation_id = "claim_ticket",
    params(("id" = String, Path, description = "its id", min_length = 1)),
    request_body = By,
    responses((status = 200, description = "the ticket now", body = TicketShape)),
)]
async fn claim_ticket(State(shared): State<Shared>, input::Name(path): input::Name, request: Request) -> Result<Response, Fault> {
    let By { agent } = input::body(request).await?;
    let ticket = act(&shared.gateway, &path, &agent, Act::Claim).await?;
    Ok(changed(&shared.gateway, &ticket))
}

/// Answers the customer; also a ticket that nobody claimed. The same answer twice is one.
#[utoipa::path(
    post, path = "/admin/triage/{id}/answer", tag = "triage", operation_id = "answer_ticket",
    params(("id" = String, Path, description = "its id", min_length = 1)),
    request_body = Said,
    responses((status = 200, description = "the ticket now", body = TicketShape)),
)]
async fn answer_ticket(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let Said { agent, text } = input::body(request).await?;
    let ticket = act(&shared.gateway, &path, &agent, Act::Answer(&text)).await?;
    Ok(changed(&shared.gateway, &ticket))
}

/// Puts a ticket back into its place in the queue.
#[utoipa::path(
    post, path = "/admin/triage/{id}/release", tag = "triage", operation_id = "release_ticket",
    params(("id" = String, Path, description = "its id", min_length = 1)),
    request_body = By,
    responses((status = 200, description = "the ticket now", body = TicketShape)),
)]
async fn release_ticket(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let By { agent } = input::body(request).await?;
    let ticket = act(&shared.gateway, &path, &agent, Act::Release).await?;
    Ok(changed(&shared.gateway, &ticket))
}

/// Ends a ticket without an answer.
#[utoipa::path(
    post, path = "/admin/triage/{id}/expire", tag = "triage", operation_id = "expire_ticket",
    params(("id" = String, Path, description = "its id", min_length = 1)),
    request_body = By,
    responses((status = 200, description = "the ticket now", body = TicketShape)),
)]
async fn expire_ticket(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let By { agent } = input::body(request).await?;
    let ticket = act(&shared.gateway, &path, &agent, Act::Expire).await?;
    Ok(changed(&shared.gateway, &ticket))
}

/// Claims a ticket, asks its latest request again and shows what came of it.
#[utoipa::path(
    post, path = "/admin/triage/{id}/resubmit", tag = "triage", operation_id = "resubmit_ticket",
    params(("id" = String, Path, description = "its id", min_length = 1)),
    request_body = Again,
    responses((status = 200, description = "the ticket now", body = TicketShape)),
)]
async fn resubmit_ticket(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let Again { agent, answer } = input::body(request).await?;
    let ticket = act(&shared.gateway, &path, &agent, Act::Resubmit(answer)).await?;
    let desk = &shared.gateway.triage;
    let found = desk.ticket(ticket.id).await?;
    Ok(reply(&view::whole(&found, desk.now())))
}
