//! Layer 13, innermost: calls the provider, once. What comes of it is an answer, or a [`Failed`] call to decide about.
//!
//! A stream is cancelled as soon as its client leaves. A call that is not a stream goes on without its client, to the end that tells
//! what it cost, as far as the bound on such calls allows.

use super::account::Account;
use super::answer;
use super::aside::{self, over};
use super::attempt::claim_attempt;
use super::call::{Call, Credential, Rejected, Reply};
use super::failed::{Failed, ProviderFault};
use super::gateway::Gateway;
use super::serve::Serve;
use crate::degrade::breaker::Report;
use crate::telemetry::metrics::{Name, UpstreamLabels};
use crate::upstream::client::TRACEPARENT;
use crate::upstream::{NoReply, Outgoing, ProviderReply, peek};
use crate::wire::edit::Edits;
use crate::wire::error;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// The longest error body that is read before it is passed on, to see what it is about.
pub const ERROR_BODY: usize = 64 * 1024;

/// What broke off sooner than this may have met a connection that died in the pool; a provider that thinks first takes longer.
const AT_ONCE: Duration = Duration::from_secs(1);

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

impl Serve<Box<Call>> for Forward {
    type Error = Box<Rejected>;

    fn serve(&self, call: Box<Call>) -> impl Future<Output = Result<Reply, Self::Error>> + Send {
        let outlives = !call.streams() || call.target.upstream.drain_on_abort;
        let gateway = self.gateway.clone();
        let customer = outlives.then(|| call.who.customer.scope.owner.clone());
        // By itself on the heap: it may be taken over by a task.
        Outlive { future: Some(Box::pin(forward(call, gateway.clone()))), gateway, customer }
    }
}

async fn forward(mut call: Box<Call>, gateway: Arc<Gateway>) -> Result<Reply, Box<Rejected>> {
    let mut account = match call.account.take() {
        Some(account) => account,
        None => Box::new(Account::open(&mut call, &gateway)),
    };
    let upstream = &call.target.upstream;
    let mut leave = match gateway.breakers.ask(&upstream.name, &call.who.policy.retry.breaker) {
        Ok(leave) => leave,
        Err(retry_in) => {
            let fault = ProviderFault::BreakerOpen { retry_in };
            account.attempt_failed(fault, None);
            return Err(Failed::not_made(call, account, fault).into());
        }
    };
    let fresh = account.attempt() > 1 || leave.is_probe();
    let since = Instant::now();
    let sent = match send(&call, &call.edits, fresh, &gateway).await {
        Ok(reply) if may_refuse_added_usage(&call, &reply) => without_usage(&call, reply, &gateway, &mut account).await,
        Ok(reply) => Ok((reply, call.edits.include_usage)),
        Err(no_reply) => Err(Unsent::NoReply(no_reply)),
    };
    let (fault, may_retry) = match sent {
        Ok((reply, hides_usage)) => {
            account.reached();
            return answer::answer(call, reply, account, leave, hides_usage, &gateway).await;
        }
        Err(Unsent::NoReply(no_reply)) => {
            // Whether it died in the pool nobody can tell. Where another attempt follows, that one goes over a new connection, and shows.
            let maybe_stale = no_reply == NoReply::Broken && !fresh && since.elapsed() < AT_ONCE && call.who.policy.retry.max > 0;
            leave.report(if maybe_stale { Report::Unknown } else { Report::Failed });
            (no_reply.into(), true)
        }
        Err(Unsent::NoRoom) => (ProviderFault::RateLimited { retry_after: None }, false),
    };
    if fault.reached() {
        account.reached();
    }
    account.attempt_failed(fault, None);
    Err(Failed::new(call, account, fault, may_retry).into())
}

/// Why there is no reply to look at.
enum Unsent {
    NoReply(NoReply),
    /// The provider's ceiling has no room for one attempt more.
    NoRoom,
}

impl From<NoReply> for ProviderFault {
    fn from(no_reply: NoReply) -> Self {
        match no_reply {
            NoReply::Connect => Self::Connect,
            NoReply::Timeout => Self::Timeout,
            NoReply::Broken => Self::Broken,
            NoReply::Unprocessed => Self::Unprocessed,
        }
    }
}

async fn send(call: &Call, edits: &Edits, fresh: bool, gateway: &Gateway) -> Result<ProviderReply, NoReply> {
    let body = edited(call, edits, gateway).await;
    let credential = match &call.who.credential {
        Credential::Callers(name, value) => Some((name, value)),
        Credential::Configured => None,
    };
    let upstream = &call.target.upstream;
    let customer = call.who.customer.id.as_str();
    let (head, record) = (&call.who.head, &call.who.record);
    // Where no trace is kept here, that of the caller goes on as it came.
    let propagates = call.who.policy.telemetry.propagate;
    let trace = propagates.then(|| record.traceparent().or_else(|| head.headers.get(TRACEPARENT).cloned())).flatten();
    let outgoing = Outgoing { upstream, head, credential, customer, model: &call.target.model, trace, body, fresh };
    let result = gateway.client.send(outgoing).await;
    if let Ok(reply) = &result {
        record.replied(reply.status().as_u16());
    }
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

/// The body as it goes on.
async fn edited(call: &Call, edits: &Edits, gateway: &Gateway) -> Option<Bytes> {
    let request = call.request.as_ref()?;
    if call.body.len() <= aside::QUICK {
        return Some(request.apply(&call.body, edits));
    }
    let (shared, changed) = (request.clone(), edits.clone());
    // Boxed, since few are so large, and all would carry its state.
    let copied = Box::pin(over(&call.body, &gateway.large_bodies, move |body| shared.apply(body, &changed))).await;
    Some(copied.unwrap_or_else(|| request.apply(&call.body, edits)))
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
) -> Result<(ProviderReply, bool), Unsent> {
    let upstream = &call.target.upstream;
    let (head, body) = reply.into_parts();
    let (bytes, body) = peek(body, ERROR_BODY, upstream.idle_timeout).await;
    let error = error::read(call.who.api.dialect(), head.status.as_u16(), &bytes);
    if !error.names_field("stream_options") {
        return Ok((http::Response::from_parts(head, body), true));
    }
    account.reached();
    account.attempt_failed(ProviderFault::Server(head.status), None);
    let left = call.who.policy.retry.wait_budget;
    claim_attempt(call, account, gateway, left).await.ok_or(Unsent::NoRoom)?;
    account.attempt();
    let edits = Edits { include_usage: false, ..call.edits.clone() };
    let reply = send(call, &edits, false, gateway).await.map_err(Unsent::NoReply)?;
    if reply.status().is_success() {
        gateway.client.refuses_usage(&upstream.name);
        tracing::warn!(upstream = %upstream.name, "the upstream refuses stream_options; its streams are metered by our own count");
    }
    Ok((reply, false))
}

/// A future that may go on without whoever waited for it: when dropped unfinished, a task takes it over.
struct Outlive {
    future: Option<BoxFuture<'static, Result<Reply, Box<Rejected>>>>,
    gateway: Arc<Gateway>,
    /// For whom it goes on; `None` = it ends there and then.
    customer: Option<Arc<str>>,
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
        if let (Some(future), Some(customer)) = (self.future.take(), &self.customer) {
            self.gateway.orphans.adopt(customer, |place| async move {
                let reply = future.await;
                // The reply's body, when dropped, asks for a place of its own and reads itself to the end.
                drop(place);
                drop(reply);
            });
        }
    }
}
