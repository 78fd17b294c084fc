//! From a path to the API it speaks. Exact paths only: what is not listed is 404 and nothing is forwarded.
//!
//! What a call is posted to goes straight to the stack: the router's own way there costs as much as a limit. Everything else takes it.

use super::call::{Arrived, Rejected};
use super::{Gateway, Stack, levels, observe};
use crate::config::policy::Auth;
use crate::domain::RequestId;
use crate::repeats::jobs::Jobs;
use crate::reply::{self, Rejection};
use crate::store::outage::Status;
use crate::telemetry::Record;
use crate::telemetry::metrics::{JobLabels, Name, PoolLabels};
use crate::telemetry::outage::OutageMetrics;
use crate::wire::{Api, Dialect};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What calls are posted to.
const CALLS: [(&str, Api); 6] = [
    ("/v1/chat/completions", Api::Chat),
    ("/v1/responses", Api::Responses),
    ("/v1/messages", Api::Messages),
    ("/v1/embeddings", Api::Embeddings),
    ("/v1/completions", Api::Completions),
    ("/v1/messages/count_tokens", Api::CountTokens),
];

/// The address a connection comes from; the listener puts it into each request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The routes of a gateway. Clones share them: every request takes some.
#[derive(Clone, Debug)]
pub struct Routes(Arc<Parts>);

/// What the routes share.
struct Parts {
    gateway: Arc<Gateway>,
    stack: Stack,
    desk: Stack,
    status: Stack,
    draining: AtomicBool,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl Routes {
    /// The routes of a gateway.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>) -> Self {
        let (stack, desk, status) = (super::build(&gateway), super::desk_stack(&gateway), super::build_status(&gateway));
        Self(Arc::new(Parts { gateway, stack, desk, status, draining: AtomicBool::new(false) }))
    }

    /// From now on readiness says no: the gateway is going away.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// As an HTTP service of all paths.
    pub fn router(&self) -> Router {
        let calls = CALLS.into_iter().fold(Router::new(), |router, (path, called)| router.route(path, api(called)));
        calls
            .route("/v1/models", get(models).fallback(only_get))
            .route("/v1/models/{*id}", get(models).fallback(only_get))
            .route("/v1/jobs/{id}", get(jobs).delete(jobs).fallback(only_get_or_delete))
            .route("/v1/jobs/{id}/result", get(jobs).fallback(only_get))
            .route("/v1/triage/{id}", get(triage).fallback(only_get))
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .fallback(unknown)
            .with_state(self.clone())
    }

    /// The API that a request calls, where it is one of those that calls are posted to.
    #[must_use]
    pub fn called(request: &Request) -> Option<Api> {
        let path = request.uri().path();
        let posted = request.method() == http::Method::POST;
        posted.then(|| CALLS.into_iter().find(|(call, _)| *call == path).map(|(_, api)| api)).flatten()
    }

    /// Serves a call of this API.
    pub async fn serve(self, api: Api, request: Request) -> Response {
        let parts = &*self.0;
        let (head, body) = request.into_parts();
        let record = Arc::new(parts.gateway.record(api).continuing(&head.headers));
        let peer = head.extensions.get::<Peer>().map_or_else(|| [127, 0, 0, 1].into(), |peer| peer.0.ip());
        let arrived = Box::new(Arrived {
            api,
            head,
            body,
            peer,
            at: parts.gateway.clock.now(),
            policy: parts.gateway.policy.load_full(),
            record,
        });
        let stack = match api {
            Api::Jobs(_) => &parts.desk,
            Api::Triage(_) => &parts.status,
            _ => &parts.stack,
        };
        match stack.serve(arrived).await {
            Ok(reply) => reply,
            Err(never) => match never {},
        }
    }

