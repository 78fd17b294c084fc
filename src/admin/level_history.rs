//! `/admin/levels/history`: what became of the pools' levels, and why.

use super::fault::Problem;
use super::{Fault, Shared, input, json};
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::stack::levels::history::{Change, Why};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Changes when nothing is said, and at most.
const LISTED: usize = 100;
const MOST: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_level_changes))
}

/// Changes of levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LevelChanges {
    /// The latest first.
    pub changes: Vec<LevelChange>,
}

/// A change of a pool's level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LevelChange {
    /// When, RFC 3339.
    pub at: String,
    /// The pool.
    pub pool: String,
    /// The level before: the gauge's, or that in force where a pin is concerned.
    pub from: u8,
    /// The level after.
    pub to: u8,
    /// `gauge`, `alone` (by one gateway's use, while the store was away), `store_back`, `pinned`, `unpinned` or `pin_ended`.
    pub why: &'static str,
    /// Use of the ceiling in the minute before, percent, where that decided.
    pub ceiling_used_percent: Option<u64>,
    /// Who pinned, or took the pin back.
    pub by: Option<String>,
    /// Until when it is pinned, RFC 3339.
    pub until: Option<String>,
    /// Whose account at the provider, in passthrough mode: a hash of the credential.
    pub account: Option<String>,
}

impl LevelChange {
    fn of(pool: &str, change: &Change) -> (Timestamp, Self) {
        let Change { at, from, to, why, used, by, until, account } = change.clone();
        let view = Self {
            at: rfc3339(at),
            pool: pool.to_owned(),
            from,
            to,
            why: Why::as_str(why),
            ceiling_used_percent: used.map(|used| used.div_ceil(10)),
            by,
            until: until.map(rfc3339),
            account,
        };
        (at, view)
    }
}

/// Changes of all pools, or of one, the latest first.
///
/// # Errors
/// [`Fault::PoolNotFound`], [`Fault::StoreUnavailable`].
pub async fn list(gateway: &Gateway, pool: Option<&str>, limit: usize) -> Result<LevelChanges, Fault> {
    let policy = gateway.policy.load_full();
    let wanted = |name: &str| pool.is_none_or(|pool| pool == name);
    let pools: Vec<_> = policy.pools.iter().filter(|known| wanted(&known.name)).collect();
    if pool.is_some() && pools.is_empty() {
        return Err(Fault::PoolNotFound);
    }
    let mut changes = Vec::new();
    for pool in pools {
        let history = gateway.levels.history(&pool.name).await?;
        changes.extend(history.iter().map(|change| LevelChange::of(&pool.name, change)));
    }
    // Those of one pool in the same instant stay in the order in which they were written.
    changes.sort_by_key(|(at, _)| *at);
    Ok(LevelChanges { changes: changes.into_iter().rev().take(limit).map(|(_, change)| change).collect() })
}

/// What became of the pools' levels, the latest first.
#[utoipa::path(
    get, path = "/admin/levels/history", tag = "levels", operation_id = "list_level_changes",
    params(
        ("pool" = Option<String>, Query, description = "only of this pool"),
        ("limit" = Option<u32>, Query, description = "how many, 100 when absent", minimum = 1, maximum = 1_000),
    ),
    responses(
        (status = 200, description = "changes of levels", body = LevelChanges),
        (status = 404, description = "`pool_not_found`: there is no such pool", body = Problem),
    ),
)]
async fn list_level_changes(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [pool, limit] = input::query(&request, ["pool", "limit"])?;
    let limit = input::limit(limit.as_deref(), LISTED, MOST)?;
    Ok(json(StatusCode::OK, &json!(list(&shared.gateway, pool.as_deref(), limit).await?)))
}
