//! What a scenario came to, as one SVG: a column per run, with the use of the account against the ceiling that binds, the level, and what became
//! of the questions, over time; or, for a sweep, how full each limit is per size of request.
//!
//! The colours are told apart by people who do not see all of them, and a style in the file changes paper and ink where the reader's
//! screen is dark.

use super::Report;
use super::numbers::grouped;
use super::scenario::Path;
use super::sweep::Swept;
use super::tally::{Fate, RunReport, Step};
use crate::limit::LimitName;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Color, DrawingArea, IntoDrawingArea, IntoFont, IntoLogRange, LineSeries, RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::{ShapeStyle, TextStyle};

const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
const GRID: RGBColor = RGBColor(0xD0, 0xD7, 0xDE);
const USE: RGBColor = RGBColor(0x1F, 0x7A, 0xE0);
const LIMIT: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const LEVEL: RGBColor = RGBColor(0x8E, 0x5B, 0xC8);

/// What makes the same drawing readable on a dark screen.
const DARK: &str = "<style>@media (prefers-color-scheme: dark){[fill=\"#FFFFFF\"]{fill:#0D1117}[fill=\"#1F2328\"]{fill:#E6EDF3}\
                    [stroke=\"#FFFFFF\"]{stroke:#0D1117}[stroke=\"#1F2328\"]{stroke:#E6EDF3}[stroke=\"#D0D7DE\"]{stroke:#3D444D}}</style>";

const WIDTH: u32 = 620;
/// Of a column on a page: as wide as a phone, so that its words are read there without being moved.
const NARROW: u32 = 400;
const TITLE: u32 = 44;
const HEIGHTS: [u32; 3] = [290, 170, 290];

/// Why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// The scenario has neither runs nor a sweep.
    #[error("there is nothing to draw: the scenario has neither runs nor a sweep")]
    Nothing,
    /// The drawing failed.
    #[error("cannot be drawn: {0}")]
    Drawing(String),
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The colour of a fate.
const fn colour(fate: Fate) -> RGBColor {
    match fate {
        Fate::Full => RGBColor(0x00, 0x9E, 0x73),
        Fate::Short => RGBColor(0x56, 0xB4, 0xE9),
        Fate::Cheaper => RGBColor(0xE6, 0x9F, 0x00),
        Fate::HandedOff => RGBColor(0xCC, 0x79, 0xA7),
        Fate::Unanswered => RGBColor(0xD5, 0x5E, 0x00),
    }
}

/// Draws a report.
///
/// # Errors
/// See [`ChartError`].
pub fn svg(report: &Report) -> Result<String, ChartError> {
    let columns = u32::try_from(report.runs.len()).unwrap_or(1).max(1);
    let size = match (report.runs.is_empty(), &report.sweep) {
        (false, _) => (WIDTH * columns, TITLE + HEIGHTS.iter().sum::<u32>()),
        (true, Some(_)) => (WIDTH + 200, TITLE + 380),
        (true, None) => return Err(ChartError::Nothing),
    };
    let mut svg = drawn(size, |root| {
        root.draw(&Text::new(report.title.clone(), (16, 14), text(20)))?;
        let (_, body) = root.split_vertically(TITLE);
        if let (true, Some(swept)) = (report.runs.is_empty(), &report.sweep) {
            return sweep(swept, &body);
        }
        let scale = Scale::of(&report.runs);
        report.runs.iter().zip(body.split_evenly((1, report.runs.len()))).try_for_each(|(run, area)| column(run, &scale, &area))
    })?;
    let after = svg.find("<svg").and_then(|at| svg[at..].find('>').map(|end| at + end + 1)).unwrap_or(0);
    svg.insert_str(after, DARK);
    Ok(svg)
}

/// As [`svg`], a narrow drawing for each run, without a style of its own: for pages, which put them beside or below each other, and
/// whose stylesheet knows what is dark.
///
/// # Errors
/// See [`ChartError`].
pub fn columns(report: &Report) -> Result<Vec<String>, ChartError> {
    match (report.runs.is_empty(), &report.sweep) {
        (false, _) => {
            let scale = Scale::of(&report.runs);
            let size = (NARROW, HEIGHTS.iter().sum());
            report.runs.iter().map(|run| drawn(size, |root| column(run, &scale, root))).collect()
        }
        (true, Some(swept)) => Ok(vec![drawn((NARROW, 320), |root| sweep(swept, root))?]),
        (true, None) => Err(ChartError::Nothing),
    }
}

fn drawn(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, ChartError> {
    let mut svg = String::new();
    let all = || -> Drawn {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&PAPER)?;
        draw(&root)?;
        root.present()?;
        Ok(())
    };
    all().map_err(|error| ChartError::Drawing(error.to_string()))?;
    Ok(svg)
}

