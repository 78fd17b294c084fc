//! What pages are made of: tables, fields, instants, money. Each is usable with a keyboard, a screen reader and a narrow screen.

use super::gate::{CSRF, Visit};
use super::page::address;
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use maud::{Markup, html};

/// The hidden field that proves where a form comes from.
pub(super) fn hidden_csrf(visit: &Visit) -> Markup {
    html! { input type="hidden" name=(CSRF) value=(visit.session.csrf); }
}

/// A labelled control with a hint and what is wrong with it.
pub(super) struct Field<'a> {
    /// The control's id.
    pub(super) id: &'a str,
    pub(super) label: &'a str,
    pub(super) hint: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    /// The control; takes its `aria-describedby`.
    pub(super) control: &'a dyn Fn(Option<String>) -> Markup,
}

/// See [`Field`].
pub(super) fn field(field: &Field<'_>) -> Markup {
    let Field { id, label, hint, error, control } = field;
    let parts = [hint.map(|_| format!("{id}-hint")), error.map(|_| format!("{id}-error"))];
    let described: Vec<String> = parts.into_iter().flatten().collect();
    html! {
        div.field.wrong[error.is_some()] {
            label for=(id) { (label) }
            @if let Some(hint) = hint { p.hint id={ (id) "-hint" } { (hint) } }
            @if let Some(error) = error { p.error id={ (id) "-error" } { (error) } }
            (control((!described.is_empty()).then(|| described.join(" "))))
        }
    }
}

/// A line of text.
pub(super) fn line<'a>(id: &'a str, label: &'a str, value: &'a str, hint: Option<&'a str>, error: Option<&'a str>) -> Markup {
    let control = |described: Option<String>| {
        html! {
            input id=(id) name=(id) value=(value) autocomplete="off" aria-describedby=[described]
                aria-invalid=[error.map(|_| "true")];
        }
    };
    self::field(&Field { id, label, hint, error, control: &control })
}

/// One of several.
pub(super) fn choice(id: &str, label: &str, options: &[(&str, &str)], chosen: &str) -> Markup {
    let control = |described: Option<String>| {
        html! {
            select id=(id) name=(id) aria-describedby=[described] {
                @for (value, label) in options { option value=(value) selected[*value == chosen] { (label) } }
            }
        }
    };
    field(&Field { id, label, hint: None, error: None, control: &control })
}

/// What is wrong with a form, on top of it: each with a link to its control.
pub(super) fn error_list(wrong: &[(&str, &str)]) -> Markup {
    html! {
        @if !wrong.is_empty() {
            div.alert role="alert" {
                p { strong { "Not done." } }
                ul { @for (id, words) in wrong { li { a href={ "#" (id) } { (words) } } } }
            }
        }
    }
}

/// A sentence that says what has been done.
pub(super) fn done(words: &str) -> Markup {
    html! { p.done role="status" { (words) } }
}

/// A table. The first cell of a row names it.
pub(super) struct Table<'a> {
    pub(super) caption: &'a str,
    pub(super) heads: &'a [Head<'a>],
    pub(super) rows: Vec<Vec<Markup>>,
    /// What is said instead when there are no rows.
    pub(super) empty: &'a str,
}

/// The head of a column.
#[derive(Clone, Copy)]
pub(super) enum Head<'a> {
    /// Of words.
    Text(&'a str),
    /// Of numbers, which stand at the right.
    Number(&'a str),
}

/// Where a table of so many columns has no room, each of its rows stands as a list of its cells, by this class.
pub(super) const fn folds(columns: usize) -> &'static str {
    match columns {
        ..=2 => "pair",
        3..=4 => "few",
        _ => "many",
    }
}

