//! Asking a ticket's request again: what an agent of the desk does when there may be room by now.
//!
//! It is a new request in every respect: by the plan and the limits its customer has now, admitted, metered and charged to the customer's
//! account, refused where those say no, and on record with the ticket's id and the agent's name. It may be answered by the fallback model,
//! never by another hand-off. It is asked for as a whole, whatever the app asked for, since a person reads it.
//!
//! **One at a time.** The ticket is claimed for the agent first, and a marker in the store stands while the request runs, renewed as that
//! of a job is: so neither two agents nor one agent twice, on whichever gateways, run it at once. What comes of it is written on the
//! ticket, also when the operator's connection is gone by then.

use super::call::Call;
use super::gateway::Gateway;
use super::jobs::{self, Attempted, RunStack, Sender};
use super::run_stack;
use crate::config::policy::Auth;
use crate::domain::Timestamp;
use crate::repeats::job::Request;
use crate::repeats::kept::{Entry, What};
use crate::repeats::key::IDEMPOTENCY_KEY;
use crate::repeats::marker::{self, Marker, Taken};
use crate::reply;
use crate::stack::authenticate::key_hash;
use crate::store::StoreError;
use crate::telemetry::Record;
use crate::triage::{Desk, Kept, Resubmission, Ticket, TicketId, Trouble};
use crate::wire::whole::{text_of, unstreamed};
use bytes::Bytes;
use http::HeaderMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What is kept of a request that is handed off, so that it can be asked again; `None` where nothing is. Without a gateway key there is
/// nobody to ask in whose name.
pub fn kept(call: &Call, desk: &Desk) -> Option<Bytes> {
    let who = &call.who;
    if !desk.keeps_request(call.body.len()) || !matches!(who.policy.auth, Auth::Keys { .. }) {
        return None;
    }
    let mut headers = jobs::stored_headers(who);
    // It names the try that was handed off, whose reply is kept under it.
    headers.remove(IDEMPOTENCY_KEY);
    let request =
        Request { api: who.api, method: who.head.method.clone(), uri: who.head.uri.clone(), headers, body: call.body.clone() };
    Some(Kept { key: key_hash(&who.head.headers).ok()?, request }.encode())
}

/// Asks a ticket's request again, for this agent, and waits for what comes of it. With `answers` a success is the ticket's answer.
///
/// # Errors
/// When the ticket is somebody else's or has ended, its request is not kept or runs already, or the store does not answer.
pub async fn resubmit(gateway: &Arc<Gateway>, id: TicketId, agent: &str, answers: bool) -> Result<Ticket, Trouble> {
    let desk = &gateway.triage;
    let ticket = desk.claim(id, agent).await?;
    let Kept { key, mut request } = desk.request(ticket.id).await?;
    request.body = unstreamed(&request.body).ok_or(Trouble::NoRequest)?;
    let marker = match marker::take(&gateway.documents, format!("triage/{}/again", ticket.id), running()).await? {
        Taken::Ours(marker) => marker,
        Taken::Found(_) => return Err(Trouble::BeingResubmitted),
    };
    let record = Arc::new(gateway.record(request.api));
    record.note(|facts| {
        facts.ticket = Some(ticket.id.to_string().into());
        facts.resubmitted_by = Some(agent.into());
    });
    let run = Run { gateway: gateway.clone(), ticket, agent: agent.into(), key, request, record };
    let (tell, told) = oneshot::channel();
    // Not a part of the operator's connection: what is asked is paid for, whoever still waits.
    gateway.tasks.spawn(async move { drop(tell.send(run.end(marker, answers).await)) });
    told.await.unwrap_or_else(|_| Err(StoreError::Failed("the gateway is stopping".into()).into()))
}

/// The value of a marker, like no other one's.
fn running() -> Bytes {
    Entry { fingerprint: String::new(), what: What::Running }.encode()
}

/// A request that is asked again.
struct Run {
    gateway: Arc<Gateway>,
    ticket: Ticket,
    agent: Box<str>,
    key: [u8; 32],
    request: Request,
    record: Arc<Record>,
}

impl Run {
    async fn end(self, mut marker: Marker, answers: bool) -> Result<Ticket, Trouble> {
        let Self { gateway, ticket, agent, key, request, record } = self;
        let at = gateway.clock.now();
        let stack: RunStack = run_stack(&gateway);
        let sender = Sender { app: &ticket.app, key: Some(key) };
        let noted = tokio::select! {
            biased;
            // The store was away for so long that somebody else may run it by now.
            () = marker.until_lost() => Err(StoreError::Failed("the mark of a request that was asked again was lost".into()).into()),
            attempted = jobs::ask(&gateway, &stack, &sender, request, record.clone()) => {
                let result = result(&record, attempted, agent, (at, gateway.clock.now()));
                gateway.triage.resubmitted(ticket.id, &result, answers).await
            }
        };
        marker.end(None).await;
        noted
    }
}

/// What came of it, for the ticket.
fn result(record: &Record, attempted: Attempted, by: Box<str>, (at, ended): (Timestamp, Timestamp)) -> Resubmission {
    let Attempted { what, reason, .. } = attempted;
    let (status, said, headers) = match what {
        What::Replied(kept) if kept.status.is_success() => {
            let said = serde_json::from_slice(&kept.body).map(|json| text_of(&json)).unwrap_or_default();
            (kept.status.as_u16(), said, kept.headers)
        }
        What::Replied(kept) => (kept.status.as_u16(), String::new(), kept.headers),
        What::Running | What::TooLong(_) => (record.read(|facts| facts.status), String::new(), HeaderMap::new()),
    };
    let header = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok()).map(Into::into);
    let result = Resubmission {
        by,
        at,
        ended,
        request: record.id.to_string().into(),
        status,
        code: reason.map(Into::into),
        model: header(&reply::MODEL),
        degraded: header(&reply::DEGRADED),
        cost: record.read(|facts| facts.cost.get()),
        text: None,
        truncated: false,
    };
    result.saying(&said)
}
