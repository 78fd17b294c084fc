//! Asynchronous requests: taken in by `repeat`, run by [`Runner`] through the same layers, looked at and cancelled at the [`Desk`].
//!
//! Only in keys mode: the provider's credential is then the gateway's own, and nothing that belongs to a caller is stored beside the
//! request. A job runs as `background` unless its request says otherwise, with the plan and the limits its customer has when it runs.

mod attempt;
mod desk;
mod run;
mod runner;
mod take_in;

pub use attempt::{Attempted, RunStack, Sender, ask};
pub use desk::Desk;
pub use runner::Runner;
pub use take_in::{asked_for, stored_headers, take_in};

use crate::repeats::job::Job;
use crate::reply::job::JobView;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What the parts of one gateway tell each other of its jobs.
#[derive(Debug, Default)]
pub struct Board {
    /// Held while jobs are counted and one is added, so that the bounds are exact for one gateway.
    adding: tokio::sync::Mutex<()>,
    /// There may be something to run.
    wake: Notify,
    /// Those this gateway runs.
    running: Mutex<HashMap<String, Running>>,
}

#[derive(Debug)]
struct Running {
    customer: String,
    cancel: CancellationToken,
}

impl Board {
    /// Ends a run of ours.
    fn cancel(&self, id: &str) {
        if let Some(running) = self.running.lock().get(id) {
            running.cancel.cancel();
        }
    }
}

fn view<'a>(id: &'a str, job: &'a Job) -> JobView<'a> {
    const SECOND: u64 = 1_000_000;
    let seconds = |micros: u64| micros / SECOND;
    JobView {
        id,
        status: job.state.as_str(),
        created_at: seconds(job.created),
        started_at: job.started.map(seconds),
        ended_at: job.ended.map(seconds),
        expires_at: seconds(job.until),
        attempts: job.runs,
        reason: job.reason.as_deref(),
        has_result: job.state.has_ended(),
    }
}
