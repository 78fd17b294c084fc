//! The requests about overrides and credits: what each takes, and what answers it.

use super::{
    CustomerOverride, Gift, OverrideDraft, OverridePage, OverridePreview, OverrideWish, clear, credit, list, preview, read, set,
};
use crate::admin::customers::id;
use crate::admin::{Fault, Shared, input, name, reply};
use axum::extract::{Request, State};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(in crate::admin) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_overrides))
        .routes(routes!(read_override, set_override, patch_override, clear_override))
        .routes(routes!(preview_override))
        .routes(routes!(add_credit, clear_credits))
}

/// Everything that is set for customers at run time, by customer.
#[utoipa::path(
    get, path = "/admin/overrides", tag = "customers", operation_id = "list_overrides",
    params(
        ("after" = Option<String>, Query, description = "`next` of the page before", max_length = 512),
        ("limit" = Option<u32>, Query, description = "how many, 50 when absent", minimum = 1, maximum = 200),
    ),
    responses((status = 200, description = "a page", body = OverridePage)),
)]
async fn list_overrides(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [after, limit] = input::query(&request, ["after", "limit"])?;
    let limit = input::limit(limit.as_deref(), 50, 200)?;
    let after = input::bounded("after", after.as_deref(), 512)?;
    Ok(reply(&list(&shared.gateway, after, limit).await?))
}

/// What is set for a customer at run time.
#[utoipa::path(
    get, path = "/admin/customers/{id}/override", tag = "customers", operation_id = "read_override",
    params(("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512)),
    responses((status = 200, description = "what is set", body = CustomerOverride)),
)]
async fn read_override(State(shared): State<Shared>, input::Name(path): input::Name) -> Result<Response, Fault> {
    let id = id(&shared.gateway, &path)?;
    Ok(reply(&read(&shared.gateway, id.as_str()).await?))
}

/// Sets what differs for a customer, instead of what was set before; credits stay. In force with the next request on every gateway.
#[utoipa::path(
    put, path = "/admin/customers/{id}/override", tag = "customers", operation_id = "set_override",
    params(("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512)),
    request_body = OverrideWish,
    responses((status = 200, description = "what is set now", body = CustomerOverride)),
)]
async fn set_override(State(shared): State<Shared>, input::Name(path): input::Name, request: Request) -> Result<Response, Fault> {
    let id = id(&shared.gateway, &path)?;
    let wish = input::body(request).await?;
    Ok(reply(&set(&shared.gateway, id.as_str(), &wish, false).await?))
}

/// Changes some of what differs for a customer, as a JSON merge patch does; the rest stays.
#[utoipa::path(
    patch, path = "/admin/customers/{id}/override", tag = "customers", operation_id = "patch_override",
    params(("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512)),
    request_body = OverrideWish,
    responses((status = 200, description = "what is set now", body = CustomerOverride)),
)]
async fn patch_override(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let id = id(&shared.gateway, &path)?;
    let wish = input::body(request).await?;
    Ok(reply(&set(&shared.gateway, id.as_str(), &wish, true).await?))
}

/// Takes back what is set for a customer, credits included.
#[utoipa::path(
    delete, path = "/admin/customers/{id}/override", tag = "customers", operation_id = "clear_override",
    params(
        ("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512),
        ("by" = String, Query, description = "who says so", min_length = 1, max_length = 128),
    ),
    responses((status = 200, description = "what is set now: nothing", body = CustomerOverride)),
)]
async fn clear_override(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let (id, by) = (id(&shared.gateway, &path)?, input::by(&request)?);
    Ok(reply(&clear(&shared.gateway, id.as_str(), &by).await?))
}

/// What the plan of a customer would be with these settings. Changes nothing.
#[utoipa::path(
    post, path = "/admin/customers/{id}/override/preview", tag = "customers", operation_id = "preview_override",
    params(("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512)),
    request_body = OverrideDraft,
    responses((status = 200, description = "before and after", body = OverridePreview)),
)]
async fn preview_override(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let id = id(&shared.gateway, &path)?;
    let draft = input::body(request).await?;
    Ok(reply(&preview(&shared.gateway, id.as_str(), &draft).await?))
}

/// Adds dollars to a customer's cap of the present day, week or month; several add up.
#[utoipa::path(
    post, path = "/admin/customers/{id}/credits", tag = "customers", operation_id = "add_credit",
    params(("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512)),
    request_body = Gift,
    responses((status = 200, description = "what is set now", body = CustomerOverride)),
)]
async fn add_credit(State(shared): State<Shared>, input::Name(path): input::Name, request: Request) -> Result<Response, Fault> {
    let id = id(&shared.gateway, &path)?;
    let gift = input::body(request).await?;
    Ok(reply(&credit(&shared.gateway, id.as_str(), &gift).await?))
}

/// Takes all credits of a customer back; what else is set stays.
#[utoipa::path(
    delete, path = "/admin/customers/{id}/credits", tag = "customers", operation_id = "clear_credits",
    params(
        ("id" = String, Path, description = "the exact id, percent-encoded", min_length = 1, max_length = 512),
        ("by" = String, Query, description = "who says so", min_length = 1, max_length = 128),
    ),
    responses((status = 200, description = "what is set now", body = CustomerOverride)),
)]
async fn clear_credits(
    State(shared): State<Shared>,
    input::Name(path): input::Name,
    request: Request,
) -> Result<Response, Fault> {
    let (id, by) = (id(&shared.gateway, &path)?, input::by(&request)?);
    shared.gateway.directory.clear_credits(name("by", &by)?, id.as_str()).await?;
    Ok(reply(&read(&shared.gateway, id.as_str()).await?))
}
