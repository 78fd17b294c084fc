//! What is said of asynchronous requests: taken, how they stand, gone.

use crate::wire::Dialect;
use axum::body::Body;
use http::{HeaderName, HeaderValue, Response, StatusCode, header as standard};
use serde_json::{Value, json};

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// When to look again, seconds.
const LOOK_AGAIN: u64 = 2;

/// How an asynchronous request stands. Instants are Unix seconds.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of the answer, described in the README")]
pub struct JobView<'a> {
    pub id: &'a str,
    pub status: &'a str,
    pub created_at: u64,
    pub started_at: Option<u64>,
    pub ended_at: Option<u64>,
    pub expires_at: u64,
    pub attempts: u32,
    /// Why it waits or failed: the `code` of the last refusal.
    pub reason: Option<&'a str>,
    /// Whether its result can be fetched.
    pub has_result: bool,
}

impl JobView<'_> {
    fn url(&self) -> String {
        format!("/v1/jobs/{}", self.id)
    }

    fn json(&self, dialect: Dialect) -> Value {
        let mut value = json!({
            "id": self.id,
            "status": self.status,
            "created_at": self.created_at,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "expires_at": self.expires_at,
            "attempts": self.attempts,
            "reason": self.reason,
            "url": self.url(),
            "result_url": self.has_result.then(|| format!("{}/result", self.url())),
        });
        // Each API names the kind of an object in its own way.
        let kind = match dialect {
            Dialect::OpenAi => "object",
            Dialect::Anthropic => "type",
        };
        value[kind] = "job".into();
        value
    }
}

/// 202: the request is stored and will run (RFC 7240 4.1).
#[must_use]
pub fn accepted(view: &JobView<'_>, dialect: Dialect) -> Response<Body> {
    let mut reply = unfinished(view, dialect);
    let headers = reply.headers_mut();
    headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static("respond-async"));
    headers.insert(standard::VARY, HeaderValue::from_static("Prefer"));
    if let Ok(url) = HeaderValue::try_from(view.url()) {
        headers.insert(standard::LOCATION, url);
    }
    reply
}

/// 200: how it stands.
#[must_use]
pub fn status(view: &JobView<'_>, dialect: Dialect) -> Response<Body> {
    answer(StatusCode::OK, view, dialect)
}

/// 202: there is no result yet.
#[must_use]
pub fn unfinished(view: &JobView<'_>, dialect: Dialect) -> Response<Body> {
    let mut reply = answer(StatusCode::ACCEPTED, view, dialect);
    reply.headers_mut().insert(standard::RETRY_AFTER, HeaderValue::from(LOOK_AGAIN));
    reply
}

/// 204: it is cancelled, and forgotten.
#[must_use]
pub fn cancelled() -> Response<Body> {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

fn answer(status: StatusCode, view: &JobView<'_>, dialect: Dialect) -> Response<Body> {
    let mut reply = Response::new(Body::from(view.json(dialect).to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(standard::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply.headers_mut().insert(standard::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
