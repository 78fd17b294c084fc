//! A provider's reply on its way to becoming an answer: whether it is one, or a failure that may be tried again.
//!
//! A success is held back until it has something to deliver ([`Bounds`]); what fails before that has cost the client nothing but time. An
//! error of the caller's own making passes at once.

use super::account::{Account, Closing};
use super::call::{Call, Credential, Rejected, Reply};
use super::failed::{Failed, ProviderFault};
use super::forward::ERROR_BODY;
use super::gateway::Gateway;
use crate::degrade::breaker::Report;
use crate::reply;
use crate::upstream::body::{MeteredBody, Treatment};
use crate::upstream::breakers::Leave;
use crate::upstream::{Bounds, Broke, End, ProviderReply, Uncommitted, headers, peek};
use crate::wire::error::{self, Verdict};
use crate::wire::meter::{Meter, MeterOptions};
use crate::wire::retry_after;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::time::Duration;

/// How long a refusal waits for its own body, which normally comes with the headers.
const ERROR_PATIENCE: Duration = Duration::from_secs(1);

/// Makes an answer of a reply, or says how it failed.
pub async fn answer(
    call: Box<Call>,
    reply: ProviderReply,
    mut account: Box<Account>,
    mut leave: Leave,
    hides_usage: bool,
    gateway: &Arc<Gateway>,
) -> Result<Reply, Box<Rejected>> {
    let status = reply.status();
    if !status.is_success() {
        return refuse(call, reply, account, leave, gateway).await;
    }
    let (mut head, body) = reply.into_parts();
    note_head(&call, &head);
    headers::downward(&mut head.headers);
    let body = held_back(&call, &head, body, Closing { account, status }, hides_usage, gateway);
    match body.commit(Bounds::SHIPPED).await {
        Ok(mut body) => {
            leave.report(Report::Well);
            body.owner(|closing| closing.account.under(leave));
            Ok(http::Response::from_parts(head, Body::new(body)))
        }
        Err(Uncommitted { mut body, end, owner }) => {
            account = owner.account;
            let verdict = verdict_of(&end);
            let Some((fault, may_retry)) = verdict else {
                // The caller's own error under a status of success: nothing to try again.
                leave.report(Report::Well);
                body.resume(Closing { account, status });
                return Ok(http::Response::from_parts(head, Body::new(body)));
            };
            leave.report(report_of(fault));
            account.attempt_failed(fault, Some(&end));
            let failed = Failed::new(call, account, fault, may_retry);
            // An error that the provider spelled out may be passed on. Half a reply is none: an error of ours says so better than a
            // success that breaks off, which an SDK would try again without being told not to.
            Err(if end.summary.error.is_some() { failed.with_reply(head, body) } else { failed }.into())
        }
    }
}

/// A reply whose status is an error: the caller's own passes, the provider's may be tried again.
async fn refuse(
    call: Box<Call>,
    reply: ProviderReply,
    mut account: Box<Account>,
    mut leave: Leave,
    gateway: &Arc<Gateway>,
) -> Result<Reply, Box<Rejected>> {
    let status = reply.status();
    let (mut head, body) = reply.into_parts();
    note_head(&call, &head);
    call.who.record.note(|facts| facts.cause = Some("upstream_error"));
    // A caller's own key (passthrough mode) is the caller's business.
    if matches!(status.as_u16(), 401 | 402) && matches!(call.who.credential, Credential::Configured) {
        gateway.alerts.provider_refuses(&call.target.upstream.name, status.as_u16(), false);
    }
    let stated_wait = retry_after::stated(&head.headers, gateway.clock.now());
    let judged = judge(status, &head.headers, stated_wait);
    let (bytes, body) = match judged {
        Some((ProviderFault::RateLimited { .. }, _)) => peek(body, ERROR_BODY, ERROR_PATIENCE).await,
        _ => (bytes::Bytes::new(), body),
    };
    headers::downward(&mut head.headers);
    reply::mark_provider(&mut head.headers);
    let Some((fault, mut may_retry)) = judged else {
        leave.report(Report::Well);
        let body = held_back(&call, &head, body, Closing { account, status }, false, gateway);
        return Ok(http::Response::from_parts(head, Body::new(body.released())));
    };
    // A quota that is used up has the status of a rate limit. Only the body tells them apart, and the SDKs do not look there.
    if error::read(call.who.api.dialect(), status.as_u16(), &bytes).is_used_up() {
        gateway.alerts.provider_refuses(&call.target.upstream.name, status.as_u16(), true);
        may_retry = false;
        reply::advise_against_retry(&mut head.headers);
    }
    leave.report(report_of(fault));
    account.attempt_failed(fault, None);
    let (body, owner) = held_back(&call, &head, body, Closing { account, status }, false, gateway).give_up();
    let Some(Closing { account, .. }) = owner else { return Err(reply::Rejection::Internal.into()) };
    let mut failed = Failed::new(call, account, fault, may_retry).with_reply(head, body);
    failed.stated_wait = stated_wait;
    Err(failed.into())
}

