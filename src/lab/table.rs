//! What a scenario came to, as text: one column per run, so that naive client and Tollgate stand side by side.

use super::compare::Compared;
use super::numbers::{duration, grouped, percent};
use super::replay::Replayed;
use super::sweep::Swept;
use super::tally::{CrowdReport, Fate, ProviderReport, RunReport, per_minute};
use super::{Report, Scenario};
use std::io::{self, Write};

/// The widest a paragraph is set.
const WIDTH: usize = 110;

/// Writes everything a scenario came to.
///
/// # Errors
/// Those of the writer.
pub fn write(scenario: &Scenario, report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", report.title)?;
    paragraph(&scenario.about, out)?;
    if !report.runs.is_empty() {
        writeln!(out)?;
        runs(&report.runs).write(out)?;
    }
    if let Some(swept) = &report.sweep {
        writeln!(out)?;
        sweep(swept).write(out)?;
    }
    if let Some(compared) = &report.compared {
        writeln!(out)?;
        algorithms(compared).write(out)?;
    }
    Ok(())
}

/// A table of cells: what it shows, and its rows, the first of which are the heads. A row of one cell heads those behind it.
#[derive(Debug, PartialEq, Eq)]
pub struct Cells {
    /// What it shows.
    pub caption: String,
    /// Its rows; some are shorter than others.
    pub rows: Vec<Vec<String>>,
}

/// What [`write()`] writes, for whoever sets it otherwise.
#[must_use]
pub fn cells(report: &Report) -> Vec<Cells> {
    let mut tables = Vec::new();
    let mut table = |caption: &str, grid: Grid| tables.push(Cells { caption: caption.to_owned(), rows: grid.rows });
    if !report.runs.is_empty() {
        table("What became of it", runs(&report.runs));
    }
    if let Some(compared) = &report.compared {
        table("The same requests, by other algorithms", algorithms(compared));
    }
    tables.extend(report.sweep.as_ref().map(swept));
    tables
}

/// Which limit binds, per size of request, as [`cells`].
#[must_use]
pub fn swept(swept: &Swept) -> Cells {
    let mut grid = sweep(swept);
    let caption = grid.rows.remove(0).concat();
    Cells { caption, rows: grid.rows }
}

