//! A panel: a caption, a legend, and axes below them.

use super::{Area, text};
use plotters::prelude::{Color, RGBColor, Rectangle, Text};

/// `450k`, `1.2M`.
pub(super) fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", (v / 1e5).round() / 10.0),
        v if v >= 1e4 => format!("{}k", (v / 1e3).round()),
        v if v >= 10.0 || v.fract() == 0.0 => format!("{}", v.round()),
        v => format!("{}", (v * 100.0).round() / 100.0),
    }
}

/// A mark of a legend and its words.
pub(super) struct Mark {
    pub(super) words: String,
    pub(super) colour: RGBColor,
    /// A bar, and not a line.
    pub(super) is_bar: bool,
}

impl Mark {
    pub(super) const fn line(words: String, colour: RGBColor) -> Self {
        Self { words, colour, is_bar: false }
    }
}

/// Pixels of a letter, about: no font is asked when it is drawn.
const LETTER: usize = 7;
const ROW: i32 = 18;

/// The caption of a panel and its legend, above it so that neither covers anything; gives what is left.
pub(super) fn heading<'a>(area: &Area<'a>, caption: &str, marks: &[Mark]) -> Result<Area<'a>, Box<dyn std::error::Error>> {
    area.draw(&Text::new(caption.to_owned(), (16, 8), text(15)))?;
    let wide = i32::try_from(area.dim_in_pixel().0)?;
    let (mut x, mut y) = (16, 30);
    for Mark { words, colour, is_bar } in marks {
        let width = i32::try_from(26 + (words.chars().count() + 2) * LETTER)?;
        if x > 16 && x + width > wide {
            (x, y) = (16, y + ROW);
        }
        let half = if *is_bar { 5 } else { 1 };
        area.draw(&Rectangle::new([(x, y + 7 - half), (x + 18, y + 7 + half)], colour.filled()))?;
        area.draw(&Text::new(words.clone(), (x + 24, y), text(12)))?;
        x += width;
    }
    let rows = if marks.is_empty() { 0 } else { ROW };
    Ok(area.split_vertically(y + rows - 4).1)
}

/// A panel with its grid and named axes below its heading, and the series that `series` draws into it.
macro_rules! panel {
    ($area:expr, $caption:expr, $marks:expr, $x:expr, $y:expr, $names:expr, $labels:expr, |$chart:ident| $series:block) => {{
        let area = heading($area, $caption, $marks)?;
        let mut $chart = ChartBuilder::on(&area)
            .margin(10)
            .margin_right(18)
            .set_label_area_size(plotters::prelude::LabelAreaPosition::Left, 58)
            .set_label_area_size(plotters::prelude::LabelAreaPosition::Bottom, 36)
            .build_cartesian_2d($x, $y)?;
        let (x_name, y_name): (&str, &str) = $names;
        $chart
            .configure_mesh()
            .x_desc(x_name)
            .y_desc(y_name)
            .x_labels(7)
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

pub(super) use panel;
