//! `/admin/plans`: what each plan is, what a change of one would do to whom, and the change.

use super::customers::known;
use super::fault::words;
use super::overrides::expected;
use super::shown::{LimitSetting, PlanShape};
use super::{Fault, Shared, input, name, reply};
use crate::directory::{DirectoryError, View};
use crate::stack::Gateway;
use crate::store::documents::Expected;
use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Known customers a preview looks at.
const LOOKED_AT: usize = 50_000;
/// Of those read at once.
const PAGE: usize = 999;
/// Customers that are named because their overrides name a plan.
const IN_USE: usize = 10;
/// Affected customers that are named.
const NAMED: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_plans))
        .routes(routes!(read_plan, set_plan, clear_plan))
        .routes(routes!(preview_plan))
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlanView {
    /// Its name.
    pub plan: String,
    /// What is set at run time, over the configured plan of that name; null: nothing.
    pub set: Option<PlanSet>,
    /// The plan as it is in force; null when there is none of that name any more.
    pub in_force: Option<PlanShape>,
    /// Whether customers have it to whom nobody gave a plan.
    pub is_default: bool,
    /// What is odd about a change that was just made, though it does what it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What is set of a plan at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlanSet {
    /// The keys of `[plans.NAME]`.
    #[schema(value_type = Object)]
    pub set: Value,
    /// Changes with every change.
    pub version: u64,
}

/// All plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlanList {
    /// By name.
    pub plans: Vec<PlanView>,
}

/// A change.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanWish {
    /// The keys of `[plans.NAME]`, laid over the configured plan of that name.
    #[schema(value_type = Object)]
    pub set: Map<String, Value>,
    /// Only over this version of what is set; zero: only over nothing.
    pub version: Option<u64>,
    /// Who says so.
    #[schema(min_length = 1, max_length = 128)]
    pub by: String,
}

/// A change to be thought through.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDraft {
    /// The keys of `[plans.NAME]`; null: what is set is taken back.
    #[schema(value_type = Option<Object>)]
    pub set: Option<Map<String, Value>>,
}

/// What a change of a plan would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlanPreview {
    /// The plan.
    pub plan: String,
    /// As it is in force; null: there is none.
    pub before: Option<PlanShape>,
    /// As it would be; null: there would be none, and its customers would have the default.
    pub after: Option<PlanShape>,
    /// The limits that would change.
    pub changes: Vec<LimitChange>,
    /// Whom it would change something for.
    pub affected: Affected,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

/// A limit that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LimitChange {
    /// Whose: `customer` or `user`.
    pub scope: String,
    /// Which.
    pub limit: String,
    /// As it is; null: there is none.
    pub before: Option<LimitSetting>,
    /// As it would be; null: there would be none.
    pub after: Option<LimitSetting>,
}

/// Known customers for whom something would change: a customer with settings of its own only where those leave a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Affected {
    /// How many.
    pub count: u64,
    /// How many known customers were looked at.
    pub looked_at: u64,
    /// Whether those are all that are known.
    pub complete: bool,
    /// The first 100 by id.
    pub customers: Vec<String>,
}

/// All plans by name: configured and set.
///
/// # Errors
/// [`Fault::StoreUnavailable`].
pub async fn list(gateway: &Gateway) -> Result<Vec<PlanView>, Fault> {
    let set = gateway.directory.plans().await?;
    let view = gateway.directory.current_view(&gateway.policy.load_full()).await?;
    let names: BTreeSet<&str> = view.names().into_iter().chain(set.iter().map(|(name, ..)| &**name)).collect();
    Ok(names.into_iter().map(|name| one(name, &set, &view)).collect())
}

/// One plan.
///
/// # Errors
/// [`Fault::PlanNotFound`], [`Fault::StoreUnavailable`].
pub async fn read(gateway: &Gateway, name: &str) -> Result<PlanView, Fault> {
    let set = gateway.directory.plans().await?;
    let view = gateway.directory.current_view(&gateway.policy.load_full()).await?;
    let plan = one(name, &set, &view);
    if plan.set.is_none() && plan.in_force.is_none() { Err(Fault::PlanNotFound) } else { Ok(plan) }
}

fn one(name: &str, set: &[(std::sync::Arc<str>, u64, Value)], view: &View) -> PlanView {
    let found = set.iter().find(|(known, ..)| **known == *name);
    PlanView {
        plan: name.to_owned(),
        set: found.map(|(_, version, said)| PlanSet { set: said.clone(), version: *version }),
        in_force: view.plan(name).map(|plan| PlanShape::of(plan)),
        is_default: *view.policy.identity.default_plan.name == *name,
        warnings: Vec::new(),
    }
}

