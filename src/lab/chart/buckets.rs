//! One run as a customer sees it: what was left of their own buckets and of the account's, and what became of the questions.

use super::{
    Area, ChartError, Drawn, GRID, INK, LEVEL, LIMIT, Mark, NARROW, PAPER, Scale, USE, became, drawn, heading, panel, short,
    step, stroke, text,
};
use crate::lab::numbers::grouped;
use crate::lab::tally::{Left, RunReport};
use crate::limit::Scope;
use plotters::prelude::{ChartBuilder, LineSeries, RGBColor};

const HEIGHTS: [u32; 3] = [230, 230, 290];
/// Told apart by people who do not see all of them; more lines than these repeat them.
const LINES: [RGBColor; 4] = [USE, LIMIT, LEVEL, RGBColor(0x00, 0x9E, 0x73)];

/// Draws the buckets of a run, without a style of its own: for pages.
///
/// # Errors
/// See [`ChartError`].
pub fn buckets(run: &RunReport) -> Result<String, ChartError> {
    drawn((NARROW, HEIGHTS.iter().sum()), |root| {
        let (own, rest) = root.split_vertically(HEIGHTS[0]);
        let (account, fates) = rest.split_vertically(HEIGHTS[1]);
        let scale = Scale::of(std::slice::from_ref(run));
        let of =
            |pool: bool| -> Vec<&Left> { run.left.iter().filter(|left| (left.scope.scope == Scope::Pool) == pool).collect() };
        left(run, "the customer's own buckets", &of(false), &scale, &own)?;
        left(run, "the account's buckets", &of(true), &scale, &account)?;
        became(run, &scale, &fates)
    })
}

fn left(run: &RunReport, caption: &str, limits: &[&Left], scale: &Scale, area: &Area<'_>) -> Drawn {
    let caption = if limits.is_empty() { format!("{caption}: none, so nothing is limited here") } else { caption.to_owned() };
    let lines: Vec<(&Left, RGBColor)> = limits.iter().copied().zip(LINES.into_iter().cycle()).collect();
    let mark = |(limit, colour): &(&Left, RGBColor)| {
        Mark::line(format!("{}, full at {}", limit.limit.as_str(), grouped(limit.of)), *colour)
    };
    let marks: Vec<Mark> = lines.iter().map(mark).collect();
    panel!(area, &caption, &marks, 0.0..scale.minutes, 0.0..105.0, ("minutes", "percent left"), 6, |chart| {
        for (limit, colour) in lines {
            let percent = |left: u64| left as f64 * 100.0 / limit.of.max(1) as f64;
            let points = limit.least.iter().enumerate().flat_map(|(at, left)| {
                let (from, to) = (at as f64 * step(run), (at + 1) as f64 * step(run));
                [(from, percent(*left)), (to, percent(*left))]
            });
            chart.draw_series(LineSeries::new(points, stroke(colour)))?;
        }
    });
    Ok(())
}
