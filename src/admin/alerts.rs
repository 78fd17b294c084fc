//! `/admin/alerts`: what operators were told of in the last weeks.

use super::{Fault, Shared, input, json};
use crate::alert::{Alert, Kind};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Alerts in a listing when nothing is said.
const LISTED: usize = 50;
/// Alerts in a listing at most.
const MOST: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_alerts))
}

/// What operators were told of in the last weeks, the latest first.
#[utoipa::path(
    get, path = "/admin/alerts", tag = "alerts", operation_id = "list_alerts",
    params(
        ("limit" = Option<u32>, Query, description = "how many, 50 when absent", minimum = 1, maximum = 200),
        ("kind" = Option<String>, Query, description = "only of this kind"),
    ),
    responses((status = 200, description = "`alerts`, and whether they are all (`complete`)", body = Object)),
)]
async fn list_alerts(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [limit, kind] = input::query(&request, ["limit", "kind"])?;
    let limit = match limit.as_deref().map(str::parse) {
        None => LISTED,
        Some(Ok(limit)) if (1..=MOST).contains(&limit) => limit,
        Some(_) => return Err(Fault::InvalidRequest(format!("`limit` is a number from 1 to {MOST}."))),
    };
    let kind = match kind.as_deref() {
        None => None,
        Some(word) => Some(Kind::named(word).ok_or_else(|| {
            let all = Kind::ALL.map(Kind::as_str).join(", ");
            Fault::InvalidRequest(format!("`kind` is one of {all}."))
        })?),
    };
    let listing = shared.gateway.alerts.recent(limit, kind).await;
    let alerts: Vec<Value> = listing.alerts.iter().map(Alert::view).collect();
    // Without the store only this gateway's own are known.
    Ok(json(StatusCode::OK, &json!({ "alerts": alerts, "complete": listing.complete })))
}
