//! `/admin/requests/{id}`: what is kept of one request, by our id or the provider's.

use super::{Fault, Shared, json};
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/admin/requests/{id}", get(read))
}

async fn read(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response, Fault> {
    let found = shared.gateway.records.find(&id).await?.ok_or(Fault::RequestNotFound)?;
    Ok(json(StatusCode::OK, &serde_json::json!(found)))
}
