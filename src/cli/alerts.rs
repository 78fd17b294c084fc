//! `tollgate alerts test`: sends a test to every destination of `[alerts]` and says what came of it.

use super::{BAD_CONFIG, out};
use crate::alert::{Kind, Tried, try_out};
use crate::config::{Env, Policy};
use crate::telemetry::SystemClock;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The word of a kind, for the command line.
pub fn kind(word: &str) -> Result<Kind, String> {
    Kind::named(word).ok_or_else(|| format!("is none of {}", Kind::ALL.map(Kind::as_str).join(", ")))
}

/// Tries every destination once. Success is that all that want such alerts took it, and that there is one.
pub fn run(path: Option<&Path>, kind: Kind) -> ExitCode {
    let policy = match Policy::load(path, &Env::of_process()) {
        Ok((policy, _)) => policy,
        Err(problems) => {
            for problem in &problems {
                out::complain(&problem.to_string());
            }
            return super::fail("the configuration cannot be used; nothing was sent", BAD_CONFIG);
        }
    };
    let settings = &policy.alerts;
    if settings.quiet.contains(&kind) {
        out::complain(&format!("{} is among `quiet`: a gateway tells nobody of such alerts", kind.as_str()));
    }
    if settings.webhooks.is_empty() {
        return super::fail("there is no [alerts.webhooks.NAME] in the configuration: alerts stand in the log only", 1);
    }
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    let tried = runtime.block_on(try_out(settings, kind, Arc::new(SystemClock)));
    for one in &tried {
        out::line(&said(one));
    }
    let taken = tried.iter().filter(|one| matches!(one.result, Some(Ok(())))).count();
    let failed = tried.iter().filter(|one| matches!(one.result, Some(Err(_)))).count();
    match (failed, taken) {
        (0, 1..) => ExitCode::SUCCESS,
        (0, 0) => super::fail(&format!("no destination wants alerts of kind {}", kind.as_str()), 1),
        _ => super::fail(&format!("{failed} of {} destinations did not take it", failed + taken), 1),
    }
}

/// One line: name, what came of it, how long it took.
fn said(one: &Tried) -> String {
    let took = one.took.as_millis();
    match &one.result {
        None => format!("{:<20} not sent: wants other kinds", one.name),
        Some(Ok(())) => format!("{:<20} delivered in {took} ms", one.name),
        Some(Err(reason)) => format!("{:<20} FAILED after {took} ms: {reason}", one.name),
    }
}
