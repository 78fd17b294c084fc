//! `[repeats]`: `Idempotency-Key` and `Prefer: respond-async`.

use super::Compiler;
use super::server::count;
use crate::config::choice::AuthMode;
use crate::config::file::{self, File};
use crate::config::policy::Repeats;
use crate::config::read::Known as _;

/// `[repeats]`
pub fn repeats(c: &mut Compiler<'_>, file: &File, mode: AuthMode) -> Repeats {
    let empty = file::Repeats::empty(file.place.clone());
    let written = file.repeats.as_ref().unwrap_or(&empty);
    let file::Repeats { place: _, keep, max_reply, max_request, jobs, jobs_per_customer, jobs_at_once, job_wait } = written;
    if mode == AuthMode::Passthrough {
        let counts = [jobs, jobs_per_customer, jobs_at_once].map(|at| at.as_ref().map(|at| &at.place));
        let others = [max_request.as_ref().map(|at| &at.place), job_wait.as_ref().map(|at| &at.place)];
        for place in counts.into_iter().chain(others).flatten() {
            let advice = "asynchronous requests need auth.mode = \"keys\": a caller's own provider key is never stored";
            c.findings.warn(place, "has no effect in passthrough mode", advice);
        }
    }
    let default = Repeats::default();
    let jobs = count(c, jobs.as_ref(), default.jobs as u64, 1);
    Repeats {
        keep: keep.map_or(default.keep, |keep| keep.0),
        max_reply: max_reply.map_or(default.max_reply, |size| size.0),
        max_request: max_request.as_ref().map_or(default.max_request, |at| at.value.0),
        jobs,
        jobs_per_customer: count(c, jobs_per_customer.as_ref(), default.jobs_per_customer as u64, 1).min(jobs),
        jobs_at_once: count(c, jobs_at_once.as_ref(), default.jobs_at_once as u64, 1),
        job_wait: job_wait.as_ref().map_or(default.job_wait, |at| at.value.0),
    }
}