    /// Refuses what has no route, in the format its caller most likely reads. It has its line in the access log and is counted, but no
    /// record is kept of it: there is nothing to look up, and whoever tries paths would fill the store.
    fn refuse(&self, request: &Request, rejection: Rejection) -> Response {
        let anthropic = request.uri().path().starts_with("/v1/messages") || request.headers().contains_key("anthropic-version");
        let api = Api::Unknown(if anthropic { Dialect::Anthropic } else { Dialect::OpenAi });
        let gateway = &self.0.gateway;
        let record = Arc::new(Record::new(RequestId::at(gateway.clock.now(), fastrand::u128(..)), api, gateway.metrics.clone()));
        let reply = observe::answer(&record, &Box::<Rejected>::from(rejection));
        observe::observed(reply, record)
    }
}

fn api(api: Api) -> MethodRouter<Routes> {
    post(move |State(routes): State<Routes>, request: Request| routes.serve(api, request)).fallback(only_post)
}

/// The two dialects share these paths; only Anthropic's clients send a version.
async fn models(State(routes): State<Routes>, request: Request) -> Response {
    if climbs(request.uri().path()) {
        return unknown(State(routes), request).await;
    }
    let anthropic = request.headers().contains_key("anthropic-version");
    routes.serve(if anthropic { Api::AnthropicModels } else { Api::Models }, request).await
}

/// How an asynchronous request stands, in the format its caller most likely reads.
async fn jobs(State(routes): State<Routes>, request: Request) -> Response {
    let anthropic = request.headers().contains_key("anthropic-version");
    routes.serve(Api::Jobs(if anthropic { Dialect::Anthropic } else { Dialect::OpenAi }), request).await
}

async fn triage(State(routes): State<Routes>, request: Request) -> Response {
    let anthropic = request.headers().contains_key("anthropic-version");
    let dialect = if anthropic { Dialect::Anthropic } else { Dialect::OpenAi };
    routes.serve(Api::Triage(dialect), request).await
}

/// Whether a path holds segments that a URL parser resolves (`..`, also in its encoded spellings): behind the one route whose end is free
/// they would lead to any other resource of the provider's, with the company's key.
fn climbs(path: &str) -> bool {
    path.split(['/', '\\']).any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".." || plain.contains("%2f") || plain.contains("%5c")
    })
}

async fn unknown(State(routes): State<Routes>, request: Request) -> Response {
    let path = request.uri().path().chars().take(200).collect::<String>().into();
    routes.refuse(&request, Rejection::NotFound { path })
}

async fn only_post(State(routes): State<Routes>, request: Request) -> Response {
    routes.refuse(&request, Rejection::MethodNotAllowed { allow: "POST" })
}

async fn only_get(State(routes): State<Routes>, request: Request) -> Response {
    routes.refuse(&request, Rejection::MethodNotAllowed { allow: "GET" })
}

async fn only_get_or_delete(State(routes): State<Routes>, request: Request) -> Response {
    routes.refuse(&request, Rejection::MethodNotAllowed { allow: "GET, DELETE" })
}

/// Alive: the process answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Ready: the gateway is not going away, and the store answers, or is away and requests are still decided alone. That is degraded, and
/// the text says so, but still 200: the store is away from the other gateways as well, so taking this one out would only end the
/// service. Once the time for it is over, or if the store was never there, 503.
async fn readyz(State(routes): State<Routes>) -> Response {
    let answers = routes.0.gateway.ledger.ping().await.is_ok();
    let standing = routes.0.gateway.ledger.standing().unwrap_or_default();
    let (status, text) = match standing.alone_until {
        _ if routes.0.draining.load(Ordering::Relaxed) => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned()),
        _ if answers && !standing.breaker_open && standing.evicts => (
            StatusCode::OK,
            "ready, but the store may throw budgets away when its memory is full: set its maxmemory-policy to noeviction\n"
                .to_owned(),
        ),
        _ if answers && !standing.breaker_open => (StatusCode::OK, "ready\n".to_owned()),
        Some(until) => {
            let (alone, refused, waiting) = (standing.alone, standing.refused_alone, standing.waiting);
            let until = reply::rfc3339(until);
            let counts = format!("{alone} requests admitted alone, {refused} refused, {waiting} settlements waiting");
            (StatusCode::OK, format!("ready, but degraded: the store is away, deciding alone until {until}; {counts}\n"))
        }
        None if standing.away => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the store is away, and nothing is decided alone (any more); see the log\n".to_owned(),
        ),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer; see the log\n".to_owned()),
    };
    plain(status, "text/plain; charset=utf-8", text.into())
}

