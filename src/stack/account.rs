//! The account of one call: from its admission to the settlement that puts what was used in place of what was claimed.
//!
//! Owned by whatever carries the call (the future that waits for the provider, then the reply body), and closed exactly once: by the
//! end of the reply, by its failure, or by being dropped because the client left.

use super::call::Call;
use super::gateway::Gateway;
use crate::domain::NanoUsd;
use crate::estimate::{Estimator, InputCount};
use crate::pricing::Price;
use crate::store::leases::Metered;
use crate::store::reservation::{Actuals, Reservation};
use crate::telemetry::metrics::{AnomalyLabels, ModelLabels, Name};
use crate::telemetry::{Ending, Record};
use crate::upstream::{Broke, End};
use crate::wire::meter::Meter;
use crate::wire::{Api, Usage};
use http::StatusCode;
use std::sync::Arc;

/// See the module.
pub struct Account {
    gateway: Arc<Gateway>,
    record: Arc<Record>,
    reservation: Option<Reservation>,
    api: Api,
    model: Arc<str>,
    plan: Arc<str>,
    price: Option<Arc<Price>>,
    asked_tier: Option<String>,
    /// Whether the prompt goes on with context that only the provider has: nothing to learn from then.
    stored_context: bool,
    input: InputCount,
    choices: u64,
    attempts: u32,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Account {
    /// Opens the account of an admitted call, taking over its reservation.
    #[must_use]
    pub fn open(call: &mut Call, gateway: &Arc<Gateway>) -> Self {
        Self {
            gateway: gateway.clone(),
            record: call.who.record.clone(),
            reservation: call.reservation.take(),
            api: call.who.api,
            model: call.target.model.clone(),
            plan: call.who.customer.plan.name.clone(),
            price: call.target.price.clone(),
            asked_tier: call.request.as_ref().and_then(|request| request.service_tier.clone()),
            stored_context: call.request.as_ref().is_some_and(|request| request.features.stored_context),
            input: call.input,
            choices: call.output.choices.max(1),
            attempts: 0,
        }
    }

    /// Who tells the store what a stream has used so far, for the case that this gateway dies before it ends. `None` where nothing is
    /// held or nothing costs anything.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        Some(Progress {
            metered: self.reservation.as_ref()?.metered()?,
            estimator: self.gateway.estimator.clone(),
            api: self.api,
            model: self.model.clone(),
            price: self.price.clone()?,
            asked_tier: self.asked_tier.clone(),
            input: self.input.best,
        })
    }

    /// An attempt is made. Should the client leave before there is an answer, the prompt is charged.
    pub fn attempt(&mut self) {
        self.attempts += 1;
        self.record.note(|facts| facts.attempts += 1);
    }

    /// The last attempt did not reach the provider. Was it the only one, everything is given back, the request too.
    pub fn unreached(mut self) {
        if self.attempts > 1 {
            return self.failed();
        }
        self.reservation = None; // never attempted, so dropping it gives everything back
    }

    /// The provider was reached and gave no answer, or an error: the request stays spent, tokens and dollars go back.
    pub fn failed(mut self) {
        self.settle(&Actuals { attempted: true, ..Actuals::default() });
    }

    /// The reply has ended.
    pub fn close(mut self, status: StatusCode, end: &End) {
        self.note_end(end);
        if !status.is_success() || self.api.is_free() {
            return self.settle(&Actuals { attempted: true, ..Actuals::default() });
        }
        let summary = &end.summary;
        let failed = summary.error.is_some();
        // An error and nothing delivered: nothing was used.
        if summary.usage.is_none() && failed && summary.delivered.is_empty() {
            return self.settle(&Actuals { attempted: true, ..Actuals::default() });
        }
        let known = summary.input_known && (summary.output_known || self.api == Api::Embeddings);
        let mut usage = summary.usage.clone().unwrap_or_default();
        if known {
            self.learn(&usage, end.broke.is_none() && !failed);
        }
        if !summary.input_known {
            usage.uncached_input = self.input.best;
        }
        if !summary.output_known && self.api.generates() {
            usage.output = summary.delivered.tokens(|text| self.gateway.estimator.count_text(&self.model, self.api, text));
        }
        self.book(&usage, !known);
    }

    fn note_end(&self, end: &End) {
        let summary = &end.summary;
        self.record.note(|facts| {
            facts.served_model.clone_from(&summary.model);
            facts.ending = match end.broke {
                _ if end.client_left => Ending::ClientGone,
                None => Ending::Complete,
                Some(_) => Ending::UpstreamBroke,
            };
            let broke = end.broke.is_some_and(|broke| broke != Broke::ClientGone);
            if facts.cause.is_none() && (summary.error.is_some() || broke) {
                facts.cause = Some("upstream_failed");
            }
        });
        let odd = &summary.anomalies;
        let flags = [
            ("usage_decreased", odd.usage_decreased > 0),
            ("usage_garbage", odd.garbage_usage),
            ("usage_capped", odd.capped_usage),
            ("usage_inconsistent", odd.inconsistent_usage),
            ("event_oversized", odd.oversized_event),
        ];
        flags.into_iter().filter(|(_, seen)| *seen).for_each(|(kind, _)| self.odd(kind));
    }

    fn odd(&self, kind: &'static str) {
        self.gateway.metrics.anomalies.get_or_create(&AnomalyLabels { kind }).inc();
        tracing::warn!(request_id = %self.record.id, kind, "the provider's usage is odd");
    }

    fn learn(&self, usage: &Usage, whole: bool) {
        if !whole || self.price.is_none() {
            return;
        }
        self.gateway.expected.learn(&self.model, &self.plan, usage.total_output() / self.choices);
        if !self.stored_context {
            self.gateway.estimator.learn(&self.model, self.api, &self.input, usage.input());
        }
        let factor = self.gateway.estimator.factor_permille(&self.model, self.api);
        self.gateway.metrics.factor.get_or_create(&ModelLabels { model: Name(self.model.clone()) }).set(i64::from(factor));
    }

    fn book(&mut self, usage: &Usage, estimated: bool) {
        let tier = usage.service_tier.as_deref().or(self.asked_tier.as_deref());
        let cost = self.price.as_ref().map_or(NanoUsd::ZERO, |price| price.cost(usage, tier));
        // What has no price was charged at the dearest rate (a tier) or not at all (searches): either way somebody should look.
        let gaps = self.price.as_ref().map(|price| price.gaps(usage, tier)).unwrap_or_default();
        if gaps.tier {
            self.odd("tier_not_priced");
        }
        if gaps.web_searches {
            self.odd("searches_not_priced");
        }
        self.record.note(|facts| {
            facts.usage = Some(usage.clone());
            facts.usage_estimated = estimated;
            facts.cost = cost;
        });
        self.settle(&Actuals {
            attempted: true,
            input: usage.input(),
            input_uncached: usage.input().saturating_sub(usage.cache_read),
            output: usage.total_output(),
            cost,
        });
    }

    fn settle(&mut self, actuals: &Actuals) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(actuals);
        }
    }
}

