//! Theirs beside ours, and the likely cause of a difference.
//!
//! A model of an export is matched to what answered under exactly that name; what is left over is matched without dates and spelling
//! (`gpt-4o-2024-08-06` and `gpt-4o`, `Claude Haiku 4.5` and `claude-haiku-4-5-20251001`). An export that does not tell models apart is
//! compared with the sum of a day.

use super::export::{Export, Provider};
use super::{Ours, Theirs};
use crate::history::Day;
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests.
    Requests,
    /// Input tokens, cached ones among them.
    Input,
    /// Cached input tokens.
    Cached,
    /// Output tokens.
    Output,
    /// Nano-dollars.
    Cost,
}

impl Measure {
    /// As it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Input => "input",
            Self::Cached => "cached",
            Self::Output => "output",
            Self::Cost => "cost",
        }
    }
}

/// One figure of a model and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Which.
    pub measure: Measure,
    /// The provider's.
    pub theirs: u64,
    /// Ours.
    pub ours: u64,
}

impl Pair {
    /// Theirs less ours.
    #[must_use]
    pub fn difference(&self) -> i128 {
        i128::from(self.theirs) - i128::from(self.ours)
    }

    /// Whether they differ by more than so many millionths of the larger.
    #[must_use]
    pub fn differs(&self, tolerance: u32) -> bool {
        let larger = u128::from(self.theirs.max(self.ours));
        self.difference().unsigned_abs() * 1_000_000 > larger * u128::from(tolerance)
    }
}

/// A model and day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The day, UTC.
    pub day: Day,
    /// The model as the export names it; ours where it is in no export. `(all models)` where models are not told apart.
    pub model: String,
    /// Names of ours that were taken for it, where they are others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub as_ours: Vec<String>,
    /// The figures that the export has.
    pub figures: Vec<Pair>,
    /// Whether any differs by more than the tolerance.
    pub differs: bool,
    /// Why it may differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    #[serde(skip)]
    batch: u64,
}

const PAST_US: &str = "traffic past the gateway: another key of the account, or a model that only others ask for";
const NOT_THEIRS: &str =
    "not in the export: another project, workspace or account, a filter, or another provider behind this upstream";
const BATCH: &str = "the Batch API, which does not pass the gateway";
const MIDNIGHT: &str =
    "the day's border: what is missing here stands on the day beside it (requests over midnight, or days of another time zone)";
const PRICE: &str = "the same tokens at other prices: an old price table, a service tier, or a discount";
const CACHE: &str = "cached tokens: the same input, of which another part counts as cached";
const PARTLY_PAST: &str = "some traffic past the gateway, or a gateway that was killed: its last flush interval and what it had in flight are not in the history";
const BOOKED_WHOLE: &str =
    "booked by our own count: replies without usage, or clients that left before the provider said what it used";
const MORE_OURS: &str =
    "requests that we charge and they do not: attempts that failed, or clients that left before there was an answer";

/// Compares. `tolerance` is in millionths. Only days between the first and the last of the export.
#[must_use]
pub fn compare(export: &Export, ours: &[Ours], tolerance: u32) -> Vec<Line> {
    let (Some(first), Some(last)) = (export.rows.iter().map(|row| row.day).min(), export.rows.iter().map(|row| row.day).max())
    else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for day in first.through(last, u32::MAX) {
        let theirs: Vec<_> = export.rows.iter().filter(|row| row.day == day).collect();
        let ours: Vec<_> = ours.iter().filter(|row| row.day == day && may_be(export.provider, row)).collect();
        lines.extend(of_day(day, &theirs, &ours, export));
    }
    for line in &mut lines {
        line.differs = line.figures.iter().any(|pair| pair.differs(tolerance));
    }
    let causes: Vec<_> = lines.iter().map(|line| line.differs.then(|| cause(line, &lines, tolerance))).collect();
    for (line, cause) in lines.iter_mut().zip(causes) {
        line.cause = cause;
    }
    lines
}

/// Whether a model of ours may be this provider's: Anthropic's are all named so, and nobody else's.
fn may_be(provider: Provider, ours: &Ours) -> bool {
    let claude = [&ours.used.model, &ours.used.served_model].iter().any(|name| name.starts_with("claude"));
    (provider == Provider::Anthropic) == (claude || ours.used.upstream == "anthropic")
}

fn of_day(day: Day, theirs: &[&Theirs], ours: &[&Ours], export: &Export) -> Vec<Line> {
    let measures = measures(export);
    // One sum where any row of the export is of no model: the rest cannot be told from it.
    if theirs.iter().any(|row| row.model.is_empty()) {
        return vec![line(day, "(all models)".to_owned(), theirs, ours, &measures)];
    }
    let mut groups: BTreeMap<String, (Vec<&Theirs>, Vec<&Ours>)> = BTreeMap::new();
    let exact = |name: &str| theirs.iter().any(|row| row.model == name) && ours.iter().any(|row| row.used.served_model == name);
    for row in theirs {
        let key = if exact(&row.model) { row.model.clone() } else { format!("~{}", base(&row.model)) };
        groups.entry(key).or_default().0.push(row);
    }
    for row in ours {
        let name = &row.used.served_model;
        let key = if exact(name) { name.clone() } else { format!("~{}", base(name)) };
        groups.entry(key).or_default().1.push(row);
    }
    let mut lines: Vec<_> = groups
        .into_values()
        .map(|(theirs, ours)| {
            let name = match theirs.first() {
                Some(_) => joined(theirs.iter().map(|row| &*row.model)),
                None => joined(ours.iter().map(|row| &*row.used.served_model)),
            };
            line(day, name, &theirs, &ours, &measures)
        })
        .collect();
    lines.sort_by(|a, b| a.model.cmp(&b.model));
    lines
}

fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.join(" + ")
}

fn line(day: Day, model: String, theirs: &[&Theirs], ours: &[&Ours], measures: &[Measure]) -> Line {
    let figures = measures.iter().map(|measure| {
        let theirs = theirs.iter().filter_map(|row| of_theirs(row, *measure)).fold(0, u64::saturating_add);
        let ours = ours.iter().map(|row| of_ours(row, *measure)).fold(0, u64::saturating_add);
        Pair { measure: *measure, theirs, ours }
    });
    let figures = figures.collect();
    let mut as_ours: Vec<_> = ours.iter().map(|row| row.used.served_model.clone()).filter(|name| *name != model).collect();
    as_ours.sort();
    as_ours.dedup();
    let batch = theirs.iter().map(|row| row.batch).fold(0, u64::saturating_add);
    Line { day, model, as_ours, figures, differs: false, cause: None, batch }
}

/// What the export tells at all.
fn measures(export: &Export) -> Vec<Measure> {
    let all = [Measure::Requests, Measure::Input, Measure::Cached, Measure::Output, Measure::Cost];
    all.into_iter().filter(|measure| export.rows.iter().any(|row| of_theirs(row, *measure).is_some())).collect()
}

const fn of_theirs(row: &Theirs, measure: Measure) -> Option<u64> {
    match measure {
        Measure::Requests => row.requests,
        Measure::Input => row.input,
        Measure::Cached => row.cached,
        Measure::Output => row.output,
        Measure::Cost => row.cost,
    }
}

const fn of_ours(row: &Ours, measure: Measure) -> u64 {
    match measure {
        Measure::Requests => row.used.requests,
        Measure::Input => row.used.input_tokens,
        Measure::Cached => row.used.cached_tokens,
        Measure::Output => row.used.output_tokens,
        Measure::Cost => row.used.cost_nano_usd,
    }
}

/// A model's name without date, spelling and `latest`.
fn base(name: &str) -> String {
    let plain: String = name.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let mut words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    let number = |word: &&str, digits: usize| word.len() == digits && word.bytes().all(|b| b.is_ascii_digit());
    loop {
        match words.as_slice() {
            [_, .., "latest"] => words.truncate(words.len() - 1),
            [_, .., date] if number(date, 8) => words.truncate(words.len() - 1),
            [_, .., y, m, d] if number(y, 4) && number(m, 2) && number(d, 2) => words.truncate(words.len() - 3),
            _ => return words.join("-"),
        }
    }
}

fn pair(line: &Line, measure: Measure) -> Option<&Pair> {
    line.figures.iter().find(|pair| pair.measure == measure)
}

/// The likely cause, the surest first.
fn cause(line: &Line, all: &[Line], tolerance: u32) -> &'static str {
    let differs = |measure| pair(line, measure).is_some_and(|pair| pair.differs(tolerance));
    let less_ours = |measure| pair(line, measure).is_some_and(|pair| pair.difference() > 0 && pair.differs(tolerance));
    if line.figures.iter().all(|pair| pair.theirs == 0) {
        return if beside(line, all) { MIDNIGHT } else { NOT_THEIRS };
    }
    let without_batch = |pair: &Pair| Pair { theirs: pair.theirs.saturating_sub(line.batch), ..*pair };
    if line.batch > 0 && line.figures.first().is_some_and(|first| !without_batch(first).differs(tolerance)) {
        return BATCH;
    }
    if beside(line, all) {
        return MIDNIGHT;
    }
    if line.figures.iter().all(|pair| pair.ours == 0) {
        return if line.batch > 0 { BATCH } else { PAST_US };
    }
    let tokens = [Measure::Input, Measure::Output];
    let known = tokens.iter().all(|measure| pair(line, *measure).is_some());
    if known && !tokens.iter().any(|measure| differs(*measure)) {
        if differs(Measure::Cached) {
            return CACHE;
        }
        if differs(Measure::Cost) {
            return PRICE;
        }
    }
    if !known && line.figures.len() == 1 {
        // An export of costs alone: tokens cannot be looked at.
        return if less_ours(Measure::Cost) { PARTLY_PAST } else { PRICE };
    }
    let requests_alike = pair(line, Measure::Requests).is_some_and(|pair| !pair.differs(tolerance));
    if requests_alike {
        return BOOKED_WHOLE;
    }
    if less_ours(Measure::Requests) || (pair(line, Measure::Requests).is_none() && less_ours(Measure::Input)) {
        return PARTLY_PAST;
    }
    MORE_OURS
}

/// Whether the same model has about the opposite difference on the day before or after.
fn beside(line: &Line, all: &[Line]) -> bool {
    let Some(first) = line.figures.first() else { return false };
    let name = base(&line.model);
    all.iter()
        .filter(|other| (other.day == line.day.next() || line.day == other.day.next()) && base(&other.model) == name)
        .filter_map(|other| pair(other, first.measure))
        .any(|other| {
            let (here, there) = (first.difference(), other.difference());
            // Within a fifth: both days have small differences of their own.
            here.signum() == -there.signum() && (here + there).unsigned_abs() * 5 <= here.unsigned_abs().max(there.unsigned_abs())
        })
}

#[cfg(test)]
mod tests;