/// The longest name of a plan, bytes.
const LONGEST_NAME: usize = 512;

/// A plan's name, as long as names may be. A longer one is a mistake of whoever asks, which a store would tell as a failure of its own.
fn sized(plan: &str) -> Result<(), Fault> {
    input::bounded("name", Some(plan), LONGEST_NAME).map(drop)
}

/// Sets a plan at run time.
///
/// # Errors
/// [`Fault::InvalidRequest`] in the words of the configuration, [`Fault::Changed`], [`Fault::StoreUnavailable`].
pub async fn set(gateway: &Gateway, plan: &str, wish: &PlanWish) -> Result<PlanView, Fault> {
    sized(plan)?;
    let by = name("by", &wish.by)?;
    input::without_nulls(&wish.set)?;
    // Those of the file may be called anything; one that is made here has to fit addresses, logs and a table's cell.
    let view = gateway.directory.current_view(&gateway.policy.load_full()).await?;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | ' ');
    if view.plan(plan).is_none() && !(plan.starts_with(char::is_alphanumeric) && plan.chars().all(plain)) {
        let rule =
            "The name of a new plan begins with a letter or digit and holds letters, digits, `_`, `-`, `.`, `:` and blanks.";
        return Err(Fault::InvalidRequest(rule.to_owned()));
    }
    let set = gateway.directory.set_plan(by, plan, &wish.set, expected(wish.version)).await?;
    let warnings = set.warnings.iter().map(words).collect();
    Ok(PlanView { warnings, ..read(gateway, plan).await? })
}

/// Takes back what is set of a plan. What is left is the configured plan of that name, if there is one. Where there is none and overrides
/// name the plan, that is refused unless `force` is said.
///
/// # Errors
/// [`Fault::InvalidRequest`], [`Fault::PlanInUse`], [`Fault::StoreUnavailable`].
pub async fn clear(gateway: &Gateway, plan: &str, by: &str, force: bool) -> Result<PlanView, Fault> {
    sized(plan)?;
    let (by, policy) = (name("by", by)?, gateway.policy.load_full());
    let set = |view: &View| view.plan(plan).is_some() && !policy.plans.contains_key(plan);
    if !force && set(&*gateway.directory.current_view(&policy).await?) {
        let (customers, more) = gateway.directory.named_in_overrides(plan, IN_USE).await?;
        if !customers.is_empty() {
            return Err(Fault::PlanInUse { customers, more });
        }
    }
    gateway.directory.clear_plan(by, plan, Expected::Anything).await?;
    let view = gateway.directory.current_view(&policy).await?;
    Ok(one(plan, &[], &view))
}

/// What a change of a plan would do, and to whom. Changes nothing. A customer whose plan an application names in a header is counted by
/// the plan it would have without.
///
/// # Errors
/// As of [`set`].
pub async fn preview(gateway: &Gateway, plan: &str, draft: &PlanDraft) -> Result<PlanPreview, Fault> {
    sized(plan)?;
    draft.set.as_ref().map_or(Ok(()), input::without_nulls)?;
    let policy = gateway.policy.load_full();
    let draft = gateway.directory.draft_plan(&policy, plan, draft.set.as_ref()).await?;
    let shape = |view: &View| view.plan(plan).map(|plan| PlanShape::of(plan));
    let (before, after) = (shape(&draft.before), shape(&draft.after));
    let mut affected = Affected::default();
    let mut from = None;
    loop {
        let (page, more) = known(gateway, "", from.as_deref(), PAGE).await?;
        from = page.last().map(|(id, _)| id.clone());
        affected.looked_at += page.len() as u64;
        for (id, known) in page {
            let [old, new] =
                [&draft.before, &draft.after].map(|view| gateway.directory.current_with(view, &id, known.said.clone()).plan);
            if (*old.name == *plan || *new.name == *plan) && PlanShape::of(&old) != PlanShape::of(&new) {
                affected.count += 1;
                if affected.customers.len() < NAMED {
                    affected.customers.push(id);
                }
            }
        }
        affected.complete = !more;
        if !more || affected.looked_at >= LOOKED_AT as u64 {
            break;
        }
    }
    Ok(PlanPreview {
        plan: plan.to_owned(),
        changes: changes(before.as_ref(), after.as_ref()),
        before,
        after,
        affected,
        warnings: draft.warnings.iter().map(words).collect(),
    })
}

