//! `/admin/keys`: gateway keys made at run time, in force with the next request on every gateway.

use super::directory::{by, expected};
use super::{Fault, Shared, input, json, name};
use crate::directory::keys::{Ends, KeyError, OVERLAP};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The longest time a key may be made for; without one it has no end.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/admin/keys", get(all).post(create))
        .route("/admin/keys/{name}", get(one).put(change).delete(revoke))
        .route("/admin/keys/{name}/rotate", post(rotate))
}

/// A new key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The application's name.
    name: String,
    /// The keys of `[keys.NAME]`; left out: it may do everything.
    #[serde(default)]
    set: Map<String, Value>,
    /// For how long; left out: it has no end.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Who says so.
    by: String,
}

/// A change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// All keys of `[keys.NAME]` from now on; left out: as before.
    set: Option<Map<String, Value>>,
    /// For how long from now on, or `never`; left out: as before.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Only over this version.
    version: Option<u64>,
    by: String,
}

/// A new secret.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotation {
    /// How long the one before still opens; left out: a day.
    overlap: Option<String>,
    by: String,
}

async fn all(State(shared): State<Shared>) -> Result<Response, Fault> {
    let keys = shared.gateway.directory.keys().await?;
    Ok(json(StatusCode::OK, &json!({ "keys": keys })))
}

async fn one(State(shared): State<Shared>, Path(path): Path<String>) -> Result<Response, Fault> {
    let key = shared.gateway.directory.key(&path).await?.ok_or(Fault::KeyNotFound)?;
    Ok(json(StatusCode::OK, &json!(key)))
}

async fn create(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let wish: Wish = input::body(request).await?;
    let ends = ends(&shared, wish.lasts.as_deref())?;
    let issued = shared.gateway.directory.create_key(name("by", &wish.by)?, &wish.name, &wish.set, ends).await?;
    Ok(json(StatusCode::CREATED, &json!(issued)))
}

async fn change(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let edit: Edit = input::body(request).await?;
    let ends = ends(&shared, edit.lasts.as_deref())?;
    let by = name("by", &edit.by)?;
    let key = shared.gateway.directory.change_key(by, &path, edit.set.as_ref(), ends, expected(edit.version)).await?;
    Ok(json(StatusCode::OK, &json!(key)))
}

async fn rotate(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let wish: Rotation = input::body(request).await?;
    let overlap = match wish.overlap.as_deref() {
        None => OVERLAP,
        Some(text) => humantime::parse_duration(text)
            .map_err(|_| Fault::InvalidRequest("`overlap` is a duration such as \"0s\", \"2h\" or \"7days\".".to_owned()))?,
    };
    let issued = shared.gateway.directory.rotate_key(name("by", &wish.by)?, &path, overlap).await?;
    Ok(json(StatusCode::OK, &json!(issued)))
}

async fn revoke(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let by = by(&request)?;
    let key = shared.gateway.directory.revoke_key(&by, &path).await?;
    Ok(json(StatusCode::OK, &json!(key)))
}

fn ends(shared: &Shared, lasts: Option<&str>) -> Result<Ends, Fault> {
    match lasts {
        None => return Ok(Ends::Unchanged),
        Some("never") => return Ok(Ends::Never),
        Some(text) => humantime::parse_duration(text).ok().filter(|lasts| !lasts.is_zero() && *lasts <= LONGEST),
    }
    .map(|lasts| Ends::At(shared.gateway.clock.now().plus(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX))))
    .ok_or_else(|| {
        Fault::InvalidRequest("`for` is a duration such as \"12h\" or \"90days\", at most ten years, or \"never\".".to_owned())
    })
}

impl From<KeyError> for Fault {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Invalid(_) | KeyError::Name | KeyError::Time(_) => Self::InvalidRequest(error.to_string()),
            KeyError::NotFound => Self::KeyNotFound,
            KeyError::Conflict(version) => Self::Changed { version },
            KeyError::Exists | KeyError::Revoked | KeyError::TooManySecrets | KeyError::TooMany | KeyError::Passthrough => {
                Self::KeyRefused(error.to_string())
            }
            KeyError::NoRandom => Self::Internal,
            KeyError::Store(error) => error.into(),
        }
    }
}
