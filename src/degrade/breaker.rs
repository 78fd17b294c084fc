//! A circuit breaker: when nearly every call to a provider fails, the rest fail at once for a while, and one probe says when it is over.
//!
//! What counts as a failure is for the caller to say; a rate limit never is one (a provider that says "slow down" is well). It opens when
//! within the window there were enough failures *and* they were a large enough part of all calls: the number keeps a quiet provider from
//! being cut off over a single hiccup, the part keeps a busy one from being cut off over errors that a few requests provoke.
//!
//! Pure: time is passed in. One probe at a time; a probe that nobody reports on ends after the pause, so it cannot lock the breaker.

use crate::domain::Timestamp;

/// Parts of the window: what is older than one whole window is forgotten a tenth of it at a time.
const PARTS: usize = 10;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// So many failures within the window at least; 0 = it never opens.
    pub failures: u32,
    /// And so large a part of all calls in it, millionths.
    pub share: u32,
    /// The window, microseconds.
    pub window: u64,
    /// How long it stays open before it probes, microseconds.
    pub pause: u64,
}

/// The state of one provider.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    /// Grows with each change of state, so that a report on a call from before it is known as such.
    generation: u64,
}

#[derive(Clone, Debug)]
enum State {
    Closed(Window),
    Open {
        until: u64,
    },
    /// One call is out to see; should nobody report on it, the next may go at this time.
    Probing {
        until: u64,
    },
}

/// Leave to make a call, to be reported on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    generation: u64,
    /// Whether it is the one call that decides whether the breaker closes.
    pub is_probe: bool,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The provider answered, be it with a refusal.
    Well,
    /// It failed.
    Failed,
    /// Nobody knows: the caller left first.
    Unknown,
}

/// For metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Calls pass.
    Closed,
    /// Calls fail at once.
    Open,
    /// One call is out to see.
    Probing,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed(Window::default()), generation: 0 }
    }
}

impl Breaker {
    /// Asks for leave to make a call.
    ///
    /// # Errors
    /// The microseconds after which to ask again; at least one.
    pub fn ask(&mut self, rules: &Rules, now: Timestamp) -> Result<Pass, u64> {
        // A clock that was set back must not keep it open for longer than it was meant to be.
        if let State::Open { until } | State::Probing { until } = &mut self.state {
            *until = (*until).min(now.micros().saturating_add(rules.pause));
        }
        match self.state {
            _ if rules.failures == 0 => self.become_(State::Closed(Window::default())),
            State::Closed(_) => return Ok(Pass { generation: self.generation, is_probe: false }),
            State::Open { until } | State::Probing { until } if now.micros() < until => return Err(until - now.micros()),
            State::Open { .. } | State::Probing { .. } => {
                self.become_(State::Probing { until: now.micros().saturating_add(rules.pause) });
                return Ok(Pass { generation: self.generation, is_probe: true });
            }
        }
        Ok(Pass { generation: self.generation, is_probe: false })
    }

    /// Reports on a call. What was begun before the state last changed says nothing about now.
    pub fn report(&mut self, pass: Pass, report: Report, rules: &Rules, now: Timestamp) {
        if pass.generation != self.generation || rules.failures == 0 {
            return;
        }
        match (&mut self.state, report) {
            (State::Closed(_), Report::Unknown) | (State::Open { .. }, _) => {}
            (State::Closed(window), Report::Well) => window.count(rules, now, false),
            (State::Closed(window), Report::Failed) => {
                window.count(rules, now, true);
                if window.is_bad(rules) {
                    self.become_(State::Open { until: now.micros().saturating_add(rules.pause) });
                }
            }
            (State::Probing { .. }, Report::Well) => self.become_(State::Closed(Window::default())),
            (State::Probing { .. }, Report::Failed) => {
                self.become_(State::Open { until: now.micros().saturating_add(rules.pause) });
            }
            // The next caller is the probe.
            (State::Probing { .. }, Report::Unknown) => self.become_(State::Open { until: now.micros() }),
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn position(&self) -> Position {
        match self.state {
            State::Closed(_) => Position::Closed,
            State::Open { .. } => Position::Open,
            State::Probing { .. } => Position::Probing,
        }
    }

    fn become_(&mut self, state: State) {
        self.state = state;
        self.generation += 1;
    }
}

/// Calls within the last window, in parts of it.
#[derive(Clone, Debug, Default)]
struct Window {
    /// The number of the newest part since the epoch.
    newest: u64,
    /// Calls and failures, by the number of the part modulo [`PARTS`].
    parts: [(u32, u32); PARTS],
}

impl Window {
    fn count(&mut self, rules: &Rules, now: Timestamp, failed: bool) {
        let part = now.micros() / (rules.window / PARTS as u64).max(1);
        // A clock that goes back counts into the newest part.
        let passed = part.saturating_sub(self.newest).min(PARTS as u64);
        for step in 1..=passed {
            self.parts[slot(self.newest.saturating_add(step))] = (0, 0);
        }
        if passed == PARTS as u64 {
            self.parts = Default::default();
        }
        self.newest = self.newest.max(part);
        let (calls, failures) = &mut self.parts[slot(self.newest)];
        *calls = calls.saturating_add(1);
        *failures = failures.saturating_add(u32::from(failed));
    }

    fn is_bad(&self, rules: &Rules) -> bool {
        let sum = |of: fn(&(u32, u32)) -> u32| self.parts.iter().map(|part| u64::from(of(part))).sum::<u64>();
        let (calls, failures) = (sum(|part| part.0), sum(|part| part.1));
        failures >= u64::from(rules.failures)
            && failures.saturating_mul(1_000_000) >= calls.saturating_mul(u64::from(rules.share))
    }
}

const fn slot(part: u64) -> usize {
    (part % PARTS as u64) as usize
}

#[cfg(test)]
mod tests;
