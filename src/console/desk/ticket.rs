//! One ticket.

use super::super::Shared;
use super::super::customers;
use super::super::gate::Visit;
use super::super::page::{Page, Section, Trouble};
use super::super::parts::{self, Field, Head, Table, error_list, facts, field, foreign, hidden_csrf};
use super::{again, done, has_ended, id, standing};
use crate::domain::{NanoUsd, Timestamp};
use crate::triage::{Asked, Found, State as TicketState, Ticket};
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};

/// What was typed into the answer, and why it was not taken.
#[derive(Default)]
pub(super) struct Refused<'a> {
    pub(super) answer: &'a str,
    /// The control that is wrong, and what is wrong; an empty one stands for the ticket itself.
    pub(super) wrong: Option<(&'static str, String)>,
}

pub(super) async fn show(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Trouble> {
    let found = shared.gateway.triage.ticket(id(&path)?).await?;
    let done = done(request.uri().query());
    Ok(page(&shared, &visit, &found, StatusCode::OK, done, &Refused::default()))
}

/// The page of a ticket, also after something went wrong with its form.
pub(super) fn page(
    shared: &Shared,
    visit: &Visit,
    found: &Found,
    status: StatusCode,
    done: Markup,
    refused: &Refused<'_>,
) -> Response {
    let Found { ticket, text, resubmittable } = found;
    let now = shared.gateway.triage.now();
    let title = format!("Ticket of {}", ticket.customer);
    let page = Page { title: &title, section: Section::Desk, visit, refresh: 15 };
    let wrong: Vec<(&str, &str)> = refused.wrong.iter().map(|(id, words)| (*id, words.as_str())).collect();
    page.answer(
        status,
        &html! {
            (done)
            (error_list(&wrong))
            div #state data-live { (state(ticket, now)) }
            div.columns {
                div {
                    h2 #conversation { "Conversation" }
                    @match text {
                        Some(text) => {
                            @if text.truncated { p.hint { "Its end; what was before is not kept." } }
                            pre.said dir="auto" tabindex="0" role="region" aria-labelledby="conversation" { (text.text) }
                        }
                        None => p.hint { "Not kept ([triage] conversation)." },
                    }
                    (again::results(ticket))
                    (answer(ticket, visit, now, refused))
                    @if *resubmittable && may_act(ticket, visit, now) { (again::form(ticket, visit)) }
                    p { a href="/console/desk" { "Back to the desk" } }
                }
                div {
                    (asked(ticket))
                    (history(ticket))
                }
            }
        },
    )
}

fn state(ticket: &Ticket, now: Timestamp) -> Markup {
    let none = html! { span.hint { "none" } };
    let named = |text: &Option<Box<str>>| text.as_deref().map_or(none.clone(), foreign);
    let cost = ticket.requests.iter().fold(0, |sum: u64, asked| sum.saturating_add(asked.cost));
    html! {
        (facts(&[
            ("State", standing(ticket, now)),
            ("Customer", html! { a href=(customers::path(&ticket.customer)) { (foreign(&ticket.customer)) } }),
            ("User", named(&ticket.user)),
            ("Plan", foreign(&ticket.plan)),
            ("Application", foreign(&ticket.app)),
            ("Queue", foreign(&ticket.queue)),
            ("Priority", html! { (ticket.priority.as_str()) }),
            ("Conversation", named(&ticket.conversation)),
            ("Opened", parts::apart(ticket.opened, now)),
            ("Ends", parts::apart(ticket.deadline, now)),
            ("Cost of the attempts", html! { (NanoUsd::new(cost)) }),
        ]))
        @if ticket.without_ticket > 0 {
            p.note { "Requests of this customer that found no place for a ticket: " (ticket.without_ticket) "." }
        }
    }
}

/// Whether this operator may do something with it.
fn may_act(ticket: &Ticket, visit: &Visit, now: Timestamp) -> bool {
    !has_ended(ticket, now) && ticket.holder(now).is_none_or(|(agent, _)| agent == visit.operator())
}

/// The forms that make sense now.
fn answer(ticket: &Ticket, visit: &Visit, now: Timestamp, refused: &Refused<'_>) -> Markup {
    let act = |verb: &str| format!("/console/desk/{}/{verb}", ticket.id);
    let button = |verb: &str, class: &str, label: &str| {
        html! { form method="post" action=(act(verb)) { (hidden_csrf(visit)) button.(class) type="submit" { (label) } } }
    };
    let mine = ticket.holder(now).map(|(agent, _)| agent == visit.operator());
    html! {
        h2 { "Answer" }
        @match &ticket.state {
            TicketState::Answered { agent, text, at } => {
                pre.said dir="auto" tabindex="0" role="region" aria-label="The answer" { (text) }
                p.hint { "By " (foreign(agent)) ", " (parts::instant(*at)) "." }
            }
            _ if has_ended(ticket, now) => p { "The ticket has ended without an answer." },
            _ if mine == Some(false) => p.note { "Somebody else works on it." },
            _ => {
                @if mine.is_none() { div.row { (button("claim", "main", "Claim")) } }
                form method="post" action=(act("answer")) {
                    (hidden_csrf(visit))
                    @let wrong = refused.wrong.as_ref().filter(|(id, _)| *id == "text").map(|(_, words)| words.as_str());
                    (field(&Field {
                        id: "text",
                        label: "What the customer is told",
                        hint: Some("Plain text, at most 16 KiB. The application shows it in the conversation."),
                        error: wrong,
                        control: &|described| html! {
                            textarea id="text" name="text" dir="auto" required aria-describedby=[described]
                                aria-invalid=[wrong.map(|_| "true")] { (refused.answer) }
                        },
                    }))
                    button.main[mine.is_some()] type="submit" { "Send the answer" }
                }
                @if mine.is_some() {
                    div.row { (button("release", "plain", "Hand back")) (button("claim", "plain", "Keep it longer")) }
                }
                details {
                    summary { "End without an answer" }
                    p { "The application is told that nobody will answer." }
                    (button("expire", "danger", "End the ticket"))
                }
            }
        }
    }
}

fn asked(ticket: &Ticket) -> Markup {
    let row = |asked: &Asked| {
        vec![
            parts::instant(asked.at),
            html! { (foreign(&asked.model)) },
            html! { (asked.cause) },
            html! {
                @for (at, attempt) in asked.attempts.iter().enumerate() {
                    @if at > 0 { br; }
                    (foreign(&attempt.model)) ": " (foreign(&attempt.outcome))
                }
            },
            parts::request(&asked.request),
        ]
    };
    let heads = [Head::Text("At"), Head::Text("Model"), Head::Text("Cause"), Head::Text("Tried"), Head::Text("Request")];
    let rows = ticket.requests.iter().map(row).collect();
    html! {
        (parts::table(&Table { caption: "What was asked", heads: &heads, rows, empty: "None." }))
        @if ticket.more > 0 { p.hint { (ticket.more) " more are not listed." } }
    }
}

fn history(ticket: &Ticket) -> Markup {
    let rows = ticket.history.iter().map(|entry| {
        vec![parts::instant(entry.at), foreign(entry.who.as_deref().unwrap_or("the gateway")), html! { (entry.what) }]
    });
    let heads = [Head::Text("At"), Head::Text("Who"), Head::Text("What")];
    html! {
        (parts::table(&Table { caption: "What was done", heads: &heads, rows: rows.collect(), empty: "Nothing." }))
    }
}
