//! Bodies and query strings of operators, read strictly: what is misspelt is said, not passed over.

use super::{Fault, name};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Request};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
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
    // Once for keys that stand twice: of maps the reader would take the last without a word.
    serde_json::from_slice::<KeysOnce>(&bytes).and_then(|KeysOnce| serde_json::from_slice(&bytes)).map_err(|error| {
        let complaint: String = error.to_string().chars().take(COMPLAINT).collect();
        Fault::InvalidRequest(format!("The body is not what this route takes: {complaint}."))
    })
}

/// JSON of which no object says a key twice.
struct KeysOnce;

impl<'de> Deserialize<'de> for KeysOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Looker)
    }
}

struct Looker;

impl<'de> Visitor<'de> for Looker {
    type Value = KeysOnce;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<KeysOnce, E> {
        Ok(KeysOnce)
    }

    fn visit_bool<E>(self, _: bool) -> Result<KeysOnce, E> {
        Ok(KeysOnce)
    }

    fn visit_i64<E>(self, _: i64) -> Result<KeysOnce, E> {
        Ok(KeysOnce)
    }

    fn visit_u64<E>(self, _: u64) -> Result<KeysOnce, E> {
        Ok(KeysOnce)
    }

    fn visit_f64<E>(self, _: f64) -> Result<KeysOnce, E> {
        Ok(KeysOnce)
    }

    fn visit_str<E>(self, _: &str) -> Result<KeysOnce, E> {
        Ok(KeysOnce)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<KeysOnce, A::Error> {
        while let Some(KeysOnce) = items.next_element()? {}
        Ok(KeysOnce)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<KeysOnce, A::Error> {
        let mut known = HashSet::new();
        while let Some((key, KeysOnce)) = entries.next_entry::<String, KeysOnce>()? {
            if let Some(twice) = known.replace(key) {
                return Err(A::Error::custom(format_args!("the key `{twice}` is given twice")));
            }
        }
        Ok(KeysOnce)
    }
}

/// Settings that are set as a whole: in these `null` says nothing, where in a merge patch it takes a key away.
///
/// # Errors
/// [`Fault::InvalidRequest`] with the first key that is null.
pub(super) fn without_nulls(set: &Map<String, Value>) -> Result<(), Fault> {
    fn null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.iter().any(null),
            Value::Object(fields) => fields.values().any(null),
            _ => false,
        }
    }
    match set.iter().find(|(_, value)| null(value)) {
        Some((key, _)) => {
            let key: String = key.chars().take(COMPLAINT).collect();
            Err(Fault::InvalidRequest(format!(
                "`{key}` is or holds null, which sets nothing: leave it out. Only a PATCH takes a key away so."
            )))
        }
        None => Ok(()),
    }
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