/// See [`Table`]. Roles are spelled out: a row that stands as a list is a row still to those who hear it. Should a table be too wide
/// even so, it scrolls within itself, also by keyboard.
pub(super) fn table(table: &Table<'_>) -> Markup {
    let Table { caption, heads, rows, empty } = table;
    let number = |at: usize| matches!(heads.get(at), Some(Head::Number(_)));
    let label = |at: usize| heads.get(at).map_or("", |(Head::Text(name) | Head::Number(name))| name);
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table.(folds(heads.len())) role="table" {
                caption { (caption) }
                thead role="rowgroup" {
                    tr role="row" {
                        @for (at, _) in heads.iter().enumerate() {
                            th.number[number(at)] scope="col" role="columnheader" { (label(at)) }
                        }
                    }
                }
                tbody role="rowgroup" {
                    @for row in rows {
                        tr role="row" {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 { th scope="row" role="rowheader" { (cell) } }
                                @else { td.number[number(at)] role="cell" data-label=(label(at)) { (cell) } }
                            }
                        }
                    }
                    @if rows.is_empty() { tr role="row" { td.empty role="cell" colspan=(heads.len()) { (empty) } } }
                }
            }
        }
    }
}

/// Terms and what they are.
pub(super) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (term, fact) in facts { div { dt { (term) } dd { (fact) } } } } }
}

/// Text somebody else wrote: kept apart from the direction of the text around it.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// An instant.
pub(super) fn instant(at: Timestamp) -> Markup {
    moment(&rfc3339(at))
}

/// An instant that is written already. A line may end between its day and its time, and nowhere else.
pub(super) fn moment(at: &str) -> Markup {
    let (day, time) = at.split_once('T').unwrap_or((at, ""));
    html! { time datetime=(at) { span { (day) } " " (time.trim_end_matches('Z')) } }
}

/// A request, with the way to what is kept of it.
pub(super) fn request(id: &str) -> Markup {
    html! { a href=(address("/console/requests", &[("id", id)])) { code { (id) } } }
}

/// How long ago, or how far ahead, with the instant for whoever points at it.
pub(super) fn apart(at: Timestamp, now: Timestamp) -> Markup {
    let text = rfc3339(at);
    let words = if at <= now { format!("{} ago", span(now.since(at))) } else { format!("in {}", span(at.since(now))) };
    html! { time datetime=(text) title=(text) { (words) } }
}

/// A duration in its largest unit: `42 s`, `8 min`, `3 h`, `12 d`.
pub(super) fn span(micros: u64) -> String {
    match micros / 1_000_000 {
        secs @ 0..=119 => format!("{secs} s"),
        secs @ 120..=7_199 => format!("{} min", secs / 60),
        secs @ 7_200..=172_799 => format!("{} h", secs / 3_600),
        secs => format!("{} d", secs / 86_400),
    }
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How full something is. Drawn by the browser, and said in words beside it.
pub(super) fn gauge(label: &str, permille: u64) -> Markup {
    let percent = permille.div_ceil(10);
    html! {
        span.gauge {
            meter min="0" max="100" low="70" high="95" optimum="0" value=(percent.min(100)) aria-label=(label) { (percent) " %" }
            span { (percent) " %" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_are_readable() {
        for (number, right) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), right);
        }
        for (secs, right) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "119 min"), (7_200, "2 h"), (172_800, "2 d")] {
            assert_eq!(span(secs * 1_000_000), right);
        }
    }

    #[test]
    fn what_others_wrote_is_text_wherever_it_stands() {
        let evil = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'";
        let rows = vec![vec![foreign(evil), html! { (evil) }]];
        let all = html! {
            (table(&Table { caption: evil, heads: &[Head::Text(evil), Head::Number(evil)], rows, empty: evil }))
            (line("id", evil, evil, Some(evil), Some(evil))) (choice("id", evil, &[(evil, evil)], evil)) (error_list(&[("id", evil)]))
            (done(evil)) (facts(&[(evil, html! { (evil) })])) (gauge(evil, 1))
        };
        let text = all.into_string();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        assert!(!text.contains("\"\"><"), "no attribute is left: {text}");
    }
}
