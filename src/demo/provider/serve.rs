//! One request from its head to the reply.

use std::{sync::Arc, time::Instant};

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Shared,
    answer::Answer,
    ask::{self, Ask},
    body::{StepBody, play_raw},
    errors::Problem,
    fault::Fault,
    headers,
    limits::Demand,
    log::Ticket,
    plan::{self, Plan},
    script::{Form, Script, Step},
    socket::Line,
    wire,
};
use crate::wire::{Api, Dialect};

/// The largest request body it reads.
const LARGEST_BODY: usize = 64 << 20;

/// The exchange at hand.
struct Exchange {
    shared: Arc<Shared>,
    line: Line,
    ticket: Ticket,
    dialect: Dialect,
    request_id: String,
}

/// Answers a request; `api` is `None` on a path no provider knows.
pub(super) async fn answer(shared: Arc<Shared>, line: Line, api: Option<Api>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let mut ticket = shared.log.open(parts.method.clone(), path, parts.headers.clone());
    let Ok(body) = axum::body::to_bytes(body, LARGEST_BODY).await else {
        // Too long, or the client left in the middle of it.
        line.hang_up();
        return std::future::pending().await;
    };
    ticket.body(&body, &model_of(&body));
    let anthropic = parts.headers.contains_key("anthropic-version") || parts.uri.path().starts_with("/v1/messages");
    let dialect = match api {
        Some(Api::Models) | None if anthropic => Dialect::Anthropic,
        api => api.map_or(Dialect::OpenAi, Api::dialect),
    };
    let request_id = format!("req_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    let exchange = Exchange { shared, line, ticket, dialect, request_id };

    let script = if parts.method == http::Method::GET { None } else { exchange.shared.scripts.lock().pop_front() };
    if let Some(script) = script {
        return exchange.play(script).await;
    }
    if let Some(gate) = &exchange.shared.options.gate {
        gate.passed().await;
    }
    if !exchange.shared.options.first_byte.is_zero() {
        tokio::time::sleep(exchange.shared.options.first_byte).await;
    }
    if !has_key(&parts.headers) {
        return exchange.refuse(&Problem::of_status(401, false, None));
    }
    match api {
        None => exchange.refuse(&Problem { code: None, ..Problem::of_status(404, false, None) }),
        Some(Api::Models) => exchange.models(parts.uri.path()),
        Some(api) => match check_version(&parts.headers, &body).and_then(|()| ask::read(api, &body)) {
            Ok(ask) => exchange.generate(ask, &body).await,
            Err(problem) => exchange.refuse(&problem),
        },
    }
}

impl Exchange {
    async fn generate(mut self, ask: Ask, body: &[u8]) -> Response {
        let fault = Fault::of_model(&ask.model);
        match fault {
            Some(Fault::Status { status, retry_after, quota }) => {
                return self.refuse(&Problem::of_status(status, quota, retry_after));
            }
            Some(Fault::ErrorEvent) if !ask.stream => return self.refuse(&Problem::of_status(500, false, None)),
            Some(Fault::Failed) if ask.api != Api::Responses => return self.refuse(&Problem::of_status(500, false, None)),
            Some(Fault::RejectStreamOptions) if ask.has_stream_options => {
                return self
                    .refuse(&Problem::invalid("Unrecognized request argument supplied: stream_options", Some("stream_options")));
            }
            Some(Fault::Hang) => return std::future::pending().await,
            Some(Fault::Close) => {
                self.ticket.end(super::End::Broken);
                self.line.hang_up();
                return std::future::pending().await;
            }
            Some(Fault::OkError) => {
                let problem = Problem { status: 200, ..Problem::of_status(500, false, None) };
                return self.refuse(&problem);
            }
            _ => {}
        }
        let options = &self.shared.options;
        let input = (options.count)(&ask.model, body);
        if ask.api != Api::CountTokens {
            let cap = ask.cap.map(|cap| cap.saturating_mul(ask.billed));
            let demand = Demand { dialect: self.dialect, input, cap };
            if let Err(problem) = self.shared.account.admit(&ask.model, demand, Instant::now()) {
                return self.refuse(&problem);
            }
        }
        let id = self.request_id.trim_start_matches("req_").to_owned();
        let answer = Answer::of(&ask, fault, input, options.cached_percent, id);
        let plan = if ask.stream {
            plan::stream(&ask, &answer, fault, options.per_token).await
        } else {
            plan::whole(&ask, &answer, fault).await
        };
        if !matches!(ask.api, Api::CountTokens) && !ask.background && fault != Some(Fault::Empty) {
            self.ticket.usage(&answer.usage);
            self.shared
                .account
                .produced(if self.dialect == Dialect::Anthropic { answer.usage.output } else { 0 }, Instant::now());
        }
        let mut headers = HeaderMap::new();
        if ask.stream {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        } else {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self.reply(StatusCode::OK, headers, plan)
    }

    fn models(self, path: &str) -> Response {
        let id = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty());
        match id.map_or_else(|| Some(wire::models::list(self.dialect)), |id| wire::models::one(self.dialect, id)) {
            Some(found) => self.json(StatusCode::OK, HeaderMap::new(), &found),
            None => self.refuse(&Problem::of_status(404, false, None)),
        }
    }

    fn refuse(self, problem: &Problem) -> Response {
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut headers = HeaderMap::new();
        if let Some(seconds) = problem.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        let body = problem.body(self.dialect, &self.request_id);
        self.json(status, headers, &body)
    }

    fn json(self, status: StatusCode, mut headers: HeaderMap, body: &Value) -> Response {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let bytes = body.to_string();
        let plan = Plan { promised: Some(bytes.len() as u64), steps: vec![Step::send(bytes)], gzip: false };
        self.reply(status, headers, plan)
    }

    fn reply(self, status: StatusCode, extra: HeaderMap, plan: Plan) -> Response {
        let mut headers = headers::of_reply(self.dialect, &self.request_id, &self.shared.account.standing());
        headers.extend(extra);
        if plan.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        self.ticket.status(status.as_u16());
        let mut response = Response::new(Body::new(StepBody::new(plan.steps, plan.promised, self.ticket, self.line)));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    async fn play(mut self, script: Script) -> Response {
        if let Some(gate) = script.hold {
            gate.passed().await;
        }
        if let Some(usage) = &script.usage {
            self.ticket.usage(usage);
        }
        match script.form {
            Form::Http { status, headers, whole } => {
                self.ticket.status(status.as_u16());
                let length = |step: &Step| if let Step::Send { bytes, .. } = step { bytes.len() as u64 } else { 0 };
                let promised = whole.then(|| script.steps.iter().map(length).sum());
                let mut response = Response::new(Body::new(StepBody::new(script.steps, promised, self.ticket, self.line)));
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                response
            }
            Form::Raw => {
                play_raw(script.steps, &self.line, &mut self.ticket).await;
                // The connection task is about to drop this future together with hyper's side of the socket.
                std::future::pending().await
            }
        }
    }
}

/// The model a body names, for the log; scripts answer bodies that do not parse, too.
fn model_of(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Named {
        model: Option<String>,
    }
    serde_json::from_slice::<Named>(body).ok().and_then(|named| named.model).unwrap_or_default()
}

fn has_key(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let bearer = text("authorization").strip_prefix("Bearer ").unwrap_or_default();
    [bearer, text("x-api-key")].iter().any(|key| !key.is_empty() && *key != "sk-invalid")
}

/// Anthropic's version of October 2026 refuses the sampling fields even at their defaults.
fn check_version(headers: &HeaderMap, body: &[u8]) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct Sampling {
        temperature: Option<serde::de::IgnoredAny>,
        top_p: Option<serde::de::IgnoredAny>,
        top_k: Option<serde::de::IgnoredAny>,
    }
    if headers.get("anthropic-version").is_none_or(|version| version != "2026-10-21") {
        return Ok(());
    }
    match serde_json::from_slice::<Sampling>(body) {
        Ok(Sampling { temperature: None, top_p: None, top_k: None }) | Err(_) => Ok(()),
        Ok(_) => Err(Problem::invalid("temperature, top_p and top_k are not supported by this version", None)),
    }
}
