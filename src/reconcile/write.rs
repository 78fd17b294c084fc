//! A comparison as a table.

use super::compare::{Line, Measure, Pair};
use super::export::Export;
use std::io::{self, Write};

/// The table: for each model and day its figures, and under those that differ the likely cause.
///
/// # Errors
/// When it cannot be written.
pub fn table(export: &Export, lines: &[Line], tolerance: f64, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} export beside the history, days of UTC", export.provider.as_str())?;
    export.remarks.iter().try_for_each(|remark| writeln!(out, "note: {remark}"))?;
    writeln!(
        out,
        "\n{:<10}  {:<32} {:<8} {:>16} {:>16} {:>16} {:>8}",
        "day", "model", "figure", "theirs", "ours", "difference", "part"
    )?;
    for line in lines {
        let (mut day, mut model) = (line.day.to_string(), &*line.model);
        for pair in &line.figures {
            row(&day, model, pair, out)?;
            (day, model) = (String::new(), "");
        }
        if !line.as_ours.is_empty() {
            writeln!(out, "{:<10}  ours answered as {}", "", line.as_ours.join(", "))?;
        }
        if let Some(cause) = line.cause {
            writeln!(out, "{:<10}  likely {cause}", "")?;
        }
    }
    let differing = lines.iter().filter(|line| line.differs).count();
    writeln!(out, "\n{differing} of {} differ by more than {tolerance} %", lines.len())
}

fn row(day: &str, model: &str, pair: &Pair, out: &mut impl Write) -> io::Result<()> {
    let Pair { measure, theirs, ours } = pair;
    let shown = |n: u64| if *measure == Measure::Cost { dollars(n) } else { n.to_string() };
    let difference = pair.difference();
    let size = u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX);
    let sign = if difference < 0 { "-" } else { "+" };
    let difference = if size == 0 { "0".to_owned() } else { format!("{sign}{}", shown(size)) };
    let larger = u128::from((*theirs).max(*ours)).max(1);
    let permyriad = u128::from(size) * 10_000 / larger;
    let part = format!("{}.{:02} %", permyriad / 100, permyriad % 100);
    let name = measure.as_str();
    writeln!(out, "{day:<10}  {model:<32} {name:<8} {:>16} {:>16} {difference:>16} {part:>8}", shown(*theirs), shown(*ours))
}

/// Nano-dollars as dollars with six digits behind the point, rounded half up.
fn dollars(nano: u64) -> String {
    let micro = nano / 1_000 + u64::from(nano % 1_000 >= 500);
    format!("${}.{:06}", micro / 1_000_000, micro % 1_000_000)
}
