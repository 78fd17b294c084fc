//! `/admin/levels`: how near each pool is to its ceiling, what is being given up there, and an operator's word against the gauge's.

use super::{Fault, Shared, input, json, name};
use crate::domain::Timestamp;
use crate::reply::rfc3339;
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
    Router::new().route("/admin/levels", get(all)).route("/admin/levels/{pool}", put(pin).delete(unpin))
}

/// Which level, for how long, by whom.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    level: u8,
    #[serde(rename = "for")]
    lasts: String,
    by: String,
}

async fn all(State(shared): State<Shared>) -> Response {
    json(StatusCode::OK, &json!({ "pools": pools(&shared) }))
}

async fn pin(State(shared): State<Shared>, Path(pool): Path<String>, request: Request) -> Result<Response, Fault> {
    exists(&shared, &pool)?;
    let wish: Wish = input::body(request).await?;
    if wish.level > 3 {
        return Err(Fault::InvalidRequest("`level` is a number from 0 to 3.".to_owned()));
    }
    let lasts = humantime::parse_duration(&wish.lasts).ok().filter(|lasts| !lasts.is_zero() && *lasts <= LONGEST);
    let Some(lasts) = lasts else {
        return Err(Fault::InvalidRequest("`for` is a duration such as \"30m\" or \"2h\", at most 7 days.".to_owned()));
    };
    let by = name("by", &wish.by)?;
    let until = shared.gateway.clock.now().plus(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX));
    let pinned = Pinned { level: wish.level, until: until.micros(), by: by.to_owned() };
    shared.gateway.levels.pin(&pool, Some(pinned)).await?;
    tracing::warn!(pool, level = wish.level, until = rfc3339(until), by, "an operator has pinned the level of a pool");
    Ok(json(StatusCode::OK, &one(&shared, &pool)))
}

async fn unpin(State(shared): State<Shared>, Path(pool): Path<String>) -> Result<Response, Fault> {
    exists(&shared, &pool)?;
    shared.gateway.levels.pin(&pool, None).await?;
    tracing::warn!(pool, "an operator lets the gauge decide the level of a pool again");
    Ok(json(StatusCode::OK, &one(&shared, &pool)))
}

fn exists(shared: &Shared, pool: &str) -> Result<(), Fault> {
    let policy = shared.gateway.policy.load();
    if policy.pools.iter().any(|known| &*known.name == pool) { Ok(()) } else { Err(Fault::PoolNotFound) }
}

fn pools(shared: &Shared) -> Vec<Value> {
    let policy = shared.gateway.policy.load();
    policy.pools.iter().map(|pool| one(shared, &pool.name)).collect()
}

/// One pool; of several accounts (passthrough mode) the one that is worst off.
fn one(shared: &Shared, pool: &str) -> Value {
    let PoolView { level, gauge, used, pinned } = shared.gateway.levels.of_pool(pool);
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
