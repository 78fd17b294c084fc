//! Bodies and query strings of operators, read strictly: what is misspelt is said, not passed over.

use super::{Fault, name};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Request};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::timeout;

/// The largest body, bytes.
const LARGEST: usize = 256 << 10;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of a parser's complaint is repeated, characters.
const COMPLAINT: usize = 200;

/// Reads a body of JSON. That it has to be announced as JSON keeps forms of other pages out: a browser asks before it sends that.
pub(super) async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Fault> {
    let (head, body) = request.into_parts();
    if !is_json(&head.headers) {
        return Err(Fault::UnsupportedMediaType);
    }
    let bytes = timeout(PATIENCE, Limited::new(body, LARGEST).collect()).await.map_err(|_| Fault::RequestTimeout)?;
    let bytes = match bytes {
        Ok(bytes) => bytes.to_bytes(),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => return Err(Fault::RequestTooLarge),
        Err(_) => return Err(Fault::InvalidRequest("The body ended before its announced end.".to_owned())),
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        let complaint: String = error.to_string().chars().take(COMPLAINT).collect();
        Fault::InvalidRequest(format!("The body is not what this route takes: {complaint}."))
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The one variable part of a path, decoded.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let path = path.map_err(|_| Fault::InvalidRequest("The path does not hold percent-encoded UTF-8.".to_owned()))?;
        Ok(Self(path.0))
    }
}

/// Who takes something back, in the query: a `DELETE` has no body.
pub(super) fn by(request: &Request) -> Result<String, Fault> {
    let [by] = query(request, ["by"])?;
    let by = by.ok_or_else(|| Fault::InvalidRequest("The parameter `by` says who does it.".to_owned()))?;
    Ok(name("by", &by)?.to_owned())
}

/// How many a page holds.
pub(super) fn limit(text: Option<&str>, otherwise: usize, most: usize) -> Result<usize, Fault> {
    match text.map(str::parse) {
        None => Ok(otherwise),
        Some(Ok(limit)) if (1..=most).contains(&limit) => Ok(limit),
        Some(_) => Err(Fault::InvalidRequest(format!("`limit` is a number from 1 to {most}."))),
    }
}

/// A parameter of at most so many bytes.
pub(super) fn bounded<'a>(name: &str, text: Option<&'a str>, most: usize) -> Result<Option<&'a str>, Fault> {
    match text {
        Some(text) if text.len() > most => Err(Fault::InvalidRequest(format!("`{name}` is at most {most} bytes."))),
        text => Ok(text),
    }
}

/// Where a listing goes on: what `next` of the page before said, a rank and an id.
pub(super) fn cursor(text: &str) -> Option<(u64, &str)> {
    let (rank, id) = text.split_once('-')?;
    Some((rank.parse().ok()?, id))
}

/// The parameters of a query, each at most once and none but these.
pub(super) fn query<'a, const N: usize>(
    request: &'a Request<Body>,
    known: [&'static str; N],
) -> Result<[Option<Cow<'a, str>>; N], Fault> {
    let mut found = [const { None }; N];
    for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
        let Some(index) = known.iter().position(|known| **known == *name) else {
            let there_is = if N == 0 { "none".to_owned() } else { known.join(", ") };
            return Err(Fault::InvalidRequest(format!("There is no such parameter; there is {there_is}.")));
        };
        if found[index].replace(value).is_some() {
            return Err(Fault::InvalidRequest(format!("The parameter {} is given twice.", known[index])));
        }
    }
    Ok(found)
}

/// A text that has to say something: between 1 and `most` bytes without the blanks around it.
pub(crate) fn text(name: &str, text: &str, most: usize) -> Result<(), Fault> {
    let length = text.trim().len();
    if length == 0 || text.len() > most {
        return Err(Fault::InvalidRequest(format!("`{name}` has to be 1 to {most} bytes of text.")));
    }
    Ok(())
}
