//! `/console`: how everything stands.

use super::Shared;
use super::gate::Visit;
use super::page::{Page, Section};
use super::parts::{self, Head, Table, facts, foreign, gauge, grouped};
use super::requests::lookup;
use super::today::today;
use crate::config::policy::StoreKind;
use crate::domain::Timestamp;
use crate::stack::levels::PoolView;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the store may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/console", get(show))
}

async fn show(State(shared): State<Shared>, visit: Visit) -> Response {
    let gateway = &shared.gateway;
    let today = today(&shared).await;
    let pools = pools(&shared).await;
    let store = store(&shared).await;
    let page = Page { title: "Overview", section: Section::Overview, visit: &visit, refresh: 5 };
    page.show(&html! {
        div #said data-live { p role="status" { (summary(&pools, store.answers)) } }
        div #pools data-live { (ceilings(&pools, gateway.clock.now())) }
        p { a href="/console/levels" { "What became of the levels, and why" } }
        h2 { "This gateway" }
        div #gateway data-live { (here(&shared, &store)) }
        h2 { "Today, all gateways" }
        div #today data-live { (today) }
        h2 { "One request" }
        (lookup("", None))
    })
}

type Pools = Vec<(Arc<str>, PoolView)>;

async fn pools(shared: &Shared) -> Pools {
    let (levels, mut pools) = (&shared.gateway.levels, Pools::new());
    for pool in &shared.gateway.policy.load_full().pools {
        pools.push((pool.name.clone(), levels.look(&pool.name).await));
    }
    pools
}

/// What somebody has to know who reads one sentence. It changes only when that does, and is then read out.
fn summary(pools: &Pools, answers: bool) -> Markup {
    let given_up: Vec<_> = pools.iter().filter(|(_, view)| view.level > 0).collect();
    html! {
        @if !answers { strong { "The store does not answer. " } }
        @if pools.is_empty() { "No pools are configured, so no ceiling is watched." }
        @else if given_up.is_empty() { "Nothing is being given up: every pool is at level 0." }
        @else {
            @for (at, (name, view)) in given_up.iter().enumerate() {
                @if at > 0 { ", " }
                (name) " is at level " (view.level)
            }
            "; all other pools are at level 0."
        }
    }
}

/// A level and what it means.
pub(super) fn level(level: u8) -> Markup {
    html! { span.level.{ "level-" (level.min(3)) } { (level) } }
}

fn ceilings(pools: &Pools, now: Timestamp) -> Markup {
    let row = |(name, view): &(Arc<str>, PoolView)| {
        let pin = view.pinned.as_ref();
        vec![
            html! { (name) },
            level(view.level),
            gauge(&format!("{name}: ceiling used in the last minute"), view.used),
            html! { (view.gauge) },
            html! {
                @if let Some(pin) = pin { "by " (foreign(&pin.by)) ", ends " (parts::apart(Timestamp(pin.until), now)) }
                @else { span.hint { "no" } }
            },
        ]
    };
    let heads = [
        Head::Text("Pool"),
        Head::Text("Level"),
        Head::Text("Ceiling used, last minute"),
        Head::Text("By the gauge"),
        Head::Text("Pinned"),
    ];
    let rows = pools.iter().map(row).collect();
    parts::table(&Table { caption: "Pools, all gateways together", heads: &heads, rows, empty: "No pools are configured." })
}

/// How the store stands.
struct Store {
    answers: bool,
    words: Markup,
    gateways: Option<usize>,
}

async fn store(shared: &Shared) -> Store {
    let ledger = &shared.gateway.ledger;
    let answers = matches!(timeout(PATIENCE, ledger.ping()).await, Ok(Ok(())));
    let kind = match shared.gateway.policy.load().store {
        StoreKind::Embedded { .. } => "embedded",
        StoreKind::Redis { .. } => "Redis",
    };
    let standing = ledger.standing();
    let words = html! {
        (kind) ", "
        @match standing {
            Some(status) if status.away => {
                strong { "away" }
                @if status.alone_until.is_some() { "; this gateway decides alone" }
                @else { "; requests are refused" }
            }
            _ if answers => "answers",
            _ => strong { "does not answer" },
        }
        @if let Some(status) = standing.filter(|status| status.waiting > 0) {
            ", " (grouped(status.waiting as u64)) " settlements wait in the journal"
        }
        @if standing.is_some_and(|status| status.evicts) { ". " strong { "It may evict budgets." } }
    };
    Store { answers, words, gateways: standing.map(|status| status.gateways) }
}

fn here(shared: &Shared, store: &Store) -> Markup {
    let gateway = &shared.gateway;
    let load = gateway.slots.load();
    let policy = gateway.policy.load();
    let slots = policy.concurrency.slots;
    let unsettled = gateway.settler.status().outstanding;
    facts(&[
        ("Store", store.words.clone()),
        ("Gateways", html! { @match store.gateways { Some(gateways) => (grouped(gateways.max(1) as u64)), None => "1" } }),
        ("Slots in use", html! { (grouped(slots.saturating_sub(load.free) as u64)) " of " (grouped(slots as u64)) }),
        ("Waiting for a slot", html! { (grouped(load.queued as u64)) " of " (grouped(policy.concurrency.queue as u64)) }),
        ("Customers being served", html! { (grouped(load.customers as u64)) }),
        ("Not settled yet", html! { (grouped(unsettled as u64)) }),
        ("Hand-offs not written yet", html! { (grouped(gateway.triage.unwritten() as u64)) }),
    ])
}
