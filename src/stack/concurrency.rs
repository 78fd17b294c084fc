//! Layer 12: a slot of this process, held to the end of the reply *body*.
//!
//! The permit is the client's: when the client leaves it is free at once, even while the provider's answer is still read to its end
//! for the books.

use super::call::{Call, Rejected, Reply};
use super::failed::Failed;
use super::gateway::Gateway;
use super::serve::Serve;
use super::slots::{NoSlot, Permit, Turn};
use crate::reply::Rejection;
use crate::telemetry::otlp::Kind;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;
use tower::Layer;

/// When to come back if there is no slot, microseconds: about as long as an answer takes.
const RETRY_IN: u64 = 2_000_000;

/// Bounds the concurrency of whatever it wraps.
#[derive(Clone, Debug)]
pub struct ConcurrencyLayer(pub Arc<Gateway>);

impl<S> Layer<S> for ConcurrencyLayer {
    type Service = Concurrency<S>;
    fn layer(&self, inner: S) -> Concurrency<S> {
        Concurrency { inner, gateway: self.0.clone() }
    }
}

/// See [`ConcurrencyLayer`].
#[derive(Clone, Debug)]
pub struct Concurrency<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Box<Call>> for Concurrency<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, call: Box<Call>) -> Result<Reply, Self::Error> {
        let permit = match slot(&call, &self.gateway).await {
            Ok(permit) => permit,
            Err(rejection) => return Err(turned_away(call, rejection)),
        };
        // Should the client leave here, the permit drops with this future; `forward` decides on its own what becomes of the call.
        let reply = self.inner.serve(call).await?;
        Ok(reply.map(|body| Body::new(Held { body, _permit: permit })))
    }
}

/// A further attempt that gets no slot is still the call that failed before.
fn turned_away(mut call: Box<Call>, rejection: Rejection) -> Box<Rejected> {
    let mut rejected = Box::<Rejected>::from(rejection);
    if let Some(account) = call.account.take()
        && let Some(fault) = account.last_fault()
    {
        rejected.failed = Some(Box::new(Failed::not_made(call, account, fault)));
    }
    rejected
}

async fn slot(call: &Call, gateway: &Gateway) -> Result<Permit, Rejection> {
    let customer = &call.who.customer;
    let turn = gateway.slots.ask(&customer.scope.owner, call.who.priority, customer.plan.max_in_flight);
    match turn {
        Ok(Turn::Now(permit)) => Ok(permit),
        Ok(Turn::Later(place)) => {
            gateway.metrics.queued.inc();
            let _leaves = Leaves(gateway);
            let before = call.who.record.elapsed();
            let step = call.who.record.begin(|| Kind::Wait("slot"));
            let permit = timeout(call.who.policy.concurrency.max_wait, place.turn()).await;
            call.who.record.end(step, None);
            let waited = call.who.record.elapsed().saturating_sub(before);
            call.who.record.note(|facts| facts.waited += waited);
            permit.map_err(|_| Rejection::Overloaded { retry_in: RETRY_IN })
        }
        Err(NoSlot::CustomerInFlight { limit, in_flight }) => Err(Rejection::Concurrent { limit, in_flight }),
        Err(NoSlot::QueueFull) => Err(Rejection::Overloaded { retry_in: RETRY_IN }),
    }
}

/// Counts a waiter out, however it leaves.
struct Leaves<'a>(&'a Gateway);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.metrics.queued.dec();
    }
}

pin_project_lite::pin_project! {
    /// A reply body that holds a slot.
    struct Held {
        #[pin]
        body: Body,
        _permit: Permit,
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
