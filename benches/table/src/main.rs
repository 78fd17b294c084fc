//! Measures the gateway with its limits on, and says for each bar whether it was kept. `benches/run.sh` starts it.
//!
//! Everything runs on loopback on this machine: nginx as the upstream and as the plain proxy to compare with, Redis, the gateway, and a load
//! generator of its own. `benches/README.md` tells the method. The exit code is 1 if a bar was missed, 2 if a row could not run.

mod bench;
mod host;
mod load;
mod pieces;
mod rows;
mod strict;
mod table;
mod trace;
mod upstream;

use bench::Bench;
use clap::Parser;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Line;
use tokio::signal::unix::{SignalKind, signal};

/// What is asked of it.
#[derive(Parser, Clone, Debug)]
#[command(about = "Measures the gateway with its limits on against nginx, and says which bars it keeps")]
pub struct Options {
    /// The gateway's program
    #[arg(long, default_value = "target/dist/tollgate", value_name = "FILE")]
    tollgate: PathBuf,
    /// Only rows whose names begin like this; may be repeated
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Seconds of one measured window; each side of a pairing gets two
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Arrivals and sizes of the ceiling row: a trace of three columns (time, context tokens, generated tokens); without it one is made up
    #[arg(long, value_name = "CSV")]
    trace: Option<PathBuf>,
    /// Customers of the row of that name
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    customers: u64,
    /// A Python with `litellm[proxy]`, to compare with; `run.sh --litellm` makes one
    #[arg(long, value_name = "PYTHON")]
    litellm: Option<PathBuf>,
    /// Write the table as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the directory with configurations, logs and books, and say where it is
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let child = match words[..] {
        ["load", spec] => Some(load::main(spec)),
        ["upstream", address, pieces, gap] => Some(upstream::main(address, pieces, gap)),
        _ => None,
    };
    if let Some(ended) = child {
        return ended.map_or_else(|error| complain(&error), |()| ExitCode::SUCCESS);
    }
    let options = Options::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string()),
    };
    match runtime.block_on(until_told(measure(options))) {
        Ok((missed, 0)) => ExitCode::from(u8::from(missed > 0)),
        Ok(_) => ExitCode::from(2),
        Err(error) => complain(&error),
    }
}

/// Ends when it is done or told to; what was started ends with it.
async fn until_told<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut told = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    tokio::select! {
        ended = work => ended,
        _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        _ = told.recv() => Err("told to end".to_owned()),
    }
}

/// Runs the rows; how many bars were missed, and how many rows did not run.
async fn measure(options: Options) -> Result<(usize, usize), String> {
    let program = std::fs::canonicalize(&options.tollgate);
    let tollgate = program.map_err(|error| format!("{}: {error}; build it first", options.tollgate.display()))?;
    let options = Options { tollgate, ..options };
    let rows: Vec<_> = rows::ROWS
        .iter()
        .filter(|(name, _)| !options.only.is_empty() || !rows::ASKED_FOR.contains(name))
        .filter(|(name, _)| options.only.is_empty() || options.only.iter().any(|only| name.starts_with(only.as_str())))
        .filter(|(name, _)| *name != "litellm" || options.litellm.is_some())
        .collect();
    if rows.is_empty() {
        let names: Vec<_> = rows::ROWS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no row is called so; there are {}", names.join(", ")));
    }
    let mut scratch = tempfile::Builder::new().prefix("tollgate-bench-").tempdir().map_err(|error| error.to_string())?;
    scratch.disable_cleanup(options.keep);
    if options.keep {
        say(&format!("everything is written in {}", scratch.path().display()));
    }
    let (json, mut lines, mut not_run) = (options.json.clone(), Vec::<Line>::new(), 0);
    let mut bench = Bench::start(options, scratch.path())?;
    for (name, row) in rows {
        say(&format!("{name} ..."));
        match row(&mut bench).await {
            Ok(more) => lines.extend(more),
            Err(why) => {
                not_run += 1;
                say(&format!("{name}: {why}"));
                lines.push(Line::said(name, "", format!("did not run: {why}")));
            }
        }
    }
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&lines).map_err(|error| error.to_string())?;
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let text = table::markdown(&lines);
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok((lines.iter().filter(|line| line.kept == Some(false)).count(), not_run))
}

fn complain(message: &str) -> ExitCode {
    say(message);
    ExitCode::from(2)
}

/// Progress, on standard error.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}
