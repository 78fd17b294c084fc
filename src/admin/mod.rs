//! The listener for operators: the triage desk, and the place of everything else that is not for applications.
//!
//! ```text
//! guard    who may: token, host, origin
//! fault    what is said to who may not, or asks wrongly
//! input    bodies and query strings, read strictly
//! directory /admin/customers/{id}/override and /credits, /admin/plans: what is set at run time
//! keys     /admin/keys: gateway keys made at run time
//! alerts   /admin/alerts: what operators were told of
//! history  /admin/history: what was used over time
//! levels   /admin/levels: see and pin
//! level_history /admin/levels/history: what became of them
//! requests /admin/requests/{id}: what is kept of a request
//! triage   /admin/triage: list, read, claim, answer, release, expire, resubmit
//! ```
//!
//! An area is a module with `routes()`, merged below; the guard stands in front of all of them. JSON in and out. There are no cookies, so
//! a page somewhere else has nothing to ride on; requests that a browser sends for another page are refused all the same.

mod alerts;
mod directory;
mod fault;
mod guard;
mod history;
mod input;
mod keys;
pub mod level_history;
pub mod levels;
mod requests;
mod triage;

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
use serde_json::Value;
use std::sync::Arc;

/// What the areas share.
#[derive(Clone)]
struct Shared {
    gateway: Arc<Gateway>,
}

/// Everything operators may ask, as an HTTP service.
pub fn router(gateway: &Arc<Gateway>) -> Router {
    Router::new()
        .merge(triage::routes())
        .merge(requests::routes())
        .merge(history::routes())
        .merge(levels::routes())
        .merge(level_history::routes())
        .merge(alerts::routes())
        .merge(directory::routes())
        .merge(keys::routes())
        .method_not_allowed_fallback(|| async { Fault::MethodNotAllowed })
        .fallback(|| async { Fault::RouteNotFound })
        .layer(from_fn_with_state(Arc::clone(gateway), guard::check))
        .with_state(Shared { gateway: Arc::clone(gateway) })
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

/// An answer in JSON, for nobody's cache.
fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
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