fn column(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    let (usage, rest) = area.split_vertically(HEIGHTS[0]);
    let (level, fates) = rest.split_vertically(HEIGHTS[1]);
    used(run, scale, &usage)?;
    levels(run, scale, &level)?;
    became(run, scale, &fates)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

mod buckets;
mod panel;
mod scale;

pub use buckets::buckets;
use panel::{Mark, heading, panel, short};
use scale::{Scale, step};

fn stroke(colour: RGBColor) -> ShapeStyle {
    colour.stroke_width(2)
}

/// A line that keeps its value for the whole of a step.
fn stairs(run: &RunReport, value: impl Fn(&Step) -> f64) -> Vec<(f64, f64)> {
    let at = |index: usize| index as f64 * step(run);
    run.steps.iter().enumerate().flat_map(|(i, s)| [(at(i), value(s)), (at(i + 1), value(s))]).collect()
}

fn used(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    let counted = scale.counted;
    let what = if run.path == Path::Tollgate { "ceiling" } else { "quota" };
    let limits: Vec<(u64, &str)> = counted
        .ceilings(run)
        .iter()
        .zip(&run.providers)
        .filter_map(|(ceiling, provider)| Some((ceiling.or_else(|| counted.quota(provider))?, provider.name.as_str())))
        .collect();
    let mut marks = vec![Mark::line("accepted by the provider".to_owned(), USE)];
    marks.extend(limits.iter().map(|(limit, name)| Mark::line(format!("{what} of {name}: {}", grouped(*limit)), LIMIT)));
    panel!(area, &run.name, &marks, 0.0..scale.minutes, 0.0..scale.used, ("minutes", counted.axis()), 6, |chart| {
        chart.draw_series(LineSeries::new(stairs(run, |s| counted.step(s) as f64 / step(run)), stroke(USE)))?;
        for (limit, _) in &limits {
            chart.draw_series(LineSeries::new([(0.0, *limit as f64), (scale.minutes, *limit as f64)], stroke(LIMIT)))?;
        }
    });
    Ok(())
}

fn levels(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    let caption = if run.path == Path::Tollgate { "level" } else { "level (none without Tollgate)" };
    panel!(area, caption, &[], 0.0..scale.minutes, 0.0..3.3, ("minutes", "level"), 4, |chart| {
        if run.path == Path::Tollgate {
            chart.draw_series(LineSeries::new(stairs(run, |s| f64::from(s.level)), stroke(LEVEL)))?;
        }
    });
    Ok(())
}

fn became(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    let there = |fate: &Fate| run.steps.iter().any(|s| s.fates[*fate as usize] > 0);
    let fates: Vec<Fate> = Fate::ALL.into_iter().filter(there).collect();
    let marks: Vec<Mark> =
        fates.iter().map(|fate| Mark { words: fate.as_str().to_owned(), colour: colour(*fate), is_bar: true }).collect();
    panel!(
        area,
        "what became of the questions",
        &marks,
        0.0..scale.minutes,
        0.0..scale.questions,
        ("minutes", "questions per minute"),
        6,
        |chart| {
            for fate in fates {
                let bars = run.steps.iter().enumerate().filter(|(_, s)| s.fates[fate as usize] > 0).map(|(index, s)| {
                    let below: u64 = s.fates[..fate as usize].iter().sum();
                    let (from, to) = (below as f64 / step(run), (below + s.fates[fate as usize]) as f64 / step(run));
                    let left = index as f64 * step(run);
                    Rectangle::new([(left, from), (left + step(run), to)], colour(fate).filled())
                });
                chart.draw_series(bars)?;
            }
        }
    );
    Ok(())
}

fn sweep(swept: &Swept, area: &Area<'_>) -> Drawn {
    let sizes: Vec<f64> = swept.rows.iter().map(|row| row.tokens as f64).collect();
    let (least, most) = (sizes.iter().copied().fold(f64::MAX, f64::min).max(1.0), sizes.iter().copied().fold(1.0, f64::max));
    let caption = format!("plan {}: how full each limit gets", swept.plan);
    let limits: Vec<(LimitName, u64, RGBColor)> = [(LimitName::Rpm, USE), (LimitName::Tpm, LIMIT)]
        .into_iter()
        .filter_map(|(limit, colour)| Some((limit, swept.limits.iter().find(|(name, _)| *name == limit)?.1, colour)))
        .collect();
    let mark =
        |(limit, of, colour): &(LimitName, u64, RGBColor)| Mark::line(format!("{} {}", limit.as_str(), grouped(*of)), *colour);
    let marks: Vec<Mark> = limits.iter().map(mark).collect();
    panel!(
        area,
        &caption,
        &marks,
        (least..most.max(least * 2.0)).log_scale(),
        0.0..105.0,
        ("tokens per request (logarithmic)", "percent of the limit"),
        6,
        |chart| {
            for (limit, of, colour) in limits {
                let part = |row: &super::sweep::Row| if limit == LimitName::Rpm { row.requests } else { row.used } as f64;
                let points = swept.rows.iter().map(|row| (row.tokens as f64, part(row) * 100.0 / of.max(1) as f64));
                chart.draw_series(LineSeries::new(points, stroke(colour)))?;
            }
        }
    );
    Ok(())
}
