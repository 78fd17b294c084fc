//! Taking a request in for later: what is stored of it, and the 202.

use super::view;
use crate::config::policy::Auth;
use crate::domain::Priority;
use crate::repeats::job::{Job, Request, is_secret, may_wait};
use crate::repeats::jobs::{Added, Bounds, Jobs, new_id};
use crate::repeats::key::IDEMPOTENCY_KEY;
use crate::reply::{self, Rejection};
use crate::stack::Gateway;
use crate::stack::authenticate::key_hash;
use crate::stack::call::{Call, Rejected, Reply, Who};
use crate::upstream::headers::upward;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

/// How soon to come back while there are too many jobs, microseconds.
const FULL: u64 = 10_000_000;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PRIORITY: HeaderName = HeaderName::from_static("x-priority");

/// Headers of ours that say whose request it is and what kind.
const OURS: [HeaderName; 7] = [
    PRIORITY,
    HeaderName::from_static("x-customer-id"),
    HeaderName::from_static("x-user-id"),
    HeaderName::from_static("x-customer-plan"),
    HeaderName::from_static("x-request-class"),
    HeaderName::from_static("x-personal-data"),
    HeaderName::from_static("x-conversation-id"),
];

/// Whether the answer is wanted later, and can be given later. Where it cannot, the preference is ignored, as RFC 7240 allows: in
/// passthrough mode the caller's provider key would have to be stored.
pub fn asked_for(who: &Who) -> bool {
    matches!(who.policy.auth, Auth::Keys { .. }) && may_wait(who.api) && prefers_later(&who.head.headers)
}

/// `Prefer: respond-async`, among other preferences, with or without parameters.
fn prefers_later(headers: &HeaderMap) -> bool {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).filter_map(|preference| preference.split([';', '=']).next());
    names.into_iter().any(|name| name.trim().eq_ignore_ascii_case("respond-async"))
}

/// Stores a request, and answers 202 once that is done.
pub async fn take_in(call: Box<Call>, gateway: Arc<Gateway>) -> Result<Reply, Box<Rejected>> {
    let Call { who, body, .. } = *call;
    let repeats = who.policy.repeats;
    if body.len() > repeats.max_request {
        return Err(Rejection::BodyTooLarge { max: repeats.max_request as u64 }.into());
    }
    let id = new_id();
    who.record.note(|facts| facts.job = Some(id.as_str().into()));
    let wait = u64::try_from(repeats.job_wait.as_micros()).unwrap_or(u64::MAX);
    let key = key_hash(&who.head.headers)?;
    let job = Job::new(&who.app.name, &key, who.customer.id.as_str(), who.api, (gateway.clock.now(), wait));
    let headers = kept_headers(&who, &id);
    let asked = Request { api: who.api, method: who.head.method.clone(), uri: who.head.uri.clone(), headers, body };
    let bounds = Bounds { all: repeats.jobs, per_customer: repeats.jobs_per_customer };
    let added = {
        let _one = gateway.jobs.adding.lock().await;
        Jobs::new(gateway.documents.clone()).add(&id, &job, &asked, bounds, lifetime(repeats.job_wait, repeats.keep)).await
    };
    match added {
        Ok(Added::Stored) => {
            gateway.jobs.wake.notify_one();
            Ok(reply::job::accepted(&view(&id, &job), who.api.dialect()))
        }
        Ok(Added::CustomerFull) => Err(Rejection::TooManyJobs { limit: bounds.per_customer as u64 }.into()),
        Ok(Added::Full) => Err(Rejection::Overloaded { retry_in: FULL }.into()),
        Err(error) => {
            tracing::warn!(%error, "the store did not take a job");
            Err(Rejection::LimitsUnavailable.into())
        }
    }
}

/// How long a job that waits is kept: as long as it may wait, and then as long as a result.
pub(super) fn lifetime(wait: Duration, keep: Duration) -> Duration {
    wait.saturating_add(keep)
}

/// The headers that may be stored of a request that runs later: what would go up, what is ours, nothing secret.
pub fn stored_headers(who: &Who) -> HeaderMap {
    let sent = &who.head.headers;
    let mut kept: HeaderMap = upward(sent).into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
    for name in OURS.into_iter().chain([IDEMPOTENCY_KEY]) {
        // Given twice it is kept twice: of two marks the run must not see only the one that allows more.
        kept.remove(&name);
        for value in sent.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    let secret: Vec<HeaderName> = kept.keys().filter(|name| is_secret(name)).cloned().collect();
    for name in secret {
        kept.remove(name);
    }
    kept
}

/// The headers the job will run with.
fn kept_headers(who: &Who, id: &str) -> HeaderMap {
    let mut kept = stored_headers(who);
    // Nobody waits for it on the line.
    kept.entry(PRIORITY).or_insert(HeaderValue::from_static(Priority::Background.as_str()));
    // Should a run be repeated because its gateway died, a provider that knows such keys need not answer twice.
    if let Ok(id) = HeaderValue::try_from(id) {
        kept.entry(IDEMPOTENCY_KEY).or_insert(id);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preference_is_found_among_others() {
        for (sent, right) in [
            (vec![], false),
            (vec!["respond-async"], true),
            (vec!["Respond-Async"], true),
            (vec!["wait=10, respond-async"], true),
            (vec!["wait=10", "respond-async;x=1"], true),
            (vec!["return=minimal"], false),
            (vec!["respond-asynchronously"], false),
            (vec!["x=respond-async"], false),
        ] {
            let headers = sent.iter().map(|value| (PREFER, HeaderValue::from_static(value)));
            let mut map = HeaderMap::new();
            headers.for_each(|(name, value)| {
                map.append(name, value);
            });
            assert_eq!(prefers_later(&map), right, "{sent:?}");
        }
    }
}
