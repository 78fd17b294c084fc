//! `tollgate lab`: what would happen, under a virtual clock. Reads files, prints tables, draws charts; serves nothing.

use super::{BAD_CONFIG, Lab, fail, out};
use crate::config::{Env, Policy, Problem};
use crate::lab::replay;
use crate::lab::trace::{self, Ceiling};
use crate::lab::{self, Scenario, chart, table};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs a scenario, or replays a log or a trace, and prints to stdout.
pub fn run(args: &Lab) -> ExitCode {
    match (&args.file, &args.replay, &args.trace) {
        (Some(file), ..) => match Scenario::load(file) {
            Ok(scenario) => play(&scenario, args),
            Err(problems) => refuse(&problems, "the scenario cannot be played"),
        },
        (_, Some(log), _) => replay_log(log, args),
        (.., Some(csv)) => replay_trace(csv, args),
        _ => fail("nothing to do", BAD_CONFIG),
    }
}

fn refuse(problems: &[Problem], what: &str) -> ExitCode {
    problems.iter().for_each(|problem| out::complain(&problem.to_string()));
    fail(what, BAD_CONFIG)
}

fn play(scenario: &Scenario, args: &Lab) -> ExitCode {
    let mut progress = Progress::new();
    let report = lab::run(scenario, &mut |run, percent| progress.say(|| format!("{run}: {percent} %")));
    if let Some(path) = &args.svg
        && let Err(error) = chart::svg(&report)
            .map_err(|error| error.to_string())
            .and_then(|svg| std::fs::write(path, svg).map_err(|error| error.to_string()))
    {
        return fail(&format!("{}: {error}", path.display()), 1);
    }
    printed(table::write(scenario, &report, &mut io::stdout().lock()))
}

/// A reader that left has seen enough.
fn printed(result: io::Result<()>) -> ExitCode {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error.to_string(), 1),
        _ => ExitCode::SUCCESS,
    }
}

fn open(path: &Path) -> Result<BufReader<File>, ExitCode> {
    File::open(path).map(BufReader::new).map_err(|error| fail(&format!("{}: {error}", path.display()), 1))
}

fn replay_trace(csv: &Path, args: &Lab) -> ExitCode {
    let reader = match open(csv) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let name = csv.file_name().map_or_else(|| csv.display().to_string(), |name| name.to_string_lossy().into_owned());
    let ceiling = Ceiling { rpm: args.rpm, tpm: args.tpm.unwrap_or(u64::MAX), wait: args.wait };
    match trace::read(reader).and_then(|requests| trace::scenario(&name, requests, ceiling)) {
        Ok(scenario) => play(&scenario, args),
        Err(error) => fail(&format!("{}: {error}", csv.display()), BAD_CONFIG),
    }
}

fn replay_log(log: &Path, args: &Lab) -> ExitCode {
    let policy = match Policy::load(args.config.config.as_deref(), &Env::of_process()) {
        Ok((policy, _)) => Arc::new(policy),
        Err(problems) => return refuse(&problems, "the configuration cannot be used"),
    };
    let reader = match open(log) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let mut progress = Progress::new();
    match replay::replay(reader, &policy, &mut |lines| progress.say(|| format!("{lines} lines"))) {
        Ok(replayed) => printed(table::replayed(&replayed, args.top, &mut io::stdout().lock())),
        Err(error) => fail(&format!("{}: {error}", log.display()), 1),
    }
}

/// Tells on standard error that a long run goes on.
struct Progress {
    said: Instant,
}

impl Progress {
    const EVERY: Duration = Duration::from_secs(2);

    fn new() -> Self {
        Self { said: Instant::now() }
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.said.elapsed() >= Self::EVERY {
            self.said = Instant::now();
            out::complain(&what());
        }
    }
}
