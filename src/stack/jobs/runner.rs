//! Runs jobs when there is room: looks for those that are due, a few at once, and lets no customer's many stand before another's few.
//!
//! Every gateway looks. A job is taken by its marker, so it does not matter how many do; what one of them took and did not finish is due
//! again when the marker's lease is over.

use super::Running;
use super::attempt::RunStack;
use super::run::run;
use crate::config::policy::Auth;
use crate::repeats::jobs::{Found, Jobs};
use crate::stack::{Gateway, run_stack};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often a gateway looks for jobs that it was not told of: those of other gateways, and those that waited.
const LOOK: Duration = Duration::from_secs(1);

/// How many due jobs are looked at at a time.
const GLANCE: usize = 100;

/// How long a job is left alone after it was tried: another gateway may have it.
const LEFT_ALONE: Duration = Duration::from_secs(1);

/// What those that are interrupted get to say so to the store.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a run needs.
pub struct Worker {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// The layers from `identify` down.
    pub stack: RunStack,
    /// The jobs.
    pub jobs: Jobs,
    /// Runs end here and now.
    pub cut: CancellationToken,
}

/// The jobs of one gateway, while it serves.
pub struct Runner {
    stop: CancellationToken,
    cut: CancellationToken,
    tracker: TaskTracker,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

impl Runner {
    /// Begins to look for jobs, whenever the configuration in force is one with gateway keys; in passthrough mode there are none.
    #[must_use]
    pub fn start(gateway: &Arc<Gateway>) -> Self {
        let runner = Self { stop: CancellationToken::new(), cut: CancellationToken::new(), tracker: TaskTracker::new() };
        let worker = Worker {
            gateway: gateway.clone(),
            stack: run_stack(gateway),
            jobs: Jobs::new(gateway.documents.clone()),
            cut: runner.cut.clone(),
        };
        let looking = look(Arc::new(worker), runner.tracker.clone());
        let stop = runner.stop.clone();
        runner.tracker.spawn(async move { stop.run_until_cancelled(looking).await });
        runner
    }

    /// Takes no more jobs, gives those that run so long to end, and leaves the rest in the store to be run again.
    pub async fn end(self, patience: Duration) {
        self.stop.cancel();
        self.tracker.close();
        if timeout(patience, self.tracker.wait()).await.is_err() {
            self.cut.cancel();
            let _ = timeout(LAST_WORDS, self.tracker.wait()).await;
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop.cancel();
        self.cut.cancel();
    }
}

async fn look(worker: Arc<Worker>, tracker: TaskTracker) {
    let mut left_alone: HashMap<String, Instant> = HashMap::new();
    loop {
        left_alone.retain(|_, until| *until > Instant::now());
        let found = if has_room(&worker.gateway) { choose(&worker, &left_alone).await } else { None };
        let Some(Found { id, job, .. }) = found else {
            // Either there is nothing to do, or no room for it, or the store is away.
            let _ = timeout(LOOK, worker.gateway.jobs.wake.notified()).await;
            continue;
        };
        left_alone.insert(id.clone(), Instant::now() + LEFT_ALONE);
        let cancel = CancellationToken::new();
        let running = Running { customer: job.customer, cancel: cancel.clone() };
        worker.gateway.jobs.running.lock().insert(id.clone(), running);
        let worker = worker.clone();
        tracker.spawn(async move {
            let _listed = Listed(&worker.gateway, &id);
            run(&worker, &id, &cancel).await;
        });
    }
}

/// Whether there may be jobs, and one more at once.
fn has_room(gateway: &Gateway) -> bool {
    let policy = gateway.policy.load();
    matches!(policy.auth, Auth::Keys { .. }) && gateway.jobs.running.lock().len() < policy.repeats.jobs_at_once
}

/// Of those that are due the one that waits longest, first of the customers of whom the fewest run here.
async fn choose(worker: &Worker, left_alone: &HashMap<String, Instant>) -> Option<Found> {
    let due = worker.jobs.due(worker.gateway.clock.now(), GLANCE).await;
    let due = due.map_err(|error| tracing::debug!(%error, "the store did not list the jobs that are due")).ok()?;
    let running = worker.gateway.jobs.running.lock();
    let free = due.into_iter().filter(|found| !running.contains_key(&found.id) && !left_alone.contains_key(&found.id));
    free.min_by_key(|found| running.values().filter(|other| other.customer == found.job.customer).count())
}

/// Takes a run off the board, however it ends.
struct Listed<'a>(&'a Gateway, &'a str);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.jobs.running.lock().remove(self.1);
        self.0.jobs.wake.notify_one();
    }
}
