//! `GET /v1/triage/{id}`: how the ticket of a hand-off stands, for the app whose customer it is.
//!
//! It passes the layers that say who asks, and none that count: it costs no message, no token and no slot. What it costs the store is
//! bounded instead: so many looks at once, and each only for an id that could be one of ours.

use super::call::{Identified, Rejected, Reply, Who};
use super::gateway::Gateway;
use super::serve::Serve;
use crate::reply::Rejection;
use crate::triage::{Standing, TicketId, Trouble};
use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Where the id of a ticket begins.
pub const PREFIX: &str = "/v1/triage/";

/// Looks at the same time, per process.
const AT_ONCE: usize = 64;
/// When to come back if there are more, microseconds.
const CROWDED: u64 = 1_000_000;
/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// When to look again at a ticket that waits, seconds: a person takes minutes.
const AGAIN: u64 = 10;

/// Answers with the status of a ticket.
#[derive(Clone, Debug)]
pub struct Status {
    gateway: Arc<Gateway>,
    places: Arc<Semaphore>,
}

impl Status {
    /// Over the desk of this gateway.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    async fn look(&self, who: &Who) -> Result<Reply, Rejection> {
        let id: TicketId =
            who.head.uri.path().strip_prefix(PREFIX).and_then(|id| id.parse().ok()).ok_or(Rejection::TicketNotFound)?;
        let _place = self.places.try_acquire().map_err(|_| Rejection::Overloaded { retry_in: CROWDED })?;
        let status = self.gateway.triage.status(id, &who.customer.id, &who.app.name);
        let (view, standing) = match timeout(PATIENCE, status).await {
            Ok(Ok(found)) => found,
            // The last three are about changes; a look changes nothing.
            Ok(Err(Trouble::NotFound | Trouble::Conflict(_) | Trouble::NoRequest | Trouble::BeingResubmitted)) => {
                return Err(Rejection::TicketNotFound);
            }
            Ok(Err(Trouble::Store(error))) => {
                tracing::warn!(ticket = %id, %error, "the status of a ticket cannot be read");
                return Err(Rejection::TriageUnavailable);
            }
            Err(_) => {
                tracing::warn!(ticket = %id, "the status of a ticket was not read in time");
                return Err(Rejection::TriageUnavailable);
            }
        };
        Ok(reply(&who.head.headers, &view.to_string(), standing))
    }
}

impl Serve<Identified> for Status {
    type Error = Box<Rejected>;

    async fn serve(&self, request: Identified) -> Result<Reply, Self::Error> {
        Ok(self.look(&request.who).await?)
    }
}

/// 200, or 304 where the app has this very state already; with the time to look again while a person may still answer.
fn reply(asked: &HeaderMap, body: &str, standing: Standing) -> Reply {
    let tag = format!("\"{}\"", &blake3::hash(body.as_bytes()).to_hex()[..32]);
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let known = known.flat_map(|value| value.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag);
    let mut reply = Reply::new(if known { Body::empty() } else { Body::from(body.to_owned()) });
    if known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = reply.headers_mut();
    if !known {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(ETAG, HeaderValue::try_from(tag).expect("hexadecimal digits in quotes"));
    if matches!(standing, Standing::Open | Standing::Claimed) {
        headers.insert(RETRY_AFTER, HeaderValue::from(AGAIN));
    }
    reply
}
