//! Layer 1, outermost: gives the request its id, turns rejections into answers, and keeps the record until the *body* ends, which is when the
//! access-log line is written.
//!
//! It is also the panic barrier: a panic below costs that one request a 500 and gives back what the request held, because permits and
//! reservations are owned by the futures and bodies that unwind.

use super::call::{Arrived, Rejected, Reply};
use super::serve::Serve;
use crate::domain::{CustomerId, RequestId};
use crate::limit::Refusal;
use crate::reply::{self, Rejection};
use crate::telemetry::record::Stood;
use crate::telemetry::{Ending, Record};
use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Layer;

/// Observes whatever it wraps.
#[derive(Clone, Debug)]
pub struct ObserveLayer;

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;
    fn layer(&self, inner: S) -> Observe<S> {
        Observe { inner }
    }
}

/// See [`ObserveLayer`].
#[derive(Clone, Debug)]
pub struct Observe<S> {
    inner: S,
}

impl<S: Serve<Box<Arrived>, Error = Box<Rejected>>> Serve<Box<Arrived>> for Observe<S> {
    type Error = std::convert::Infallible;

    async fn serve(&self, arrived: Box<Arrived>) -> Result<Reply, Self::Error> {
        let record = arrived.record.clone();
        let outcome = AssertUnwindSafe(self.inner.serve(arrived)).catch_unwind().await;
        let answered = outcome.unwrap_or_else(|_| {
            tracing::error!(request_id = %record.id, "a request panicked");
            Err(Rejection::Internal.into())
        });
        let reply = answered.unwrap_or_else(|rejected| answer(&record, &rejected));
        Ok(observed(reply, record))
    }
}

/// A reply with the id of its request, which keeps the record until its body ends.
pub fn observed(mut reply: Reply, record: Arc<Record>) -> Reply {
    stamp(reply.headers_mut(), record.id);
    record.note(|facts| facts.status = reply.status().as_u16());
    reply.map(|body| Body::new(Observed { body, record }))
}

/// A rejection as the answer to this request.
pub fn answer(record: &Record, rejected: &Rejected) -> Reply {
    record.note(|facts| {
        facts.cause = Some(rejected.rejection.cause());
        facts.refused_by = refused_by(&rejected.rejection);
        facts.refused_at = refused_at(&rejected.rejection);
    });
    let (customer, plan) = record.read(|facts| (facts.customer.clone(), facts.plan.clone()));
    let context = reply::Context {
        dialect: record.api.dialect(),
        customer: customer.as_ref().map(CustomerId::as_str),
        plan: plan.as_deref(),
        request_id: record.id,
        standing: rejected.standing.as_ref(),
    };
    let mut reply = reply::reject(&rejected.rejection, &context);
    if rejected.retried {
        reply::forbid_retry(reply.headers_mut());
    }
    reply
}

/// The limit that refused, for log and metrics.
const fn refused_by(rejection: &Rejection) -> Option<(&'static str, &'static str)> {
    match rejection {
        Rejection::Limit(refusal) | Rejection::Suspended(refusal) | Rejection::OutputFloor { refusal, .. } => {
            Some((refusal.scope.as_str(), refusal.limit.as_str()))
        }
        Rejection::Concurrent { .. } => Some(("customer", "in_flight")),
        _ => None,
    }
}

/// How that limit stood.
fn refused_at(rejection: &Rejection) -> Option<Stood> {
    match rejection {
        Rejection::Limit(Refusal { max, used, held, asked, .. })
        | Rejection::Suspended(Refusal { max, used, held, asked, .. })
        | Rejection::OutputFloor { refusal: Refusal { max, used, held, asked, .. }, .. } => {
            Some(Stood { max: *max, used: *used, held: *held, asked: *asked })
        }
        Rejection::Concurrent { limit, in_flight } => {
            Some(Stood { max: (*limit).into(), used: (*in_flight).into(), held: 0, asked: 1 })
        }
        _ => None,
    }
}

/// Our id of the request, on every answer.
fn stamp(headers: &mut HeaderMap, id: RequestId) {
    // Hexadecimal digits always make a header value.
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        headers.insert(reply::REQUEST_ID, value);
    }
}

pin_project_lite::pin_project! {
    /// A reply body that keeps the record to its end.
    struct Observed {
        #[pin]
        body: Body,
        record: Arc<Record>,
    }
}

impl HttpBody for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.project();
        let body = this.body;
        match std::panic::catch_unwind(AssertUnwindSafe(|| body.poll_frame(cx))) {
            Ok(poll) => poll,
            Err(_) => {
                tracing::error!(request_id = %this.record.id, "a reply body panicked");
                this.record.note(|facts| facts.ending = Ending::UpstreamBroke);
                Poll::Ready(Some(Err(axum::Error::new(std::io::Error::other("the reply broke off")))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
