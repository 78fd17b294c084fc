//! Bodies in, requests or errors out.

mod apis;
mod edits;
mod hostile;
mod random;

use super::*;
use crate::wire::edit::Edits;
use bytes::Bytes;

/// A chat body with these members after the model and one message.
fn chat(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!("{{\"model\":\"m-small\",\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]{comma}{members}}}")
}

fn read(api: Api, body: &str) -> Request {
    parse(api, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// The error's code and the field it names.
fn refused(api: Api, body: &[u8]) -> (&'static str, Option<String>) {
    let error = parse(api, body).expect_err(&String::from_utf8_lossy(body));
    let message = error.to_string();
    assert!(message.len() < 1_000 && message.ends_with('.'), "one bounded sentence: {message}");
    (error.code(), error.param().map(str::to_owned))
}

/// Kind and text of each segment.
fn segments<'a>(request: &Request, body: &'a str) -> Vec<(SegmentKind, &'a str)> {
    request.segments.iter().map(|segment| (segment.kind, &body[segment.range.clone()])).collect()
}