fn paragraph(text: &str, out: &mut impl Write) -> io::Result<()> {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + word.len() >= WIDTH {
            writeln!(out, "{line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.is_empty() { Ok(()) } else { writeln!(out, "{line}") }
}

/// Rows of cells; the first column is to the left, the others too.
#[derive(Default)]
struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    fn row(&mut self, label: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(label.into()).chain(cells).collect());
    }

    /// As [`Grid::row`], left out where no cell says anything.
    fn row_if_any(&mut self, label: &str, cells: Vec<String>) {
        if cells.iter().any(|cell| cell != "-" && !cell.is_empty()) {
            self.row(label, cells);
        }
    }

    fn heading(&mut self, label: &str) {
        self.row(label, []);
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            self.rows.iter().filter_map(|row| row.get::<usize>(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

fn runs(runs: &[RunReport]) -> Grid {
    let mut grid = Grid::default();
    grid.row("", runs.iter().map(|run| run.name.clone()));
    let mut names: Vec<&str> = Vec::new();
    for crowd in runs.iter().flat_map(|run| &run.crowds) {
        if !names.contains(&crowd.name.as_str()) {
            names.push(&crowd.name);
        }
    }
    for name in names {
        grid.heading(name);
        crowd_rows(&mut grid, &runs.iter().map(|run| run.crowd(name)).collect::<Vec<_>>());
    }
    let mut accounts: Vec<&str> = Vec::new();
    for provider in runs.iter().flat_map(|run| &run.providers) {
        if !accounts.contains(&provider.name.as_str()) {
            accounts.push(&provider.name);
        }
    }
    for name in accounts {
        grid.heading(&format!("account {name}"));
        account_rows(&mut grid, runs, name);
    }
    let any_level = runs.iter().any(|run| !run.levels.is_empty());
    if any_level {
        grid.row("level", runs.iter().map(levels));
    }
    let refused_with_room =
        |run: &RunReport| if run.refused_with_room > 0 { grouped(run.refused_with_room) } else { "-".to_owned() };
    grid.row_if_any("refused though the account had room", runs.iter().map(refused_with_room).collect());
    for spending in
        runs.iter().flat_map(|run| &run.spending).map(|spending| &spending.customer).collect::<std::collections::BTreeSet<_>>()
    {
        let cell = |run: &RunReport| {
            let found = run.spending.iter().find(|s| s.customer == *spending);
            found.map_or("-".to_owned(), |s| {
                let cap = s.cap.map_or(String::new(), |cap| format!(" of {cap}"));
                format!("{} -> {}{cap}", s.before, s.after)
            })
        };
        grid.row(format!("{spending} spent today"), runs.iter().map(cell));
    }
    let lines = runs.iter().map(|run| run.field.len()).max().unwrap_or(0);
    for line in 0..lines {
        let label = if line == 0 { "in the field" } else { "" };
        grid.row(label, runs.iter().map(|run| run.field.get(line).cloned().unwrap_or_default()));
    }
    grid
}

fn crowd_rows(grid: &mut Grid, crowds: &[Option<&CrowdReport>]) {
    let mut row = |label: &str, cell: &dyn Fn(&CrowdReport) -> Option<String>| {
        let cells = crowds.iter().map(|crowd| crowd.and_then(cell).unwrap_or_else(|| "-".to_owned()));
        grid.row_if_any(label, cells.collect());
    };
    row("  questions", &|crowd| Some(grouped(crowd.questions)));
    for fate in Fate::ALL {
        let label = format!("  {}", fate.as_str());
        row(&label, &|crowd| {
            let n = crowd.of(fate);
            (n > 0 || fate == Fate::Full).then(|| format!("{} ({})", grouped(n), percent(n, crowd.questions)))
        });
    }
    row("  sent, with retries", &|crowd| (crowd.attempts > crowd.questions).then(|| grouped(crowd.attempts)));
    row("  answered on a retry of ours", &|crowd| (crowd.retried > 0).then(|| grouped(crowd.retried)));
    let waits = |crowd: &CrowdReport| {
        (!crowd.served.is_empty()).then(|| [500, 990, 1_000].map(|permille| duration(crowd.wait(permille))).join(" / "))
    };
    row("  wait, p50 / p99 / longest", &waits);
    row("  degraded or refused, first / last at", &|crowd| {
        crowd.harmed.map(|(first, last)| format!("{} / {}", duration(first), duration(last)))
    });
    row("  Retry-After of the first refusal", &|crowd| crowd.first_retry_after.map(duration));
    let mut causes: Vec<&String> = crowds.iter().flatten().flat_map(|crowd| crowd.refusals.keys()).collect();
    causes.sort_unstable();
    causes.dedup();
    for cause in causes {
        row(&format!("  refused by {cause}"), &|crowd| crowd.refusals.get(cause).map(|n| grouped(*n)));
    }
}

fn account_rows(grid: &mut Grid, runs: &[RunReport], name: &str) {
    let mut row = |label: &str, cell: &dyn Fn(&RunReport, usize, &ProviderReport) -> Option<String>| {
        let cells = runs.iter().map(|run| {
            let index = run.providers.iter().position(|provider| provider.name == name);
            index.and_then(|index| cell(run, index, &run.providers[index])).unwrap_or_else(|| "-".to_owned())
        });
        grid.row_if_any(label, cells.collect());
    };
    row("  calls a minute", &|run, _, provider| Some(grouped(per_minute(provider.calls, run.length))));
    row("  429s", &|_, _, provider| {
        Some(format!("{} ({} of calls)", grouped(provider.refused), percent(provider.refused, provider.calls)))
    });
    row("  500s", &|_, _, provider| (provider.errors > 0).then(|| grouped(provider.errors)));
    row("  tokens a minute, of the quota", &|run, _, provider| {
        let mean = per_minute(provider.tokens_in_time, run.length);
        Some(provider.tpm.map_or_else(|| grouped(mean), |tpm| format!("{} ({})", grouped(mean), percent(mean, tpm))))
    });
    row("  most tokens in any 60 s, of the ceiling", &|run, index, provider| {
        let most = provider.trailing_tokens.most;
        let of = run.ceilings[index].or(provider.tpm);
        Some(of.map_or_else(|| grouped(most), |of| format!("{} of {}", grouped(most), grouped(of))))
    });
    row("  most background tokens in any 60 s", &|run, index, provider| {
        let most = provider.trailing_background.most;
        let of = run.ceilings[index].or(provider.tpm);
        (most > 0).then(|| of.map_or_else(|| grouped(most), |of| format!("{} ({})", grouped(most), percent(most, of))))
    });
    row("  most requests in any 60 s, of the quota", &|_, _, provider| {
        let most = grouped(provider.trailing_requests.most);
        Some(provider.rpm.map_or(most.clone(), |rpm| format!("{most} of {}", grouped(rpm))))
    });
}

fn levels(run: &RunReport) -> String {
    let changes: Vec<String> = run.levels.iter().map(|(at, level)| format!("{level} at {}", duration(*at))).collect();
    if changes.is_empty() { "-".to_owned() } else { changes.join(", ") }
}

fn sweep(swept: &Swept) -> Grid {
    let mut grid = Grid::default();
    let limits: Vec<String> = swept.limits.iter().map(|(name, most)| format!("{} {}", name.as_str(), grouped(*most))).collect();
    grid.heading(&format!("plan {}: {}", swept.plan, limits.join(", ")));
    let of = |name| swept.limits.iter().find(|(limit, _)| *limit == name).map(|(_, most)| *most);
    let (rpm, tpm) = (of(crate::limit::LimitName::Rpm), of(crate::limit::LimitName::Tpm));
    grid.row("tokens a request", ["requests/min", "of RPM", "tokens/min", "of TPM", "binds"].map(str::to_owned));
    for row in &swept.rows {
        let binds = match row.binds {
            Some(limit) if row.never => format!("{}: one alone is larger, 413", limit.as_str()),
            Some(limit) => limit.as_str().to_owned(),
            None => "nothing".to_owned(),
        };
        let part = |n, of: Option<u64>| of.map_or_else(|| "-".to_owned(), |of| percent(n, of));
        let cells = [grouped(row.requests), part(row.requests, rpm), grouped(row.used), part(row.used, tpm), binds];
        grid.row(grouped(row.tokens), cells);
    }
    grid
}

fn algorithms(compared: &Compared) -> Grid {
    let mut grid = Grid::default();
    let crowds = compared.crowds.iter().map(|(name, _)| name.clone());
    let more = ["most in 60 s", "bytes"].map(str::to_owned);
    grid.row("accepted by", std::iter::once("limit".to_owned()).chain(crowds).chain(more));
    for row in &compared.rows {
        let accepted =
            row.accepted.iter().zip(&compared.crowds).map(|(n, (_, of))| format!("{} of {}", grouped(*n), grouped(*of)));
        let shared = if row.shared { "one for all" } else { "one each" };
        let more = [grouped(row.in_a_minute), row.bytes.to_string()];
        grid.row(row.kind.as_str(), std::iter::once(shared.to_owned()).chain(accepted).chain(more));
    }
    grid
}

/// Writes what a replay came to, with the `top` customers that would be refused the most.
///
/// # Errors
/// Those of the writer.
pub fn replayed(found: &Replayed, top: usize, out: &mut impl Write) -> io::Result<()> {
    let instant =
        |micros: u64| i64::try_from(micros).ok().and_then(|micros| jiff::Timestamp::from_second(micros / 1_000_000).ok());
    let instant = |micros| instant(micros).map_or_else(|| "?".to_owned(), |instant: jiff::Timestamp| instant.to_string());
    let span = found.span.map_or(String::new(), |(first, last)| format!(", {} to {}", instant(first), instant(last)));
    writeln!(out, "{} requests of {} customers{span}", grouped(found.requests), grouped(found.by_customer.len() as u64))?;
    let mut grid = Grid::default();
    let of_all = |n| format!("{} ({})", grouped(n), percent(n, found.requests));
    grid.row("would be refused", [of_all(found.refused)]);
    grid.row("  of these answered then", [grouped(found.newly_refused)]);
    grid.row("would be admitted, refused then", [grouped(found.newly_admitted)]);
    if found.waited.0 > 0 {
        let (requests, micros) = found.waited;
        grid.row("would wait first", [format!("{}, {} on average", grouped(requests), duration(micros / requests))]);
    }
    for (label, n) in [
        ("other lines of the log", found.skipped),
        ("lines that are no JSON", found.unreadable),
        ("longer than an hour, decided late", found.late),
    ] {
        grid.row_if_any(label, vec![if n > 0 { grouped(n) } else { String::new() }]);
    }
    grid.write(out)?;
    if found.refused == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let mut grid = Grid::default();
    grid.row("by limit", ["refused".to_owned()]);
    let mut limits: Vec<_> = found.by_limit.iter().collect();
    limits.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
    limits.iter().for_each(|(limit, n)| grid.row(format!("  {limit}"), [grouped(**n)]));
    grid.write(out)?;
    writeln!(out)?;
    let worst = found.worst();
    let mut grid = Grid::default();
    grid.row("by customer", ["refused", "of", "by"].map(str::to_owned));
    for (customer, of) in worst.iter().take(top) {
        let limits: Vec<String> = of.by_limit.iter().map(|(limit, n)| format!("{limit} {}", grouped(*n))).collect();
        grid.row(format!("  {customer}"), [grouped(of.refused), grouped(of.requests), limits.join(", ")]);
    }
    if worst.len() > top {
        grid.heading(&format!("  and {} more", grouped((worst.len() - top) as u64)));
    }
    grid.write(out)
}
