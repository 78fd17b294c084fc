//! What is done with a ticket. It is the same as over `/admin/triage`; who does it is who is logged in.

use super::super::Shared;
use super::super::gate::{Form, Visit};
use super::super::page::{Trouble, redirect};
use super::id;
use super::ticket::{Refused, page};
use crate::admin::triage::noted;
use crate::admin::{Fault, text};
use crate::stack::resubmit::resubmit;
use crate::triage::{LONGEST_TEXT, Ticket, TicketId, Trouble as DeskTrouble};
use axum::extract::{Path, State};
use axum::response::Response;
use maud::html;

pub(super) async fn claim(State(shared): State<Shared>, visit: Visit, Path(path): Path<String>) -> Result<Response, Trouble> {
    let id = id(&path)?;
    let acted = shared.gateway.triage.claim(id, visit.operator()).await;
    after(&shared, &visit, id, acted, "claim", "").await
}

pub(super) async fn answer(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    let id = id(&path)?;
    // Browsers send line ends as two characters.
    let said = form.get("text").replace("\r\n", "\n");
    if text("text", &said, LONGEST_TEXT).is_err() {
        let words = format!("An answer has 1 to {LONGEST_TEXT} bytes; this one has {}.", said.len());
        return refused(&shared, &visit, id, &Fault::InvalidRequest(words), "text", &said).await;
    }
    let acted = shared.gateway.triage.answer(id, visit.operator(), &said).await;
    after(&shared, &visit, id, acted, "answer", &said).await
}

pub(super) async fn release(State(shared): State<Shared>, visit: Visit, Path(path): Path<String>) -> Result<Response, Trouble> {
    let id = id(&path)?;
    let acted = shared.gateway.triage.release(id, visit.operator()).await;
    after(&shared, &visit, id, acted, "release", "").await
}

pub(super) async fn expire(State(shared): State<Shared>, visit: Visit, Path(path): Path<String>) -> Result<Response, Trouble> {
    let id = id(&path)?;
    let acted = shared.gateway.triage.expire(id, visit.operator()).await;
    after(&shared, &visit, id, acted, "expire", "").await
}

/// Asks the ticket's request again; the page comes when that is over.
pub(super) async fn again(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    let id = id(&path)?;
    let acted = resubmit(&shared.gateway, id, visit.operator(), form.get("answers") == "yes").await;
    after(&shared, &visit, id, acted, "again", "").await
}

/// To the ticket, which says what was done; or the ticket as it stands now, with what was typed.
async fn after(
    shared: &Shared,
    visit: &Visit,
    id: TicketId,
    acted: Result<Ticket, DeskTrouble>,
    verb: &str,
    typed: &str,
) -> Result<Response, Trouble> {
    match acted {
        Ok(ticket) => {
            let done = if verb == "again" { "resubmit" } else { verb };
            noted(&shared.gateway, visit.operator(), done, &ticket).await;
            Ok(redirect(&format!("/console/desk/{}?done={verb}", ticket.id)))
        }
        Err(trouble @ (DeskTrouble::Conflict(_) | DeskTrouble::NoRequest | DeskTrouble::BeingResubmitted)) => {
            refused(shared, visit, id, &trouble.into(), "state", typed).await
        }
        Err(trouble) => Err(trouble.into()),
    }
}

async fn refused(
    shared: &Shared,
    visit: &Visit,
    id: TicketId,
    fault: &Fault,
    control: &'static str,
    typed: &str,
) -> Result<Response, Trouble> {
    let found = shared.gateway.triage.ticket(id).await?;
    let refused = Refused { answer: typed, wrong: Some((control, fault.message())) };
    Ok(page(shared, visit, &found, fault.shape().0, html! {}, &refused))
}
