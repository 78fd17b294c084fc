//! `tollgate reconcile`: the provider's export beside the history.

use super::source::{NoHistory, Source};
use super::{BAD_CONFIG, Reconcile, out};
use crate::reconcile::compare::{Line, compare};
use crate::reconcile::export::{self, Export};
use crate::reconcile::{Ours, write};
use serde_json::json;
use std::process::ExitCode;

/// The exit code when figures differ.
const DIFFERS: u8 = 1;
/// The exit code when a side cannot be read.
const UNREADABLE: u8 = 2;

/// The largest export that is read, bytes: a year of minutes of a few models is some tens of megabytes.
const LARGEST: u64 = 256 << 20;

/// Reads both sides and prints how they differ.
pub fn run(args: &Reconcile) -> ExitCode {
    let tolerance = args.tolerance;
    if !(0.0..=100.0).contains(&tolerance) {
        return super::fail(&format!("--tolerance {tolerance} is no percentage from 0 to 100"), BAD_CONFIG);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds just checked")]
    let tolerance = (tolerance * 10_000.0).round() as u32;
    let export = match read(&args.file) {
        Ok(export) => export,
        Err(message) => return super::fail(&message, UNREADABLE),
    };
    let ours = match ours(args, &export) {
        Ok(ours) => ours,
        // Configuration errors keep their own code.
        Err((message, code)) => return super::fail(&message, if code == BAD_CONFIG { code } else { UNREADABLE }),
    };
    let lines = compare(&export, &ours, tolerance);
    let differing = lines.iter().filter(|line| line.differs).count();
    if args.json {
        out::line(&format!("{:#}", shown(&export, &lines, differing)));
    } else {
        let mut text = Vec::new();
        if let Err(error) = write::table(&export, &lines, args.tolerance, &mut text) {
            return super::fail(&error.to_string(), UNREADABLE);
        }
        out::line(String::from_utf8_lossy(&text).trim_end());
    }
    if differing == 0 { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) }
}

fn read(path: &std::path::Path) -> Result<Export, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let length = std::fs::metadata(path).map_err(|error| failed(&error))?.len();
    if length > LARGEST {
        return Err(failed(&format!("{length} bytes are more than {LARGEST}; export fewer days at once")));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(&"this is no text; unpack it, or save the sheet as CSV"))?;
    let export = export::read(&text).map_err(|error| failed(&error))?;
    if export.rows.is_empty() {
        return Err(failed(&"the export holds no use at all"));
    }
    Ok(export)
}

/// The history of the days of the export.
fn ours(args: &Reconcile, export: &Export) -> Result<Vec<Ours>, NoHistory> {
    if let Some(path) = &args.history {
        let text = std::fs::read_to_string(path).map_err(|error| (format!("{}: {error}", path.display()), UNREADABLE))?;
        let wrong = |error: serde_json::Error| {
            (format!("{}: not what /admin/history/models answers: {error}", path.display()), UNREADABLE)
        };
        let answer: serde_json::Value = serde_json::from_str(&text).map_err(wrong)?;
        return serde_json::from_value(answer["models"].clone()).map_err(wrong);
    }
    let days = export.rows.iter().map(|row| row.day);
    let (Some(first), Some(last)) = (days.clone().min(), days.max()) else { return Ok(Vec::new()) };
    let runtime = super::runtime().map_err(|error| (error.to_string(), UNREADABLE))?;
    runtime.block_on(async { Source::open(&args.source)?.models(first, last).await })
}

fn shown(export: &Export, lines: &[Line], differing: usize) -> serde_json::Value {
    json!({ "provider": export.provider, "remarks": export.remarks, "lines": lines, "differing": differing })
}
