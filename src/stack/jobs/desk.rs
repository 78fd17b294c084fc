//! `GET` and `DELETE /v1/jobs/{id}`, `GET /v1/jobs/{id}/result`: for the application and customer whose job it is; for all others there is none.
//!
//! Costs nothing: whoever polls spends no message.

use super::view;
use crate::repeats::job::State;
use crate::repeats::jobs::{Found, Jobs, is_id};
use crate::repeats::kept::{Kept, What};
use crate::reply::{self, Rejection};
use crate::stack::Gateway;
use crate::stack::call::{Identified, Rejected, Reply, Who};
use crate::stack::serve::Serve;
use crate::store::StoreError;
use crate::telemetry::metrics::JobLabels;
use axum::body::Body;
use http::{HeaderValue, Method};
use std::sync::Arc;

/// Answers for jobs.
#[derive(Clone, Debug)]
pub struct Desk(pub Arc<Gateway>);

impl Serve<Identified> for Desk {
    type Error = Box<Rejected>;

    async fn serve(&self, request: Identified) -> Result<Reply, Self::Error> {
        Ok(answer(&request.who, &self.0).await?)
    }
}

async fn answer(who: &Who, gateway: &Gateway) -> Result<Reply, Rejection> {
    let rest = who.head.uri.path().strip_prefix("/v1/jobs/").ok_or(Rejection::JobNotFound)?;
    let (id, wants_result) = rest.strip_suffix("/result").map_or((rest, false), |id| (id, true));
    if !is_id(id) {
        return Err(Rejection::JobNotFound);
    }
    let jobs = Jobs::new(gateway.documents.clone());
    let found = jobs.get(id).await.map_err(unavailable)?;
    let is_theirs = |found: &Found| found.job.app == *who.app.name && found.job.customer == who.customer.id.as_str();
    let Found { job, .. } = found.filter(is_theirs).ok_or(Rejection::JobNotFound)?;
    who.record.note(|facts| facts.job = Some(id.into()));
    let dialect = who.api.dialect();
    if who.head.method == Method::DELETE {
        jobs.remove(id).await.map_err(unavailable)?;
        gateway.jobs.cancel(id);
        if !job.state.has_ended() {
            gateway.metrics.jobs_ended.get_or_create(&JobLabels { state: "cancelled" }).inc();
        }
        return Ok(reply::job::cancelled());
    }
    match job.state {
        _ if !wants_result => Ok(reply::job::status(&view(id, &job), dialect)),
        State::Queued | State::Running => Ok(reply::job::unfinished(&view(id, &job), dialect)),
        State::Expired => Err(Rejection::JobExpired),
        State::Done | State::Failed => {
            let entry = jobs.reply(id).await.map_err(unavailable)?.ok_or(Rejection::JobNotFound)?;
            match entry.what {
                What::Replied(Kept { status, headers, made_by, body }) => {
                    Ok(reply::replay(status, headers, Body::from(body), HeaderValue::try_from(made_by).ok()))
                }
                What::TooLong(max) => Err(Rejection::ReplyNotKept { max }),
                What::Running => Err(Rejection::JobNotFound), // never stored as a reply
            }
        }
    }
}

fn unavailable(error: StoreError) -> Rejection {
    tracing::warn!(%error, "the store did not answer for a job");
    Rejection::LimitsUnavailable
}
