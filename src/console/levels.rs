//! `/console/levels`: what is being given up, what was and why, and an operator's word against the gauge's.

use super::Shared;
use super::chart::{Chart, Line, chart};
use super::gate::{Form, Visit};
use super::overview::level;
use super::page::{Page, Section, Trouble, address, redirect};
use super::parts::{self, Head, Table, error_list, foreign, gauge, hidden_csrf};
use crate::admin::levels::{PinWish, pin, unpin};
use crate::domain::Timestamp;
use crate::stack::levels::PoolView;
use crate::stack::levels::history::{Change, Why};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use maud::{Markup, html};
use std::sync::Arc;

/// Changes in the table.
const LISTED: usize = 200;
/// Pools in the chart.
const DRAWN: usize = 6;
/// How far one may look back: the word in the address, what it is called, seconds.
const SPANS: [(&str, &str, u64); 3] =
    [("day", "24 hours", 86_400), ("week", "7 days", 7 * 86_400), ("month", "30 days", 30 * 86_400)];

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/console/levels", get(show))
        .route("/console/levels/{pool}/pin", post(set))
        .route("/console/levels/{pool}/unpin", post(clear))
}

/// What was asked for that cannot be done.
#[derive(Default)]
struct Refused<'a> {
    pool: &'a str,
    level: &'a str,
    lasts: &'a str,
    words: Option<String>,
}

async fn show(State(shared): State<Shared>, visit: Visit, request: Request) -> Result<Response, Trouble> {
    let query = request.uri().query().unwrap_or_default();
    let asked =
        |wanted: &str| form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == wanted).then_some(value));
    let span = asked("span").unwrap_or_default();
    let done = match asked("done").as_deref() {
        Some("pin") => parts::done("Pinned, on every gateway."),
        Some("unpin") => parts::done("The gauge decides again."),
        _ => html! {},
    };
    page(&shared, &visit, &span, done, &Refused::default()).await
}

async fn set(State(shared): State<Shared>, visit: Visit, Path(pool): Path<String>, form: Form) -> Result<Response, Trouble> {
    // What is no number is no level either.
    let level = form.get("level").parse().unwrap_or(u8::MAX);
    let wish = PinWish { level, lasts: form.get("for").to_owned(), by: visit.operator().to_owned() };
    match pin(&shared.gateway, &pool, &wish).await {
        Ok(_) => Ok(redirect(&address("/console/levels", &[("done", "pin")]))),
        Err(fault) if fault.shape().0 == StatusCode::BAD_REQUEST => {
            let words = fault.message().replace("`level`", "The level").replace("`for`", "The time");
            let refused = Refused { pool: &pool, level: form.get("level"), lasts: form.get("for"), words: Some(words) };
            page(&shared, &visit, "", html! {}, &refused).await
        }
        Err(fault) => Err(fault.into()),
    }
}

async fn clear(State(shared): State<Shared>, visit: Visit, Path(pool): Path<String>) -> Result<Response, Trouble> {
    unpin(&shared.gateway, &pool, Some(visit.operator())).await?;
    Ok(redirect(&address("/console/levels", &[("done", "unpin")])))
}

/// A pool, how it stands and what became of it.
struct Told {
    name: Arc<str>,
    view: PoolView,
    changes: Vec<Change>,
}

async fn page(shared: &Shared, visit: &Visit, span: &str, done: Markup, refused: &Refused<'_>) -> Result<Response, Trouble> {
    let (gateway, mut pools) = (&shared.gateway, Vec::new());
    for pool in &gateway.policy.load_full().pools {
        let changes = gateway.levels.history(&pool.name).await?;
        pools.push(Told { name: pool.name.clone(), view: gateway.levels.look(&pool.name).await, changes });
    }
    let now = gateway.clock.now();
    let span = SPANS.iter().find(|(word, _, _)| *word == span).unwrap_or(&SPANS[0]);
    let from = Timestamp(now.micros().saturating_sub(span.2 * 1_000_000));
    let page = Page { title: "Levels", section: Section::Levels, visit, refresh: 15 };
    let wrong: Vec<_> = refused.words.iter().map(|words| ("pools", words.as_str())).collect();
    let status = if refused.words.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok(page.answer(
        status,
        &html! {
            (done)
            (error_list(&wrong))
            p.hint { "How much is given up before a pool's ceiling is reached: 0 nothing, 1 background work waits, 2 short answers, 3 nobody waits." }
            div #pools { @for pool in &pools { (one(pool, visit, now, refused)) } }
            @if pools.is_empty() { p { "No pools are configured, so no ceiling is watched." } }
            h2 { "History" }
            nav aria-label="How far back" {
                ul {
                    @for (word, label, _) in &SPANS {
                        li {
                            a href=(address("/console/levels", &[("span", word)])) aria-current=[(*word == span.0).then_some("true")] { (label) }
                        }
                    }
                }
            }
            div #history data-live { (history(&pools, from, now, span.1)) }
        },
    ))
}

