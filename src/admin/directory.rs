//! `/admin/customers/{id}/override` and `/admin/plans/{name}`: what is set at run time, in force with the next request on every gateway.

use super::{Fault, Shared, input, json, name};
use crate::directory::{DirectoryError, Override};
use crate::domain::{CustomerId, NanoUsd, Period};
use crate::reply::rfc3339;
use crate::store::documents::Expected;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The longest time an override may be set for; without one it has no end.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/admin/customers/{id}/override", get(read_override).put(set_override).delete(clear_override))
        .route("/admin/customers/{id}/credits", post(add_credit))
        .route("/admin/plans", get(plans))
        .route("/admin/plans/{name}", get(read_plan).put(set_plan).delete(clear_plan))
}

/// A change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The keys of `[customers.ID]` or `[plans.NAME]`; only those that differ.
    set: Map<String, Value>,
    /// For how long.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Only over this version of what is set; zero: only over nothing.
    version: Option<u64>,
    /// Who says so.
    by: String,
}

/// Dollars on top of a cap, in the present period.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gift {
    period: String,
    dollars: f64,
    by: String,
}

fn id(shared: &Shared, text: &str) -> Result<CustomerId, Fault> {
    let allow_emails = shared.gateway.policy.load().identity.allow_emails;
    CustomerId::parse(text.as_bytes(), allow_emails).map_err(|error| Fault::InvalidRequest(format!("The customer's id {error}.")))
}

fn lasting(wish: &Wish) -> Result<Option<Duration>, Fault> {
    let Some(text) = &wish.lasts else { return Ok(None) };
    match humantime::parse_duration(text).ok().filter(|lasts| *lasts >= Duration::from_secs(1) && *lasts <= LONGEST) {
        Some(lasts) => Ok(Some(lasts)),
        None => Err(Fault::InvalidRequest("`for` is a duration such as \"12h\" or \"7days\", from 1 s to 366 days.".to_owned())),
    }
}

pub(super) const fn expected(version: Option<u64>) -> Expected {
    match version {
        None => Expected::Anything,
        Some(0) => Expected::Nothing,
        Some(version) => Expected::Version(version),
    }
}

/// Who takes something back, in the query: a `DELETE` has no body.
pub(super) fn by(request: &Request) -> Result<String, Fault> {
    let [by] = input::query(request, ["by"])?;
    let by = by.ok_or_else(|| Fault::InvalidRequest("The parameter `by` says who does it.".to_owned()))?;
    Ok(name("by", &by)?.to_owned())
}

async fn read_override(State(shared): State<Shared>, Path(path): Path<String>) -> Result<Response, Fault> {
    let id = id(&shared, &path)?;
    said(&shared, id.as_str()).await
}

async fn set_override(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let id = id(&shared, &path)?;
    let wish: Wish = input::body(request).await?;
    let now = shared.gateway.clock.now();
    let until = lasting(&wish)?.map(|lasts| now.plus(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX)));
    let by = name("by", &wish.by)?;
    shared.gateway.directory.set_override(by, id.as_str(), &wish.set, until, expected(wish.version)).await?;
    said(&shared, id.as_str()).await
}

async fn clear_override(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let (id, by) = (id(&shared, &path)?, by(&request)?);
    shared.gateway.directory.clear_override(&by, id.as_str(), Expected::Anything).await?;
    said(&shared, id.as_str()).await
}

async fn add_credit(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let id = id(&shared, &path)?;
    let gift: Gift = input::body(request).await?;
    let period = match gift.period.as_str() {
        "day" => Period::Day,
        "week" => Period::Week,
        "month" => Period::Month,
        _ => return Err(Fault::InvalidRequest("`period` is day, week or month.".to_owned())),
    };
    let Some(amount) = nano_usd(gift.dollars) else {
        return Err(Fault::InvalidRequest(format!("`dollars` is an amount above 0, at most {MOST_DOLLARS}.")));
    };
    shared.gateway.directory.add_credit(name("by", &gift.by)?, id.as_str(), period, amount).await?;
    said(&shared, id.as_str()).await
}

/// The largest credit, dollars: the largest cap there is.
const MOST_DOLLARS: u32 = 9_000_000;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds just checked")]
fn nano_usd(dollars: f64) -> Option<NanoUsd> {
    let sound = dollars > 0.0 && dollars <= f64::from(MOST_DOLLARS);
    let nano = (dollars * 1e9).round();
    (sound && nano >= 1.0).then(|| NanoUsd::new(nano as u64))
}

async fn said(shared: &Shared, id: &str) -> Result<Response, Fault> {
    let found = shared.gateway.directory.override_of(id).await?;
    Ok(json(StatusCode::OK, &json!({ "customer": id, "override": found.as_ref().map(view) })))
}

async fn plans(State(shared): State<Shared>) -> Result<Response, Fault> {
    let set = shared.gateway.directory.plans().await?;
    let set = |name: &str| {
        set.iter().find(|(known, _, _)| **known == *name).map(|(_, version, said)| json!({ "set": said, "version": version }))
    };
    let policy = shared.gateway.policy.load();
    let all = shared.gateway.directory.view(&policy).await?;
    let mut names: Vec<_> = all.names();
    names.sort_unstable();
    let plans: Vec<_> = names.iter().map(|name| json!({ "plan": name, "set": set(name) })).collect();
    Ok(json(StatusCode::OK, &json!({ "plans": plans })))
}

async fn read_plan(State(shared): State<Shared>, Path(path): Path<String>) -> Result<Response, Fault> {
    plan(&shared, &path).await
}

async fn set_plan(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let wish: Wish = input::body(request).await?;
    if wish.lasts.is_some() {
        return Err(Fault::InvalidRequest("A plan has no end; set an override of a customer `for` a while.".to_owned()));
    }
    shared.gateway.directory.set_plan(name("by", &wish.by)?, &path, &wish.set, expected(wish.version)).await?;
    plan(&shared, &path).await
}

async fn clear_plan(State(shared): State<Shared>, Path(path): Path<String>, request: Request) -> Result<Response, Fault> {
    let by = by(&request)?;
    shared.gateway.directory.clear_plan(&by, &path, Expected::Anything).await?;
    Ok(json(StatusCode::OK, &json!({ "plan": path, "set": Value::Null })))
}

async fn plan(shared: &Shared, name: &str) -> Result<Response, Fault> {
    let set = shared.gateway.directory.plans().await?;
    let set =
        set.iter().find(|(known, _, _)| **known == *name).map(|(_, version, said)| json!({ "set": said, "version": version }));
    let policy = shared.gateway.policy.load();
    if set.is_none() && shared.gateway.directory.view(&policy).await?.plan(name).is_none() {
        return Err(Fault::PlanNotFound);
    }
    Ok(json(StatusCode::OK, &json!({ "plan": name, "set": set })))
}

fn view(said: &Override) -> Value {
    let credits: Vec<_> =
        said.credits.iter().map(|credit| json!({ "period": credit.period, "nano_usd": credit.nano_usd })).collect();
    json!({ "set": said.fields, "until": said.until.map(rfc3339), "version": said.version, "credits": credits })
}

impl From<DirectoryError> for Fault {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Invalid(problems) => {
                Self::InvalidRequest(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
            }
            DirectoryError::Conflict(version) => Self::Changed { version },
            DirectoryError::Store(error) => error.into(),
        }
    }
}
