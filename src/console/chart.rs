//! Lines over time, as SVG inside the page, in the colours of light paper; the stylesheet turns them for a dark screen.
//!
//! A chart says in its description what it shows and is never the only place of its numbers: whoever puts one on a page puts the table
//! beside it. Lines differ by more than their colour: by their place, their name, and every second one is dashed.

use crate::domain::Timestamp;
use crate::reply::rfc3339;
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::{
    ChartBuilder, DashedLineSeries, DrawingArea, IntoDrawingArea, IntoFont, LineSeries, PathElement, RGBColor, SVGBackend,
};
use plotters::style::{Color, TextStyle};

const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
const GRID: RGBColor = RGBColor(0xD0, 0xD7, 0xDE);
/// Each at least 3:1 on light and on dark paper.
const LINES: [RGBColor; 6] = [
    RGBColor(0x1F, 0x7A, 0xE0),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x0A, 0x8F, 0x6A),
    RGBColor(0xB0, 0x56, 0x8A),
    RGBColor(0x8E, 0x5B, 0xC8),
    RGBColor(0xA0, 0x72, 0x00),
];
const SIZE: (u32, u32) = (960, 280);
const HOUR: f64 = 3_600.0;
const DAY: f64 = 86_400.0;

/// A line.
pub(super) struct Line {
    /// What it is, in the legend.
    pub(super) name: String,
    /// Its points, oldest first.
    pub(super) points: Vec<(Timestamp, f64)>,
    /// Whether a value holds until the next one, rather than growing towards it.
    pub(super) stairs: bool,
    /// Until when the last value of stairs holds.
    pub(super) until: Timestamp,
}

/// A chart.
pub(super) struct Chart<'a> {
    /// Its id in the page.
    pub(super) id: &'a str,
    /// What it shows, in a few words.
    pub(super) title: &'a str,
    /// The same in a sentence, with what is to be seen.
    pub(super) about: &'a str,
    /// What the numbers are.
    pub(super) unit: &'a str,
    /// The time it covers.
    pub(super) from: Timestamp,
    /// Its end.
    pub(super) until: Timestamp,
    /// The highest number at least.
    pub(super) top: f64,
    /// Its lines, six at most.
    pub(super) lines: &'a [Line],
}

