//! The queues and their tickets.

use super::super::Shared;
use super::super::customers;
use super::super::gate::{Form, Visit};
use super::super::page::{Page, Section, Trouble, address, redirect};
use super::super::parts::{self, Head, Table, choice, foreign, grouped, hidden_csrf, line};
use super::{done, standing};
use crate::admin::triage_cursor;
use crate::domain::Timestamp;
use crate::triage::{Desk, GENERAL, MOST_LISTED, Query, Standing, Ticket, Trouble as DeskTrouble};
use axum::extract::{Request, State};
use axum::response::Response;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Tickets on a page.
const LISTED: usize = 50;
/// Tickets tried for "claim the next": those in front may just be claimed by others.
const TRIED: usize = 20;

/// What is looked for.
#[derive(Default)]
struct Wanted {
    standing: Option<Standing>,
    queue: String,
    customer: String,
    after: Option<String>,
}

impl Wanted {
    fn of(query: &str) -> Self {
        let mut wanted = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim().to_owned();
            match &*name {
                "state" => wanted.standing = Standing::ALL.into_iter().find(|standing| standing.as_str() == value),
                "queue" => wanted.queue = value,
                "customer" => wanted.customer = value,
                "after" => wanted.after = Some(value),
                _ => {}
            }
        }
        wanted
    }

    fn query(&self) -> Query {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Query {
            standing: self.standing,
            queue: given(&self.queue),
            customer: given(&self.customer),
            limit: LISTED,
            after: self.after.as_deref().and_then(triage_cursor),
        }
    }

    /// The address of the page behind this one.
    fn further(&self, after: &str) -> String {
        let state = self.standing.map_or("", Standing::as_str);
        let parameters = [("state", state), ("queue", &*self.queue), ("customer", &*self.customer), ("after", after)];
        address("/console/desk", &parameters)
    }
}

pub(super) async fn show(State(shared): State<Shared>, visit: Visit, request: Request) -> Result<Response, Trouble> {
    let wanted = Wanted::of(request.uri().query().unwrap_or_default());
    let desk = &shared.gateway.triage;
    let queues = queues(&shared, desk).await?;
    let listing = desk.list(&wanted.query()).await?;
    let now = desk.now();
    let next = listing.next.map(|(rank, id)| wanted.further(&format!("{rank}-{id}")));
    let page = Page { title: "Desk", section: Section::Desk, visit: &visit, refresh: 10 };
    Ok(page.show(&html! {
        (done(request.uri().query()))
        (waiting(&visit, &queues, &wanted))
        (filter(&queues, &wanted))
        div #tickets data-live {
            (tickets(&listing.tickets, &wanted, now))
            @if let Some(next) = &next { p { a href=(next) { "Further tickets" } } }
        }
    }))
}

/// Tickets that wait, by queue: those of the configuration and those that are there. Of very many, only the first are counted.
struct Queues {
    waiting: BTreeMap<String, usize>,
    and_more: bool,
}

async fn queues(shared: &Shared, desk: &Desk) -> Result<Queues, Trouble> {
    let query = Query { standing: Some(Standing::Open), limit: MOST_LISTED, ..Query::default() };
    let listing = desk.list(&query).await?;
    let policy = shared.gateway.policy.load();
    let mut waiting: BTreeMap<String, usize> = policy.classes.keys().map(|name| (name.to_string(), 0)).collect();
    waiting.insert(GENERAL.to_owned(), 0);
    for ticket in &listing.tickets {
        *waiting.entry(ticket.queue.to_string()).or_default() += 1;
    }
    Ok(Queues { waiting, and_more: listing.next.is_some() })
}

fn waiting(visit: &Visit, queues: &Queues, wanted: &Wanted) -> Markup {
    let all: usize = queues.waiting.values().sum();
    html! {
        div #waiting data-live {
            p role="status" {
                @if all == 0 { "Nobody waits." }
                @else { strong { (all) @if queues.and_more { " or more" } } " " (if all == 1 { "waits" } else { "wait" }) " for a person." }
            }
        }
        form.row method="post" action="/console/desk/next" {
            (hidden_csrf(visit))
            @let options = options(queues);
            (choice_of("next-queue", "Queue", "queue", &options, &wanted.queue))
            button.main type="submit" { "Claim the next ticket" }
        }
    }
}

