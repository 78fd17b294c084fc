//! The answer of last resort: a valid reply of the route's own format, which says that a person will take over.
//!
//! To a client it is an answer like any other: status 200, one message of text, a normal end, no usage; streamed where a stream was asked
//! for, with every event that the official SDKs build their result from. What it is stands in `model` and in the headers.

mod chat;
mod messages;
mod responses;

use super::degraded::mark_answer;
use super::names::{ANTHROPIC_REQUEST_ID, OPENAI_REQUEST_ID, TICKET, TICKET_URL};
use crate::degrade::Degraded;
use crate::degrade::chain::Cause;
use crate::domain::{RequestId, Timestamp};
use crate::wire::{Api, Dialect};
use axum::body::Body;
use http::{HeaderValue, Response, header};
use serde_json::Value;
use std::fmt::Write as _;

/// The name of the model that a hand-off claims to come from.
pub const HANDOFF_MODEL: &str = "human-triage";

/// What a hand-off is made of.
#[derive(Clone, Copy, Debug)]
pub struct Handoff<'a> {
    /// The route.
    pub api: Api,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Whether it asked for the usage of the stream (chat).
    pub include_usage: bool,
    /// The sentence.
    pub message: &'a str,
    /// Our id of the request; the reply's own id is made of it.
    pub request_id: RequestId,
    /// When.
    pub at: Timestamp,
    /// What stopped the request.
    pub cause: Cause,
    /// The level at the moment, for a model in a pool.
    pub level: Option<u8>,
    /// The ticket's id.
    pub ticket: &'a str,
    /// Where its status is read.
    pub ticket_url: &'a str,
}

/// The reply; `None` for a route that has no chat answer.
#[must_use]
pub fn hand_off(handoff: &Handoff<'_>) -> Option<Response<Body>> {
    let body = match (handoff.api, handoff.stream) {
        (Api::Chat, false) => chat::whole(handoff).to_string(),
        (Api::Chat, true) => chat::stream(handoff),
        (Api::Responses, false) => responses::whole(handoff).to_string(),
        (Api::Responses, true) => responses::stream(handoff),
        (Api::Messages, false) => messages::whole(handoff).to_string(),
        (Api::Messages, true) => messages::stream(handoff),
        _ => return None,
    };
    let kind = if handoff.stream { "text/event-stream; charset=utf-8" } else { "application/json" };
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let sdk_name = match handoff.api.dialect() {
        Dialect::OpenAi => OPENAI_REQUEST_ID,
        Dialect::Anthropic => ANTHROPIC_REQUEST_ID,
    };
    let id = handoff.request_id.to_string();
    for (name, value) in [(sdk_name, &*id), (TICKET, handoff.ticket), (TICKET_URL, handoff.ticket_url)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    mark_answer(headers, HANDOFF_MODEL, handoff.level, &[Degraded::Handoff(handoff.cause)]);
    Some(response)
}

impl Handoff<'_> {
    /// An id of the API's own form.
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.request_id)
    }
}

/// One server-sent event.
fn event(stream: &mut String, name: Option<&str>, data: &Value) {
    if let Some(name) = name {
        // Writing to a string cannot fail.
        let _ = writeln!(stream, "event: {name}");
    }
    let _ = write!(stream, "data: {data}\n\n");
}

#[cfg(test)]
mod tests;
