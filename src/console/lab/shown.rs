//! What a run came to, as tables and drawings. A drawing is never the only place of what it shows.

use super::super::parts::{self, Head, Table, grouped};
use crate::lab::Report;
use crate::lab::chart::{self, ChartError};
use crate::lab::table::Cells;
use crate::lab::tally::{Left, RunReport};
use crate::limit::Scope;
use maud::{Markup, PreEscaped, html};

/// A table of the lab. A row of one cell heads those behind it.
pub(super) fn cells(cells: &Cells) -> Markup {
    let columns = cells.rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut rows = cells.rows.iter();
    let heads = rows.next();
    let named = |text: &str| if text.is_empty() { "What" } else { text }.to_owned();
    html! {
        div.scroll role="region" aria-label=(cells.caption) tabindex="0" {
            table.cells {
                caption { (cells.caption) }
                thead { tr { @for head in heads.into_iter().flatten() { th scope="col" { (named(head)) } } } }
                tbody {
                    @for row in rows {
                        @match row.as_slice() {
                            [heading] => tr { th.heading scope="rowgroup" colspan=(columns) { (heading) } },
                            [name, cells @ ..] => tr {
                                @if name.trim().is_empty() { td {} } @else { th scope="row" { (name.trim()) } }
                                @for at in 0..columns - 1 { td { (cells.get(at).map_or("", String::as_str)) } }
                            },
                            [] => tr {},
                        }
                    }
                }
            }
        }
    }
}

/// A drawing with its name and what is to be seen on it; of so many columns side by side.
pub(super) fn drawing(id: &str, title: &str, about: &str, columns: usize, svg: Result<String, ChartError>) -> Markup {
    match svg {
        Ok(svg) => html! {
            figure.chart.drawing.{ "columns-" (columns.clamp(1, 3)) } role="region" aria-label={ "Drawing: " (title) } tabindex="0" { (PreEscaped(named(&svg, id, title, about))) }
        },
        Err(error) => {
            tracing::warn!(id, %error, "a chart cannot be drawn");
            html! { p.hint { "The drawing cannot be made." } }
        }
    }
}

/// The drawing with its name and description, for those who do not see it.
fn named(svg: &str, id: &str, title: &str, about: &str) -> String {
    let names = html! { title id={ (id) "-title" } { (title) } desc id={ (id) "-desc" } { (about) } }.into_string();
    let role = format!("<svg role=\"img\" aria-labelledby=\"{id}-title {id}-desc\"");
    let svg = svg.replacen("<svg", &role, 1);
    match svg.find('>') {
        Some(at) => format!("{}{names}{}", &svg[..=at], &svg[at + 1..]),
        None => String::new(),
    }
}

/// What the drawing of a report shows.
pub(super) fn what_is_drawn(report: &Report) -> String {
    if report.runs.is_empty() {
        return "How full each limit is, over the size of requests. The table has the numbers.".to_owned();
    }
    let runs: Vec<&str> = report.runs.iter().map(|run| run.name.as_str()).collect();
    format!(
        "Over time, for each of: {}. Tokens a minute that the provider accepted, against its ceiling; the level; what became of the \
         questions. The table has the sums.",
        runs.join("; ")
    )
}

/// The buckets of a run, drawn and in a table.
pub(super) fn buckets(id: &str, run: &RunReport) -> Markup {
    let title = format!("Buckets: {}", run.name);
    let sentence = |left: &Left| {
        let least = left.least.iter().min().copied().unwrap_or(left.of);
        format!("{} {}: {} of {} at the least", whose(left), left.limit.as_str(), grouped(least), grouped(left.of))
    };
    let about = format!(
        "What was left over time of the customer's buckets and of the account's, and what became of the questions. {}.",
        run.left.iter().map(sentence).collect::<Vec<_>>().join("; ")
    );
    let seconds = run.step / 1_000_000;
    let row = |left: &Left| {
        let least = left.least.iter().min().copied().unwrap_or(left.of);
        let empty = left.least.iter().filter(|least| **least * 20 < left.of).count() as u64;
        vec![
            html! { (whose(left)) },
            html! { (left.limit.as_str()) },
            html! { (grouped(left.of)) },
            html! { (grouped(least)) },
            html! { (parts::span(empty * seconds * 1_000_000)) },
        ]
    };
    let heads = [
        Head::Text("Whose"),
        Head::Text("Limit"),
        Head::Number("Full at"),
        Head::Number("Least left"),
        Head::Number("Time with under 5 % left"),
    ];
    html! {
        (parts::table(&Table { caption: &title, heads: &heads, rows: run.left.iter().map(row).collect(), empty: "Nothing is limited." }))
        (drawing(id, &title, &about, 1, chart::buckets(run)))
    }
}

/// Whose bucket it is.
fn whose(left: &Left) -> String {
    if left.scope.scope == Scope::Pool { format!("pool {}", left.scope.owner) } else { "customer".to_owned() }
}
