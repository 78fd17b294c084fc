//! What a scenario came to, as one SVG: a column per run, with the use of the account against its ceiling, the level, and what became
//! of the questions, over time; or, for a sweep, how full each limit is per size of request.
//!
//! The colours are told apart by people who do not see all of them, and a style in the file changes paper and ink where the reader's
//! screen is dark.

use super::Report;
use super::numbers::grouped;
use super::scenario::{MINUTE, Path};
use super::sweep::Swept;
use super::tally::{Fate, RunReport};
use crate::limit::LimitName;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Color, DrawingArea, IntoDrawingArea, IntoFont, IntoLogRange, LineSeries, PathElement, RGBColor, Rectangle,
    SVGBackend, Text,
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
    let mut svg = inline(report)?;
    let after = svg.find("<svg").and_then(|at| svg[at..].find('>').map(|end| at + end + 1)).unwrap_or(0);
    svg.insert_str(after, DARK);
    Ok(svg)
}

/// As [`svg`], without a style of its own: for pages, whose stylesheet knows what is dark.
///
/// # Errors
/// See [`ChartError`].
pub fn inline(report: &Report) -> Result<String, ChartError> {
    let columns = u32::try_from(report.runs.len()).unwrap_or(1).max(1);
    let size = match (report.runs.is_empty(), &report.sweep) {
        (false, _) => (WIDTH * columns, TITLE + HEIGHTS.iter().sum::<u32>()),
        (true, Some(_)) => (WIDTH + 200, TITLE + 380),
        (true, None) => return Err(ChartError::Nothing),
    };
    let mut svg = String::new();
    draw(report, size, &mut svg).map_err(|error| ChartError::Drawing(error.to_string()))?;
    Ok(svg)
}

fn draw(report: &Report, size: (u32, u32), svg: &mut String) -> Drawn {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&PAPER)?;
    root.draw(&Text::new(report.title.clone(), (16, 14), text(20)))?;
    let (_, body) = root.split_vertically(TITLE);
    if let (true, Some(swept)) = (report.runs.is_empty(), &report.sweep) {
        sweep(swept, &body)?;
    } else {
        let scale = Scale::of(&report.runs);
        for (run, column) in report.runs.iter().zip(body.split_evenly((1, report.runs.len()))) {
            let (usage, rest) = column.split_vertically(HEIGHTS[0]);
            let (level, fates) = rest.split_vertically(HEIGHTS[1]);
            used(run, &scale, &usage)?;
            levels(run, &scale, &level)?;
            became(run, &scale, &fates)?;
        }
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

/// The same axes for all runs, so that columns can be compared.
struct Scale {
    minutes: f64,
    tokens: f64,
    questions: f64,
}

impl Scale {
    fn of(runs: &[RunReport]) -> Self {
        let top = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max).max(1.0) * 1.6;
        let minutes = runs.iter().map(|run| run.steps.len() as f64 * step(run)).fold(0.0, f64::max);
        let quota = runs.iter().flat_map(|run| &run.providers).filter_map(|provider| provider.tpm).map(|tpm| tpm as f64);
        let tokens = runs.iter().flat_map(|run| run.steps.iter().map(|s| s.tokens as f64 / step(run)));
        let questions = runs.iter().flat_map(|run| run.steps.iter().map(|s| s.fates.iter().sum::<u64>() as f64 / step(run)));
        Self {
            minutes: minutes.max(step_least()),
            tokens: top(tokens.chain(quota).collect()),
            questions: top(questions.collect()),
        }
    }
}

const fn step_least() -> f64 {
    1.0 / 60.0
}

/// Minutes per step.
fn step(run: &RunReport) -> f64 {
    run.step as f64 / MINUTE as f64
}

/// `450k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", (v / 1e5).round() / 10.0),
        v if v >= 1e4 => format!("{}k", (v / 1e3).round()),
        v if v >= 10.0 || v.fract() == 0.0 => format!("{}", v.round()),
        v => format!("{}", (v * 100.0).round() / 100.0),
    }
}

/// A panel with its caption, grid and named axes, and the series that `series` draws into it.
macro_rules! panel {
    ($area:expr, $caption:expr, $x:expr, $y:expr, $names:expr, $labels:expr, |$chart:ident| $series:block) => {{
        let mut $chart = ChartBuilder::on($area)
            .caption($caption, text(15))
            .margin(10)
            .margin_right(18)
            .set_label_area_size(plotters::prelude::LabelAreaPosition::Left, 66)
            .set_label_area_size(plotters::prelude::LabelAreaPosition::Bottom, 36)
            .build_cartesian_2d($x, $y)?;
        let (x_name, y_name): (&str, &str) = $names;
        $chart
            .configure_mesh()
            .x_desc(x_name)
            .y_desc(y_name)
            .x_labels(9)
            .y_labels($labels)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .label_style(text(12))
            .axis_desc_style(text(12))
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(PAPER)
            .draw()?;
        $series
    }};
}