async fn metrics(State(routes): State<Routes>) -> Response {
    let gateway = &routes.0.gateway;
    gateway.metrics.unsettled.set(i64::try_from(gateway.settler.status().outstanding).unwrap_or(i64::MAX));
    if matches!(gateway.policy.load().auth, Auth::Keys { .. })
        && let Ok((queued, running)) = Jobs::new(gateway.documents.clone()).count().await
    {
        for (state, count) in [("queued", queued), ("running", running)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            gateway.metrics.jobs.get_or_create(&JobLabels { state }).set(count);
        }
    }
    show_levels(gateway);
    if let Some(standing) = gateway.ledger.standing() {
        show(&gateway.metrics.outage, &standing);
    }
    plain(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", gateway.metrics.render().into())
}

/// Carries how the pools stand over into the metrics; of several accounts of a pool the one that is worst off.
fn show_levels(gateway: &Gateway) {
    let mut worst: BTreeMap<&str, (u8, u64)> = BTreeMap::new();
    let all = gateway.levels.all();
    for (owner, standing, level) in &all {
        let entry = worst.entry(levels::pool_of(owner)).or_default();
        *entry = ((*level).max(entry.0), standing.used.max(entry.1));
    }
    let policy = gateway.policy.load();
    for pool in &policy.pools {
        let (level, used) = worst.get(&*pool.name).copied().unwrap_or_default();
        let labels = PoolLabels { pool: Name(pool.name.clone()) };
        gateway.metrics.levels.get_or_create(&labels).set(i64::from(level));
        gateway.metrics.ceiling_used.get_or_create(&labels).set(i64::try_from(used).unwrap_or(i64::MAX));
    }
}

/// Carries how the store's guard stands over into the metrics.
fn show(metrics: &OutageMetrics, standing: &Status) {
    for (counter, count) in [
        (&metrics.outages, standing.outages),
        (&metrics.alone, standing.alone),
        (&metrics.refused_alone, standing.refused_alone),
        (&metrics.replayed, standing.replayed),
        (&metrics.stale, standing.stale),
        (&metrics.repaired, standing.repaired),
        (&metrics.late, standing.late),
    ] {
        // Counted over there, by one that only counts up.
        counter.inner().store(count, Ordering::Relaxed);
    }
    metrics.away.set(i64::from(standing.away));
    metrics.evicts.set(i64::from(standing.evicts));
    metrics.breaker_open.set(i64::from(standing.breaker_open));
    metrics.waiting.set(i64::try_from(standing.waiting).unwrap_or(i64::MAX));
    metrics.gateways.set(i64::try_from(standing.gateways).unwrap_or(i64::MAX));
}

fn plain(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_model_names_pass_behind_the_models_route() {
        for path in [
            "/v1/models",
            "/v1/models/gpt-4o",
            "/v1/models/ft%3Agpt-4o%3Aorg",
            "/v1/models/openai/gpt-oss-20b",
            "/v1/models/a..b",
        ] {
            assert!(!climbs(path), "{path}");
        }
        for path in [
            "/v1/models/../files",
            "/v1/models/%2e%2E/files",
            "/v1/models/.%2e/files",
            "/v1/models/./x",
            "/v1/models/..%2ffiles",
            "/v1/models/x%5c..%5cfiles",
            "/v1/models/..\\files",
        ] {
            assert!(climbs(path), "{path}");
        }
    }
}
