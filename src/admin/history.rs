//! `/admin/history/...`: what was used over time. Days are dates of UTC; money is in nano-dollars.

use super::{Fault, Shared, input, json};
use crate::domain::CustomerId;
use crate::history::{Day, Use};
use crate::store::series::{MAX_ROWS, Ranking};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Days shown where nobody says which.
const SHOWN_DAYS: u32 = 30;
/// Customers shown where nobody says how many.
const SHOWN_CUSTOMERS: usize = 50;
/// Customers that may be passed over; all of them are read page by page elsewhere.
const MOST_SKIPPED: usize = 1_000_000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(history_total))
        .routes(routes!(history_total_hours))
        .routes(routes!(history_customers))
        .routes(routes!(history_customer))
        .routes(routes!(history_customer_hours))
        .routes(routes!(history_models))
        .routes(routes!(history_scan))
}

/// A parameter that is a day; today where it is absent.
fn day(shared: &Shared, name: &str, text: Option<&str>) -> Result<Day, Fault> {
    let Some(text) = text else { return Ok(Day::of(shared.gateway.clock.now())) };
    text.parse().map_err(|error| Fault::InvalidRequest(format!("The parameter {name} {error}.")))
}

/// How many to pass over.
fn skip(text: Option<&str>) -> Result<usize, Fault> {
    match text.map(str::parse) {
        None => Ok(0),
        Some(Ok(skip)) if skip <= MOST_SKIPPED => Ok(skip),
        Some(_) => Err(Fault::InvalidRequest(format!("`skip` is a number from 0 to {MOST_SKIPPED}."))),
    }
}

/// `from` and `to`, both included.
fn range(shared: &Shared, request: &Request) -> Result<(Day, Day), Fault> {
    let [from, to] = input::query(request, ["from", "to"])?;
    let last = day(shared, "to", to.as_deref())?;
    let first = from.as_deref().map(|from| day(shared, "from", Some(from))).transpose()?;
    let first = first.unwrap_or_else(|| last.back(SHOWN_DAYS - 1));
    if first > last {
        return Err(Fault::InvalidRequest("The parameter from is after to.".to_owned()));
    }
    Ok((first, last))
}

fn id(shared: &Shared, path: &str) -> Result<String, Fault> {
    // Anonymous callers have ids with a space, which nobody can send.
    if path.starts_with("anonymous ") {
        return Ok(path.to_owned());
    }
    let allow_emails = shared.gateway.policy.load().identity.allow_emails;
    let id = CustomerId::parse(path.as_bytes(), allow_emails);
    id.map(|id| id.as_str().to_owned()).map_err(|error| Fault::InvalidRequest(format!("The customer's id {error}.")))
}

/// What was used, with a name for it.
fn of(name: &str, value: Value, used: &Use) -> Value {
    let mut shown = json!(used);
    shown[name] = value;
    shown
}

fn days(found: &[(Day, Use)]) -> Vec<Value> {
    found.iter().map(|(day, used)| of("day", json!(day), used)).collect()
}

fn hours(found: &[Use]) -> Vec<Value> {
    found.iter().enumerate().map(|(hour, used)| of("hour", json!(hour), used)).collect()
}

