//! Playing scenarios in this process.

use tollgate::lab::tally::{CrowdReport, RunReport};
use tollgate::lab::{self, Report, Scenario, table};

pub const SECOND: u64 = 1_000_000;
pub const MINUTE: u64 = 60 * SECOND;

/// A scenario of `config/scenarios`.
pub fn shipped(name: &str) -> Scenario {
    let path = format!("{}/config/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    parsed(&text)
}

pub fn parsed(text: &str) -> Scenario {
    Scenario::parse(text, "scenario.toml").unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(|problem| format!("{problem}\n")).collect::<String>());
    })
}

pub fn play(scenario: &Scenario) -> Report {
    lab::run(scenario, &mut |_, _| {})
}

/// What would be printed.
pub fn printed(scenario: &Scenario, report: &Report) -> String {
    let mut out = Vec::new();
    table::write(scenario, report, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("UTF-8")
}

pub fn crowd<'a>(run: &'a RunReport, name: &str) -> &'a CrowdReport {
    run.crowd(name).unwrap_or_else(|| panic!("{name} takes part in {}", run.name))
}