/// The legend of a panel.
macro_rules! legend {
    ($chart:expr) => {
        $chart
            .configure_series_labels()
            .position(plotters::prelude::SeriesLabelPosition::UpperLeft)
            .background_style(PAPER)
            .border_style(GRID)
            .label_font(text(12))
            .draw()?
    };
}

mod buckets;

pub use buckets::buckets;

fn line(colour: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], stroke(colour))
}

fn stroke(colour: RGBColor) -> ShapeStyle {
    colour.stroke_width(2)
}

/// A line that keeps its value for the whole of a step.
fn stairs(run: &RunReport, value: impl Fn(&super::tally::Step) -> f64) -> Vec<(f64, f64)> {
    let at = |index: usize| index as f64 * step(run);
    run.steps.iter().enumerate().flat_map(|(i, s)| [(at(i), value(s)), (at(i + 1), value(s))]).collect()
}

fn used(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    panel!(area, run.name.as_str(), 0.0..scale.minutes, 0.0..scale.tokens, ("minutes", "tokens per minute"), 6, |chart| {
        let points = stairs(run, |s| s.tokens as f64 / step(run));
        chart.draw_series(LineSeries::new(points, stroke(USE)))?.label("accepted by the provider").legend(line(USE));
        let limits = run.ceilings.iter().zip(&run.providers).map(|(ceiling, provider)| (ceiling.or(provider.tpm), provider));
        for (limit, provider) in limits.filter_map(|(limit, provider)| limit.map(|limit| (limit, provider))) {
            let what = if run.path == Path::Tollgate { "ceiling" } else { "quota" };
            let name = format!("{what} of {}: {}", provider.name, grouped(limit));
            let points = [(0.0, limit as f64), (scale.minutes, limit as f64)];
            chart.draw_series(LineSeries::new(points, stroke(LIMIT)))?.label(name).legend(line(LIMIT));
        }
        legend!(chart);
    });
    Ok(())
}

fn levels(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    let caption = if run.path == Path::Tollgate { "level" } else { "level (none without Tollgate)" };
    panel!(area, caption, 0.0..scale.minutes, 0.0..3.3, ("minutes", "level"), 4, |chart| {
        if run.path == Path::Tollgate {
            chart.draw_series(LineSeries::new(stairs(run, |s| f64::from(s.level)), stroke(LEVEL)))?;
        }
    });
    Ok(())
}

fn became(run: &RunReport, scale: &Scale, area: &Area<'_>) -> Drawn {
    panel!(
        area,
        "what became of the questions",
        0.0..scale.minutes,
        0.0..scale.questions,
        ("minutes", "questions per minute"),
        6,
        |chart| {
            for fate in Fate::ALL.into_iter().filter(|fate| run.steps.iter().any(|s| s.fates[*fate as usize] > 0)) {
                let colour = colour(fate);
                let bars = run.steps.iter().enumerate().filter(|(_, s)| s.fates[fate as usize] > 0).map(|(index, s)| {
                    let below: u64 = s.fates[..fate as usize].iter().sum();
                    let (from, to) = (below as f64 / step(run), (below + s.fates[fate as usize]) as f64 / step(run));
                    let left = index as f64 * step(run);
                    Rectangle::new([(left, from), (left + step(run), to)], colour.filled())
                });
                chart
                    .draw_series(bars)?
                    .label(fate.as_str())
                    .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], colour.filled()));
            }
            legend!(chart);
        }
    );
    Ok(())
}

fn sweep(swept: &Swept, area: &Area<'_>) -> Drawn {
    let sizes: Vec<f64> = swept.rows.iter().map(|row| row.tokens as f64).collect();
    let (least, most) = (sizes.iter().copied().fold(f64::MAX, f64::min).max(1.0), sizes.iter().copied().fold(1.0, f64::max));
    let caption = format!("plan {}: how full each limit is when one customer asks for all it can get", swept.plan);
    panel!(
        area,
        caption.as_str(),
        (least..most.max(least * 2.0)).log_scale(),
        0.0..130.0,
        ("tokens per request (logarithmic)", "percent of the limit"),
        6,
        |chart| {
            for (limit, colour) in [(LimitName::Rpm, USE), (LimitName::Tpm, LIMIT)] {
                let Some((_, of)) = swept.limits.iter().find(|(name, _)| *name == limit) else { continue };
                let part = |row: &super::sweep::Row| if limit == LimitName::Rpm { row.requests } else { row.used } as f64;
                let points = swept.rows.iter().map(|row| (row.tokens as f64, part(row) * 100.0 / (*of).max(1) as f64));
                let name = format!("{} {}", limit.as_str(), grouped(*of));
                chart.draw_series(LineSeries::new(points, stroke(colour)))?.label(name).legend(line(colour));
            }
            legend!(chart);
        }
    );
    Ok(())
}
