//! A customer's days: money against the cap, and what became of its requests.

use super::super::Shared;
use super::super::chart::{Chart, Line, chart};
use super::super::parts::{self, Head, Table, grouped};
use crate::admin::shown::PlanShape;
use crate::domain::{NanoUsd, Timestamp};
use crate::history::{Day, Use};
use maud::{Markup, html};

/// Days that are drawn, today included.
const DRAWN: u32 = 30;
const DAY: u64 = 86_400;

/// The part of the page, or why there is none.
pub(super) async fn days(shared: &Shared, id: &str, plan: &PlanShape) -> Markup {
    let today = Day::of(shared.gateway.clock.now());
    match shared.gateway.history.customer_days(id, today.back(DRAWN - 1), today).await {
        Ok(days) => draw(&days, plan),
        Err(error) => {
            tracing::warn!(%error, "the history of a customer cannot be read");
            html! { p.note { "The store does not answer, so what was used is not known at the moment." } }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn draw(days: &[(Day, Use)], plan: &PlanShape) -> Markup {
    let start = |day: Day| Timestamp::from_secs(u64::from(day.0) * DAY);
    let (Some((first, _)), Some((last, _))) = (days.first(), days.last()) else { return html! {} };
    let (from, until) = (start(*first), start(last.next()));
    let line = |name: &str, of: &dyn Fn(&Use) -> f64| Line {
        name: name.to_owned(),
        points: days.iter().map(|(day, used)| (start(*day), of(used))).collect(),
        stairs: true,
        until,
    };
    let dollars = |nano: u64| nano as f64 / 1e9;
    let cap = plan.limits.iter().find(|limit| limit.limit == "spend_day").map(|limit| limit.max);
    let mut money = vec![line("spent", &|used| dollars(used.cost_nano_usd))];
    money.extend(cap.map(|cap| line("cap of today", &|_| dollars(cap))));
    let about_money = match cap {
        Some(cap) => format!("Dollars of each day of the last {DRAWN}, against today's cap of {}.", NanoUsd::new(cap)),
        None => format!("Dollars of each day of the last {DRAWN}; there is no cap for a day."),
    };
    let requests = [
        line("served", &|used| used.served as f64),
        line("refused", &|used| used.refused as f64),
        line("degraded or handed off", &|used| (used.degraded + used.handed_off) as f64),
    ];
    let about_requests =
        format!("Requests of each day of the last {DRAWN} that were served as asked, refused, or degraded or handed off.");
    let top = cap.map_or(0.01, dollars).max(0.000_001);
    let row = |(day, used): &(Day, Use)| {
        let number = |number: u64| html! { (grouped(number)) };
        vec![
            html! { (day) },
            html! { (used.cost()) },
            number(used.served),
            number(used.degraded + used.handed_off),
            number(used.refused),
            number(used.failed),
        ]
    };
    let rows: Vec<_> = days.iter().rev().filter(|(_, used)| used.requests > 0).map(row).collect();
    let heads = [
        Head::Text("Day"),
        Head::Number("Spent"),
        Head::Number("Served"),
        Head::Number("Degraded or handed off"),
        Head::Number("Refused"),
        Head::Number("Failed"),
    ];
    let caption = "Days (UTC), the latest first";
    html! {
        (chart(&Chart { id: "money", title: "Money by day", about: &about_money, unit: "dollars", from, until, top, lines: &money }))
        (chart(&Chart { id: "requests", title: "Requests by day", about: &about_requests, unit: "requests", from, until, top: 1.0, lines: &requests }))
        details {
            summary { "Both as a table" }
            (parts::table(&Table { caption, heads: &heads, rows, empty: "No requests in these days." }))
        }
    }
}
