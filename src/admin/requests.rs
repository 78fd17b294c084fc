//! `/admin/requests`: what is kept of one request, by our id or the provider's; and which requests of a customer were lately not served
//! as asked.

use super::customers::id;
use super::{Fault, Shared, input, reply};
use crate::records::{Entry, Notable, Outcome};
use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_requests)).routes(routes!(read_request))
}

/// Requests of a customer that were not served as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RequestList {
    /// The latest first.
    pub requests: Vec<Notable>,
}

/// The latest requests of a customer that were not served as asked, the latest first: refused, handed off, degraded or failed. At most 30
/// are remembered, as long as records are kept. Those that were served as asked are found by their id only.
#[utoipa::path(
    get, path = "/admin/requests", tag = "requests", operation_id = "list_requests",
    params(
        ("customer" = String, Query, description = "whose", min_length = 1, max_length = 512),
        ("outcome" = Option<Outcome>, Query, description = "only those that ended so"),
    ),
    responses((status = 200, description = "its requests", body = RequestList)),
)]
async fn list_requests(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [customer, outcome] = input::query(&request, ["customer", "outcome"])?;
    let customer = customer.ok_or_else(|| Fault::InvalidRequest("The parameter `customer` says whose.".to_owned()))?;
    let customer = id(&shared.gateway, &customer)?;
    let word = |word: &str| Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == word);
    let outcome = match outcome.as_deref() {
        None => None,
        Some(text) => Some(word(text).ok_or_else(|| {
            let all = Outcome::ALL.map(Outcome::as_str).join(", ");
            Fault::InvalidRequest(format!("`outcome` is one of {all}."))
        })?),
    };
    let mut requests = shared.gateway.records.refusals(customer.as_str()).await?;
    requests.retain(|one| outcome.is_none_or(|outcome| one.outcome == outcome));
    Ok(reply(&RequestList { requests }))
}

/// What is kept of one request.
#[utoipa::path(
    get, path = "/admin/requests/{id}", tag = "requests", operation_id = "read_request",
    params(("id" = String, Path, description = "our id of it (`x-tollgate-request-id`), or the provider's", min_length = 1)),
    responses((status = 200, description = "its record", body = Entry)),
)]
async fn read_request(State(shared): State<Shared>, input::Name(path): input::Name) -> Result<Response, Fault> {
    let found = shared.gateway.records.find(&path).await?.ok_or(Fault::RequestNotFound)?;
    Ok(reply(&found))
}
