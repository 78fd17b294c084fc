//! One customer: why it is served or refused, and what was set for it.

use super::super::Shared;
use super::super::gate::{Form, Visit};
use super::super::page::{Page, Section, Trouble};
use super::super::parts::{self, Head, Table, error_list, facts, foreign, gauge, grouped, moment};
use super::{charts, forms, id};
use crate::admin::customers::{CustomerView, Fullest, HoldView, view};
use crate::admin::shown::{LimitStanding, Room, Unit};
use crate::directory::Assigned;
use crate::domain::{CustomerId, NanoUsd};
use crate::records::Notable;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};

/// A form that was not accepted: what was typed, and what is wrong with which field.
#[derive(Default)]
pub(super) struct Refused {
    pub(super) typed: Form,
    pub(super) wrong: Vec<(&'static str, String)>,
}

impl Refused {
    /// What is wrong with a field.
    pub(super) fn of(&self, field: &str) -> Option<&str> {
        self.wrong.iter().find(|(name, _)| *name == field).map(|(_, words)| words.as_str())
    }
}

pub(super) async fn show(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    let query = request.uri().query().unwrap_or_default();
    let done = form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == "done").then_some(value));
    page(&shared, &visit, &id, done.as_deref().unwrap_or_default(), &Refused::default()).await
}

pub(super) async fn page(
    shared: &Shared,
    visit: &Visit,
    id: &CustomerId,
    done: &str,
    refused: &Refused,
) -> Result<Response, Trouble> {
    let seen = view(&shared.gateway, id, None).await?;
    let wrong: Vec<_> = refused.wrong.iter().map(|(field, words)| (*field, words.as_str())).collect();
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let days = charts::days(shared, id.as_str(), &seen.plan).await;
    let title = format!("Customer {}", id.as_str());
    let page = Page { title: &title, section: Section::Customers, visit, refresh: 15 };
    Ok(page.answer(
        status,
        &html! {
            @if let Some(words) = said(done, seen.suspended) { (parts::done(words)) }
            (error_list(&wrong))
            div #standing data-live {
                (standing(&seen))
                (limits(&seen.limits))
                (holds(&seen))
                (refusals(&seen.refusals))
            }
            h2 { "The last 30 days" }
            div #days data-live { (days) }
            h2 { "Set for this customer" }
            (forms::all(&seen, visit, refused))
        },
    ))
}

/// The sentence for what has just been done; what is not one of these says nothing.
fn said(done: &str, suspended: bool) -> Option<&'static str> {
    Some(match done {
        // Somebody else may have been there meanwhile, or the page is looked at again later.
        "suspend" if !suspended => return None,
        "lift" if suspended => return None,
        "credit" if suspended => "The credit is added, until the period is over; it does not lift the suspension.",

        "override" => "Set, from the next request on every gateway.",
        "unset" => "Taken back; there the plan holds again.",
        "suspend" => "Suspended: from the next request on, nothing is served.",
        "lift" => "Lifted: what was set before the suspension holds again.",
        "clear" => "Everything that was set is taken back, credits included.",
        "credit" => "The credit is added, until the period is over.",
        _ => return None,
    })
}

fn standing(seen: &CustomerView) -> Markup {
    let origin = match seen.assigned {
        Assigned::Override => "set at run time",
        Assigned::Config => "from the configuration",
        Assigned::Default => "the default plan",
        Assigned::Unknown => "none given; the configuration refuses customers it does not know",
    };
    html! {
        p role="status" {
            @if matches!(seen.assigned, Assigned::Unknown) { strong { "Refused:" } " the customer is not known to the configuration." }
            @else if seen.suspended { strong { "Suspended" } " by an operator: " strong { "Refused now" } " by " (seen.refusing.join(", ")) "." }
            @else if seen.refusing.is_empty() { (open(seen)) }
            @else { strong { "Refused now" } " by " (seen.refusing.join(", ")) "." }
            @if !seen.known { " Nobody of this id was seen in the last three months; this is how it would be served." }
        }
        @if let Some(plan) = &seen.plan_gone {
            p role="status" { strong { "A plan is gone:" } " the override names " (foreign(plan)) ", and there is no such plan any more. What else is set holds." }
        }
        (facts(&[
            ("Plan", html! { (foreign(&seen.plan.name)) " (" (origin) ")" }),
            ("Seen", html! { @match &seen.seen_at { Some(at) => (moment(at)), None => "not lately" } }),
            ("In flight here", html! {
                (seen.in_flight.here) @if let Some(max) = seen.in_flight.max { " of " (max) }
            }),
            ("Largest answer", html! {
                @match seen.plan.max_output_tokens { Some(tokens) => { (grouped(tokens)) " tokens" }, None => "no limit" }
            }),
        ]))
    }
}

