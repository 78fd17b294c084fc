//! `tollgate check`: reads the configuration as `serve` would and says what is wrong, what is odd and what came out.

use crate::config::date;
use crate::config::policy::{Auth, ClientAuth, Limit, LimitKind, Limits, Plan, Policy, StoreKind};
use crate::config::{Env, Problem, Source, Warning};
use crate::domain::Period;
use crate::reload::takes_restart;
use crate::stack::gateway::places;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The exit code of a configuration with problems (`EX_USAGE`).
pub const BAD_CONFIGURATION: u8 = 64;

/// Checks a file (none = the shipped configuration) with the environment of this process, and prints to stdout. With a file of questions,
/// asks them instead of printing what the configuration amounts to.
pub fn run(path: Option<&Path>, questions: Option<&Path>) -> ExitCode {
    if let Some(questions) = questions
        && let Ok((policy, _)) = Policy::load(path, &Env::of_process())
    {
        return super::replay::run(&policy, questions);
    }
    let sound = report(path, &Env::of_process(), &mut io::stdout().lock());
    match sound {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BAD_CONFIGURATION),
        // Whoever closed the pipe did not want to know more; the verdict is lost, so it is not a success either.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Checks a file (none = the shipped configuration) and prints what is different from the one at `against`, as a reload would log it.
pub fn compare(path: Option<&Path>, against: &Path) -> ExitCode {
    match differences(path, against, &Env::of_process(), &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BAD_CONFIGURATION),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes the differences; whether both are sound.
fn differences(path: Option<&Path>, against: &Path, env: &Env, out: &mut impl Write) -> io::Result<bool> {
    let (before, (after, warnings)) = match (Policy::load(Some(against), env), Policy::load(path, env)) {
        (Ok((before, _)), Ok(after)) => (before, after),
        (before, after) => {
            let problems: Vec<_> = before.err().into_iter().chain(after.err()).flatten().collect();
            refuse(&problems, out)?;
            return Ok(false);
        }
    };
    warn(&warnings, out)?;
    let changes = before.settings.changes(&after.settings);
    changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
    let file = path.map_or(Source::Shipped, |path| Source::File { name: path.display().to_string().into(), line: 1 });
    let restarts = takes_restart(&before, &after, places(&before.concurrency), &file);
    restarts.iter().try_for_each(|reason| writeln!(out, "restart: {reason}"))?;
    let how = if restarts.is_empty() { "a running gateway can go over to it" } else { "it takes a restart" };
    writeln!(out, "\n{} from {}; {how}", counted(changes.len(), "difference"), against.display())?;
    Ok(true)
}

/// Writes the report; whether the configuration is sound.
fn report(path: Option<&Path>, env: &Env, out: &mut impl Write) -> io::Result<bool> {
    match Policy::load(path, env) {
        Ok((policy, warnings)) => {
            warn(&warnings, out)?;
            summary(&policy, out)?;
            let what = path.map_or_else(
                || "the shipped configuration, since no --config was given".to_owned(),
                |path| path.display().to_string(),
            );
            writeln!(out, "OK, {}: {what}", counted(warnings.len(), "warning"))?;
            Ok(true)
        }
        Err(problems) => {
            refuse(&problems, out)?;
            Ok(false)
        }
    }
}

fn warn(warnings: &[Warning], out: &mut impl Write) -> io::Result<()> {
    warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))
}