/// A pool and what can be done about it.
fn one(pool: &Told, visit: &Visit, now: Timestamp, refused: &Refused<'_>) -> Markup {
    let Told { name, view, .. } = pool;
    let (level_id, for_id) = (format!("level-{name}"), format!("for-{name}"));
    let mine = *refused.pool == **name;
    let path =
        |verb: &str| format!("/console/levels/{}/{verb}", form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>());
    html! {
        section.pool aria-labelledby={ "pool-" (name) } {
            div #{ "state-" (name) } data-live {
                h2 #{ "pool-" (name) } { (name) " " (level(view.level)) }
                p {
                    (gauge(&format!("{name}: ceiling used in the last minute"), view.used)) " of the ceiling in the last minute; the gauge says " (view.gauge) "."
                    @if let Some(pin) = &view.pinned {
                        " Pinned to " (pin.level) " by " (foreign(&pin.by)) ", ends " (parts::apart(Timestamp(pin.until), now)) "."
                    }
                }
            }
            div.row {
                form.row method="post" action=(path("pin")) {
                    (hidden_csrf(visit))
                    div.field {
                        label for=(level_id) { "Level" }
                        select id=(level_id) name="level" {
                            @for level in ["0", "1", "2", "3"] { option value=(level) selected[mine && refused.level == level] { (level) } }
                        }
                    }
                    div.field {
                        label for=(for_id) { "For (such as 30m, 2h)" }
                        input id=(for_id) name="for" required autocomplete="off" value=(if mine { refused.lasts } else { "30m" })
                            aria-invalid=[(mine && refused.words.is_some()).then_some("true")];
                    }
                    button type="submit" { "Pin " (name) }
                }
                @if view.pinned.is_some() {
                    form.row method="post" action=(path("unpin")) {
                        (hidden_csrf(visit))
                        button type="submit" { "Let the gauge decide " (name) }
                    }
                }
            }
        }
    }
}

/// The level in force after each change, and that before the first.
fn in_force(changes: &[Change]) -> Vec<(Timestamp, f64)> {
    let mut gauges: std::collections::BTreeMap<&str, u8> = std::collections::BTreeMap::new();
    let mut pin = None;
    let mut points = vec![(Timestamp(0), f64::from(changes.first().map_or(0, |change| change.from)))];
    for change in changes {
        match change.why {
            Why::Pinned => pin = Some(change.to),
            Why::Unpinned | Why::PinEnded => pin = None,
            Why::Gauge | Why::Alone | Why::StoreBack => {
                gauges.insert(change.account.as_deref().unwrap_or_default(), change.to);
            }
        }
        if matches!(change.why, Why::Unpinned | Why::PinEnded) && gauges.is_empty() {
            gauges.insert("", change.to);
        }
        let gauge = gauges.values().copied().max().unwrap_or(0);
        points.push((change.at, f64::from(pin.unwrap_or(gauge))));
    }
    points
}

fn history(pools: &[Told], from: Timestamp, now: Timestamp, span: &str) -> Markup {
    let line = |pool: &Told| Line { name: pool.name.to_string(), points: in_force(&pool.changes), stairs: true, until: now };
    let lines: Vec<_> = pools.iter().take(DRAWN).map(line).collect();
    let mut changes: Vec<(&str, &Change)> =
        pools.iter().flat_map(|pool| pool.changes.iter().map(|change| (&*pool.name, change))).collect();
    changes.retain(|(_, change)| change.at >= from);
    changes.sort_by_key(|(_, change)| change.at);
    let about = format!("The level in force of each pool in the last {span}; {} changes, which the table lists.", changes.len());
    let row = |(pool, change): &(&str, &Change)| {
        vec![
            parts::instant(change.at),
            html! { (pool) @if let Some(account) = &change.account { " (account " (account.get(..8).unwrap_or(account)) ")" } },
            html! { (level(change.from)) " to " (level(change.to)) },
            why(change),
        ]
    };
    let heads = [Head::Text("At"), Head::Text("Pool"), Head::Text("Level"), Head::Text("Why")];
    let rows = changes.iter().rev().take(LISTED).map(row).collect();
    let caption = format!("Changes in the last {span}, the latest first");
    html! {
        @if !lines.is_empty() {
            (chart(&Chart { id: "levels", title: "Level by pool", about: &about, unit: "level", from, until: now, top: 3.0, lines: &lines }))
        }
        @if pools.len() > DRAWN { p.hint { "The first " (DRAWN) " pools are drawn." } }
        (parts::table(&Table { caption: &caption, heads: &heads, rows, empty: "No level changed." }))
        @if changes.len() > LISTED { p.hint { (changes.len() - LISTED) " older ones are not listed." } }
    }
}

fn why(change: &Change) -> Markup {
    let by = |words: &str| html! { (words) @if let Some(by) = &change.by { " by " (foreign(by)) } };
    html! {
        @match change.why {
            Why::Gauge => @if let Some(used) = change.used { (used.div_ceil(10)) " % of the ceiling in the minute before" },
            Why::Alone => "by one gateway's use alone, while the store was away",
            Why::StoreBack => "the store was back, and the common level with it",
            Why::Pinned => { (by("pinned")) @if let Some(until) = change.until { " until " (parts::instant(until)) } },
            Why::Unpinned => (by("let go")),
            Why::PinEnded => "the time of the pin was over",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_in_force_is_the_pin_and_else_that_of_the_account_that_is_worst_off() {
        let change = |secs, from, to, why, account: &str| Change {
            at: Timestamp::from_secs(secs),
            from,
            to,
            why,
            used: None,
            by: None,
            until: None,
            account: (!account.is_empty()).then(|| account.to_owned()),
        };
        let changes = [
            change(1, 0, 1, Why::Gauge, "a"),
            change(2, 0, 2, Why::Gauge, "b"),
            change(3, 2, 0, Why::Pinned, ""),
            change(4, 2, 1, Why::Gauge, "b"),
            change(5, 0, 1, Why::PinEnded, ""),
            change(6, 1, 0, Why::Gauge, "a"),
            change(7, 1, 0, Why::Gauge, "b"),
        ];
        let levels: Vec<f64> = in_force(&changes).into_iter().map(|(_, level)| level).collect();
        assert_eq!(levels, [0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(in_force(&[]), [(Timestamp(0), 0.0)]);
    }
}
