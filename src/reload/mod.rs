//! Another configuration while the gateway runs: at SIGHUP, and when the file or one that it names has changed.
//!
//! ```text
//! watch    which files, and whether they have changed and been left alone since
//! restart  what cannot change while the gateway runs
//! ```
//!
//! Whole or not at all. The file is read and checked as at the start, with the environment of the start; what is wrong with it, or takes a
//! restart, is said, all of it, and nothing changes: no half of a file is ever in force, so what holds is always what some file says.
//! A sound one is put in force in one step. Requests keep the policy they began with, up to their settlement.

mod restart;
mod watch;

pub use crate::telemetry::reload::Outcome;
pub use restart::needed as takes_restart;
pub use watch::EVERY;

use crate::config::problem::{Findings, Place, Source};
use crate::config::settings::{Change, FileRead};
use crate::config::{Env, Loaded, Problem};
use crate::stack::Gateway;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;
use watch::Watched;

/// So many changed settings have a line each in the log; the rest is counted.
const MOST_LINES: usize = 200;

/// Puts changed configurations in force.
#[derive(Clone, Debug)]
pub struct Reloader {
    gateway: Arc<Gateway>,
    path: Option<PathBuf>,
    env: Env,
}

impl Reloader {
    /// For the configuration of this file (none = the shipped one) with these variables, as they were at the start.
    #[must_use]
    pub const fn new(gateway: Arc<Gateway>, path: Option<PathBuf>, env: Env) -> Self {
        Self { gateway, path, env }
    }

    /// Reads the configuration again and puts it in force, if it is sound. Says in log and metrics what came of it. Blocks.
    pub fn reload(&self) -> Outcome {
        self.attempt().0
    }

    /// The same, and every file that was looked at.
    fn attempt(&self) -> (Outcome, Vec<FileRead>) {
        let Loaded { outcome, files } = Loaded::of(self.path.as_deref(), &self.env);
        let before = self.gateway.policy.load_full();
        let outcome = match outcome {
            Err(problems) => Outcome::Refused { problems },
            Ok((policy, warnings)) => {
                let changes = before.settings.changes(&policy.settings);
                let takes_restart = restart::needed(&before, &policy, self.gateway.most_requests(), &self.file());
                if changes.is_empty() && takes_restart.is_empty() {
                    Outcome::Unchanged
                } else if !takes_restart.is_empty() {
                    Outcome::Refused { problems: takes_restart }
                } else {
                    match self.gateway.adopt(policy) {
                        Ok(()) => {
                            for warning in &warnings {
                                tracing::warn!("{warning}");
                            }
                            say(&changes);
                            Outcome::Applied { changes: changes.len() }
                        }
                        Err(error) => Outcome::Refused { problems: vec![self.as_a_whole(error.to_string())] },
                    }
                }
            }
        };
        self.note(&outcome);
        (outcome, files)
    }

    fn note(&self, outcome: &Outcome) {
        let now = self.gateway.clock.now();
        let metrics = &self.gateway.metrics.reload;
        match outcome {
            Outcome::Applied { changes } => tracing::info!(changes, "a changed configuration is in force"),
            Outcome::Unchanged => tracing::info!("the configuration says what is in force already"),
            Outcome::Refused { problems } => {
                for problem in problems {
                    tracing::error!(%problem, "the changed configuration cannot be put in force");
                }
                tracing::error!(problems = problems.len(), "nothing was changed; the configuration from before stays in force");
            }
        }
        self.gateway.reloads.note(now, outcome, metrics);
    }

    /// Where the file begins.
    fn file(&self) -> Source {
        self.path.as_ref().map_or(Source::Shipped, |path| Source::File { name: path.display().to_string().into(), line: 1 })
    }

    fn as_a_whole(&self, reason: String) -> Problem {
        let mut findings = Findings::default();
        findings.problem(&Place::root(self.file()), reason, "");
        findings.problems.remove(0)
    }

    /// Reloads whenever it is `asked`, and when a file has changed and then been left alone for [`EVERY`]. Never ends.
    pub async fn run(self, asked: Arc<Notify>) {
        let mut watched = Watched::new(self.gateway.policy.load().settings.files().to_vec());
        loop {
            let by_hand = tokio::select! {
                () = asked.notified() => true,
                () = tokio::time::sleep(EVERY) => false,
            };
            if !by_hand && !watched.settled_change().await {
                continue;
            }
            tracing::info!(by = if by_hand { "SIGHUP" } else { "a changed file" }, "reading the configuration again");
            let reloader = self.clone();
            match tokio::task::spawn_blocking(move || reloader.attempt()).await {
                Ok((_, files)) => watched.follow(files),
                Err(error) => {
                    tracing::error!(%error, "reading the configuration again has failed; the one from before stays in force")
                }
            }
        }
    }
}

/// One line for each difference.
fn say(changes: &[Change]) {
    for change in changes.iter().take(MOST_LINES) {
        tracing::info!(%change, "a setting has changed");
    }
    if changes.len() > MOST_LINES {
        tracing::info!(more = changes.len() - MOST_LINES, "further settings have changed");
    }
}
