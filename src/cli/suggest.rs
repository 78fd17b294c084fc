//! `tollgate suggest`: limits from recorded use.

use super::source::Source;
use super::{BAD_CONFIG, Suggest, out};
use crate::domain::Clock;
use crate::history::Day;
use crate::suggest::{Wish, propose, write};
use crate::telemetry::SystemClock;
use std::process::ExitCode;

/// The exit code where there is too little to propose anything.
const TOO_LITTLE: u8 = 2;

/// Reads the days and prints what they suggest.
pub fn run(args: &Suggest) -> ExitCode {
    let wish = match wish(args) {
        Ok(wish) => wish,
        Err(problem) => return super::fail(&problem, BAD_CONFIG),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    // Whole days: today's is not over.
    let last = args.to.unwrap_or_else(|| Day::of(SystemClock.now()).back(1));
    let first = last.back(args.days.saturating_sub(1));
    let days = runtime.block_on(async { Source::open(&args.source)?.customers(first, last).await });
    let days = match days {
        Ok(days) => days,
        Err((message, code)) => return super::fail(&message, code),
    };
    let Some(proposal) = propose(&days, &wish) else {
        return super::fail(&format!("nothing was recorded from {first} to {last}, so nothing is proposed"), TOO_LITTLE);
    };
    let mut text = Vec::new();
    let written = match (args.json, args.toml) {
        (true, _) => serde_json::to_writer_pretty(&mut text, &proposal).map_err(std::io::Error::from),
        (_, true) => write::toml(&proposal, &mut text),
        _ => write::table(&proposal, &mut text),
    };
    if let Err(error) = written {
        return super::fail(&error.to_string(), 1);
    }
    out::line(String::from_utf8_lossy(&text).trim_end());
    if proposal.plans.iter().all(|plan| plan.figures.is_empty()) { ExitCode::from(TOO_LITTLE) } else { ExitCode::SUCCESS }
}

/// The wish that the arguments spell.
fn wish(args: &Suggest) -> Result<Wish, String> {
    let mut wish = Wish {
        factor: thousandths("--factor", args.factor, 1_000.0)?,
        headroom: thousandths("--headroom", args.headroom, 1_000.0)?,
        ceiling: thousandths("--ceiling", args.ceiling, 1_000.0)?,
        margin: thousandths("--margin", args.margin, 0.999)?,
        ..Wish::default()
    };
    for price in &args.price {
        let (plan, dollars) = price.rsplit_once('=').unwrap_or(("", price));
        let nano = crate::reconcile::dollars(dollars).filter(|nano| *nano > 0);
        let nano = nano.ok_or_else(|| format!("--price {price}: write dollars, as in 20 or business=400"))?;
        wish.prices.insert(plan.to_owned(), nano);
    }
    Ok(wish)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds just checked")]
fn thousandths(name: &str, value: f64, most: f64) -> Result<u64, String> {
    if value.is_finite() && value >= 0.0 && value <= most {
        return Ok((value * 1_000.0).round() as u64);
    }
    Err(format!("{name} {value} is out of range; write a number from 0 to {most}"))
}
