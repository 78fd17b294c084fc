//! An asynchronous request as it is stored: how it stands, and, in a document of its own, what was asked.

use super::kept::{flat, join, split, unflat};
use crate::domain::Timestamp;
use crate::wire::Api;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Uri};
use serde::{Deserialize, Serialize};

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits for its turn, or for room.
    Queued,
    /// A gateway is at it.
    Running,
    /// It has its reply, a success.
    Done,
    /// It has its reply, an error.
    Failed,
    /// It found no room in its time.
    Expired,
}

impl State {
    /// Its name in answers and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }

    /// Whether it is over.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Expired)
    }
}

/// How an asynchronous request stands. Instants are microseconds of the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The application that asked, by its name.
    pub app: String,
    /// The hash of the gateway key it showed, in hexadecimal digits: a job of a key that was taken away does not run.
    pub key: String,
    /// The customer's exact id.
    pub customer: String,
    /// The route, by its name.
    pub route: String,
    /// How it stands.
    pub state: State,
    /// When it was taken.
    pub created: u64,
    /// When it expires unless it runs.
    pub until: u64,
    /// When it is to be looked at again.
    pub due: u64,
    /// When it last began to run.
    pub started: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// Runs that began and did not end for want of room.
    pub runs: u32,
    /// Runs that found no room, since the last that did.
    pub refusals: u32,
    /// `code` of the last refusal or failure.
    pub reason: Option<String>,
}

/// Where ended jobs stand in the listing, after all that are to be looked at. Exact as a double, since Redis ranks by those.
pub const ENDED: u64 = 1 << 52;

impl Job {
    /// A job that is taken now.
    #[must_use]
    pub fn new(app: &str, key: &[u8; 32], customer: &str, api: Api, (now, wait): (Timestamp, u64)) -> Self {
        Self {
            app: app.to_owned(),
            key: blake3::Hash::from_bytes(*key).to_hex().to_string(),
            customer: customer.to_owned(),
            route: api.as_str().to_owned(),
            state: State::Queued,
            created: now.micros(),
            until: now.plus(wait).micros(),
            due: now.micros(),
            started: None,
            ended: None,
            runs: 0,
            refusals: 0,
            reason: None,
        }
    }

    /// The hash of the key; `None` when it is none, which never was written.
    #[must_use]
    pub fn key_hash(&self) -> Option<[u8; 32]> {
        blake3::Hash::from_hex(&self.key).ok().map(Into::into)
    }

    /// The route.
    #[must_use]
    pub fn api(&self) -> Option<Api> {
        route(&self.route)
    }

    /// Where it stands in the listing.
    #[must_use]
    pub const fn rank(&self) -> u64 {
        if self.state.has_ended() || self.due >= ENDED { ENDED } else { self.due }
    }

    /// As it is stored.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a job has a JSON form").into()
    }

    /// From what is stored.
    #[must_use]
    pub fn decode(value: &Bytes) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

/// What was asked.
#[derive(Debug)]
pub struct Request {
    /// The route.
    pub api: Api,
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers that matter, without any credential.
    pub headers: HeaderMap,
    /// The body, decoded.
    pub body: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Line {
    api: String,
    method: String,
    uri: String,
    headers: Vec<(String, String)>,
}

/// The routes whose requests may be answered later: those that cost something.
const ROUTES: [Api; 5] = [Api::Chat, Api::Responses, Api::Completions, Api::Embeddings, Api::Messages];

fn route(name: &str) -> Option<Api> {
    ROUTES.into_iter().find(|api| api.as_str() == name)
}

/// Whether requests of this route may be answered later.
#[must_use]
pub fn may_wait(api: Api) -> bool {
    ROUTES.contains(&api)
}

impl Request {
    /// As it is stored.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let line = Line {
            api: self.api.as_str().to_owned(),
            method: self.method.as_str().to_owned(),
            uri: self.uri.to_string(),
            headers: flat(&self.headers),
        };
        join(&line, &self.body)
    }

    /// From what is stored.
    #[must_use]
    pub fn decode(value: &Bytes) -> Option<Self> {
        let (line, body) = split::<Line>(value)?;
        Some(Self {
            api: route(&line.api)?,
            method: line.method.parse().ok()?,
            uri: line.uri.parse().ok()?,
            headers: unflat(&line.headers),
            body,
        })
    }
}

/// Whether a header looks like it carries a secret. `headers::upward` has taken out those we know; whatever else an application may
/// send along is not written to a store either.
#[must_use]
pub fn is_secret(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["auth", "api-key", "apikey", "token", "secret", "password", "credential", "cookie"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_job_and_its_request_are_read_again_as_they_were() {
        let job = Job::new("shop", &[7; 32], "c-1", Api::Chat, (Timestamp(5), 10));
        assert_eq!(Job::decode(&job.encode()), Some(job.clone()));
        assert_eq!((job.key_hash(), job.until, job.rank()), (Some([7; 32]), 15, 5));
        let ended = Job { state: State::Failed, ..job };
        assert_eq!(ended.rank(), ENDED);
        for api in ROUTES {
            let request = Request {
                api,
                method: Method::POST,
                uri: "/v1/x?beta=true".parse().expect("a target"),
                headers: HeaderMap::from_iter([(HeaderName::from_static("x-a"), HeaderValue::from_static("1"))]),
                body: Bytes::from_static(b"{\n}"),
            };
            let read = Request::decode(&request.encode()).expect("it reads");
            assert_eq!(
                (read.api, read.method, read.uri, read.headers, read.body),
                (request.api, request.method, request.uri, request.headers, request.body)
            );
        }
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for (name, secret) in [
            ("authorization", true),
            ("x-goog-api-key", true),
            ("x-amz-security-token", true),
            ("set-cookie", true),
            ("idempotency-key", false),
            ("anthropic-version", false),
            ("x-customer-id", false),
        ] {
            assert_eq!(is_secret(&HeaderName::from_static(name)), secret, "{name}");
        }
    }
}
