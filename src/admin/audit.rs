//! `/admin/audit`: who changed what through this listener, the latest first.

use super::{Fault, Shared, input, reply};
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::trail::Kept;
use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Changes read at once.
const PAGE: usize = 500;
/// Changes looked through for one answer.
const LOOKED_THROUGH: usize = 2_000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_changes))
}

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AuditPage {
    /// The latest first.
    pub changes: Vec<ChangeView>,
    /// What to send as `after` for the next page; null at the end. A page that is looked through for few may be empty and have a next one.
    pub next: Option<String>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChangeView {
    /// When, RFC 3339.
    pub at: String,
    /// Who, as they named themselves.
    pub by: String,
    /// `override`, `plan`, `level`, `ticket`, `key`.
    pub kind: String,
    /// Of which customer, plan, pool, ticket or key.
    pub name: String,
    /// What was there before; null: nothing, or it is not told (tickets).
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// What is there since; null: nothing.
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
}

/// Which changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this kind.
    pub kind: Option<String>,
    /// Of this customer, plan, pool, ticket or key.
    pub name: Option<String>,
    /// By this person.
    pub by: Option<String>,
}

impl Filter {
    fn passes(&self, kept: &Kept) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.kind, &kept.kind) && is(&self.name, &kept.name) && is(&self.by, &kept.by)
    }
}

/// Changes, the latest first; `after` is the `next` of the page before.
///
/// # Errors
/// [`Fault::InvalidRequest`] when `after` is something else, [`Fault::StoreUnavailable`].
pub async fn list(gateway: &Gateway, filter: &Filter, after: Option<&str>, limit: usize) -> Result<AuditPage, Fault> {
    let cursor = |text: &str| input::cursor(text).map(|(rank, id)| (rank, id.to_owned()));
    let strange = || Fault::InvalidRequest("`after` is what `next` of the page before said.".to_owned());
    let mut after = after.map(|text| cursor(text).ok_or_else(strange)).transpose()?;
    let (mut changes, mut looked_through) = (Vec::new(), 0);
    while looked_through < LOOKED_THROUGH {
        let page = gateway.trail.read(after.take(), PAGE).await?;
        looked_through += page.len();
        let last = page.len() < PAGE;
        for (behind, kept) in page {
            if changes.len() == limit {
                break;
            }
            after = Some(behind);
            if filter.passes(&kept) {
                changes.push(view(kept));
            }
        }
        if changes.len() == limit {
            break;
        }
        if last {
            after = None;
            break;
        }
    }
    Ok(AuditPage { changes, next: after.map(|(rank, id)| format!("{rank}-{id}")) })
}

fn view(kept: Kept) -> ChangeView {
    let Kept { at, by, kind, name, before, after } = kept;
    ChangeView { at: rfc3339(Timestamp(at)), by, kind, name, before, after }
}

/// Who changed what through this listener, the latest first.
#[utoipa::path(
    get, path = "/admin/audit", tag = "audit", operation_id = "list_changes",
    params(
        ("kind" = Option<String>, Query, description = "only of this kind: `override`, `plan`, `level`, `ticket`, `key`"),
        ("name" = Option<String>, Query, description = "only of this customer, plan, pool, ticket or key"),
        ("by" = Option<String>, Query, description = "only by this person"),
        ("after" = Option<String>, Query, description = "`next` of the page before"),
        ("limit" = Option<u32>, Query, description = "how many, 50 when absent", minimum = 1, maximum = 200),
    ),
    responses((status = 200, description = "a page", body = AuditPage)),
)]
async fn list_changes(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [kind, name, by, after, limit] = input::query(&request, ["kind", "name", "by", "after", "limit"])?;
    let limit = input::limit(limit.as_deref(), 50, 200)?;
    let owned = |text: Option<std::borrow::Cow<'_, str>>| text.map(std::borrow::Cow::into_owned);
    let filter = Filter { kind: owned(kind), name: owned(name), by: owned(by) };
    Ok(reply(&list(&shared.gateway, &filter, after.as_deref(), limit).await?))
}
