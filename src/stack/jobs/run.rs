//! One run of a job, from its marker to what becomes of it.
//!
//! **At least once.** A job that runs is written down as running before the provider is asked, and its result before it is written down as
//! ended. A gateway that dies in between leaves a job that another one runs again, up to a few times; what the first run used is booked
//! as any lost hold is. The provider is shown the same idempotency key each time.

use super::attempt::{Attempted, attempt, refused};
use super::runner::Worker;
use super::take_in::lifetime;
use crate::repeats::job::State;
use crate::repeats::jobs::{Found, marker};
use crate::repeats::kept::{Entry, What};
use crate::repeats::marker::{self as markers, LEASE, Taken};
use crate::repeats::outcome::{Next, RUNS, Run, next};
use crate::reply::Rejection;
use crate::store::StoreError;
use crate::telemetry::metrics::JobLabels;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the end of a run is tried to be stored, and the pause between two tries.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

/// Runs a job if nobody else does.
pub async fn run(worker: &Worker, id: &str, cancel: &CancellationToken) {
    let value = Entry { fingerprint: String::new(), what: What::Running }.encode();
    let mut marker = match markers::take(&worker.gateway.documents, marker(id), value).await {
        Ok(Taken::Ours(marker)) => marker,
        Ok(Taken::Found(_)) => return,
        Err(error) => return tracing::debug!(%error, job = id, "a job could not be taken"),
    };
    let interrupted = tokio::select! {
        biased;
        // Cancelled, here or at another gateway, or the store was away for so long that another gateway may have it.
        () = cancel.cancelled() => false,
        () = marker.until_lost() => false,
        () = worker.cut.cancelled() => true,
        worked = work(worker, id) => {
            if let Err(error) = worked {
                tracing::warn!(%error, job = id, "the store did not take how a job stands; it will run again");
            }
            false
        }
    };
    if interrupted && let Err(error) = put_back(worker, id).await {
        tracing::warn!(%error, job = id, "an interrupted job could not be put back; it is due again after its lease");
    }
    marker.end(None).await;
}

async fn work(worker: &Worker, id: &str) -> Result<(), StoreError> {
    let now = worker.gateway.clock.now().micros();
    // It may have changed between the listing and the marker.
    let Some(mut found) = worker.jobs.get(id).await?.filter(|found| !found.job.state.has_ended() && found.job.due <= now) else {
        return Ok(());
    };
    if now >= found.job.until {
        let last = refused(worker, &found, Rejection::JobExpired).await;
        return end(worker, &mut found, State::Expired, last).await;
    }
    if found.job.runs >= RUNS {
        // Each of them ended with its gateway.
        let last = refused(worker, &found, Rejection::Internal).await;
        return end(worker, &mut found, State::Failed, last).await;
    }
    found.job.state = State::Running;
    found.job.started = Some(now);
    found.job.due = now.saturating_add(micros(LEASE));
    found.job.runs += 1;
    if !worker.jobs.update(&mut found, keep(worker)).await? {
        return Ok(()); // cancelled
    }
    let attempted = attempt(worker, &found).await;
    conclude(worker, &mut found, attempted).await
}

/// Writes down what came of a run.
async fn conclude(worker: &Worker, found: &mut Found, attempted: Attempted) -> Result<(), StoreError> {
    let now = worker.gateway.clock.now().micros();
    let left = found.job.until.saturating_sub(now);
    match next(attempted.run, found.job.runs, found.job.refusals, left) {
        Next::End => {
            let good = attempted.run == Run::Final && attempted.succeeded();
            end(worker, found, if good { State::Done } else { State::Failed }, attempted).await
        }
        Next::Again(wait) => {
            found.job.state = State::Queued;
            found.job.due = now.saturating_add(wait);
            found.job.reason = attempted.reason;
            if matches!(attempted.run, Run::NoRoom(_)) {
                found.job.runs -= 1;
                found.job.refusals += 1;
            } else {
                found.job.refusals = 0;
            }
            store(worker, found, None).await.map(drop)
        }
    }
}

/// Ends a job, unless it was cancelled meanwhile.
async fn end(worker: &Worker, found: &mut Found, state: State, last: Attempted) -> Result<(), StoreError> {
    found.job.state = state;
    found.job.ended = Some(worker.gateway.clock.now().micros());
    found.job.reason = last.reason;
    let entry = Entry { fingerprint: String::new(), what: last.what };
    if store(worker, found, Some(&entry)).await? {
        worker.gateway.metrics.jobs_ended.get_or_create(&JobLabels { state: state.as_str() }).inc();
    }
    Ok(())
}

/// An interrupted job waits again, as if it had not run.
async fn put_back(worker: &Worker, id: &str) -> Result<(), StoreError> {
    let Some(mut found) = worker.jobs.get(id).await?.filter(|found| found.job.state == State::Running) else { return Ok(()) };
    found.job.state = State::Queued;
    found.job.due = worker.gateway.clock.now().micros();
    found.job.runs = found.job.runs.saturating_sub(1);
    worker.jobs.update(&mut found, keep(worker)).await.map(drop)
}

/// Writes how a job stands, with its result if it has ended; a few times, since it was paid for. Gives whether it was still there.
async fn store(worker: &Worker, found: &mut Found, result: Option<&Entry>) -> Result<bool, StoreError> {
    let mut tries = 1;
    loop {
        let written = match result {
            Some(result) => worker.jobs.end(found, result, worker.gateway.policy.load().repeats.keep).await,
            None => worker.jobs.update(found, keep(worker)).await,
        };
        match written {
            Err(error) if tries < TRIES => tracing::debug!(%error, "what came of a job could not be stored"),
            written => return written,
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

fn keep(worker: &Worker) -> Duration {
    let repeats = worker.gateway.policy.load().repeats;
    lifetime(repeats.job_wait, repeats.keep)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
