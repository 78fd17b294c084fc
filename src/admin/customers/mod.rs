//! `/admin/customers`: who there is, and why one of them is served or refused.
//!
//! ```text
//! list   known customers by id: those seen lately, configured, or with an override; what they spent
//! view   one customer in one call: plan and its origin, every limit, holds, recent refusals, what was set
//! ```
//!
//! The functions of both are for whoever shows the same elsewhere; the routes here only read parameters and write JSON.

mod list;
mod view;

pub use list::{CustomerLine, CustomerPage, Known, SpendLine, known, lines, list};
pub use view::{CustomerView, Fullest, HoldView, InFlightView, view};

use super::{Fault, Shared, input, reply};
use crate::domain::{CustomerId, UserId};
use crate::stack::Gateway;
use axum::extract::{Request, State};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_customers)).routes(routes!(read_customer))
}

/// A customer's id, as applications may send it.
///
/// # Errors
/// [`Fault::InvalidRequest`] with the reason.
pub fn id(gateway: &Gateway, text: &str) -> Result<CustomerId, Fault> {
    let allow_emails = gateway.policy.load().identity.allow_emails;
    let id = CustomerId::parse(text.as_bytes(), allow_emails);
    let id = id.ok().filter(|id| id.as_str() == text);
    id.ok_or_else(|| match CustomerId::parse(text.as_bytes(), allow_emails) {
        Ok(_) => Fault::InvalidRequest("The customer's id has blanks around it.".to_owned()),
        Err(error) => Fault::InvalidRequest(format!("The customer's id {error}.")),
    })
}

/// Customers by id: those seen in the last three months, those of the configuration, and those with an override.
#[utoipa::path(
    get, path = "/admin/customers", tag = "customers", operation_id = "list_customers",
    params(
        ("prefix" = Option<String>, Query, description = "only ids that begin so", max_length = 512),
        ("after" = Option<String>, Query, description = "`next` of the page before", max_length = 512),
        ("limit" = Option<u32>, Query, description = "how many, 50 when absent", minimum = 1, maximum = 200),
    ),
    responses((status = 200, description = "a page", body = CustomerPage)),
)]
async fn list_customers(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [prefix, after, limit] = input::query(&request, ["prefix", "after", "limit"])?;
    let limit = input::limit(limit.as_deref(), 50, 200)?;
    let prefix = input::bounded("prefix", prefix.as_deref(), 512)?.unwrap_or_default();
    let after = input::bounded("after", after.as_deref(), 512)?;
    let page = list(&shared.gateway, prefix, after, limit).await?;
    Ok(reply(&page))
}

/// Everything about one customer that decides over its next request. One that was never seen is shown as it would be served.
#[utoipa::path(
    get, path = "/admin/customers/{id}", tag = "customers", operation_id = "read_customer",
    params(
        ("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512),
        ("user" = Option<String>, Query, description = "also the limits of this user inside the customer", min_length = 1, max_length = 512),
    ),
    responses((status = 200, description = "the customer", body = CustomerView)),
)]
async fn read_customer(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let id = id(&shared.gateway, &path)?;
    let [user] = input::query(&request, ["user"])?;
    let allow_emails = shared.gateway.policy.load().identity.allow_emails;
    let user = user.map(|user| UserId::parse(user.as_bytes(), allow_emails)).transpose();
    let user = user.map_err(|error| Fault::InvalidRequest(format!("`user` {error}.")))?;
    Ok(reply(&view(&shared.gateway, &id, user.as_ref()).await?))
}
