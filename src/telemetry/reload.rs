//! What became of changed configurations: for `/metrics`, and for operators who ask.

use super::metrics::ResultLabels;
use crate::config::Problem;
use crate::domain::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of changed configurations.
#[derive(Clone, Debug, Default)]
pub struct ReloadMetrics {
    /// Reloads by result: `applied`, `unchanged`, `refused`.
    pub reloads: Family<ResultLabels, Counter>,
    /// Since when the configuration in force is so, seconds since the Unix epoch.
    pub in_force_since: Gauge,
    /// Whether the last attempt was refused (1 or 0): the file is not what is in force.
    pub refused: Gauge,
}

impl ReloadMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let Self { reloads, in_force_since, refused } = self.clone();
        r.register("config_reloads", "Reloads of the configuration, by result", reloads);
        r.register(
            "config_in_force_since_seconds",
            "When the configuration in force was put in force, Unix time",
            in_force_since,
        );
        r.register("config_refused", "Whether the configuration file was refused and an older one is in force", refused);
    }
}

/// What became of an attempt to put a changed configuration in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force; so many settings are different.
    Applied {
        /// How many.
        changes: usize,
    },
    /// It says what is in force already.
    Unchanged,
    /// Nothing of it is in force.
    Refused {
        /// Everything that is wrong with it.
        problems: Vec<Problem>,
    },
}

impl Outcome {
    /// The label in metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Applied { .. } => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused { .. } => "refused",
        }
    }
}

/// How the configuration stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigStanding {
    /// Since when the one in force is in force.
    pub since: Timestamp,
    /// The last attempt to replace it, and when that was.
    pub last: Option<(Timestamp, Outcome)>,
}

fn seconds(at: Timestamp) -> i64 {
    i64::try_from(at.secs()).unwrap_or(i64::MAX)
}

/// Remembers the last attempt.
#[derive(Debug)]
pub struct Reloads(Mutex<ConfigStanding>);

impl Reloads {
    /// In force since now.
    #[must_use]
    pub fn new(now: Timestamp, metrics: &ReloadMetrics) -> Self {
        metrics.in_force_since.set(seconds(now));
        Self(Mutex::new(ConfigStanding { since: now, last: None }))
    }

    /// An attempt has come to this.
    pub fn note(&self, now: Timestamp, outcome: &Outcome, metrics: &ReloadMetrics) {
        metrics.reloads.get_or_create(&ResultLabels { result: outcome.as_str() }).inc();
        metrics.refused.set(i64::from(matches!(outcome, Outcome::Refused { .. })));
        let mut standing = self.0.lock();
        if matches!(outcome, Outcome::Applied { .. }) {
            standing.since = now;
            metrics.in_force_since.set(seconds(now));
        }
        standing.last = Some((now, outcome.clone()));
    }

    /// How the configuration stands.
    #[must_use]
    pub fn standing(&self) -> ConfigStanding {
        self.0.lock().clone()
    }
}
