//! `/admin/keys`: gateway keys made at run time, in force with the next request on every gateway.

use super::overrides::expected;
use super::{Fault, Shared, input, json, name};
use crate::directory::keys::{Ends, KeyError, OVERLAP};
use crate::stack::Gateway;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The longest time a key may be made for; without one it has no end.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_keys, create_key))
        .routes(routes!(read_key, change_key, revoke_key))
        .routes(routes!(rotate_key))
}

/// A new key.
#[derive(Deserialize, ToSchema)]
#[schema(as = KeyWish)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The application's name.
    name: String,
    /// The keys of `[keys.NAME]`; left out: it may do everything.
    #[serde(default)]
    #[schema(value_type = Object)]
    set: Map<String, Value>,
    /// For how long; left out: it has no end.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Who says so.
    #[schema(min_length = 1, max_length = 128)]
    by: String,
}

/// A change.
#[derive(Deserialize, ToSchema)]
#[schema(as = KeyEdit)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// All keys of `[keys.NAME]` from now on; left out: as before.
    #[schema(value_type = Option<Object>)]
    set: Option<Map<String, Value>>,
    /// For how long from now on, or `never`; left out: as before.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Only over this version.
    version: Option<u64>,
    #[schema(min_length = 1, max_length = 128)]
    by: String,
}

/// A new secret.
#[derive(Deserialize, ToSchema)]
#[schema(as = KeyRotation)]
#[serde(deny_unknown_fields)]
struct Rotation {
    /// How long the one before still opens; left out: a day.
    overlap: Option<String>,
    #[schema(min_length = 1, max_length = 128)]
    by: String,
}

/// All gateway keys made at run time; never a secret.
#[utoipa::path(
    get, path = "/admin/keys", tag = "keys", operation_id = "list_keys",
    responses((status = 200, description = "`keys`", body = Object)),
)]
async fn list_keys(State(shared): State<Shared>) -> Result<Response, Fault> {
    let keys = shared.gateway.directory.keys().await?;
    Ok(json(StatusCode::OK, &json!({ "keys": keys })))
}

/// One gateway key.
#[utoipa::path(
    get, path = "/admin/keys/{name}", tag = "keys", operation_id = "read_key",
    params(("name" = String, Path, description = "the application's name", min_length = 1)),
    responses((status = 200, description = "the key", body = Object)),
)]
async fn read_key(State(shared): State<Shared>, input::Name(path): input::Name) -> Result<Response, Fault> {
    let key = shared.gateway.directory.key(&path).await?.ok_or(Fault::KeyNotFound)?;
    Ok(json(StatusCode::OK, &json!(key)))
}

/// Makes a gateway key. Its secret is shown here and never again.
#[utoipa::path(
    post, path = "/admin/keys", tag = "keys", operation_id = "create_key",
    request_body = Wish,
    responses((status = 201, description = "the key and its secret", body = Object)),
)]
async fn create_key(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let wish: Wish = input::body(request).await?;
    let ends = ends(&shared.gateway, wish.lasts.as_deref())?;
    let issued = shared.gateway.directory.create_key(name("by", &wish.by)?, &wish.name, &wish.set, ends).await?;
    Ok(json(StatusCode::CREATED, &json!(issued)))
}

/// Changes what a gateway key may do, or its end.
#[utoipa::path(
    put, path = "/admin/keys/{name}", tag = "keys", operation_id = "change_key",
    params(("name" = String, Path, description = "the application's name", min_length = 1)),
    request_body = Edit,
    responses((status = 200, description = "the key", body = Object)),
)]
async fn change_key(State(shared): State<Shared>, input::Name(path): input::Name, request: Request) -> Result<Response, Fault> {
    let edit: Edit = input::body(request).await?;
    let ends = ends(&shared.gateway, edit.lasts.as_deref())?;
    let by = name("by", &edit.by)?;
    let key = shared.gateway.directory.change_key(by, &path, edit.set.as_ref(), ends, expected(edit.version)).await?;
    Ok(json(StatusCode::OK, &json!(key)))
}

/// Gives a gateway key a new secret, shown here and never again; the one before opens for a while.
#[utoipa::path(
    post, path = "/admin/keys/{name}/rotate", tag = "keys", operation_id = "rotate_key",
    params(("name" = String, Path, description = "the application's name", min_length = 1)),
    request_body = Rotation,
    responses((status = 200, description = "the key and its new secret", body = Object)),
)]
async fn rotate_key(State(shared): State<Shared>, input::Name(path): input::Name, request: Request) -> Result<Response, Fault> {
    let wish: Rotation = input::body(request).await?;
    let overlap = overlap(wish.overlap.as_deref())?;
    let issued = shared.gateway.directory.rotate_key(name("by", &wish.by)?, &path, overlap).await?;
    Ok(json(StatusCode::OK, &json!(issued)))
}

/// Revokes a gateway key.
#[utoipa::path(
    delete, path = "/admin/keys/{name}", tag = "keys", operation_id = "revoke_key",
    params(
        ("name" = String, Path, description = "the application's name", min_length = 1),
        ("by" = String, Query, description = "who says so", min_length = 1, max_length = 128),
    ),
    responses((status = 200, description = "the key", body = Object)),
)]
async fn revoke_key(State(shared): State<Shared>, input::Name(path): input::Name, request: Request) -> Result<Response, Fault> {
    let by = input::by(&request)?;
    let key = shared.gateway.directory.revoke_key(&by, &path).await?;
    Ok(json(StatusCode::OK, &json!(key)))
}

/// When a key ends that is made or changed now; nothing said: as before.
///
/// # Errors
/// [`Fault::InvalidRequest`].
pub(crate) fn ends(gateway: &Gateway, lasts: Option<&str>) -> Result<Ends, Fault> {
    match lasts {
        None => return Ok(Ends::Unchanged),
        Some("never") => return Ok(Ends::Never),
        Some(text) => humantime::parse_duration(text).ok().filter(|lasts| !lasts.is_zero() && *lasts <= LONGEST),
    }
    .map(|lasts| Ends::At(gateway.clock.now().plus(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX))))
    .ok_or_else(|| {
        Fault::InvalidRequest("`for` is a duration such as \"12h\" or \"90days\", at most ten years, or \"never\".".to_owned())
    })
}

/// How long a secret still opens after a new one was made; nothing said: a day.
///
/// # Errors
/// [`Fault::InvalidRequest`].
pub(crate) fn overlap(text: Option<&str>) -> Result<Duration, Fault> {
    let Some(text) = text else { return Ok(OVERLAP) };
    humantime::parse_duration(text)
        .map_err(|_| Fault::InvalidRequest("`overlap` is a duration such as \"0s\", \"2h\" or \"7days\".".to_owned()))
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
