//! `/admin/levels`: how near each pool is to its ceiling, what is being given up there, and an operator's word against the gauge's.

use super::{Fault, Shared, input, name, reply};
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::stack::levels::{Pinned, PoolView};
use crate::trail::{Change, Trail};
use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The longest time a level may be pinned: nobody remembers a pin for longer.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// Who takes a pin back, where that is not said.
const SOMEBODY: &str = "(not said)";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_levels)).routes(routes!(pin_level, unpin_level))
}

/// How near a pool is to its ceiling, and what is given up there. Of several accounts (passthrough mode) the one that is worst off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PoolLevel {
    /// The pool.
    pub pool: String,
    /// The level that holds, 0 to 3.
    pub level: u8,
    /// What the gauge says.
    pub gauge_level: u8,
    /// Use of the ceiling in the trailing minute, all gateways together, percent.
    pub ceiling_used_percent: u64,
    /// What an operator said instead; null: nothing.
    pub pinned: Option<PinView>,
}

/// An operator's word against the gauge's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PinView {
    /// The level that holds.
    pub level: u8,
    /// Until when, RFC 3339.
    pub until: String,
    /// Who said so.
    pub by: String,
}

/// All pools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PoolLevels {
    /// In the order of the configuration.
    pub pools: Vec<PoolLevel>,
}

/// Which level, for how long, by whom.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinWish {
    /// The level.
    #[schema(maximum = 3)]
    pub level: u8,
    /// For how long, such as `30m` or `2h`, at most 7 days.
    #[serde(rename = "for")]
    pub lasts: String,
    /// Who says so.
    #[schema(min_length = 1, max_length = 128)]
    pub by: String,
}

/// All pools, in the order of the configuration.
pub async fn list(gateway: &Gateway) -> Vec<PoolLevel> {
    let policy = gateway.policy.load_full();
    let mut pools = Vec::with_capacity(policy.pools.len());
    for pool in &policy.pools {
        pools.push(one(gateway, &pool.name).await);
    }
    pools
}

/// Pins the level of a pool for a while, on all gateways.
///
/// # Errors
/// [`Fault::PoolNotFound`], [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn pin(gateway: &Gateway, pool: &str, wish: &PinWish) -> Result<PoolLevel, Fault> {
    exists(gateway, pool)?;
    if wish.level > 3 {
        return Err(Fault::InvalidRequest("`level` is a number from 0 to 3.".to_owned()));
    }
    let lasts = humantime::parse_duration(&wish.lasts).ok().filter(|lasts| !lasts.is_zero() && *lasts <= LONGEST);
    let Some(lasts) = lasts else {
        return Err(Fault::InvalidRequest("`for` is a duration such as \"30m\" or \"2h\", at most 7 days.".to_owned()));
    };
    let by = name("by", &wish.by)?;
    let until = gateway.clock.now().plus(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX));
    change(gateway, pool, by, Some(Pinned { level: wish.level, until: until.micros(), by: by.to_owned() })).await?;
    tracing::warn!(pool, level = wish.level, until = rfc3339(until), by, "an operator has pinned the level of a pool");
    Ok(one(gateway, pool).await)
}

/// Lets the gauge decide again.
///
/// # Errors
/// [`Fault::PoolNotFound`], [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn unpin(gateway: &Gateway, pool: &str, by: Option<&str>) -> Result<PoolLevel, Fault> {
    exists(gateway, pool)?;
    let by = by.map_or(Ok(SOMEBODY), |by| name("by", by))?;
    change(gateway, pool, by, None).await?;
    tracing::warn!(pool, by, "an operator lets the gauge decide the level of a pool again");
    Ok(one(gateway, pool).await)
}

async fn change(gateway: &Gateway, pool: &str, by: &str, pinned: Option<Pinned>) -> Result<(), Fault> {
    let shown = |pinned: &Pinned| json!({ "level": pinned.level, "until": rfc3339(Timestamp(pinned.until)), "by": pinned.by });
    let (before, after): (Option<Value>, Option<Value>) =
        (gateway.levels.pinned().get(pool).map(shown), pinned.as_ref().map(shown));
    match pinned {
        Some(pinned) => gateway.levels.pin(pool, Some(pinned)).await?,
        None => gateway.levels.unpin(pool, by).await?,
    }
    let change = Change { by, kind: "level", name: pool, before: before.as_ref(), after: after.as_ref() };
    gateway.trail.changed(&change).await;
    Ok(())
}

fn exists(gateway: &Gateway, pool: &str) -> Result<(), Fault> {
    let policy = gateway.policy.load();
    if policy.pools.iter().any(|known| &*known.name == pool) { Ok(()) } else { Err(Fault::PoolNotFound) }
}

async fn one(gateway: &Gateway, pool: &str) -> PoolLevel {
    let PoolView { level, gauge, used, pinned } = gateway.levels.look(pool).await;
    PoolLevel {
        pool: pool.to_owned(),
        level,
        gauge_level: gauge,
        ceiling_used_percent: used.div_ceil(10),
        pinned: pinned.map(|pinned| PinView { level: pinned.level, until: rfc3339(Timestamp(pinned.until)), by: pinned.by }),
    }
}

// === routes ===

/// How near each pool is to its ceiling, and the level that holds there.
#[utoipa::path(
    get, path = "/admin/levels", tag = "levels", operation_id = "list_levels",
    responses((status = 200, description = "all pools", body = PoolLevels)),
)]
async fn list_levels(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [] = input::query(&request, [])?;
    Ok(reply(&PoolLevels { pools: list(&shared.gateway).await }))
}

/// Pins the level of a pool for a while, on all gateways.
#[utoipa::path(
    put, path = "/admin/levels/{pool}", tag = "levels", operation_id = "pin_level",
    params(("pool" = String, Path, description = "a pool of the configuration", min_length = 1)),
    request_body = PinWish,
    responses((status = 200, description = "the pool now", body = PoolLevel)),
)]
async fn pin_level(State(shared): State<Shared>, input::Name(pool): input::Name, request: Request) -> Result<Response, Fault> {
    exists(&shared.gateway, &pool)?;
    let wish = input::body(request).await?;
    Ok(reply(&pin(&shared.gateway, &pool, &wish).await?))
}

/// Lets the gauge decide the level of a pool again.
#[utoipa::path(
    delete, path = "/admin/levels/{pool}", tag = "levels", operation_id = "unpin_level",
    params(
        ("pool" = String, Path, description = "a pool of the configuration", min_length = 1),
        ("by" = Option<String>, Query, description = "who says so", min_length = 1, max_length = 128),
    ),
    responses((status = 200, description = "the pool now", body = PoolLevel)),
)]
async fn unpin_level(State(shared): State<Shared>, input::Name(pool): input::Name, request: Request) -> Result<Response, Fault> {
    let [by] = input::query(&request, ["by"])?;
    Ok(reply(&unpin(&shared.gateway, &pool, by.as_deref()).await?))
}
