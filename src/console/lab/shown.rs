//! What a run came to, as tables and drawings. A drawing is never the only place of what it shows.

use super::super::chart;
use super::super::parts::{self, Head, Table, grouped};
use crate::lab::chart::ChartError;
use crate::lab::table::Cells;
use crate::lab::tally::{Left, RunReport};
use crate::lab::{self, Report};
use crate::limit::Scope;
use maud::{Markup, PreEscaped, html};

/// A table of the lab. A row of one cell heads those behind it.
pub(super) fn cells(cells: &Cells) -> Markup {
    let columns = cells.rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut rows = cells.rows.iter();
    let heads = rows.next();
    let named = |text: &str| if text.is_empty() { "What" } else { text }.to_owned();
    let label = |at: usize| heads.and_then(|heads| heads.get(at)).map(|head| named(head)).unwrap_or_default();
    html! {
        div.scroll role="region" aria-label=(cells.caption) tabindex="0" {
            table.cells.(parts::folds(columns)) role="table" {
                caption { (cells.caption) }
                thead role="rowgroup" {
                    tr role="row" { @for head in heads.into_iter().flatten() { th scope="col" role="columnheader" { (named(head)) } } }
                }
                tbody role="rowgroup" {
                    @for row in rows {
                        @match row.as_slice() {
                            [heading] => tr role="row" { th.heading scope="rowgroup" role="rowheader" colspan=(columns) { (heading) } },
                            [name, cells @ ..] => tr role="row" {
                                @if name.trim().is_empty() { td role="cell" {} }
                                @else { th scope="row" role="rowheader" { (name.trim()) } }
                                @for at in 0..columns - 1 {
                                    td role="cell" data-label=(label(at + 1)) { (cells.get(at).map_or("", String::as_str)) }
                                }
                            },
                            [] => tr {},
                        }
                    }
                }
            }
        }
    }
}

/// Drawings with their names and what is to be seen on them, beside each other where there is room. The first is named for all.
pub(super) fn drawing(id: &str, title: &str, about: &str, runs: &[&str], svgs: Result<Vec<String>, ChartError>) -> Markup {
    match svgs {
        Ok(svgs) => html! {
            figure.chart.drawing aria-label={ "Drawing: " (title) } {
                @for (at, svg) in svgs.iter().enumerate() {
                    @if at == 0 { (PreEscaped(chart::named(svg, id, title, about))) }
                    @else {
                        @let run = runs.get(at).copied().unwrap_or_default();
                        (PreEscaped(chart::named(svg, &format!("{id}-run-{at}"), run, "The same for this run.")))
                    }
                }
            }
        },
        Err(error) => {
            tracing::warn!(id, %error, "a chart cannot be drawn");
            html! { p.hint { "The drawing cannot be made." } }
        }
    }
}

/// What the drawing of a report shows.
pub(super) fn what_is_drawn(report: &Report) -> String {
    if report.runs.is_empty() {
        return "How full each limit is, over the size of requests. The table has the numbers.".to_owned();
    }
    let runs: Vec<&str> = report.runs.iter().map(|run| run.name.as_str()).collect();
    format!(
        "Over time, for each of: {}. What the provider accepted in a minute, against the ceiling that binds; the level; what became of the \
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
        (drawing(id, &title, &about, &[], lab::chart::buckets(run).map(|svg| vec![svg])))
    }
}

/// Whose bucket it is.
fn whose(left: &Left) -> String {
    if left.scope.scope == Scope::Pool { format!("pool {}", left.scope.owner) } else { "customer".to_owned() }
}
