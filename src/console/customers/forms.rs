//! What is set for a customer, and the forms that set it. After a mistake they hold what was typed.

use super::super::gate::Visit;
use super::super::parts::{self, Head, Table, choice, foreign, hidden_csrf, line, moment};
use super::path;
use super::view::Refused;
use crate::admin::customers::CustomerView;
use crate::admin::overrides::{CreditView, OverrideView};
use crate::directory::SUSPENDED;
use crate::domain::NanoUsd;
use maud::{Markup, html};
use serde_json::Value;

/// The fields of an override: name, label, hint.
const FIELDS: [(&str, &str, &str); 8] = [
    ("plan", "Plan", "its name"),
    ("rpm", "Requests per minute", "a number, or unlimited"),
    ("tpm", "Tokens per minute", "a number, or unlimited"),
    ("spend_day", "Dollars per day", "such as 2.50, or unlimited"),
    ("spend_month", "Dollars per month", "such as 50, or unlimited"),
    ("rate", "Messages: rate", "such as 20/d or 4/m, or unlimited"),
    ("burst", "Messages: burst", "how many at once; with the rate"),
    ("for", "For", "such as 12h, 7days or forever; empty leaves the end as it is"),
];

pub(super) fn all(seen: &CustomerView, visit: &Visit, refused: &Refused) -> Markup {
    let base = path(&seen.customer);
    let typed = |field: &str| refused.typed.get(field).to_owned();
    html! {
        @match &seen.said {
            Some(said) => (set(said, &base, visit)),
            None => p { "Nothing: the plan holds as it is." },
        }
        form method="post" action={ (base) "/override" } aria-labelledby="set-title" {
            (hidden_csrf(visit))
            h3 #set-title { "Set what differs" }
            p.hint { "Only what is filled in is changed. The end is one for all that is set." }
            div.grid {
                @for (name, label, hint) in &FIELDS { (line(name, label, &typed(name), Some(hint), refused.of(name))) }
            }
            button.main type="submit" { "Set" }
        }
        form method="post" action={ (base) "/credit" } aria-labelledby="credit-title" {
            (hidden_csrf(visit))
            h3 #credit-title { "Add a credit" }
            div.row {
                (line("dollars", "Dollars", &typed("dollars"), Some("on top of a cap, until its period is over"), refused.of("dollars")))
                (choice("period", "Of the present", &[("day", "day"), ("week", "week"), ("month", "month")], &typed("period")))
                button type="submit" { "Add the credit" }
            }
        }
        @if seen.suspended {
            form method="post" action={ (base) "/lift" } {
                (hidden_csrf(visit))
                h3 { "Suspended" }
                p {
                    "Nothing is served, whatever credits there are"
                    @match seen.said.as_ref().and_then(|said| said.suspended_until.as_ref()) { Some(until) => { ", until " (moment(until)) "." }, None => "." }
                }
                p.hint #lift-hint { "Whatever else is set here holds as before, and ends when it would have. A cap of zero dollars set here is taken back." }
                button type="submit" aria-describedby="lift-hint" { "Lift the suspension" }
            }
        } @else {
            form method="post" action={ (base) "/suspend" } aria-labelledby="suspend-title" {
                (hidden_csrf(visit))
                h3 #suspend-title { "Suspend" }
                div.row {
                    (line("suspend_for", "Suspend for", &typed("suspend_for"), Some("such as 12h; empty: until it is lifted. Whatever else is set here stays, with its end"), refused.of("suspend_for")))
                    button type="submit" { "Suspend" }
                }
            }
        }
        @if seen.said.is_some() {
            form method="post" action={ (base) "/clear" } {
                (hidden_csrf(visit))
                button type="submit" { "Take everything back, credits included" }
            }
        }
    }
}

/// What is set, each with a button that takes it back.
fn set(said: &OverrideView, base: &str, visit: &Visit) -> Markup {
    let row = |(key, value): (&String, &Value)| {
        let back = html! {
            form method="post" action={ (base) "/unset" } {
                (hidden_csrf(visit))
                input type="hidden" name="field" value=(key);
                button type="submit" aria-label={ "Take back " (key) } { "Take back" }
            }
        };
        vec![html! { (key) }, html! { code { (foreign(&shown(value))) } }, back]
    };
    let heads = [Head::Text("Setting"), Head::Text("Is"), Head::Text("Change")];
    let credit =
        |credit: &CreditView| vec![html! { (NanoUsd::new(credit.nano_usd)) }, html! { (credit.period) }, moment(&credit.until)];
    let credit_heads = [Head::Text("Credit"), Head::Text("Of the"), Head::Text("Until")];
    html! {
        @if said.set.keys().any(|key| key != SUSPENDED) { p {
            @match &said.until { Some(until) => { "Ends " (moment(until)) "." }, None => "Holds until it is taken back." }
        } }
        (parts::table(&Table { caption: "What differs from the plan", heads: &heads, rows: said.set.iter().filter(|(key, _)| *key != SUSPENDED).map(row).collect(), empty: "Nothing." }))
        @if !said.credits.is_empty() {
            (parts::table(&Table { caption: "Credits", heads: &credit_heads, rows: said.credits.iter().map(credit).collect(), empty: "None." }))
        }
    }
}

/// A value as one writes it in the configuration, nearly.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