/// Draws it. Should that fail, the page says so instead.
pub(super) fn chart(chart: &Chart<'_>) -> Markup {
    let Chart { id, title, about, .. } = chart;
    match svg(chart) {
        Ok(svg) => html! {
            figure.chart role="region" aria-label=(title) tabindex="0" { (PreEscaped(named(&svg, id, title, about))) }
        },
        Err(error) => {
            tracing::warn!(id, %error, "a chart cannot be drawn");
            html! { p.hint { "The chart cannot be drawn." } }
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

fn svg(chart: &Chart<'_>) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(chart, &root)?;
        root.present()?;
    }
    Ok(svg)
}

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

fn draw(chart: &Chart<'_>, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn std::error::Error>> {
    let seconds = |at: Timestamp| at.micros() as f64 / 1e6;
    let (from, until) = (seconds(chart.from), seconds(chart.until).max(seconds(chart.from) + 1.0));
    // Whole hours or days of the calendar are where the eye looks for lines.
    let unit = if until - from > 3.0 * DAY { DAY } else { HOUR };
    let start = (from / unit).floor() * unit;
    let place = |at: Timestamp| (seconds(at).clamp(from, until) - start) / unit;
    let highest = chart.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(chart.top, f64::max);
    let mut plot = ChartBuilder::on(root)
        .margin(10)
        .margin_right(20)
        .set_label_area_size(plotters::prelude::LabelAreaPosition::Left, 70)
        .set_label_area_size(plotters::prelude::LabelAreaPosition::Bottom, 30)
        .build_cartesian_2d((from - start) / unit..(until - start) / unit, 0.0..highest.max(f64::MIN_POSITIVE) * 1.25)?;
    plot.configure_mesh()
        .y_desc(chart.unit)
        .x_labels(10)
        .y_labels(5)
        .x_label_formatter(&|x| label(start + x * unit, unit))
        .y_label_formatter(&|y| short(*y))
        .label_style(text(14))
        .axis_desc_style(text(14))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(PAPER.mix(0.0))
        .draw()?;
    for (at, (line, colour)) in chart.lines.iter().zip(LINES).enumerate() {
        let style = colour.stroke_width(2);
        let (points, name) = (points(line, &place), line.name.as_str());
        let ends = |(x, y): (i32, i32)| vec![(x, y), (x + 18, y)];
        if at % 2 == 0 {
            let drawn = plot.draw_series(LineSeries::new(points, style))?;
            drawn.label(name).legend(move |at| PathElement::new(ends(at), style));
        } else {
            let drawn = plot.draw_series(DashedLineSeries::new(points, 8, 4, style))?;
            drawn.label(name).legend(move |at| DashedPathElement::new(ends(at), 4, 3, style));
        }
    }
    plot.configure_series_labels()
        .position(plotters::prelude::SeriesLabelPosition::UpperLeft)
        .background_style(PAPER)
        .border_style(GRID)
        .label_font(text(14))
        .draw()?;
    Ok(())
}

fn points(line: &Line, place: &impl Fn(Timestamp) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(line.points.len() * 2 + 1);
    for (at, (instant, value)) in line.points.iter().enumerate() {
        points.push((place(*instant), *value));
        if line.stairs {
            let next = line.points.get(at + 1).map_or(line.until, |(next, _)| *next);
            points.push((place(next), *value));
        }
    }
    points
}

/// `14:00`, or `30 Nov`; between whole ones nothing.
fn label(secs: f64, unit: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "instants of this century")]
    let text = rfc3339(Timestamp::from_secs(secs.round() as u64));
    let part = if unit < DAY { text.get(11..16) } else { text.get(5..10) };
    part.unwrap_or_default().to_owned()
}

/// `450k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", (v / 1e5).round() / 10.0),
        v if v >= 1e4 => format!("{}k", (v / 1e3).round()),
        v if v >= 10.0 || v.fract() == 0.0 => format!("{}", v.round()),
        v => format!("{}", (v * 1_000.0).round() / 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(name: &str, points: &[(u64, f64)]) -> String {
        let points = points.iter().map(|(at, value)| (Timestamp::from_secs(*at), *value)).collect();
        let (from, until) = (Timestamp::from_secs(1_800_000_000), Timestamp::from_secs(1_800_086_400));
        let lines = [Line { name: name.to_owned(), points, stairs: true, until }];
        chart(&Chart { id: "c", title: name, about: name, unit: "level", from, until, top: 3.0, lines: &lines }).into_string()
    }

    #[test]
    fn a_chart_has_a_name_and_a_description_and_shows_names_as_text() {
        let svg = drawn("<script>\"&", &[(1_800_000_000, 1.0), (1_800_040_000, 2.0)]);
        assert!(svg.contains("<svg role=\"img\" aria-labelledby=\"c-title c-desc\""), "{svg}");
        assert!(svg.contains("<title id=\"c-title\">&lt;script&gt;&quot;&amp;</title>"), "{svg}");
        assert!(!svg.contains("<script>") && !svg.contains("style="), "{svg}");
        assert!(svg.contains("08:00") || svg.contains("10:00"), "hours of the clock: {svg}");
    }

    #[test]
    fn what_cannot_be_drawn_as_a_line_is_no_trouble() {
        for points in [&[][..], &[(0, 0.0)], &[(u64::MAX / 2_000_000, 1e18)], &[(1_800_000_000, 0.0), (1_800_000_000, 0.0)]] {
            assert!(drawn("x", points).contains("</svg>"), "{points:?}");
        }
    }
}
