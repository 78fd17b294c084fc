//! What came of the requests.

use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a run came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Every answer that came, by status, before and after the measured time as well.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers with another status or body than the right ones.
    pub wrong: u64,
    /// Requests without a whole answer, and why the first of them had none.
    pub broken: u64,
    /// See `broken` and `wrong`.
    pub why: String,
    /// Answers that ended in the measured time.
    pub measured: u64,
    /// The measured time.
    pub seconds: f64,
    /// Time to the last byte of those answers.
    pub latency: Spread,
    /// Pieces of text of streams in the measured time.
    pub pieces: u64,
    /// How late they were: from the upstream's write to the client's read.
    pub lag: Spread,
    /// The longest that any stream was silent between two pieces, microseconds.
    pub silence: u64,
}

impl Report {
    /// Answers with this status.
    pub fn status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.measured as f64 / self.seconds
    }
}

/// Microseconds, from the smallest to the largest.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Half are faster.
    pub p50: u64,
    /// All but one in a hundred.
    pub p99: u64,
    /// All but one in a thousand.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

impl Spread {
    fn of(mut micros: Vec<u32>) -> Self {
        micros.sort_unstable();
        let at = |part: f64| micros.get((micros.len() as f64 * part) as usize).or(micros.last()).map_or(0, |n| u64::from(*n));
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: micros.last().map_or(0, |n| u64::from(*n)) }
    }

    /// Of two runs of the same: the middle of both, the slower of both slowest. Nothing where there was no run before.
    pub fn mean(self, other: Self) -> Self {
        if self.max == 0 {
            return other;
        }
        let half = |one: u64, two: u64| u64::midpoint(one, two);
        Self {
            p50: half(self.p50, other.p50),
            p99: half(self.p99, other.p99),
            p999: half(self.p999, other.p999),
            max: self.max.max(other.max),
        }
    }
}

/// Counts while a run goes on; one thread.
pub struct Tally {
    most: u64,
    sent: Cell<u64>,
    window: Cell<Option<Instant>>,
    ended: Cell<bool>,
    report: RefCell<Report>,
    latency: RefCell<Vec<u32>>,
    lag: RefCell<Vec<u32>>,
}

impl Tally {
    pub fn new(most: Option<u64>) -> Self {
        Self {
            most: most.unwrap_or(u64::MAX),
            sent: Cell::new(0),
            window: Cell::new(None),
            ended: Cell::new(false),
            report: RefCell::default(),
            latency: RefCell::default(),
            lag: RefCell::default(),
        }
    }

    /// Which request may be sent next, counted from zero over all connections; it then must be.
    pub fn another(&self) -> Option<u64> {
        let sent = self.sent.get();
        let another = sent < self.most && !self.ended.get();
        self.sent.set(sent + u64::from(another));
        another.then_some(sent)
    }

    pub fn begin(&self) {
        self.window.set(Some(Instant::now()));
    }

    pub fn end(&self) {
        self.ended.set(true);
        self.report.borrow_mut().seconds = self.window.get().map_or(0.0, |from| from.elapsed().as_secs_f64());
    }

    fn measures(&self) -> bool {
        self.window.get().is_some() && !self.ended.get()
    }

    pub fn answered(&self, status: u16, right: bool, took: Duration, body: &[u8]) {
        let mut report = self.report.borrow_mut();
        *report.statuses.entry(status).or_default() += 1;
        if !right {
            report.wrong += 1;
            if report.why.is_empty() {
                report.why = format!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(400)]));
            }
        }
        if self.measures() {
            report.measured += 1;
            self.latency.borrow_mut().push(micros(took));
        }
    }

    pub fn broke(&self, why: String) {
        let mut report = self.report.borrow_mut();
        report.broken += 1;
        if report.why.is_empty() {
            report.why = why;
        }
    }

    pub fn piece(&self, lag: Duration, silence: Duration) {
        let mut report = self.report.borrow_mut();
        report.silence = report.silence.max(u64::from(micros(silence)));
        if self.measures() {
            report.pieces += 1;
            self.lag.borrow_mut().push(micros(lag));
        }
    }

    pub fn report(&self) -> Report {
        let latency = Spread::of(self.latency.take());
        Report { latency, lag: Spread::of(self.lag.take()), ..self.report.take() }
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
