//! Asking a ticket's request again, and what came of it.

use super::super::gate::Visit;
use super::super::parts::{self, Head, Table, foreign, hidden_csrf};
use crate::domain::NanoUsd;
use crate::triage::{Resubmission, Ticket};
use maud::{Markup, html};

/// The form. It is a request like any other: metered, and paid for by the customer.
pub(super) fn form(ticket: &Ticket, visit: &Visit) -> Markup {
    html! {
        form method="post" action={ "/console/desk/" (ticket.id) "/again" } {
            (hidden_csrf(visit))
            h2 { "Ask a model again" }
            p.hint #again-hint {
                "Sends the customer's request once more, within their limits and at their cost. The ticket becomes yours, and the page comes when there is an answer."
            }
            p.check {
                input type="checkbox" id="answers" name="answers" value="yes";
                label for="answers" { "If a model answers, that is the ticket's answer" }
            }
            button type="submit" aria-describedby="again-hint" { "Ask again" }
        }
    }
}

/// What came of it so far, with what the model said last.
pub(super) fn results(ticket: &Ticket) -> Markup {
    let row = |result: &Resubmission| {
        vec![
            parts::instant(result.ended),
            foreign(&result.by),
            html! { (result.status) @if let Some(code) = &result.code { " " (code) } },
            html! { @if let Some(model) = &result.model { (foreign(model)) } },
            html! { @if let Some(degraded) = &result.degraded { (degraded) } },
            html! { (NanoUsd::new(result.cost)) },
        ]
    };
    let heads = [
        Head::Text("At"),
        Head::Text("By"),
        Head::Text("Result"),
        Head::Text("Model"),
        Head::Text("Given up"),
        Head::Number("Cost"),
    ];
    html! {
        @if !ticket.resubmitted.is_empty() {
            @let rows = ticket.resubmitted.iter().map(row).collect();
            (parts::table(&Table { caption: "Asked again", heads: &heads, rows, empty: "" }))
            @if let Some(last) = ticket.resubmitted.last() && let Some(text) = &last.text {
                h2 #again-said { "What the model said" }
                pre.said dir="auto" tabindex="0" role="region" aria-labelledby="again-said" { (text) }
                @if last.truncated { p.hint { "It said more than is kept." } }
            }
        }
    }
}
