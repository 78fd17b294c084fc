//! `/admin/health`: how this gateway and its store stand, for whoever wonders whether anything is wrong.

use super::levels::{self, PoolLevel};
use super::{Fault, Shared, input, reply};
use crate::config::policy::StoreKind;
use crate::degrade::breaker::Position;
use crate::reply::rfc3339;
use crate::stack::Gateway;
use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How long the store may take to answer before it counts as away.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(read_health))
}

/// How a gateway stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    /// Whether the store answers and no breaker is open.
    pub well: bool,
    /// The version of the program.
    pub version: String,
    /// When this process started, RFC 3339.
    pub started_at: String,
    /// The file the configuration was read from; `built-in` without one.
    pub configuration: String,
    /// Changes whenever a plan is set at run time; 0 where none ever was. Gateways of one store that show the same go by the same plans.
    pub plans_version: u64,
    /// Gateways that share the store, as last seen.
    pub gateways: u64,
    /// The store.
    pub store: StoreHealth,
    /// Requests to providers.
    pub slots: SlotHealth,
    /// Settlements on their way to the store.
    pub unsettled: u64,
    /// Requests that have arrived and not ended.
    pub requests_in_flight: i64,
    /// Pools, in the order of the configuration.
    pub pools: Vec<PoolHealth>,
    /// Upstreams, by name.
    pub upstreams: Vec<UpstreamHealth>,
}

/// How the store stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct StoreHealth {
    /// `embedded` or `redis`.
    pub kind: String,
    /// Whether it answered just now.
    pub answers: bool,
    /// Until when requests are decided without it, RFC 3339; null: they are not.
    pub alone_until: Option<String>,
    /// Outages since the process started.
    pub outages: u64,
    /// Settlements that wait in the journal for the store to come back.
    pub waiting: u64,
    /// Budgets of which the store had lost what was spent, and that were repaired.
    pub repaired: u64,
    /// Whether it is known to throw books away when its memory is full.
    pub evicts: bool,
}

/// How busy the slots are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SlotHealth {
    /// How many there are in this process.
    pub all: u64,
    /// How many are free.
    pub free: u64,
    /// Requests that wait for one.
    pub queued: u64,
    /// The most that may wait.
    pub queue: u64,
    /// Customers with a request running or waiting.
    pub customers: u64,
}

/// How a pool stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PoolHealth {
    /// Its level and how full its ceiling is.
    #[serde(flatten)]
    pub level: PoolLevel,
    /// Its upstream.
    pub upstream: String,
}

/// How an upstream stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UpstreamHealth {
    /// Its name.
    pub upstream: String,
    /// Its breaker: `closed` (calls pass), `open` (they fail at once), `probing` (one call is out to see).
    pub breaker: String,
}

/// How this gateway and its store stand.
pub async fn read(gateway: &Gateway) -> Health {
    let policy = gateway.policy.load_full();
    let answers = matches!(timeout(PATIENCE, gateway.ledger.ping()).await, Ok(Ok(())));
    // What is in force as far as this gateway knows; it must not wait for a store that is away.
    let plans_version = if answers { gateway.directory.view(&policy).await.map_or(0, |view| view.number) } else { 0 };
    let standing = gateway.ledger.standing();
    let load = gateway.slots.load();
    let mut upstreams: Vec<_> = policy.upstreams.keys().map(|name| upstream(gateway, name)).collect();
    upstreams.sort_by(|a, b| a.upstream.cmp(&b.upstream));
    let levels = levels::list(gateway).await;
    let pool = |(pool, level): (&std::sync::Arc<crate::config::policy::Pool>, PoolLevel)| PoolHealth {
        level,
        upstream: pool.upstream.name.to_string(),
    };
    let kind = match policy.store {
        StoreKind::Embedded { .. } => "embedded",
        StoreKind::Redis { .. } => "redis",
    };
    Health {
        well: answers && upstreams.iter().all(|upstream| upstream.breaker == "closed"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: rfc3339(gateway.started),
        configuration: gateway.origin.get().map_or("built-in", String::as_str).to_owned(),
        plans_version,
        gateways: standing.as_ref().map_or(1, |standing| standing.gateways as u64),
        store: StoreHealth {
            kind: kind.to_owned(),
            answers,
            alone_until: standing.as_ref().and_then(|standing| standing.alone_until).map(rfc3339),
            outages: standing.as_ref().map_or(0, |standing| standing.outages),
            waiting: standing.as_ref().map_or(0, |standing| standing.waiting as u64),
            repaired: standing.as_ref().map_or(0, |standing| standing.repaired),
            evicts: standing.as_ref().is_some_and(|standing| standing.evicts),
        },
        slots: SlotHealth {
            all: policy.concurrency.slots as u64,
            free: load.free as u64,
            queued: load.queued as u64,
            queue: policy.concurrency.queue as u64,
            customers: load.customers as u64,
        },
        unsettled: gateway.settler.status().outstanding as u64,
        requests_in_flight: gateway.metrics.in_flight.get(),
        pools: policy.pools.iter().zip(levels).map(pool).collect(),
        upstreams,
    }
}

fn upstream(gateway: &Gateway, name: &str) -> UpstreamHealth {
    let breaker = match gateway.breakers.position(name) {
        Position::Closed => "closed",
        Position::Open => "open",
        Position::Probing => "probing",
    };
    UpstreamHealth { upstream: name.to_owned(), breaker: breaker.to_owned() }
}

/// How this gateway and its store stand. Answers also while the store is away.
#[utoipa::path(
    get, path = "/admin/health", tag = "health", operation_id = "read_health",
    responses((status = 200, description = "how it stands", body = Health)),
)]
async fn read_health(State(shared): State<Shared>, request: Request) -> Result<Response, Fault> {
    let [] = input::query(&request, [])?;
    Ok(reply(&read(&shared.gateway).await))
}
