//! What is counted of a request: what became of it, when it has ended; what it used, when its reservation is settled.

use super::History;
use super::counts::{Cause, Count, ModelCount, Peaks};
use super::day::{hour_of, minute_of};
use super::gather::{Counted, Model};
use crate::degrade::Degraded;
use crate::domain::{CustomerId, Timestamp};
use crate::store::reservation::{Actuals, Witness};
use crate::telemetry::record::{Ending, Facts, Watch};
use crate::wire::Api;
use std::sync::Arc;

/// Tells the history what a reservation comes to. Belongs to one reservation.
#[derive(Debug)]
pub struct Teller {
    /// The history.
    pub history: Arc<History>,
    /// Whose request it is.
    pub customer: CustomerId,
    /// What is asked.
    pub upstream: Arc<str>,
    /// Which model; empty for routes without one.
    pub model: Arc<str>,
    /// When the store admitted it.
    pub at: Timestamp,
}

impl Witness for Teller {
    fn settled(self: Box<Self>, used: &Actuals, served: Option<&str>) {
        if !used.attempted || self.history.off {
            return;
        }
        let hour = hour_of(self.at);
        self.history.count(Some(&self.customer), hour, |cell| {
            cell.add(Count::Input, used.input);
            cell.add(Count::CachedInput, used.input.saturating_sub(used.input_uncached));
            cell.add(Count::Output, used.output);
            cell.add(Count::Cost, used.cost.get());
            cell.peak(minute_of(self.at), Peaks::Tokens, used.input.saturating_add(used.output));
        });
        if self.model.is_empty() {
            return;
        }
        let served = served.filter(|served| !served.is_empty() && **served != *self.model);
        let model = Model {
            upstream: self.upstream.clone(),
            asked: self.model.clone(),
            served: served.map_or_else(|| self.model.clone(), Arc::from),
        };
        self.history.gather.model(model, hour / 24, |sums| {
            let mut add = |count: ModelCount, amount: u64| {
                let sum = &mut sums[count as usize];
                *sum = sum.saturating_add(amount);
            };
            add(ModelCount::Requests, 1);
            add(ModelCount::Input, used.input);
            add(ModelCount::CachedInput, used.input.saturating_sub(used.input_uncached));
            add(ModelCount::CacheWrite, used.cache_write);
            add(ModelCount::Output, used.output);
            add(ModelCount::Reasoning, used.reasoning);
            add(ModelCount::Cost, used.cost.get());
        });
    }
}

impl Watch for History {
    fn ended(&self, api: Api, at: Timestamp, facts: &Facts) {
        // Questions after tickets and asynchronous requests, and paths that are none.
        let ours = matches!(api, Api::Jobs(_) | Api::Triage(_) | Api::Unknown(_));
        // An asynchronous request counts when it is taken in; its runs, which may be refused many times, only by what they use.
        let run = facts.job.is_some() && facts.status != TAKEN_IN;
        if ours || run || self.off {
            return;
        }
        let asked = facts.admitted.is_some() || facts.refused_by.is_some();
        self.count(facts.customer.as_ref(), hour_of(at), |cell| {
            cell.add(Count::Requests, 1);
            match outcome(facts) {
                Outcome::Counted(count) => cell.add(count, 1),
                Outcome::Refused(cause) => {
                    cell.add(Count::Refused, 1);
                    cell.refuse(cause);
                }
            }
            if asked {
                cell.peak(minute_of(at), Peaks::Messages, 1);
            }
            if facts.admitted.is_some() {
                cell.peak(minute_of(at), Peaks::Requests, 1);
            }
            if let Some(plan) = &facts.plan {
                cell.plan(&plan.name);
            }
            if let Some((scope, limit)) = facts.shadow_refused {
                cell.shadow(Cause::Limit(scope, limit));
            }
        });
    }
}

/// The status of an asynchronous request that was taken in.
const TAKEN_IN: u16 = 202;

enum Outcome {
    Counted(Count),
    Refused(Cause),
}

/// What became of a request: exactly one thing.
fn outcome(facts: &Facts) -> Outcome {
    let handed_off = facts.degraded.iter().any(|degraded| matches!(degraded, Degraded::Handoff(_)));
    if facts.status < 400 {
        return Outcome::Counted(match facts.ending {
            _ if handed_off => Count::HandedOff,
            Ending::UpstreamBroke => Count::Failed,
            _ if facts.cause == Some("upstream_failed") => Count::Failed,
            _ if facts.degraded.is_empty() => Count::Served,
            _ => Count::Degraded,
        });
    }
    match (facts.refused_by, facts.cause) {
        (Some((scope, limit)), _) => Outcome::Refused(Cause::Limit(scope, limit)),
        (None, Some("upstream_error" | "upstream_failed" | "upstream_timeout" | "upstream_unreachable" | "upstream_broken")) => {
            Outcome::Counted(Count::Failed)
        }
        (None, Some(code)) => Outcome::Refused(Cause::Code(code)),
        (None, None) => Outcome::Counted(Count::Left),
    }
}

impl History {
    fn count(&self, customer: Option<&CustomerId>, hour: u32, add: impl FnOnce(&mut super::gather::Cell)) {
        let Some(customer) = customer else { return self.gather.nobody(hour, add) };
        match self.gather.customer(customer, hour, add) {
            Counted::Theirs { many: false } => {}
            Counted::Theirs { many: true } => self.soon(),
            Counted::Beyond => {
                self.metrics.history_dropped.inc();
            }
        }
    }
}
