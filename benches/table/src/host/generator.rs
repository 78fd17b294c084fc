//! Runs the load generator, and takes what everybody used while it measured.

use super::process;
use crate::load::{Report, Spec};
use std::collections::BTreeMap;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Processes that are watched: what they are called in the table, and their numbers.
pub type Watched = Vec<(&'static str, Vec<u32>)>;

/// CPU by the name of who used it, microseconds.
pub type Used = BTreeMap<&'static str, u64>;

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// What the generator says.
    pub report: Report,
    /// CPU in the measured time.
    pub cpu: Used,
}

/// A generator that runs.
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    watched: Watched,
    before: Used,
}

/// Runs a load to its end.
pub async fn run(spec: &Spec, watched: Watched) -> Result<Window, String> {
    Running::start(spec, watched).await?.finish().await
}

impl Running {
    /// Starts it; returns when it begins to measure.
    pub async fn start(spec: &Spec, mut watched: Watched) -> Result<Self, String> {
        let spec = serde_json::to_string(spec).map_err(|error| error.to_string())?;
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new(this).args(["load", &spec]).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        watched.push(("load", child.id().into_iter().collect()));
        let lines = BufReader::new(child.stdout.take().ok_or("the generator has no output")?).lines();
        let mut running = Self { child, lines, watched, before: Used::new() };
        running.line("start").await?;
        running.before = used(&running.watched);
        Ok(running)
    }

    /// Waits until it has measured, and its last answers have come.
    pub async fn finish(mut self) -> Result<Window, String> {
        self.line("end").await?;
        let mut cpu = used(&self.watched);
        for (name, before) in &self.before {
            cpu.entry(name).and_modify(|after| *after = after.saturating_sub(*before));
        }
        let report = self.lines.next_line().await.map_err(|error| error.to_string())?.ok_or("the generator gave no report")?;
        let report: Report = serde_json::from_str(&report).map_err(|error| format!("{error}: {report}"))?;
        self.child.wait().await.map_err(|error| error.to_string())?;
        Ok(Window { report, cpu })
    }

    async fn line(&mut self, right: &str) -> Result<(), String> {
        match self.lines.next_line().await.map_err(|error| error.to_string())? {
            Some(line) if line == right => Ok(()),
            other => Err(format!("the generator said {other:?} instead of {right:?}")),
        }
    }
}

/// What everybody has used so far.
pub fn used(watched: &Watched) -> Used {
    watched.iter().map(|(name, ids)| (*name, ids.iter().map(|id| process::cpu(*id)).sum())).collect()
}

impl Window {
    /// Adds a second run of the same.
    pub fn add(&mut self, other: Self) {
        let (mine, report) = (&mut self.report, other.report);
        for (status, count) in report.statuses {
            *mine.statuses.entry(status).or_default() += count;
        }
        mine.wrong += report.wrong;
        mine.broken += report.broken;
        mine.measured += report.measured;
        mine.seconds += report.seconds;
        mine.pieces += report.pieces;
        mine.silence = mine.silence.max(report.silence);
        mine.latency = mine.latency.mean(report.latency);
        mine.lag = mine.lag.mean(report.lag);
        if mine.why.is_empty() {
            mine.why = report.why;
        }
        for (name, micros) in other.cpu {
            *self.cpu.entry(name).or_default() += micros;
        }
    }

    /// CPU of one of them, microseconds a request.
    pub fn cpu_each(&self, name: &str) -> f64 {
        self.cpu.get(name).map_or(0.0, |micros| *micros as f64 / self.report.measured.max(1) as f64)
    }

    /// Only right answers.
    pub fn check(&self, who: &str) -> Result<(), String> {
        let Report { wrong, broken, why, .. } = &self.report;
        if wrong + broken > 0 {
            return Err(format!("{who}: {wrong} wrong answers, {broken} without an end: {why}"));
        }
        Ok(())
    }
}
