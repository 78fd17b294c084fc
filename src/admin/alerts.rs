//! `/admin/alerts`: what operators were told of in the last weeks.

use super::{Fault, Shared, input, json};
use crate::alert::{Alert, Kind};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Value, json};

/// Alerts in a listing when nothing is said.
const LISTED: usize = 50;
/// Alerts in a listing at most.
const MOST: usize = 200;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/admin/alerts", get(list))
}

async fn list(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
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
