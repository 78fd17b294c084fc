//! The run itself: the stored request through the layers from `identify` down, by the configuration of this moment.

use super::runner::Worker;
use crate::config::policy::Auth;
use crate::repeats::job::Request;
use crate::repeats::jobs::Found;
use crate::repeats::kept::{Kept, What};
use crate::repeats::outcome::{Run, is_final};
use crate::reply::{Rejection, Unauthenticated, UpstreamFault, outlives};
use crate::stack::Gateway;
use crate::stack::call::{Arrived, Authenticated, Credential, HeldKey, Rejected, Reply};
use crate::stack::identify::away;
use crate::stack::observe::answer;
use crate::stack::serve::Shared;
use crate::telemetry::{Ending, Record};
use crate::wire::Api;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// How a run ended.
#[derive(Debug)]
pub struct Attempted {
    /// What kind of end.
    pub run: Run,
    /// What its result would be.
    pub what: What,
    /// Why it is no success.
    pub reason: Option<String>,
}

impl Attempted {
    /// Whether the result is a success.
    pub fn succeeded(&self) -> bool {
        matches!(&self.what, What::Replied(kept) if kept.status.is_success())
    }
}

/// Runs a job once.
pub async fn attempt(worker: &Worker, found: &Found) -> Attempted {
    let request = match worker.jobs.request(&found.id).await {
        Ok(Some(request)) => request,
        Ok(None) => return refused(worker, found, Rejection::Internal).await,
        Err(error) => {
            tracing::debug!(%error, job = found.id, "the request of a job could not be read");
            return refused(worker, found, Rejection::LimitsUnavailable).await;
        }
    };
    let record = record(worker, found, request.api);
    let sender = Sender { app: &found.job.app, key: found.job.key_hash() };
    ask(&worker.gateway, &worker.stack, &sender, request, record).await
}

/// Who sent a request that was stored.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The application, by its name.
    pub app: &'a str,
    /// The hash of the gateway key it showed.
    pub key: Option<[u8; 32]>,
}

/// The layers from `identify` down.
pub type RunStack = Shared<Authenticated, Box<Rejected>>;

/// Sends a stored request through the layers, and reads what comes of it to its end.
pub async fn ask(gateway: &Gateway, stack: &RunStack, sender: &Sender<'_>, request: Request, record: Arc<Record>) -> Attempted {
    match authenticated(gateway, sender, request, record.clone()).await {
        Ok(request) => {
            let answered = AssertUnwindSafe(stack.serve(request)).catch_unwind().await;
            match answered {
                Ok(Ok(reply)) => replied(gateway, &record, reply).await,
                Ok(Err(rejected)) => rejection(gateway, &record, rejected).await,
                Err(_) => {
                    tracing::error!(request_id = %record.id, "a stored request panicked");
                    rejection(gateway, &record, Rejection::Internal.into()).await
                }
            }
        }
        Err(rejected) => rejection(gateway, &record, rejected.into()).await,
    }
}

/// What a job comes to that did not run.
pub async fn refused(worker: &Worker, found: &Found, why: Rejection) -> Attempted {
    let record = record(worker, found, found.job.api().unwrap_or(Api::Chat));
    rejection(&worker.gateway, &record, why.into()).await
}

fn record(worker: &Worker, found: &Found, api: Api) -> Arc<Record> {
    let record = Arc::new(worker.gateway.record(api));
    record.note(|facts| facts.job = Some(found.id.as_str().into()));
    record
}

/// The request as its application would send it now; refused when its key was taken away.
async fn authenticated(
    gateway: &Gateway,
    sender: &Sender<'_>,
    request: Request,
    record: Arc<Record>,
) -> Result<Authenticated, Rejection> {
    let policy = gateway.policy.load_full();
    let (app, key) = match (&policy.auth, sender.key) {
        (Auth::Keys { apps }, Some(hash)) => match apps.get(&hash).filter(|app| *app.name == *sender.app) {
            Some(app) => Some((app.clone(), None)),
            None => {
                gateway.directory.catch_up().await.map_err(|error| away(&error))?;
                let found = gateway.directory.job_app(&hash, sender.app);
                found.map(|(held, number)| (held.app, Some(HeldKey { hash: held.hash, number })))
            }
        },
        _ => None,
    }
    .ok_or(Rejection::Unauthenticated(Unauthenticated::Unknown))?;
    record.note(|facts| facts.app = Some(app.name.clone()));
    let (mut head, ()) = http::Request::new(()).into_parts();
    (head.method, head.uri, head.headers) = (request.method, request.uri, request.headers);
    let arrived = Box::new(Arrived {
        api: request.api,
        head,
        body: Body::from(request.body),
        // Only tells callers apart who have no key.
        peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        at: gateway.clock.now(),
        policy,
        record,
    });
    Ok(Authenticated { arrived, app, credential: Credential::Configured, key })
}

async fn replied(gateway: &Gateway, record: &Record, reply: Reply) -> Attempted {
    let (head, body) = reply.into_parts();
    record.note(|facts| facts.status = head.status.as_u16());
    let max = gateway.policy.load().repeats.max_reply;
    let body = match collect(body, max).await {
        Collected::Whole(body) => body,
        Collected::TooLong => {
            let what = What::TooLong(max as u64);
            return Attempted { run: Run::Final, what, reason: Some("reply_not_kept".to_owned()) };
        }
        Collected::Broken => return broken(gateway, record).await,
    };
    let (cause, complete) = record.read(|facts| (facts.cause, facts.ending == Ending::Complete));
    if head.status.is_success() && (cause == Some("upstream_failed") || !complete) {
        return broken(gateway, record).await;
    }
    let run = match head.status {
        status if is_final(status, &head.headers) => Run::Final,
        StatusCode::TOO_MANY_REQUESTS => {
            let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
            Run::NoRoom(seconds.map(|seconds| seconds.saturating_mul(1_000_000)))
        }
        _ => Run::Failed,
    };
    let headers = head.headers.iter().filter(|(name, _)| outlives(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
    let what = What::Replied(Kept { status: head.status, headers, made_by: record.id.to_string(), body });
    let reason = (!head.status.is_success()).then(|| cause.unwrap_or("upstream_error").to_owned());
    Attempted { run, what, reason }
}

/// A reply that broke off is not given to anybody.
async fn broken(gateway: &Gateway, record: &Record) -> Attempted {
    rejection(gateway, record, Rejection::Upstream(UpstreamFault::Broken).into()).await
}

async fn rejection(gateway: &Gateway, record: &Record, rejected: Box<Rejected>) -> Attempted {
    let why = &rejected.rejection;
    let run = match why.returns_in() {
        Some(micros) => Run::NoRoom(Some(micros)),
        None if why.status().is_server_error() => Run::Failed,
        None => Run::Refused,
    };
    let (head, body) = answer(record, &rejected).into_parts();
    record.note(|facts| facts.status = head.status.as_u16());
    let Collected::Whole(body) = collect(body, gateway.policy.load().repeats.max_reply).await else {
        unreachable!("our own answers are in memory and short");
    };
    let headers = head.headers.iter().filter(|(name, _)| outlives(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
    let what = What::Replied(Kept { status: head.status, headers, made_by: record.id.to_string(), body });
    Attempted { run, what, reason: Some(why.cause().to_owned()) }
}

enum Collected {
    Whole(Bytes),
    TooLong,
    Broken,
}

async fn collect(mut body: Body, max: usize) -> Collected {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Collected::Broken };
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > max {
            return Collected::TooLong;
        }
        whole.extend_from_slice(&data);
    }
    Collected::Whole(whole.freeze())
}
