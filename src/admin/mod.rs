//! The listener for operators: the triage desk, and the place of everything else that is not for applications.
//!
//! ```text
//! guard     who may: token, host, origin
//! fault     what is said to who may not, or asks wrongly
//! input     bodies, paths and query strings, read strictly
//! shown     plans, limits and amounts as every area shows them
//! openapi   /admin/openapi.json: the document of all routes, made from them
//!
//! customers /admin/customers: who there is; one customer in one call
//! overrides /admin/customers/{id}/override and /credits, /admin/overrides: what differs for one
//! plans     /admin/plans: what they are, what a change would do, the change
//! requests  /admin/requests: what is kept of a request, what was not served as asked
//! levels    /admin/levels: see and pin
//! level_history /admin/levels/history: what became of them
//! triage    /admin/triage: list, read, claim, answer, release, expire, resubmit
//! audit     /admin/audit: who changed what
//! health    /admin/health: how this gateway and its store stand
//! alerts    /admin/alerts: what operators were told of
//! history   /admin/history: what was used over time
//! keys      /admin/keys: gateway keys made at run time
//! ```
//!
//! An area is a module with `routes()`, merged below; the guard stands in front of all of them. Its handlers read parameters and write
//! JSON; what they do is in plain functions over a [`Gateway`], for whoever shows the same in another way. JSON in and out. There are no
//! cookies, so a page somewhere else has nothing to ride on; requests that a browser sends for another page are refused all the same.
//!
//! A route is registered with its description (`routes!` of a handler under `utoipa::path`), so the document has it; a test sees to it.

mod alerts;
pub mod audit;
pub mod customers;
mod fault;
mod guard;
pub mod health;
mod history;
mod input;
pub(crate) mod keys;
pub mod level_history;
pub mod levels;
mod openapi;
pub mod overrides;
pub mod plans;
pub mod requests;
pub mod shown;
pub mod triage;

pub use fault::Fault;
pub(crate) use guard::Guard;
pub(crate) use input::text;
pub(crate) use triage::cursor as triage_cursor;

use crate::stack::Gateway;
use axum::Router;
use axum::body::Body;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use serde::Serialize;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;

/// What the areas share.
#[derive(Clone)]
struct Shared {
    gateway: Arc<Gateway>,
}

/// Everything operators may ask, as an HTTP service.
pub fn router(gateway: &Arc<Gateway>) -> Router {
    let (router, document) = areas().split_for_parts();
    router
        .merge(openapi::route(document))
        .method_not_allowed_fallback(|| async { Fault::MethodNotAllowed })
        .fallback(|| async { Fault::RouteNotFound })
        .layer(from_fn_with_state(Arc::clone(gateway), guard::check))
        .with_state(Shared { gateway: Arc::clone(gateway) })
}

/// The areas with their descriptions.
fn areas() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::base())
        .merge(customers::routes())
        .merge(overrides::routes())
        .merge(plans::routes())
        .merge(requests::routes())
        .merge(levels::routes())
        .merge(level_history::routes())
        .merge(triage::routes())
        .merge(audit::routes())
        .merge(health::routes())
        .merge(history::routes())
        .merge(alerts::routes())
        .merge(keys::routes())
}

/// The longest name of a person, bytes.
const LONGEST_NAME: usize = 128;

/// A person's name that can be logged and shown: no line ends, nothing that turns a terminal or the direction of text.
pub(crate) fn name<'a>(field: &str, name: &'a str) -> Result<&'a str, Fault> {
    input::text(field, name, LONGEST_NAME)?;
    let odd =
        |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if name.contains(odd) {
        return Err(Fault::InvalidRequest(format!("`{field}` may not hold control characters.")));
    }
    Ok(name.trim())
}

/// What was asked for, in JSON.
fn reply(shown: &impl Serialize) -> Response {
    json(StatusCode::OK, shown)
}

/// An answer in JSON, for nobody's cache.
fn json(status: StatusCode, shown: &impl Serialize) -> Response {
    let body = serde_json::to_vec(shown).expect("what is shown has text for keys and no reader of its own that fails");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Whether a request changes nothing.
fn only_reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