/// See [`Account::progress`].
pub struct Progress {
    metered: Arc<Metered>,
    estimator: Arc<Estimator>,
    api: Api,
    model: Arc<str>,
    price: Arc<Price>,
    asked_tier: Option<String>,
    input: u64,
}

impl Progress {
    /// A piece has passed: one look at a flag, unless a renewal wants to know. Output counts as what was stated or what was delivered,
    /// whichever is more: most streams state their usage at their end.
    pub fn look(&self, meter: &Meter) {
        if !self.metered.is_wanted() {
            return;
        }
        let summary = meter.summary();
        let mut usage = summary.usage.unwrap_or_default();
        if !summary.input_known {
            usage.uncached_input = self.input;
        }
        let delivered = meter.delivered().tokens(|text| self.estimator.count_text(&self.model, self.api, text));
        usage.output = usage.output.max(delivered);
        let tier = usage.service_tier.as_deref().or(self.asked_tier.as_deref());
        self.metered.tell(self.price.cost(&usage, tier));
    }
}

impl Drop for Account {
    /// The client left before the provider answered. What was sent is charged: the prompt, and no output. What was not is given back
    /// by the reservation's own drop.
    fn drop(&mut self) {
        if self.attempts == 0 || self.reservation.is_none() {
            return;
        }
        self.record.note(|facts| facts.ending = Ending::ClientGone);
        if self.api.is_free() {
            self.settle(&Actuals { attempted: true, ..Actuals::default() });
        } else {
            self.book(&Usage { uncached_input: self.input.best, ..Usage::default() }, true);
        }
    }
}
