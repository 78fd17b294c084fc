//! Layer 13, innermost: calls the provider. The reply body meters itself and closes the call's account.
//!
//! A stream is cancelled as soon as its client leaves. A call that is not a stream goes on without its client, to the end that tells
//! what it cost.

use super::account::Account;
use super::call::{Call, Credential, Rejected, Reply};
use super::gateway::Gateway;
use crate::reply::{self, Rejection, UpstreamFault};
use crate::telemetry::metrics::{Name, UpstreamLabels};
use crate::upstream::body::{MeteredBody, Treatment};
use crate::upstream::{NoReply, Outgoing, ProviderReply, Tasks, headers, peek};
use crate::wire::edit::Edits;
use crate::wire::error;
use crate::wire::meter::{Meter, MeterOptions};
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// The longest error body that is read before it is passed on, to see what it is about.
const ERROR_BODY: usize = 64 * 1024;
/// How long a refusal waits for its own body, which normally comes with the headers.
const ERROR_PATIENCE: Duration = Duration::from_secs(1);

/// Forwards calls to their upstreams.
#[derive(Clone, Debug)]
pub struct Forward {
    gateway: Arc<Gateway>,
}

impl Forward {
    /// The innermost service.
    #[must_use]
    pub const fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway }
    }
}

impl Service<Call> for Forward {
    type Response = Reply;
    type Error = Box<Rejected>;
    type Future = BoxFuture<'static, Result<Reply, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let gateway = self.gateway.clone();
        let tasks = (!call.streams() || call.target.upstream.drain_on_abort).then(|| gateway.tasks.clone());
        let forwarding = Box::pin(forward(call, gateway));
        match tasks {
            Some(tasks) => Box::pin(Outlive { future: Some(forwarding), tasks }),
            None => forwarding,
        }
    }
}

async fn forward(mut call: Call, gateway: Arc<Gateway>) -> Result<Reply, Box<Rejected>> {
    let mut account = Account::open(&mut call, &gateway);
    account.attempt();
    let sent = match send(&call, &call.edits, &gateway).await {
        Ok(reply) if may_refuse_added_usage(&call, &reply) => without_usage(&call, reply, &gateway, &mut account).await,
        Ok(reply) => Ok((reply, call.edits.include_usage)),
        Err(no_reply) => Err(no_reply),
    };
    match sent {
        Ok((reply, hides_usage)) => Ok(pass_on(&call, told_from_a_rate(&call, reply).await, account, hides_usage, &gateway)),
        Err(no_reply) => Err(give_up(no_reply, account).into()),
    }
}

async fn send(call: &Call, edits: &Edits, gateway: &Gateway) -> Result<ProviderReply, NoReply> {
    let body: Option<Bytes> = call.request.as_ref().map(|request| request.apply(&call.body, edits));
    let credential = match &call.who.credential {
        Credential::Callers(name, value) => Some((name, value)),
        Credential::Configured => None,
    };
    let upstream = &call.target.upstream;
    let outgoing = Outgoing { upstream, head: &call.who.head, credential, customer: call.who.customer.id.as_str(), body };
    let result = gateway.client.send(outgoing).await;
    let label = match &result {
        Ok(reply) if reply.status().is_success() => "ok",
        Ok(reply) if reply.status() == StatusCode::TOO_MANY_REQUESTS => "rate_limited",
        Ok(reply) if reply.status().is_server_error() => "server_error",
        Ok(_) => "client_error",
        Err(no_reply) => no_reply.as_str(),
    };
    gateway.metrics.upstream.get_or_create(&UpstreamLabels { upstream: Name(upstream.name.clone()), result: label }).inc();
    result
}

fn give_up(no_reply: NoReply, account: Account) -> Rejection {
    match no_reply {
        NoReply::Connect => account.unreached(),
        NoReply::Timeout | NoReply::Broken => account.failed(),
    }
    Rejection::Upstream(match no_reply {
        NoReply::Connect => UpstreamFault::Connect,
        NoReply::Timeout => UpstreamFault::Timeout,
        NoReply::Broken => UpstreamFault::Broken,
    })
}