/// Nothing is shut: how near the limits are, and where what was refused stands all the same.
fn open(seen: &CustomerView) -> Markup {
    html! {
        "No limit would refuse the smallest request now"
        @match &seen.fullest {
            Some(Fullest { limit, permille, .. }) => {
                "; the fullest, " (limit) ", is used to " (permille / 10) "." (permille % 10) " %, and a larger request may not fit it."
            }
            None => ".",
        }
        @if !seen.refusals.is_empty() { " What was refused lately stands below, with its cause." }
    }
}

fn amount(unit: Unit, amount: u64) -> Markup {
    match unit {
        Unit::NanoUsd => html! { (NanoUsd::new(amount)) },
        Unit::Messages | Unit::Requests | Unit::Tokens => html! { (grouped(amount)) },
    }
}

fn limits(limits: &[LimitStanding]) -> Markup {
    let row = |limit: &LimitStanding| {
        let taken = u128::from(limit.used) + u128::from(limit.held);
        let permille =
            (taken * 1_000).checked_div(u128::from(limit.max)).map_or(1_000, |part| u64::try_from(part).unwrap_or(u64::MAX));
        let room = match limit.room {
            Room::Open => "room",
            Room::Waits => "room after a wait",
            Room::Full => "full",
            Room::Held => "held by requests in flight",
            Room::Spent => "spent",
            Room::Closed => "closed: the limit is zero",
        };
        vec![
            html! { (limit.limit) },
            amount(limit.unit, limit.max),
            amount(limit.unit, limit.used),
            amount(limit.unit, limit.held),
            amount(limit.unit, limit.remaining),
            gauge(&format!("{} used", limit.limit), permille),
            html! { (room) @if let Some(wait) = limit.retry_in_ms { ", free in " (parts::span(wait.saturating_mul(1_000))) } },
            moment(&limit.resets_at),
        ]
    };
    let heads = [
        Head::Text("Limit"),
        Head::Number("Most"),
        Head::Number("Used"),
        Head::Number("Held"),
        Head::Number("Left"),
        Head::Text("Full to"),
        Head::Text("Now"),
        Head::Text("Resets"),
    ];
    let rows = limits.iter().map(row).collect();
    parts::table(&Table { caption: "Limits", heads: &heads, rows, empty: "The plan limits nothing." })
}

fn holds(seen: &CustomerView) -> Markup {
    let row = |hold: &HoldView| {
        let text = |text: &Option<String>| html! { @if let Some(text) = text { (foreign(text)) } };
        vec![
            html! { code { (hold.reservation) } },
            html! { (NanoUsd::new(hold.nano_usd)) },
            html! { @if let Some(since) = &hold.since { (moment(since)) } },
            text(&hold.model),
            text(&hold.request_id),
            html! { @if let Some(end) = &hold.deadline { (moment(end)) } },
        ]
    };
    let heads = [
        Head::Text("Reservation"),
        Head::Number("Holds"),
        Head::Text("Since"),
        Head::Text("Model"),
        Head::Text("Request"),
        Head::Text("Lost after"),
    ];
    html! {
        (parts::table(&Table { caption: "Requests in flight", heads: &heads, rows: seen.holds.iter().map(row).collect(), empty: "None." }))
        @if seen.more_holds > 0 { p.hint { (seen.more_holds) " more are not listed." } }
    }
}

fn refusals(refusals: &[Notable]) -> Markup {
    let row = |one: &Notable| {
        let text = |text: &Option<String>| html! { @if let Some(text) = text { (foreign(text)) } };
        let cause = html! {
            @if let Some(limit) = &one.limit { @if let Some(scope) = &one.scope { (scope) "." } (limit) " " }
            @if let Some(code) = &one.code { code { (code) } }
            @if let Some(degraded) = &one.degraded { (degraded) }
            @if let Some(cause) = &one.degraded_cause { " because of " (cause) }
        };
        vec![
            moment(&one.time),
            html! { (one.outcome.as_str().replace('_', " ")) " (" (one.status) ")" },
            cause,
            text(&one.model),
            text(&one.app),
            parts::request(&one.request_id),
        ]
    };
    let heads = [
        Head::Text("At"),
        Head::Text("Outcome"),
        Head::Text("Cause"),
        Head::Text("Model"),
        Head::Text("Application"),
        Head::Text("Request"),
    ];
    let caption = "Not served as asked, the latest first";
    parts::table(&Table { caption, heads: &heads, rows: refusals.iter().map(row).collect(), empty: "Nothing lately." })
}