fn refuse(problems: &[Problem], out: &mut impl Write) -> io::Result<()> {
    problems.iter().try_for_each(|problem| writeln!(out, "error: {problem}"))?;
    writeln!(out, "\n{}; the gateway would not start", counted(problems.len(), "problem"))
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn summary(policy: &Policy, out: &mut impl Write) -> io::Result<()> {
    let auth = match &policy.auth {
        Auth::Passthrough { trusted } if trusted.is_empty() => "passthrough, from loopback only".to_owned(),
        Auth::Passthrough { trusted } => format!("passthrough, from loopback and {}", counted(trusted.len(), "network")),
        Auth::Keys { apps } => counted(apps.len(), "gateway key"),
    };
    let store = match &policy.store {
        StoreKind::Embedded { path, .. } => format!("embedded, in {}", path.display()),
        StoreKind::Redis { .. } => "redis, one server".to_owned(),
    };
    let tls = policy.server.tls.as_ref().map_or_else(String::new, |tls| {
        let clients = match tls.client_auth {
            Some(ClientAuth::Required) => ", clients have to show one",
            Some(ClientAuth::Optional) => ", clients may show one",
            None => "",
        };
        format!(", TLS, certificate until {}{clients}", date(tls.expires))
    });
    writeln!(out, "\nlisten  {}{tls}\nauth    {auth}\nstore   {store}", policy.server.listen)?;
    writeln!(out, "prices  {}", counted(policy.prices.len(), "model"))?;
    let concurrency = &policy.concurrency;
    writeln!(out, "slots   {}, and {} requests waiting", concurrency.slots, concurrency.queue)?;
    writeln!(out, "gateway {}", limits(&policy.gateway))?;
    writeln!(out, "known   {} with an entry in [customers]\n", counted(policy.customers.len(), "customer"))?;

    let mut plans: Vec<_> = policy.plans.values().collect();
    plans.sort_by(|a, b| a.name.cmp(&b.name));
    let row = |plan: &&std::sync::Arc<Plan>| {
        let most = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let default = if plan.name == policy.identity.default_plan.name { " (default)" } else { "" };
        vec![
            format!("{}{default}", plan.name),
            limits(&plan.limits),
            limits(&plan.user),
            most(plan.max_in_flight.map(u64::from)),
            most(plan.max_output_tokens),
        ]
    };
    table(&["plan", "limits", "each user", "in flight", "output"], plans.iter().map(row).collect(), out)?;
    let pools = policy.pools.iter().map(|pool| {
        let ceiling: Vec<_> = pool.ceiling.iter().map(rate).collect();
        vec![pool.name.to_string(), pool.upstream.name.to_string(), pool.models.join(", "), or_none(ceiling.join(", "))]
    });
    if !policy.pools.is_empty() {
        table(&["pool", "upstream", "models", "ceiling"], pools.collect(), out)?;
    }
    let mut upstreams: Vec<_> = policy.upstreams.values().collect();
    upstreams.sort_by(|a, b| a.name.cmp(&b.name));
    let key = |set: bool| if set { "set" } else { "-" };
    let upstreams =
        upstreams.iter().map(|up| vec![up.name.to_string(), up.base_url.clone(), key(up.api_key.is_some()).to_owned()]);
    table(&["upstream", "base_url", "api_key"], upstreams.collect(), out)
}

fn limits(limits: &Limits) -> String {
    let rates = limits.messages.iter().chain(&limits.rates).map(rate);
    let spend = limits.spend.iter().map(|(period, cap)| format!("{cap}/{}", Period::as_str(*period)));
    let quotas = limits.quotas.iter().map(|(name, quota)| format!("{} {quota}", name.as_str()));
    or_none(rates.chain(spend).chain(quotas).collect::<Vec<_>>().join(", "))
}

/// `rpm 60`, with the capacity where it differs from a minute's worth.
fn rate(limit: &Limit) -> String {
    let name = limit.name.as_str();
    match limit.kind {
        LimitKind::Sliding(most) => format!("{name} {most} in any 60 s"),
        LimitKind::Bucket(bucket) if bucket.capacity() == bucket.per_minute() => format!("{name} {}", bucket.capacity()),
        LimitKind::Bucket(bucket) => format!("{name} {} (refill {}/m)", bucket.capacity(), bucket.per_minute()),
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Columns as wide as their widest cell.
fn table(head: &[&str], rows: Vec<Vec<String>>, out: &mut impl Write) -> io::Result<()> {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..all[0].len()).map(width).collect();
    for row in &all {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(text: &str) -> (bool, String) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.toml");
        std::fs::write(&path, text).expect("written");
        let mut out = Vec::new();
        let sound = report(Some(&path), &Env::default(), &mut out).expect("memory takes everything");
        (sound, String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn a_sound_file_is_ok_with_its_numbers_and_warnings() {
        let (sound, text) =
            report_of("[pools.mini]\nupstream = \"openai\"\nmodels = [\"gpt-4o-mini*\"]\nceiling = { rpm = 500 }\n");
        assert!(sound);
        assert!(text.contains("individual (default)  messages 10 (refill 5/m), rpm 60, tpm 40000, $0.50/day"), "{text}");
        assert!(text.contains("rpm 500 (refill 485/m)"), "{text}");
        assert!(text.contains("warning: ") && text.contains("concurrency.slots is not set"), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("OK, ") && last.ends_with("t.toml"), "{last}");
    }

    #[test]
    fn two_files_are_compared_setting_by_setting() {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (dir.path().join("old.toml"), dir.path().join("new.toml"));
        let compared = |before: &str, after: &str| {
            std::fs::write(&old, before).expect("written");
            std::fs::write(&new, after).expect("written");
            let mut out = Vec::new();
            let sound = differences(Some(&new), &old, &Env::default(), &mut out).expect("memory takes everything");
            (sound, String::from_utf8(out).expect("UTF-8"))
        };
        let (sound, text) = compared("[plans.a]\nrpm = 1\n", "[plans.a]\nrpm = 2\n");
        assert!(sound && text.contains("plans.a.rpm: 1 -> 2\n"), "{text}");
        assert!(text.contains("\n1 difference from ") && text.ends_with("; a running gateway can go over to it\n"), "{text}");
        let (sound, text) = compared("", "[store]\npath = \"b\"\n");
        assert!(
            sound && text.contains("new.toml:2: store.path: the store cannot change") && text.ends_with("; it takes a restart\n"),
            "{text}"
        );
        let (sound, text) = compared("[plan]\n", "[plans.a]\nrpm = -1\n");
        assert!(!sound && text.contains("old.toml:1: plan: ") && text.contains("new.toml:2: plans.a.rpm: "), "{text}");
    }

    #[test]
    fn every_problem_is_printed_and_none_is_a_success() {
        let (sound, text) = report_of("[server]\nlisen = \"x\"\n[plans.individual]\nrpm = -1\n");
        assert!(!sound);
        assert!(text.contains("t.toml:2: server.lisen: is not a setting; did you mean `listen`?"), "{text}");
        assert!(text.contains("t.toml:4: plans.individual.rpm: -1 is negative"), "{text}");
        assert!(text.contains("2 problems"), "{text}");
    }
}
