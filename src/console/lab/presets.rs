//! The incidents: the scenarios that come with Tollgate. What they come to is always the same, so each is played once.

use super::shown;
use crate::lab::{self, Scenario, chart, table};
use maud::{Markup, PreEscaped, html};
use std::sync::{LazyLock, OnceLock};

/// A scenario.
pub(super) struct Preset {
    /// Its file's name, and its own in the address of the page.
    pub(super) name: &'static str,
    text: &'static str,
    heads: LazyLock<(String, String)>,
    shown: OnceLock<String>,
}

macro_rules! presets {
    ($($name:literal),+) => {
        [$(Preset {
            name: $name,
            text: include_str!(concat!("../../../config/scenarios/", $name, ".toml")),
            heads: LazyLock::new(|| heads(include_str!(concat!("../../../config/scenarios/", $name, ".toml")))),
            shown: OnceLock::new(),
        }),+]
    };
}

/// In the order in which they tell the story.
pub(super) static ALL: [Preset; 6] = presets![
    "order-bug",
    "ipo-morning",
    "twenty-at-once",
    "queue-that-cannot-move",
    "shared-versus-own-bucket",
    "which-limit-binds"
];

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "scenario").expect("that every scenario which comes along can be played is a test")
}

fn heads(text: &str) -> (String, String) {
    let scenario = scenario(text);
    (scenario.title, scenario.about.split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Preset {
    pub(super) fn title(&self) -> &str {
        &self.heads.0
    }

    pub(super) fn about(&self) -> &str {
        &self.heads.1
    }

    /// What it came to, if it was played already.
    pub(super) fn known(&self) -> Option<Markup> {
        self.shown.get().map(|shown| PreEscaped(shown.clone()))
    }

    /// Plays it, unless somebody has meanwhile. Blocks.
    pub(super) fn played(&self) -> Markup {
        PreEscaped(self.shown.get_or_init(|| self.play().into_string()).clone())
    }

    fn play(&self) -> Markup {
        let scenario = scenario(self.text);
        let report = lab::run(&scenario, &mut |_, _| {});
        html! {
            section aria-label=(self.title()) {
                h2 { (self.title()) }
                p { (self.about()) }
                @for cells in &table::cells(&report) { (shown::cells(cells)) }
                @if !report.runs.is_empty() || report.sweep.is_some() {
                    @let runs: Vec<&str> = report.runs.iter().map(|run| run.name.as_str()).collect();
                    (shown::drawing("incident", self.title(), &shown::what_is_drawn(&report), &runs, chart::columns(&report)))
                }
                @for (at, run) in report.runs.iter().enumerate().filter(|(_, run)| !run.left.is_empty()) {
                    (shown::buckets(&format!("buckets-{at}"), run))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_scenario_that_comes_along_is_an_incident_of_the_lab() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config/scenarios")).expect("config/scenarios");
        let files: BTreeSet<String> = files.map(|file| file.expect("a file").file_name().into_string().expect("UTF-8")).collect();
        assert_eq!(files, ALL.iter().map(|preset| format!("{}.toml", preset.name)).collect());
        assert!(ALL.iter().all(|preset| !preset.title().is_empty() && preset.about().len() > 40));
    }
}
