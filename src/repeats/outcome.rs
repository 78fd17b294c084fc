//! Which outcomes are final: a reply that is kept and given again, or one after which the same request may still succeed.

use http::{HeaderMap, StatusCode};
use std::time::Duration;

/// Runs of a job that end in a failure which may pass; then it has failed. Also bounds the runs of a job whose gateway dies of it.
pub const RUNS: u32 = 5;

/// The first pause after a failure, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether a reply of the provider's is final: a success, or an error about the request itself, which would be the same again. Not one
/// about the account, the moment or the provider, and not one of which it says that it should be tried again.
#[must_use]
pub fn is_final(status: StatusCode, headers: &HeaderMap) -> bool {
    let again = headers.get("x-should-retry").is_some_and(|value| value == "true");
    let about_the_request = matches!(status.as_u16(), 400 | 404 | 405 | 406 | 410 | 411 | 413..=417 | 422 | 431 | 451);
    status.is_success() || (about_the_request && !again)
}

/// How a run of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// With a reply that is final.
    Final,
    /// With a refusal, or the provider's 429: it may pass after so many microseconds, or nobody knows when.
    NoRoom(Option<u64>),
    /// With a refusal that waiting does not cure.
    Refused,
    /// With a failure that may pass.
    Failed,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It has its result.
    End,
    /// It runs again after so many microseconds.
    Again(u64),
}

/// What becomes of a job after a run. `runs` counts runs that failed, this one included; `refusals` those that found no room in a row.
/// Where the room comes only after `left` microseconds, when the job has expired, it ends with the refusal at once.
#[must_use]
pub fn next(run: Run, runs: u32, refusals: u32, left: u64) -> Next {
    let wait = match run {
        Run::Final | Run::Refused => return Next::End,
        Run::Failed if runs >= RUNS => return Next::End,
        Run::Failed => pause(runs.saturating_sub(1)),
        // Each attempt costs the customer a message, so a short hint is not taken at its word again and again.
        Run::NoRoom(hint) => hint.unwrap_or(0).max(pause(refusals)),
    };
    if wait >= left { Next::End } else { Next::Again(wait) }
}

/// 1 s, 2 s, 4 s, … 60 s, in microseconds.
fn pause(times: u32) -> u64 {
    let pause = PAUSE.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(LONGEST_PAUSE);
    u64::try_from(pause.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_would_be_the_same_again_is_final() {
        for (status, right) in [
            (200, true),
            (201, true),
            (204, true),
            (301, false),
            (400, true),
            (401, false),
            (402, false),
            (403, false),
            (404, true),
            (408, false),
            (409, false),
            (410, true),
            (413, true),
            (415, true),
            (422, true),
            (425, false),
            (429, false),
            (500, false),
            (502, false),
            (503, false),
            (529, false),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(is_final(status, &HeaderMap::new()), right, "{status}");
        }
        let again = HeaderMap::from_iter([(http::HeaderName::from_static("x-should-retry"), HeaderValue::from_static("true"))]);
        assert!(!is_final(StatusCode::BAD_REQUEST, &again), "the provider says so itself");
        assert!(is_final(StatusCode::OK, &again));
    }

    #[test]
    fn a_job_waits_for_room_and_does_not_fail_for_ever() {
        const SECOND: u64 = 1_000_000;
        const DAY: u64 = 86_400 * SECOND;
        for (run, runs, refusals, left, right) in [
            (Run::Final, 1, 0, DAY, Next::End),
            (Run::Refused, 1, 0, DAY, Next::End),
            (Run::Failed, 1, 0, DAY, Next::Again(SECOND)),
            (Run::Failed, 4, 0, DAY, Next::Again(8 * SECOND)),
            (Run::Failed, 5, 0, DAY, Next::End),
            (Run::NoRoom(Some(90 * SECOND)), 0, 0, DAY, Next::Again(90 * SECOND)),
            (Run::NoRoom(Some(SECOND)), 0, 5, DAY, Next::Again(32 * SECOND)),
            (Run::NoRoom(Some(SECOND)), 0, 60, DAY, Next::Again(60 * SECOND)),
            (Run::NoRoom(None), 0, 0, DAY, Next::Again(SECOND)),
            (Run::NoRoom(Some(2 * DAY)), 0, 0, DAY, Next::End),
        ] {
            assert_eq!(next(run, runs, refusals, left), right, "{run:?} {runs} {refusals}");
        }
    }
}
