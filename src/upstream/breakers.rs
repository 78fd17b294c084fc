//! The breakers of all upstreams: one each, since what fails is the provider and not one of its models.

use crate::degrade::breaker::{Breaker, Pass, Position, Report, Rules};
use crate::domain::{Clock, Timestamp};
use crate::telemetry::Metrics;
use crate::telemetry::metrics::{Name, UpstreamNameLabels};
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub struct Breakers {
    by_upstream: RwLock<HashMap<Arc<str>, Arc<Mutex<Breaker>>>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Breakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Breakers").finish_non_exhaustive()
    }
}

/// Leave to call an upstream. Dropped unreported it says that nobody knows what became of the call.
pub struct Leave {
    breaker: Arc<Mutex<Breaker>>,
    upstream: Arc<str>,
    rules: Rules,
    pass: Option<Pass>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl Breakers {
    /// All closed.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self { by_upstream: RwLock::default(), clock, metrics }
    }

    /// Asks for leave to call an upstream.
    ///
    /// # Errors
    /// How long until it is worth asking again.
    pub fn ask(&self, upstream: &Arc<str>, rules: &Rules) -> Result<Leave, Duration> {
        let breaker = self.of(upstream);
        let (asked, change) = watching(&breaker, |breaker| breaker.ask(rules, self.clock.now()));
        tell(upstream, change, &self.metrics);
        let pass = asked.map_err(Duration::from_micros)?;
        Ok(Leave {
            breaker,
            upstream: upstream.clone(),
            rules: *rules,
            pass: Some(pass),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        })
    }

    /// How the breaker of an upstream stands; one never asked is closed.
    #[must_use]
    pub fn position(&self, upstream: &str) -> Position {
        self.by_upstream.read().get(upstream).map_or(Position::Closed, |breaker| breaker.lock().position())
    }

    /// There are as many as upstreams were ever configured.
    fn of(&self, upstream: &Arc<str>) -> Arc<Mutex<Breaker>> {
        if let Some(breaker) = self.by_upstream.read().get(upstream) {
            return breaker.clone();
        }
        self.by_upstream.write().entry(upstream.clone()).or_default().clone()
    }
}

impl Leave {
    /// Whether this one call decides if the upstream is well again.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.pass.is_some_and(|pass| pass.is_probe)
    }

    /// Says what became of the call; only the first report counts.
    pub fn report(&mut self, report: Report) {
        let Some(pass) = self.pass.take() else { return };
        let now: Timestamp = self.clock.now();
        let ((), change) = watching(&self.breaker, |breaker| breaker.report(pass, report, &self.rules, now));
        tell(&self.upstream, change, &self.metrics);
    }

    /// Says that a call which was well at first has failed after all. Decides no probe: that was decided when the answer began.
    pub fn fail_later(&self) {
        let now = self.clock.now();
        let ((), change) = watching(&self.breaker, |breaker| {
            if breaker.position() == Position::Closed
                && let Ok(pass) = breaker.ask(&self.rules, now)
            {
                breaker.report(pass, Report::Failed, &self.rules, now);
            }
        });
        tell(&self.upstream, change, &self.metrics);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // Of a call that decides nothing, silence says nothing.
        if self.is_probe() {
            self.report(Report::Unknown);
        }
    }
}

/// Does something with a breaker and says where it stands now, if that has changed.
fn watching<T>(breaker: &Mutex<Breaker>, act: impl FnOnce(&mut Breaker) -> T) -> (T, Option<Position>) {
    let mut breaker = breaker.lock();
    let before = breaker.position();
    let result = act(&mut breaker);
    let after = breaker.position();
    (result, (before != after).then_some(after))
}

/// A change of state, to metrics and, once, to the log.
fn tell(upstream: &Arc<str>, change: Option<Position>, metrics: &Metrics) {
    let Some(position) = change else { return };
    let (value, word) = match position {
        Position::Closed => (0, "closed"),
        Position::Probing => (1, "probing"),
        Position::Open => (2, "open"),
    };
    metrics.breaker.get_or_create(&UpstreamNameLabels { upstream: Name(upstream.clone()) }).set(value);
    tracing::warn!(%upstream, state = word, "the breaker of an upstream");
}