/// Whose fault an error status is, and whether the same call may do better later; `None` for the caller's own.
fn judge(status: StatusCode, headers: &HeaderMap, retry_after: Option<Duration>) -> Option<(ProviderFault, bool)> {
    // The provider's own word on it; the SDKs take it in exactly this spelling, and so do we.
    let says = match headers.get("x-should-retry").map(http::HeaderValue::as_bytes) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    };
    match status.as_u16() {
        429 => Some((ProviderFault::RateLimited { retry_after }, says.unwrap_or(true))),
        408 | 409 | 500.. => Some((ProviderFault::Server(status), says.unwrap_or(true))),
        _ if says == Some(true) => Some((ProviderFault::Server(status), true)),
        _ => None,
    }
}

/// How a reply failed that began as a success; `None` where that is the caller's own doing.
fn verdict_of(end: &End) -> Option<(ProviderFault, bool)> {
    match (end.broke, &end.summary.error) {
        (_, Some(error)) => match error.verdict() {
            Verdict::Caller => None,
            Verdict::Rate => Some((ProviderFault::RateLimited { retry_after: None }, true)),
            Verdict::UsedUp => Some((ProviderFault::RateLimited { retry_after: None }, false)),
            Verdict::Provider => Some((ProviderFault::Server(StatusCode::INTERNAL_SERVER_ERROR), true)),
        },
        (Some(Broke::Silence), None) => Some((ProviderFault::Timeout, true)),
        _ => Some((ProviderFault::Broken, true)),
    }
}

/// What a fault says about whether the provider is well. A rate limit says that it is.
const fn report_of(fault: ProviderFault) -> Report {
    match fault {
        ProviderFault::Server(status) if status.as_u16() < 500 => Report::Well,
        ProviderFault::RateLimited { .. } => Report::Well,
        _ => Report::Failed,
    }
}

fn note_head(call: &Call, head: &Parts) {
    let record = &call.who.record;
    record.note(|facts| {
        facts.first_byte = Some(record.elapsed());
        facts.provider_request_id = headers::provider_request_id(&head.headers);
        facts.cause = None;
    });
}

/// The body, metered and held back.
fn held_back(
    call: &Call,
    head: &Parts,
    body: reqwest::Body,
    owner: Closing,
    hides_usage: bool,
    gateway: &Gateway,
) -> MeteredBody<Closing> {
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let events = content_type.map_or_else(|| call.streams(), |kind| kind.starts_with("text/event-stream"));
    let api = call.who.api;
    let hides_usage = hides_usage && head.status.is_success();
    let (estimator, model) = (gateway.estimator.clone(), call.target.model.clone());
    let count = Arc::new(move |text: &str| estimator.count_text(&model, api, text));
    let meter = Meter::for_reply(MeterOptions { api, hide_usage_chunk: hides_usage, count }, content_type);
    let treatment = Treatment {
        api,
        events,
        must_end: head.status.is_success(),
        alters: hides_usage,
        idle: call.target.upstream.idle_timeout,
        orphans: gateway.orphans.clone(),
        customer: call.who.customer.scope.owner.clone(),
        drains_streams: call.target.upstream.drain_on_abort,
        request_id: call.who.record.id,
    };
    MeteredBody::hold(body, meter, treatment, owner)
}
