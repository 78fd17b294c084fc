//! `/admin/levels`: how near each pool is to its ceiling, what is being given up there, and an operator's word against the gauge's.

use super::{Fault, Shared, input, json, name};
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::stack::levels::{Pinned, PoolView};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, put};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest time a level may be pinned: nobody remembers a pin for longer.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/admin/levels", get(all)).route("/admin/levels/{pool}", put(pin_level).delete(unpin_level))
}

/// Which level, for how long, by whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinWish {
    /// The level.
    pub level: u8,
    /// For how long, such as `30m` or `2h`, at most 7 days.
    #[serde(rename = "for")]
    pub lasts: String,
    /// Who says so.
    pub by: String,
}

/// Pins the level of a pool for a while, on all gateways.
///
/// # Errors
/// [`Fault::PoolNotFound`], [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn pin(gateway: &Gateway, pool: &str, wish: &PinWish) -> Result<(), Fault> {
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
    let pinned = Pinned { level: wish.level, until: until.micros(), by: by.to_owned() };
    gateway.levels.pin(pool, Some(pinned)).await?;
    tracing::warn!(pool, level = wish.level, until = rfc3339(until), by, "an operator has pinned the level of a pool");
    Ok(())
}

/// Lets the gauge decide again.
///
/// # Errors
/// [`Fault::PoolNotFound`], [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn unpin(gateway: &Gateway, pool: &str, by: Option<&str>) -> Result<(), Fault> {
    exists(gateway, pool)?;
    match by {
        Some(by) => gateway.levels.unpin(pool, name("by", by)?).await?,
        None => gateway.levels.pin(pool, None).await?,
    }
    tracing::warn!(pool, by, "an operator lets the gauge decide the level of a pool again");
    Ok(())
}

async fn all(State(shared): State<Shared>) -> Response {
    json(StatusCode::OK, &json!({ "pools": pools(&shared).await }))
}

async fn pin_level(State(shared): State<Shared>, Path(pool): Path<String>, request: Request) -> Result<Response, Fault> {
    exists(&shared.gateway, &pool)?;
    pin(&shared.gateway, &pool, &input::body(request).await?).await?;
    Ok(json(StatusCode::OK, &one(&shared, &pool).await))
}

async fn unpin_level(State(shared): State<Shared>, Path(pool): Path<String>, request: Request) -> Result<Response, Fault> {
    let [by] = input::query(&request, ["by"])?;
    unpin(&shared.gateway, &pool, by.as_deref()).await?;
    Ok(json(StatusCode::OK, &one(&shared, &pool).await))
}

fn exists(gateway: &Gateway, pool: &str) -> Result<(), Fault> {
    let policy = gateway.policy.load();
    if policy.pools.iter().any(|known| &*known.name == pool) { Ok(()) } else { Err(Fault::PoolNotFound) }
}

async fn pools(shared: &Shared) -> Vec<Value> {
    let mut pools = Vec::new();
    for pool in &shared.gateway.policy.load_full().pools {
        pools.push(one(shared, &pool.name).await);
    }
    pools
}

/// One pool; of several accounts (passthrough mode) the one that is worst off.
async fn one(shared: &Shared, pool: &str) -> Value {
    let PoolView { level, gauge, used, pinned } = shared.gateway.levels.look(pool).await;
    json!({
        "pool": pool,
        "level": level,
        "gauge_level": gauge,
        "ceiling_used_percent": used.div_ceil(10),
        "pinned": pinned.map(|pinned| json!({
            "level": pinned.level,
            "until": rfc3339(Timestamp(pinned.until)),
            "by": pinned.by,
        })),
    })
}