fn changes(before: Option<&PlanShape>, after: Option<&PlanShape>) -> Vec<LimitChange> {
    let of = |shape: Option<&PlanShape>, user: bool| {
        shape.map(|shape| if user { shape.user_limits.clone() } else { shape.limits.clone() }).unwrap_or_default()
    };
    let mut changes = Vec::new();
    for (scope, user) in [("customer", false), ("user", true)] {
        let (old, new) = (of(before, user), of(after, user));
        let names: BTreeSet<&str> = old.iter().chain(&new).map(|setting| &*setting.limit).collect();
        for limit in names {
            let find = |all: &[LimitSetting]| all.iter().find(|setting| setting.limit == limit).cloned();
            let (before, after) = (find(&old), find(&new));
            if before != after {
                changes.push(LimitChange { scope: scope.to_owned(), limit: limit.to_owned(), before, after });
            }
        }
    }
    changes
}

impl From<DirectoryError> for Fault {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Invalid(problems) => Self::InvalidRequest(problems.iter().map(words).collect::<Vec<_>>().join("\n")),
            DirectoryError::Conflict(version) => Self::Changed { version },
            DirectoryError::Store(error) => error.into(),
        }
    }
}

// === routes ===

/// All plans, by name.
#[utoipa::path(
    get, path = "/admin/plans", tag = "plans", operation_id = "list_plans",
    responses((status = 200, description = "all plans", body = PlanList)),
)]
async fn list_plans(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [] = input::query(&request, [])?;
    Ok(reply(&PlanList { plans: list(&shared.gateway).await? }))
}

/// One plan.
#[utoipa::path(
    get, path = "/admin/plans/{name}", tag = "plans", operation_id = "read_plan",
    params(("name" = String, Path, description = "its name", min_length = 1, max_length = 512)),
    responses((status = 200, description = "the plan", body = PlanView)),
)]
async fn read_plan(State(shared): State<Shared>, input::Name(plan): input::Name) -> Result<Response, Fault> {
    Ok(reply(&read(&shared.gateway, &plan).await?))
}

/// Sets a plan, over the configured one of that name if there is one. In force for all of its customers with their next request.
#[utoipa::path(
    put, path = "/admin/plans/{name}", tag = "plans", operation_id = "set_plan",
    params(("name" = String, Path, description = "its name", min_length = 1, max_length = 512)),
    request_body = PlanWish,
    responses((status = 200, description = "the plan now", body = PlanView)),
)]
async fn set_plan(State(shared): State<Shared>, input::Name(plan): input::Name, request: Request) -> Result<Response, Fault> {
    let wish = input::body(request).await?;
    Ok(reply(&set(&shared.gateway, &plan, &wish).await?))
}

/// Takes back what is set of a plan. Customers whose plan is gone then have the default; where their overrides name it that has to be forced.
#[utoipa::path(
    delete, path = "/admin/plans/{name}", tag = "plans", operation_id = "clear_plan",
    params(
        ("name" = String, Path, description = "its name", min_length = 1, max_length = 512),
        ("by" = String, Query, description = "who says so", min_length = 1, max_length = 128),
        ("force" = Option<bool>, Query, description = "also where overrides name a plan that would be gone"),
    ),
    responses((status = 200, description = "the plan now", body = PlanView)),
)]
async fn clear_plan(State(shared): State<Shared>, input::Name(plan): input::Name, request: Request) -> Result<Response, Fault> {
    let [by, force] = input::query(&request, ["by", "force"])?;
    let by = by.ok_or_else(|| Fault::InvalidRequest("The parameter `by` says who does it.".to_owned()))?;
    let force = match force.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Fault::InvalidRequest("`force` is true or false.".to_owned())),
    };
    Ok(reply(&clear(&shared.gateway, &plan, &by, force).await?))
}

/// What a change of a plan would do, and to which known customers. Changes nothing.
#[utoipa::path(
    post, path = "/admin/plans/{name}/preview", tag = "plans", operation_id = "preview_plan",
    params(("name" = String, Path, description = "its name", min_length = 1, max_length = 512)),
    request_body = PlanDraft,
    responses((status = 200, description = "before, after and for whom", body = PlanPreview)),
)]
async fn preview_plan(State(shared): State<Shared>, input::Name(plan): input::Name, request: Request) -> Result<Response, Fault> {
    let draft = input::body(request).await?;
    Ok(reply(&preview(&shared.gateway, &plan, &draft).await?))
}
