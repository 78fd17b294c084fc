//! Arrivals at random, at a rate, whether or not the answers before have come.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};

/// Arrivals that may wait for a free connection; where more do, the clock of the arrivals stands still, and says so by its latency.
const WAITING: usize = 100_000;

/// When the next request is due; shared by the connections.
pub struct Pace {
    due: Mutex<mpsc::Receiver<Instant>>,
    stopped: Arc<AtomicBool>,
}

impl Pace {
    /// Starts the clock: a thread of its own, since the timers of an async runtime only know whole milliseconds.
    pub fn start(rate: f64, connections: usize) -> Rc<Self> {
        let (arrivals, due) = mpsc::channel(WAITING);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(connections as u64);
            let mut next = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                // Exponential gaps: what many independent callers come to.
                next += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / rate);
                std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                if Instant::now() < next {
                    std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                }
                if arrivals.blocking_send(next).is_err() {
                    return;
                }
            }
        });
        Rc::new(Self { due: Mutex::new(due), stopped })
    }

    /// Waits for the next arrival, first come first served. `None` when the clock has stopped.
    pub async fn next(&self) -> Option<Instant> {
        self.due.lock().await.recv().await
    }

    /// No more arrivals.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
