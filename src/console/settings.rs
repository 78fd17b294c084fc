//! `/console/settings`: the configuration in force, from where each of it comes, and what became of the last attempt to change it.
//!
//! What is shown are [`Settings::shown`](crate::config::settings::Settings::shown): whatever may be a secret is not in them.

use super::Shared;
use super::gate::Visit;
use super::page::{Page, Section};
use super::parts::{self, Head, Table, facts, foreign, grouped};
use crate::config::policy::{Auth, Policy, StoreKind};
use crate::config::problem::{Finding, Source};
use crate::domain::Timestamp;
use crate::telemetry::reload::{ConfigStanding, Outcome};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use humantime::format_duration;
use maud::{Markup, html};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/console/settings", get(show))
}

async fn show(State(shared): State<Shared>, visit: Visit) -> Response {
    let gateway = &shared.gateway;
    let policy = gateway.policy.load_full();
    let (standing, now) = (gateway.reloads.standing(), gateway.clock.now());
    let page = Page { title: "Settings", section: Section::Settings, visit: &visit, refresh: 15 };
    page.show(&html! {
        div #standing data-live { (in_force(&standing, now)) }
        div #warnings data-live {
            @if !policy.settings.warnings().is_empty() {
                h2 { "Warnings" }
                (findings("What is odd about it", policy.settings.warnings()))
            }
        }
        h2 { "What it comes to" }
        div #effect data-live { (effect(&policy)) }
        h2 { "As it was written" }
        p { "By the file and the environment of this gateway. Values that may be secrets are not shown. What is not listed holds its default; plans "
            "and keys that were made at run time are not here." }
        div #written data-live { (written(&policy)) }
        div #files data-live { (files(&policy)) }
        details {
            summary { "What holds without a configuration" }
            pre.said tabindex="0" role="region" aria-label="Shipped configuration" { (include_str!("../config/shipped.toml")) }
        }
    })
}

fn in_force(standing: &ConfigStanding, now: Timestamp) -> Markup {
    let ConfigStanding { since, last } = standing;
    html! {
        (facts(&[
            ("In force since", html! { (parts::instant(*since)) " (" (parts::apart(*since, now)) ")" }),
            ("Last reload", html! {
                @match last {
                    None => "none since the start",
                    Some((at, outcome)) => { (outcome_words(outcome)) ", " (parts::apart(*at, now)) }
                }
            }),
        ]))
        @if let Some((_, Outcome::Refused { problems })) = last {
            div.alert role="alert" {
                p { strong { "The configuration was refused: nothing of it is in force." } " What was in force before still is." }
                (findings("What is wrong with it", problems))
            }
        }
    }
}

fn outcome_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied { changes: 1 } => "applied, 1 setting is different".to_owned(),
        Outcome::Applied { changes } => format!("applied, {} settings are different", grouped(*changes as u64)),
        Outcome::Unchanged => "nothing was different".to_owned(),
        Outcome::Refused { problems } => format!("refused, {} problems", grouped(problems.len() as u64)),
    }
}

fn findings(caption: &str, findings: &[Finding]) -> Markup {
    let row = |finding: &Finding| {
        let Finding { place, reason, advice } = finding;
        vec![
            html! { @if place.key.is_empty() { "the whole" } @else { code { (place.key) } } },
            html! { (foreign(reason)) },
            html! { (foreign(advice)) },
            html! { (source(&place.source)) },
        ]
    };
    let heads = [Head::Text("Setting"), Head::Text("What"), Head::Text("What to do"), Head::Text("Where")];
    parts::table(&Table { caption, heads: &heads, rows: findings.iter().map(row).collect(), empty: "Nothing." })
}

/// Where something was written.
fn source(source: &Source) -> Markup {
    html! {
        @match source {
            Source::File { name, line } => { "file " (foreign(name)) ", line " (line) }
            Source::Variable(name) => { "environment, " code { (name.escape_debug()) } }
            Source::Shipped => "default",
            Source::Stored => "store",
        }
    }
}

/// What decides most, whether it was written or not.
fn effect(policy: &Policy) -> Markup {
    let store = match policy.store {
        StoreKind::Embedded { .. } => "embedded",
        StoreKind::Redis { .. } => "redis",
    };
    let auth = match &policy.auth {
        Auth::Passthrough { .. } => "passthrough",
        Auth::Keys { .. } => "keys",
    };
    let anonymous = policy.identity.anonymous.as_ref().map_or("refuse", |plan| &plan.name);
    let unknown = if policy.identity.unknown_customers { "default_plan" } else { "refuse" };
    let time = |duration| format_duration(duration).to_string();
    let rows = [
        ("server.listen", policy.server.listen.to_string()),
        ("server.tls.cert", if policy.server.tls.is_some() { "TLS" } else { "plain HTTP" }.to_owned()),
        ("auth.mode", auth.to_owned()),
        ("identity.default_plan", policy.identity.default_plan.name.to_string()),
        ("identity.anonymous", anonymous.to_owned()),
        ("identity.unknown_customers", unknown.to_owned()),
        ("store.kind", store.to_owned()),
        ("concurrency.slots", grouped(policy.concurrency.slots as u64)),
        ("concurrency.queue", grouped(policy.concurrency.queue as u64)),
        ("retry.max", policy.retry.max.to_string()),
        ("retry.wait_budget", time(policy.retry.wait_budget)),
        ("budget.notice", format!("{} %", policy.notice_percent)),
    ];
    let row = |(key, value): &(&str, String)| {
        let from = policy.settings.source(key).unwrap_or(&Source::Shipped);
        vec![html! { code { (key) } }, html! { (value) }, source(from)]
    };
    let heads = [Head::Text("Setting"), Head::Text("Value"), Head::Text("From")];
    let rows = rows.iter().map(row).collect();
    parts::table(&Table { caption: "What decides most", heads: &heads, rows, empty: "" })
}

fn written(policy: &Policy) -> Markup {
    let settings = &policy.settings;
    let rows = settings.shown().map(|(key, value)| {
        let from = settings.source(key).unwrap_or(&Source::Shipped);
        vec![html! { code { (key) } }, html! { code { (foreign(&value)) } }, source(from)]
    });
    let heads = [Head::Text("Setting"), Head::Text("Value"), Head::Text("From")];
    let table = Table { caption: "Settings", heads: &heads, rows: rows.collect(), empty: "None: everything is as shipped." };
    parts::table(&table)
}

fn files(policy: &Policy) -> Markup {
    let row = |file: &crate::config::settings::FileRead| {
        vec![
            html! { code { (file.path.display()) } },
            html! { @if file.key.is_empty() { "the configuration itself" } @else { code { (file.key) } } },
            html! { @if file.hash.is_some() { "read" } @else { strong { "cannot be read" } } },
        ]
    };
    let heads = [Head::Text("File"), Head::Text("Named by"), Head::Text("State")];
    let rows = policy.settings.files().iter().map(row).collect();
    parts::table(&Table { caption: "Files it was read from", heads: &heads, rows, empty: "None." })
}
