//! A rejection as an HTTP response.

use super::limit::{is_open, member};
use super::message::message;
use super::names::{ANTHROPIC_REQUEST_ID, OPENAI_REQUEST_ID, OUTPUT_CAP, REFUSED_BY, REQUEST_ID, RETRY_AFTER_MS, SHOULD_RETRY};
use super::rate_headers;
use super::rejection::Rejection;
use super::shape::Retry;
use super::standing::Standing;
use super::text::{header, seconds};
use crate::config::policy::Plan;
use crate::domain::RequestId;
use crate::wire::Dialect;
use crate::wire::error::{ErrorBody, render};
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, header as standard};
use serde_json::{Map, Value};

/// The longest wait the SDKs take upon themselves, microseconds. Some ignore a longer `retry-after` and call again at once, others
/// sleep for hours; so beyond it they are told not to retry, and the app decides.
const LONGEST_SDK_WAIT: u64 = 60_000_000;

/// What is known of the request that is answered.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The format of the answer; that of OpenAI where no route is known.
    pub dialect: Dialect,
    /// Whose request it is, once known.
    pub customer: Option<&'a str>,
    /// The customer's plan, once known.
    pub plan: Option<&'a Plan>,
    /// Our id of the request.
    pub request_id: RequestId,
    /// How the customer's limits stand, once they were asked.
    pub standing: Option<&'a Standing>,
}

/// The answer: status, error body in the route's format, advice on retrying, and the rate headers.
#[must_use]
pub fn reject(rejection: &Rejection, context: &Context<'_>) -> Response<Body> {
    let shape = rejection.shape();
    let request_id = context.request_id.to_string();
    let body = render(
        context.dialect,
        &ErrorBody {
            status: shape.status.as_u16(),
            kind: shape.kind(context.dialect),
            code: Some(shape.code),
            param: shape.param,
            message: &message(rejection),
            request_id: &request_id,
            extra: extra(rejection, context),
        },
    );
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = shape.status;
    let headers = response.headers_mut();
    headers.insert(standard::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(standard::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFUSED_BY, HeaderValue::from_static("tollgate"));
    let request_id = header(request_id);
    // There is no provider's id, and the SDKs show the one they find here.
    let sdk_name = match context.dialect {
        Dialect::OpenAi => OPENAI_REQUEST_ID,
        Dialect::Anthropic => ANTHROPIC_REQUEST_ID,
    };
    headers.insert(sdk_name, request_id.clone());
    headers.insert(REQUEST_ID, request_id);
    advise(headers, shape.retry);
    if let Some(standing) = context.standing {
        rate_headers(headers, standing, context.dialect);
    }
    match rejection {
        Rejection::MethodNotAllowed { allow } => drop(headers.insert(standard::ALLOW, HeaderValue::from_static(allow))),
        Rejection::Unauthenticated(_) => drop(headers.insert(standard::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        Rejection::UnsupportedEncoding => {
            headers.insert(standard::ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate, br, zstd"));
        }
        _ => {}
    }
    response
}

/// What every answer of a provider carries of ours: how the customer's limits stand, and the output cap that was written into the request.
pub fn answer_headers(headers: &mut HeaderMap, standing: &Standing, dialect: Dialect, output_cap: Option<u64>) {
    rate_headers(headers, standing, dialect);
    if let Some(cap) = output_cap {
        headers.insert(OUTPUT_CAP, HeaderValue::from(cap));
    }
}

/// Marks a refusal of the provider's own that is passed on, so that nobody takes it for one of ours.
pub fn mark_provider(headers: &mut HeaderMap) {
    headers.insert(REFUSED_BY, HeaderValue::from_static("provider"));
}

/// Adds to a provider's refusal that trying again is of no use, unless it says itself what to do: the SDKs retry every 429 otherwise.
pub fn advise_against_retry(headers: &mut HeaderMap) {
    headers.entry(SHOULD_RETRY).or_insert(HeaderValue::from_static("false"));
}

/// Says that trying again is of no use, whatever the provider said: the gateway has done so already, and the attempts would multiply.
pub fn forbid_retry(headers: &mut HeaderMap) {
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
}

/// When to come back, and whether an SDK should do so by itself.
fn advise(headers: &mut HeaderMap, retry: Retry) {
    let mut come_back = |micros: u64| drop(headers.insert(standard::RETRY_AFTER, HeaderValue::from(seconds(micros).max(1))));
    match retry {
        Retry::Unsaid => return,
        Retry::After(micros) => {
            come_back(micros);
            if micros <= LONGEST_SDK_WAIT {
                headers.insert(RETRY_AFTER_MS, HeaderValue::from(micros.div_ceil(1_000).max(1)));
                return;
            }
        }
        Retry::NotBefore(micros) => come_back(micros),
        Retry::Never => {}
    }
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
}

/// The members of the error body that are our own.
fn extra(rejection: &Rejection, context: &Context<'_>) -> Map<String, Value> {
    let mut extra = Map::new();
    let plan = context.plan;
    if let Some(customer) = context.customer {
        extra.insert("customer_id".to_owned(), customer.into());
    }
    if let Some(limit) = member(rejection, plan.map(|plan| &*plan.name)) {
        extra.insert("limit".to_owned(), limit);
    }
    let of_plan = match rejection {
        Rejection::Limit(refusal) | Rejection::OutputFloor { refusal, .. } => is_open(refusal.scope),
        Rejection::Concurrent { .. } => true,
        _ => false,
    };
    if of_plan && let Some(url) = plan.and_then(|plan| plan.upgrade_url.as_deref()) {
        extra.insert("upgrade_url".to_owned(), url.into());
    }
    extra
}

#[cfg(test)]
mod tests;