/// What all customers used together, day by day.
#[utoipa::path(
    get, path = "/admin/history/total", tag = "history", operation_id = "history_total",
    params(
        ("from" = Option<String>, Query, description = "the first day, `2026-11-30`; absent: 30 days in all", format = Date),
        ("to" = Option<String>, Query, description = "the last day; absent: today", format = Date),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_total(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let (first, last) = range(&shared, &request)?;
    let found = shared.gateway.history.total_days(first, last).await?;
    Ok(json(StatusCode::OK, &json!({ "days": days(&found) })))
}

/// What all customers used together, hour by hour of a day.
#[utoipa::path(
    get, path = "/admin/history/total/hours", tag = "history", operation_id = "history_total_hours",
    params(
        ("day" = Option<String>, Query, description = "which day, `2026-11-30`; absent: today", format = Date),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_total_hours(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [text] = input::query(&request, ["day"])?;
    let day = day(&shared, "day", text.as_deref())?;
    let found = shared.gateway.history.total_hours(day).await?;
    Ok(json(StatusCode::OK, &json!({ "day": day, "hours": hours(&found) })))
}

/// What a customer used, day by day.
#[utoipa::path(
    get, path = "/admin/history/customers/{id}", tag = "history", operation_id = "history_customer",
    params(
        ("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512),
        ("from" = Option<String>, Query, description = "the first day, `2026-11-30`; absent: 30 days in all", format = Date),
        ("to" = Option<String>, Query, description = "the last day; absent: today", format = Date),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_customer(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let (id, (first, last)) = (id(&shared, &path)?, range(&shared, &request)?);
    let found = shared.gateway.history.customer_days(&id, first, last).await?;
    Ok(json(StatusCode::OK, &json!({ "customer": id, "days": days(&found) })))
}

/// What a customer used, hour by hour of a day.
#[utoipa::path(
    get, path = "/admin/history/customers/{id}/hours", tag = "history", operation_id = "history_customer_hours",
    params(
        ("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512),
        ("day" = Option<String>, Query, description = "which day, `2026-11-30`; absent: today", format = Date),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_customer_hours(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let id = id(&shared, &path)?;
    let [text] = input::query(&request, ["day"])?;
    let day = day(&shared, "day", text.as_deref())?;
    let found = shared.gateway.history.customer_hours(&id, day).await?;
    Ok(json(StatusCode::OK, &json!({ "customer": id, "day": day, "hours": hours(&found) })))
}

/// Those who spent most on a day.
#[utoipa::path(
    get, path = "/admin/history/customers", tag = "history", operation_id = "history_customers",
    params(
        ("day" = Option<String>, Query, description = "which day, `2026-11-30`; absent: today", format = Date),
        ("prefix" = Option<String>, Query, description = "only ids that begin so"),
        ("skip" = Option<u32>, Query, description = "how many to pass over", maximum = 1_000_000),
        ("limit" = Option<u32>, Query, description = "how many, 50 when absent", minimum = 1, maximum = 1_000),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_customers(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [text, prefix, skip, limit] = input::query(&request, ["day", "prefix", "skip", "limit"])?;
    let day = day(&shared, "day", text.as_deref())?;
    let limit = input::limit(limit.as_deref(), SHOWN_CUSTOMERS, MAX_ROWS)?;
    let skip = self::skip(skip.as_deref())?;
    let ranking = Ranking { prefix: prefix.unwrap_or_default().into_owned(), skip, limit };
    let found = shared.gateway.history.top_customers(day, &ranking).await?;
    let shown: Vec<_> = found.iter().map(|(id, used)| of("customer", json!(id), used)).collect();
    Ok(json(StatusCode::OK, &json!({ "day": day, "customers": shown })))
}

/// What each model used, day by day.
#[utoipa::path(
    get, path = "/admin/history/models", tag = "history", operation_id = "history_models",
    params(
        ("from" = Option<String>, Query, description = "the first day, `2026-11-30`; absent: 30 days in all", format = Date),
        ("to" = Option<String>, Query, description = "the last day; absent: today", format = Date),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_models(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let (first, last) = range(&shared, &request)?;
    let mut shown = Vec::new();
    for day in first.through(last, crate::history::MOST_DAYS) {
        let found = shared.gateway.history.models(day).await?;
        shown.extend(found.iter().map(|model| {
            let mut shown = json!(model);
            shown["day"] = json!(day);
            shown
        }));
    }
    Ok(json(StatusCode::OK, &json!({ "models": shown })))
}

/// All customers of a day, page by page in no order.
#[utoipa::path(
    get, path = "/admin/history/scan", tag = "history", operation_id = "history_scan",
    params(
        ("day" = Option<String>, Query, description = "which day, `2026-11-30`; absent: today", format = Date),
        ("after" = Option<String>, Query, description = "`after` of the page before"),
    ),
    responses((status = 200, description = "what was used", body = Object)),
)]
async fn history_scan(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [text, after] = input::query(&request, ["day", "after"])?;
    let day = day(&shared, "day", text.as_deref())?;
    let (found, next) = shared.gateway.history.all_customers(day, after.as_deref()).await?;
    let shown: Vec<_> = found.iter().map(|(id, used)| of("customer", json!(id), used)).collect();
    Ok(json(StatusCode::OK, &json!({ "day": day, "customers": shown, "after": next })))
}