fn options(queues: &Queues) -> Vec<(String, String)> {
    let one = |(name, count): (&String, &usize)| (name.clone(), format!("{name} ({count})"));
    std::iter::once((String::new(), "all queues".to_owned())).chain(queues.waiting.iter().map(one)).collect()
}

/// A choice whose control has another id than its name, since two forms of a page have one.
fn choice_of(id: &str, label: &str, name: &str, options: &[(String, String)], chosen: &str) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            select id=(id) name=(name) {
                @for (value, label) in options { option value=(value) selected[value == chosen] { (label) } }
            }
        }
    }
}

fn filter(queues: &Queues, wanted: &Wanted) -> Markup {
    let states: Vec<(&str, &str)> = std::iter::once(("", "open and claimed"))
        .chain(Standing::ALL.iter().map(|standing| (standing.as_str(), standing.as_str())))
        .collect();
    html! {
        form.row method="get" action="/console/desk" role="search" aria-label="Tickets" {
            (choice_of("queue", "Queue", "queue", &options(queues), &wanted.queue))
            (choice("state", "State", &states, wanted.standing.map_or("", Standing::as_str)))
            (line("customer", "Customer", &wanted.customer, None, None))
            button type="submit" { "Show" }
        }
    }
}

fn tickets(tickets: &[Ticket], wanted: &Wanted, now: Timestamp) -> Markup {
    let caption = match wanted.standing {
        None => "Tickets, in the order in which they are served",
        Some(Standing::Open) => "Open tickets, in the order in which they are served",
        Some(Standing::Claimed) => "Claimed tickets",
        Some(Standing::Answered) => "Answered tickets, the oldest first",
        Some(Standing::Expired) => "Tickets that ended without an answer, the oldest first",
    };
    let row = |ticket: &Ticket| {
        let latest = ticket.requests.last();
        vec![
            html! { a href={ "/console/desk/" (ticket.id) } { (short(ticket)) } },
            html! { a href=(customers::path(&ticket.customer)) { (foreign(&ticket.customer)) } },
            html! { (foreign(&ticket.queue)) },
            html! { (ticket.priority.as_str()) },
            standing(ticket, now),
            html! { (latest.map_or("", |asked| &asked.cause)) },
            html! { (grouped(ticket.requests.len() as u64 + ticket.more)) },
            parts::apart(ticket.opened, now),
            parts::apart(ticket.deadline, now),
        ]
    };
    let heads = [
        Head::Text("Ticket"),
        Head::Text("Customer"),
        Head::Text("Queue"),
        Head::Text("Priority"),
        Head::Text("State"),
        Head::Text("Cause"),
        Head::Number("Requests"),
        Head::Text("Opened"),
        Head::Text("Ends"),
    ];
    parts::table(&Table { caption, heads: &heads, rows: tickets.iter().map(row).collect(), empty: "No such tickets." })
}

/// The first digits: enough to tell tickets of a page apart.
fn short(ticket: &Ticket) -> String {
    let id = ticket.id.to_string();
    id.get(..11).unwrap_or(&id).to_owned()
}

pub(super) async fn claim_next(State(shared): State<Shared>, visit: Visit, form: Form) -> Result<Response, Trouble> {
    let desk = &shared.gateway.triage;
    let queue = form.get("queue");
    let query = Query {
        standing: Some(Standing::Open),
        queue: (!queue.is_empty()).then(|| queue.to_owned()),
        limit: TRIED,
        ..Query::default()
    };
    for ticket in desk.list(&query).await?.tickets {
        match desk.claim(ticket.id, visit.operator()).await {
            Ok(ticket) => return Ok(redirect(&format!("/console/desk/{}?done=claim", ticket.id))),
            // Somebody else was faster.
            Err(DeskTrouble::Conflict(_) | DeskTrouble::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(redirect(&address("/console/desk", &[("done", "none"), ("queue", queue)])))
}
