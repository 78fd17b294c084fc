//! Lines over time, as SVG inside the page, in the colours of light paper; the stylesheet turns them for a dark screen.
//!
//! A chart says in its description what it shows and is never the only place of its numbers: whoever puts one on a page puts the table
//! beside it. Lines differ by more than their colour: by their place, their name, and every second one is dashed.
//!
//! Each is drawn twice, for wide screens and for narrow ones, of which the stylesheet shows one: what is merely made smaller cannot be
//! read, and of what has to be moved the newest is out of sight. The legend is text above both.

use crate::domain::Timestamp;
use crate::reply::rfc3339;
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    ChartBuilder, DashedLineSeries, DrawingArea, IntoDrawingArea, IntoFont, LineSeries, RGBColor, SVGBackend,
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
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;
/// The parts that a vertical axis has, about.
const PARTS: f64 = 5.0;

/// A drawing's size, and how many instants it names.
struct Size {
    class: &'static str,
    pixels: (u32, u32),
    left: u32,
    instants: u64,
}

const SIZES: [Size; 2] = [
    Size { class: "wide", pixels: (960, 280), left: 80, instants: 10 },
    Size { class: "narrow", pixels: (400, 260), left: 70, instants: 5 },
];

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
    let one = |size: &Size| Ok::<_, Box<dyn std::error::Error>>((size.class, svg(chart, size)?));
    match SIZES.iter().map(one).collect::<Result<Vec<_>, _>>() {
        Ok(drawn) => html! {
            figure.chart aria-label=(title) {
                figcaption { @for (at, line) in chart.lines.iter().enumerate() { span { (swatch(at)) (line.name) } " " } }
                @for (class, svg) in &drawn { div.(class) { (PreEscaped(named(svg, &format!("{id}-{class}"), title, about))) } }
            }
        },
        Err(error) => {
            tracing::warn!(id, %error, "a chart cannot be drawn");
            html! { p.hint { "The chart cannot be drawn." } }
        }
    }
}

/// A piece of the line, for the legend.
fn swatch(at: usize) -> Markup {
    let RGBColor(red, green, blue) = LINES[at % LINES.len()];
    html! {
        svg width="24" height="10" viewBox="0 0 24 10" aria-hidden="true" {
            path d="M0 5H24" fill="none" stroke={ (format!("#{red:02X}{green:02X}{blue:02X}")) } stroke-width="3"
                stroke-dasharray=[(!at.is_multiple_of(2)).then_some("6 3")] {}
        }
    }
}

/// A drawing with its name and description, for those who do not see it.
pub(super) fn named(svg: &str, id: &str, title: &str, about: &str) -> String {
    let names = html! { title id={ (id) "-title" } { (title) } desc id={ (id) "-desc" } { (about) } }.into_string();
    let role = format!("<svg role=\"img\" aria-labelledby=\"{id}-title {id}-desc\"");
    let svg = svg.replacen("<svg", &role, 1);
    match svg.find('>') {
        Some(at) => format!("{}{names}{}", &svg[..=at], &svg[at + 1..]),
        None => String::new(),
    }
}

fn svg(chart: &Chart<'_>, size: &Size) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size.pixels).into_drawing_area();
        draw(chart, size, &root)?;
        root.present()?;
    }
    Ok(svg)
}

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

fn draw(chart: &Chart<'_>, size: &Size, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn std::error::Error>> {
    let seconds = |at: Timestamp| at.micros() as f64 / 1e6;
    let (from, until) = (chart.from.secs(), chart.until.secs().max(chart.from.secs().saturating_add(1)));
    let place = |at: Timestamp| seconds(at).clamp(from as f64, until as f64) - from as f64;
    let highest = chart.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(chart.top, f64::max);
    let highest = highest.max(f64::MIN_POSITIVE) * 1.1;
    let named: Vec<f64> = instants(from, until, size.instants).into_iter().map(|at| (at - from) as f64).collect();
    let mut plot = ChartBuilder::on(root)
        .margin(10)
        .margin_right(26)
        .set_label_area_size(plotters::prelude::LabelAreaPosition::Left, size.left)
        .set_label_area_size(plotters::prelude::LabelAreaPosition::Bottom, 30)
        .build_cartesian_2d(Instants { wide: (until - from) as f64, named }, 0.0..highest)?;
    plot.configure_mesh()
        .y_desc(chart.unit)
        .x_labels(size.instants as usize + 1)
        .y_labels(PARTS as usize)
        .x_label_formatter(&|x| label(from as f64 + x, until - from))
        .y_label_formatter(&|y| short(*y, highest / PARTS))
        .label_style(text(14))
        .axis_desc_style(text(14))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(PAPER.mix(0.0))
        .draw()?;
    for (at, (line, colour)) in chart.lines.iter().zip(LINES).enumerate() {
        let (points, style) = (points(line, &place), colour.stroke_width(2));
        if at % 2 == 0 {
            plot.draw_series(LineSeries::new(points, style))?;
        } else {
            plot.draw_series(DashedLineSeries::new(points, 8, 4, style))?;
        }
    }
    Ok(())
}

