//! What was used today, by all gateways together, from the history of use: a few seconds old, and of the days of UTC.

use super::Shared;
use super::chart::{Chart, Line, chart};
use super::parts::{self, Head, Table, facts, foreign, grouped};
use crate::domain::{NanoUsd, Timestamp};
use crate::history::{Day, ModelUse, Use};
use crate::store::StoreError;
use maud::{Markup, html};
use std::collections::BTreeMap;

const HOUR: u64 = 3_600;

/// The part of a page, or why there is none.
pub(super) async fn today(shared: &Shared) -> Markup {
    let now = shared.gateway.clock.now();
    match read(shared, Day::of(now)).await {
        Ok((hours, models)) => show(&hours, &models, now),
        Err(error) => {
            tracing::warn!(%error, "the history of use cannot be read");
            html! { p.note { "The store does not answer, so what was used today is not known at the moment." } }
        }
    }
}

async fn read(shared: &Shared, day: Day) -> Result<(Vec<Use>, Vec<ModelUse>), StoreError> {
    let history = &shared.gateway.history;
    tokio::try_join!(history.total_hours(day), history.models(day))
}

fn show(hours: &[Use], models: &[ModelUse], now: Timestamp) -> Markup {
    let mut all = Use::default();
    hours.iter().for_each(|hour| all.add(hour));
    let refusals = all.refusals.iter().map(|(cause, requests)| (cause.clone(), *requests)).collect();
    html! {
        (facts(&[
            ("Money", html! { (all.cost()) }),
            ("Requests", html! { (grouped(all.requests)) }),
            ("Served as asked", html! { (grouped(all.served)) }),
            ("Degraded", html! { (grouped(all.degraded)) }),
            ("Handed off", html! { (grouped(all.handed_off)) }),
            ("Refused", html! { (grouped(all.refused)) }),
            ("Failed at the provider", html! { (grouped(all.failed)) }),
            ("Client left", html! { (grouped(all.left)) }),
        ]))
        (outcomes("today", "Requests by hour", hours, now))
        div.grid {
            (numbers("Refusals by cause", "Cause", refusals))
            (money(models))
        }
    }
}

/// What became of the requests of each hour of a day, up to now.
pub(super) fn outcomes(id: &str, title: &str, hours: &[Use], now: Timestamp) -> Markup {
    let start = Timestamp::from_secs(now.secs() / (24 * HOUR) * (24 * HOUR));
    let until = usize::try_from(now.since(start) / 1_000_000 / HOUR).unwrap_or(0) + 1;
    let hours = &hours[..until.min(hours.len())];
    let at = |hour: usize| start.plus(hour as u64 * HOUR * 1_000_000);
    let line = |name: &str, of: fn(&Use) -> u64| Line {
        name: name.to_owned(),
        points: hours.iter().enumerate().map(|(hour, used)| (at(hour), of(used) as f64)).collect(),
        stairs: true,
        until: at(hours.len()),
    };
    let lines = [
        line("served", |used| used.served),
        line("refused", |used| used.refused),
        line("degraded or handed off", |used| used.degraded + used.handed_off),
        line("failed", |used| used.failed),
    ];
    let about =
        "Requests of each hour that were served as asked, refused, degraded or handed off, or failed. The table has the numbers.";
    let row = |(hour, used): (usize, &Use)| {
        let number = |number: u64| html! { (grouped(number)) };
        vec![
            html! { (format!("{hour:02}:00")) },
            number(used.served),
            number(used.degraded + used.handed_off),
            number(used.refused),
            number(used.failed),
            html! { (used.cost()) },
        ]
    };
    let rows = hours.iter().enumerate().filter(|(_, used)| used.requests > 0).map(row).collect();
    let heads = [
        Head::Text("Hour"),
        Head::Number("Served"),
        Head::Number("Degraded or handed off"),
        Head::Number("Refused"),
        Head::Number("Failed"),
        Head::Number("Money"),
    ];
    html! {
        (chart(&Chart { id, title, about, unit: "requests", from: start, until: at(24), top: 1.0, lines: &lines }))
        details {
            summary { (title) " as a table" }
            (parts::table(&Table { caption: title, heads: &heads, rows, empty: "No requests." }))
        }
    }
}

/// Causes and how often, the most frequent first.
pub(super) fn numbers(caption: &str, head: &str, mut sums: Vec<(String, u64)>) -> Markup {
    sums.sort_by(|(one, a), (two, b)| b.cmp(a).then_with(|| one.cmp(two)));
    let rows = sums.iter().map(|(name, sum)| vec![foreign(name), html! { (grouped(*sum)) }]).collect();
    let heads = [Head::Text(head), Head::Number("Requests")];
    parts::table(&Table { caption, heads: &heads, rows, empty: "None." })
}

fn money(models: &[ModelUse]) -> Markup {
    // One model may have been asked of several upstreams, and have answered under several names.
    let mut sums: BTreeMap<&str, NanoUsd> = BTreeMap::new();
    for model in models {
        let sum = sums.entry(&model.model).or_default();
        *sum = sum.saturating_add(NanoUsd::new(model.cost_nano_usd));
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    let rows = sums.into_iter().map(|(model, sum)| vec![foreign(model), html! { (sum) }]).collect();
    let heads = [Head::Text("Model"), Head::Number("Booked")];
    parts::table(&Table { caption: "Money by model", heads: &heads, rows, empty: "None." })
}