/// Some compatible servers refuse the field that makes a stream tell its usage. The client did not ask for it, so it is not their error.
fn may_refuse_added_usage(call: &Call, reply: &ProviderReply) -> bool {
    call.edits.include_usage && matches!(reply.status(), StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}

/// Reads the error; if it names the field we added, tries once more without. That this helped is remembered for the upstream; where
/// it did not, the error was about something of the client's own.
async fn without_usage(
    call: &Call,
    reply: ProviderReply,
    gateway: &Arc<Gateway>,
    account: &mut Account,
) -> Result<(ProviderReply, bool), NoReply> {
    let upstream = &call.target.upstream;
    let (head, body) = reply.into_parts();
    let (bytes, body) = peek(body, ERROR_BODY, upstream.idle_timeout).await;
    let error = error::read(call.who.api.dialect(), head.status.as_u16(), &bytes);
    if !error.names_field("stream_options") {
        return Ok((http::Response::from_parts(head, body), true));
    }
    account.attempt();
    let edits = Edits { include_usage: false, ..call.edits.clone() };
    let reply = send(call, &edits, gateway).await?;
    if reply.status().is_success() {
        gateway.client.refuses_usage(&upstream.name);
        tracing::warn!(upstream = %upstream.name, "the upstream refuses stream_options; its streams are metered by our own count");
    }
    Ok((reply, false))
}

/// A quota that is used up has the status of a rate limit. Only the body tells them apart, and the SDKs do not look there.
async fn told_from_a_rate(call: &Call, reply: ProviderReply) -> ProviderReply {
    if reply.status() != StatusCode::TOO_MANY_REQUESTS {
        return reply;
    }
    let (mut head, body) = reply.into_parts();
    let (bytes, body) = peek(body, ERROR_BODY, ERROR_PATIENCE).await;
    if error::read(call.who.api.dialect(), head.status.as_u16(), &bytes).is_used_up() {
        reply::advise_against_retry(&mut head.headers);
    }
    http::Response::from_parts(head, body)
}

fn pass_on(call: &Call, reply: ProviderReply, account: Account, hides_usage: bool, gateway: &Gateway) -> Reply {
    let (mut head, body) = reply.into_parts();
    let record = &call.who.record;
    record.note(|facts| {
        facts.first_byte = Some(record.elapsed());
        facts.provider_request_id = headers::provider_request_id(&head.headers);
        if !head.status.is_success() {
            facts.cause = Some("upstream_error");
        }
    });
    headers::downward(&mut head.headers);
    if !head.status.is_success() {
        reply::mark_provider(&mut head.headers);
    }
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
        tasks: gateway.tasks.clone(),
        drains_streams: call.target.upstream.drain_on_abort,
        request_id: record.id.to_string(),
    };
    let status = head.status;
    let progress = account.progress().filter(|_| status.is_success());
    let mut body = MeteredBody::new(body, meter, treatment, move |end| account.close(status, &end));
    if let Some(progress) = progress {
        body = body.watched(move |meter| progress.look(meter));
    }
    http::Response::from_parts(head, Body::new(body))
}

/// A future that goes on without whoever waited for it: when dropped unfinished, a task takes it over.
struct Outlive {
    future: Option<BoxFuture<'static, Result<Reply, Box<Rejected>>>>,
    tasks: Tasks,
}

impl Future for Outlive {
    type Output = Result<Reply, Box<Rejected>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out while it is polled, so that one that panics is not taken over.
        let Some(mut future) = self.future.take() else { unreachable!("polled after it was finished") };
        let poll = future.as_mut().poll(cx);
        if poll.is_pending() {
            self.future = Some(future);
        }
        poll
    }
}

impl Drop for Outlive {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            // Dropping the reply makes its body read itself to the end.
            self.tasks.spawn(async move { drop(future.await) });
        }
    }
}