/// A horizontal axis in seconds since its beginning.
struct Instants {
    wide: f64,
    /// Those that are named, and marked by a line.
    named: Vec<f64>,
}

impl Ranged for Instants {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a pixel")]
    fn map(&self, value: &f64, (left, right): (i32, i32)) -> i32 {
        left + (value / self.wide * f64::from(right - left)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.named.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.wide
    }
}

/// The instants that are named below a chart: whole hours or days of the calendar, so many at most, the newest day among them.
fn instants(from: u64, until: u64, most: u64) -> Vec<u64> {
    const HOURS: [u64; 6] = [1, 2, 3, 6, 12, 24];
    const DAYS: [u64; 6] = [1, 2, 3, 5, 7, 10];
    let wide = until - from;
    let (unit, steps) = if wide > 3 * DAY { (DAY, DAYS) } else { (HOUR, HOURS) };
    let step = unit * steps.into_iter().find(|step| wide / (unit * step) < most).unwrap_or((wide / unit / most + 1).max(1));
    // Hours are counted from midnight, days back from the newest.
    let last = if unit == DAY { (until - 1) / DAY * DAY } else { until / step * step };
    let mut found: Vec<u64> = std::iter::successors(Some(last), |at| at.checked_sub(step)).take_while(|at| *at >= from).collect();
    found.reverse();
    found
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

/// `14:00`, or `11-30` at midnight and where days are drawn.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "instants of this century")]
fn label(secs: f64, wide: u64) -> String {
    let secs = secs.round() as u64;
    let text = rfc3339(Timestamp::from_secs(secs));
    let part = if wide > 3 * DAY || secs.is_multiple_of(DAY) { text.get(5..10) } else { text.get(11..16) };
    part.unwrap_or_default().to_owned()
}

/// `450k`, `1.2M`, `0.0025`: with as many digits as it takes to tell the parts of the axis apart.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of digits")]
fn short(value: f64, part: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", (v / 1e4).round() / 100.0),
        v if v >= 1e4 => format!("{}k", (v / 1e2).round() / 10.0),
        v if part >= 1.0 || v == 0.0 => format!("{}", v.round()),
        v => {
            let digits = (-part.log10()).ceil().clamp(0.0, 12.0) as usize;
            let text = format!("{v:.digits$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
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
        assert!(svg.contains("<svg role=\"img\" aria-labelledby=\"c-wide-title c-wide-desc\""), "{svg}");
        assert!(svg.contains("<title id=\"c-narrow-title\">&lt;script&gt;&quot;&amp;</title>"), "{svg}");
        assert!(!svg.contains("<script>") && !svg.contains("style="), "{svg}");
        assert!(svg.contains("18:00") && svg.contains("01-16"), "hours of the clock, and the day at midnight: {svg}");
    }

    #[test]
    fn what_cannot_be_drawn_as_a_line_is_no_trouble() {
        for points in [&[][..], &[(0, 0.0)], &[(u64::MAX / 2_000_000, 1e18)], &[(1_800_000_000, 0.0), (1_800_000_000, 0.0)]] {
            assert!(drawn("x", points).contains("</svg>"), "{points:?}");
        }
    }

    #[test]
    fn instants_are_whole_ones_and_the_newest_day_is_among_them() {
        let day = 1_800_057_600; // 2027-01-16
        assert_eq!(instants(day - 29 * DAY, day + DAY, 5), [28, 21, 14, 7, 0].map(|back| day - back * DAY));
        assert_eq!(instants(day - 29 * DAY, day + DAY, 11).last(), Some(&day));
        assert_eq!(
            instants(day - 10 * HOUR - 7, day + 13 * HOUR, 5),
            [-6_i64, 0, 6, 12].map(|hours| day.saturating_add_signed(hours * 3_600))
        );
        assert_eq!(instants(day, day + 1, 5), [day]);
        assert!((1..40).all(|days| instants(day - days * DAY + 7, day, 5).len() <= 6), "few enough to be read");
    }

    #[test]
    fn no_two_parts_of_an_axis_read_alike() {
        for top in [0.000_001_1, 0.000_11, 0.001_1, 0.002_75, 0.011, 0.9, 1.1, 3.3, 11.0, 1e4, 1.3e4, 2.2e6] {
            let step = 10_f64.powf((top / PARTS).log10().floor());
            let read: std::collections::BTreeSet<String> = (0..5).map(|at| short(f64::from(at) * step, top / PARTS)).collect();
            assert_eq!(read.len(), 5, "{top}: {read:?}");
        }
    }
}
