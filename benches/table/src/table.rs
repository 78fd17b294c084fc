//! The table: one line a side, and whether each bar was kept.

use crate::host::generator::Window;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One side of a row.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Which row.
    pub row: String,
    /// Whose figures.
    pub side: String,
    /// Requests (or pieces of text) a second.
    pub rate: Option<f64>,
    /// Milliseconds.
    pub p50: Option<f64>,
    /// Milliseconds.
    pub p99: Option<f64>,
    /// Microseconds of CPU a request (or piece), by process.
    pub cpu: BTreeMap<String, f64>,
    /// Bytes in RAM at the end.
    pub memory: Option<u64>,
    /// What the bar is compared with, in words.
    pub found: String,
    /// The same as a number, where it is one.
    pub figure: Option<f64>,
    /// The bar, in words.
    pub bar: String,
    /// Whether it was kept; `None` where there is no bar.
    pub kept: Option<bool>,
}

impl Line {
    /// The figures of a load.
    pub fn of(row: &str, side: &str, window: &Window) -> Self {
        let milliseconds = |micros: u64| Some(micros as f64 / 1_000.0);
        Self {
            row: row.to_owned(),
            side: side.to_owned(),
            rate: Some(window.report.rate()),
            p50: milliseconds(window.report.latency.p50),
            p99: milliseconds(window.report.latency.p99),
            cpu: window.cpu.keys().map(|name| ((*name).to_owned(), window.cpu_each(name))).collect(),
            ..Self::default()
        }
    }

    /// A line that only says something.
    pub fn said(row: &str, side: &str, found: String) -> Self {
        Self { row: row.to_owned(), side: side.to_owned(), found, ..Self::default() }
    }

    /// With what the bar says.
    pub fn judged(mut self, figure: f64, found: String, bar: &str, kept: bool) -> Self {
        (self.figure, self.found, self.bar, self.kept) = (Some(figure), found, bar.to_owned(), Some(kept));
        self
    }

    /// With what its process keeps in RAM.
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }
}

/// All lines as Markdown.
pub fn markdown(lines: &[Line]) -> String {
    let mut out = "| row | side | a second | p50 ms | p99 ms | CPU µs each | MiB | found | bar | kept |\n|---|---|---|---|---|---|---|---|---|---|\n".to_owned();
    let number = |n: Option<f64>, digits: usize| n.map_or(String::new(), |n| format!("{n:.digits$}"));
    for line in lines {
        let cpu: Vec<_> = line.cpu.iter().map(|(name, each)| format!("{name} {each:.1}")).collect();
        let kept = match line.kept {
            Some(true) => "yes",
            Some(false) => "**NO**",
            None => "",
        };
        let memory = line.memory.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {kept} |",
            line.row,
            line.side,
            number(line.rate, 0),
            number(line.p50, 2),
            number(line.p99, 2),
            cpu.join(", "),
            number(memory, 0),
            line.found.replace(['|', '\n'], " "),
            line.bar,
        );
    }
    out
}
