//! An answer that is given again.

use super::headers::is_account_number;
use super::names::{NOTICE, ORIGINAL_REQUEST_ID, REPLAYED, REQUEST_ID};
use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header as standard};

/// Whether a header still holds when its answer is given again: not how limits stood, what time it was, or whose request it was.
#[must_use]
pub fn outlives(name: &HeaderName) -> bool {
    let of_its_time = [NOTICE, REQUEST_ID, REPLAYED, ORIGINAL_REQUEST_ID, standard::DATE, standard::AGE, standard::CONNECTION];
    let of_its_form = [standard::TRANSFER_ENCODING, standard::CONTENT_LENGTH, standard::TRAILER];
    !is_account_number(name) && !of_its_time.contains(name) && !of_its_form.contains(name)
}

/// The answer again, marked, with the id of the request that made it.
#[must_use]
pub fn replay(status: StatusCode, headers: HeaderMap, body: Body, made_by: Option<HeaderValue>) -> Response<Body> {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    if let Some(made_by) = made_by {
        reply.headers_mut().insert(ORIGINAL_REQUEST_ID, made_by);
    }
    reply
}
