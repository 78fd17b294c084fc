//! The list: those of today by what they spent, or all that are known by id.

use super::super::Shared;
use super::super::gate::Visit;
use super::super::page::{Page, Section, Trouble, address};
use super::super::parts::{self, Head, Table, choice, foreign, grouped, line};
use super::path;
use crate::admin::customers::{CustomerLine, Known, lines, list};
use crate::domain::NanoUsd;
use crate::history::{Day, Use};
use crate::store::series::Ranking;
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::{StreamExt, TryStreamExt, stream};
use maud::{Markup, html};

/// Customers on a page.
const LISTED: usize = 50;
/// The longest prefix, bytes: that of an id.
const LONGEST: usize = 512;
/// Customers whose overrides are read at once.
const AT_ONCE: usize = 16;
/// The furthest page of the ranking begins behind so many.
const FURTHEST: usize = 100_000;

/// What is looked for.
#[derive(Default)]
struct Wanted {
    prefix: String,
    by_id: bool,
    after: Option<String>,
    skip: usize,
}

impl Wanted {
    fn of(query: &str) -> Self {
        let mut wanted = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "prefix" => wanted.prefix = value.trim().to_owned(),
                "sort" => wanted.by_id = value == "id",
                "after" if value.len() <= LONGEST => wanted.after = Some(value.into_owned()),
                "skip" => wanted.skip = value.parse().unwrap_or(0).min(FURTHEST),
                _ => {}
            }
        }
        wanted
    }

    fn sort(&self) -> &'static str {
        if self.by_id { "id" } else { "spend" }
    }

    /// The address of another page of the same.
    fn further(&self, name: &str, value: &str) -> String {
        address("/console/customers", &[("prefix", &self.prefix), ("sort", self.sort()), (name, value)])
    }
}

pub(super) async fn show(State(shared): State<Shared>, visit: Visit, request: Request) -> Result<Response, Trouble> {
    let wanted = Wanted::of(request.uri().query().unwrap_or_default());
    let too_long = wanted.prefix.len() > LONGEST;
    let words = format!("The beginning of an id has at most {LONGEST} bytes.");
    let listing = if too_long {
        html! {}
    } else if wanted.by_id {
        by_id(&shared, &wanted).await?
    } else {
        by_spend(&shared, &wanted).await?
    };
    let page = Page { title: "Customers", section: Section::Customers, visit: &visit, refresh: if too_long { 0 } else { 30 } };
    let body = html! {
        form.row method="get" action="/console/customers" role="search" aria-label="Customers" {
            (line("prefix", "Id begins with", &wanted.prefix, None, too_long.then_some(&words)))
            (choice("sort", "Sorted by", &[("spend", "what they spent today"), ("id", "id")], wanted.sort()))
            button type="submit" { "Show" }
        }
        div #customers data-live { (listing) }
    };
    Ok(page.answer(if too_long { http::StatusCode::BAD_REQUEST } else { http::StatusCode::OK }, &body))
}

async fn by_spend(shared: &Shared, wanted: &Wanted) -> Result<Markup, Trouble> {
    let gateway = &shared.gateway;
    // One more than is shown tells whether there are more.
    let ranking = Ranking { prefix: wanted.prefix.clone(), skip: wanted.skip, limit: LISTED + 1 };
    let mut found = gateway.history.top_customers(Day::of(gateway.clock.now()), &ranking).await?;
    let more = found.len() > LISTED;
    found.truncate(LISTED);
    // What holds for them now, which need not be what held when they asked.
    let known = |(id, _): &(String, Use)| {
        let id = id.clone();
        async move { gateway.directory.said_of(&id).await.map(|said| (id, Known { seen: None, said })) }
    };
    let known = stream::iter(found.iter().map(known)).buffered(AT_ONCE).try_collect().await?;
    let now = lines(gateway, known).await?;
    let row = |((id, used), now): (&(String, Use), &CustomerLine)| {
        let number = |number: u64| html! { (grouped(number)) };
        vec![
            link(id),
            html! { (used.cost()) },
            number(used.requests),
            number(used.served),
            number(used.degraded + used.handed_off),
            number(used.refused),
            plan(now),
        ]
    };
    let heads = [
        Head::Text("Customer"),
        Head::Number("Spent"),
        Head::Number("Requests"),
        Head::Number("Served"),
        Head::Number("Degraded or handed off"),
        Head::Number("Refused"),
        Head::Text("Plan"),
    ];
    let rows = found.iter().zip(&now).map(row).collect();
    let caption = "Customers of today (UTC), those who spent most first";
    Ok(html! {
        (parts::table(&Table { caption, heads: &heads, rows, empty: "No such customer asked for anything today." }))
        p.row {
            @if wanted.skip > 0 {
                a href=(wanted.further("skip", &wanted.skip.saturating_sub(LISTED).to_string())) { "Those before" }
            }
            @if more && wanted.skip < FURTHEST { a href=(wanted.further("skip", &(wanted.skip + LISTED).to_string())) { "Further customers" } }
            a href=(address("/console/customers", &[("prefix", &wanted.prefix), ("sort", "id")])) { "All that are known, by id" }
        }
    })
}

async fn by_id(shared: &Shared, wanted: &Wanted) -> Result<Markup, Trouble> {
    let found = list(&shared.gateway, &wanted.prefix, wanted.after.as_deref(), LISTED).await?;
    let row = |one: &CustomerLine| {
        vec![
            link(&one.customer),
            plan(one),
            html! { @if one.overridden { "yes" } @else { "no" } },
            html! {
                @for (at, spend) in one.spend.iter().enumerate() {
                    @if at > 0 { br; }
                    (NanoUsd::new(spend.spent)) " of " (NanoUsd::new(spend.cap)) " this " (spend.period)
                }
            },
            html! { @match &one.seen_at { Some(at) => (parts::moment(at)), None => "not lately" } },
        ]
    };
    let heads = [Head::Text("Customer"), Head::Text("Plan"), Head::Text("Overridden"), Head::Text("Spent"), Head::Text("Seen")];
    let rows = found.customers.iter().map(row).collect();
    Ok(html! {
        (parts::table(&Table { caption: "Known customers, by id", heads: &heads, rows, empty: "No such customer is known." }))
        @if let Some(next) = &found.next { p { a href=(wanted.further("after", next)) { "Further customers" } } }
    })
}

/// The plan in force, and whether the customer is shut out.
fn plan(one: &CustomerLine) -> Markup {
    html! { (foreign(&one.plan)) @if one.suspended { " " strong { "suspended" } } }
}

fn link(id: &str) -> Markup {
    html! { a href=(path(id)) { (foreign(id)) } }
}
