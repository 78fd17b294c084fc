//! The account of one call: from its admission to the settlement that puts what was used in place of what was claimed.
//!
//! Owned by whatever carries the call (the future that waits for the provider, then the reply body), and closed exactly once: by the
//! end of the reply, by its failure, or by being dropped because the client left. One account spans all attempts: what a failed one was
//! charged by the provider is added up.

use super::call::Call;
use super::failed::ProviderFault;
use super::gateway::Gateway;
use crate::config::policy::Upstream;
use crate::domain::NanoUsd;
use crate::estimate::InputCount;
use crate::pricing::Price;
use crate::store::leases::Metered;
use crate::store::reservation::{Actuals, Reservation};
use crate::telemetry::metrics::{AnomalyLabels, ModelLabels, Name};
use crate::telemetry::otlp::{Kind, StepId};
use crate::telemetry::{Ending, Record};
use crate::upstream::breakers::Leave;
use crate::upstream::{Broke, End, OnEnd};
use crate::wire::meter::Meter;
use crate::wire::{Api, Usage};
use http::StatusCode;
use std::sync::Arc;

mod failing;

/// Bytes of JSON that stand for a token, where a reply is cut before it can be read: what English text comes to.
const BYTES_PER_TOKEN: u64 = 4;

/// See the module.
pub struct Account {
    gateway: Arc<Gateway>,
    record: Arc<Record>,
    reservation: Option<Reservation>,
    metered: Option<Arc<Metered>>,
    api: Api,
    model: Arc<str>,
    plan: Arc<str>,
    upstream: Arc<Upstream>,
    /// Whether the price table lists the model.
    known: bool,
    /// The present attempt in its trace.
    step: StepId,
    price: Option<Arc<Price>>,
    asked_tier: Option<String>,
    /// Whether the prompt goes on with context that only the provider has: nothing to learn from then.
    stored_context: bool,
    input: InputCount,
    choices: u64,
    /// The most the model may put out, all choices together.
    most_output: u64,
    attempts: u32,
    /// Whether the last attempt is not over.
    attempting: bool,
    /// Whether the provider has seen any of the attempts.
    reached: bool,
    /// What failed attempts used, as far as the provider charges it; apart from the last one, whose reply may yet be passed on and book it.
    charged: Actuals,
    charged_last: Actuals,
    /// Whether some of that is our own count.
    estimated: bool,
    /// What the last attempt that failed did.
    last_fault: Option<ProviderFault>,
    /// The leave under which the present attempt runs, for what goes wrong after its answer has begun.
    leave: Option<Leave>,
}

/// A reservation that is to be swapped for another, and what was used of it so far.
#[derive(Debug)]
pub struct Used {
    /// The reservation.
    pub reservation: Reservation,
    /// What settling it now would book.
    pub actuals: Actuals,
}

/// Closes an account at the end of a reply with this status.
#[derive(Debug)]
pub struct Closing {
    /// The account.
    pub account: Box<Account>,
    /// The status of the reply.
    pub status: StatusCode,
}

impl OnEnd for Closing {
    fn passing(&self, meter: &Meter) {
        if self.status.is_success() {
            self.account.passing(meter);
        }
    }

    fn ended(self, end: End) {
        self.account.close(self.status, &end);
    }
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
            metered: call.reservation.as_ref().and_then(Reservation::metered),
            reservation: call.reservation.take(),
            api: call.who.api,
            model: call.target.model.clone(),
            plan: call.who.customer.plan.name.clone(),
            upstream: call.target.upstream.clone(),
            known: call.who.record.is_traced() && call.who.policy.prices.lists(&call.target.model),
            step: StepId::default(),
            price: call.target.price.clone(),
            asked_tier: call.request.as_ref().and_then(|request| request.service_tier.clone()),
            stored_context: call.request.as_ref().is_some_and(|request| request.features.stored_context),
            input: call.input,
            choices: call.output.choices.max(1),
            most_output: call.output.cap.saturating_mul(call.output.choices.max(1)),
            attempts: 0,
            attempting: false,
            reached: false,
            charged: Actuals::default(),
            charged_last: Actuals::default(),
            estimated: false,
            last_fault: None,
            leave: None,
        }
    }

    /// A piece of a stream has passed: one look at a flag, unless a renewal wants to know what is used so far, for the case that this
    /// gateway dies before the end. Output counts as what was stated or what was delivered, whichever is more: most streams state
    /// their usage at their end.
    fn passing(&self, meter: &Meter) {
        let (Some(metered), Some(price)) = (&self.metered, &self.price) else { return };
        if !metered.is_wanted() {
            return;
        }
        let summary = meter.summary();
        let mut usage = summary.usage.unwrap_or_default();
        if !summary.input_known {
            usage.uncached_input = self.input.best;
        }
        let delivered = meter.delivered().tokens(|text| self.gateway.estimator.count_text(&self.model, self.api, text));
        usage.output = usage.output.max(delivered);
        let tier = usage.service_tier.as_deref().or(self.asked_tier.as_deref());
        metered.tell(self.charged.cost.saturating_add(price.cost(&usage, tier)));
    }

    /// An attempt is made; the how manieth. Should the client leave before there is an answer, the prompt is charged.
    pub fn attempt(&mut self) -> u32 {
        self.attempts += 1;
        self.attempting = true;
        self.charged.add(&std::mem::take(&mut self.charged_last));
        self.record.note(|facts| facts.attempts += 1);
        let (model, known, upstream) = (&self.model, self.known, &self.upstream);
        self.step = self.record.begin(|| Kind::Attempt { model: model.clone(), known, upstream: upstream.clone() });
        self.attempts
    }

    /// The attempt has the provider's leave; kept so that an answer that breaks later is reported, too.
    pub fn under(&mut self, leave: Leave) {
        self.leave = Some(leave);
    }

    /// The provider has seen the attempt: from now on the request stays spent, whatever becomes of it.
    pub const fn reached(&mut self) {
        self.reached = true;
    }

    /// The reservation, for what a further attempt claims.
    #[must_use]
    pub const fn reservation(&mut self) -> Option<&mut Reservation> {
        self.reservation.as_mut()
    }

    /// The reply has ended.
    fn close(mut self: Box<Self>, status: StatusCode, end: &End) {
        self.note_end(end);
        if !status.is_success() || self.api.is_free() {
            return self.settle(&Actuals { attempted: true, ..Actuals::default() });
        }
        if end.is_failure()
            && let Some(leave) = self.leave.take()
        {
            leave.fail_later();
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
            self.estimate_output(&mut usage, end);
        }
        self.book(&usage, !known);
    }

    /// Our own count of what was delivered, where the provider did not state it, or stated it before it delivered more.
    fn estimate_output(&self, usage: &mut Usage, end: &End) {
        let summary = &end.summary;
        let text = summary.delivered.tokens(|text| self.gateway.estimator.count_text(&self.model, self.api, text));
        // Half a JSON document is no text yet. A token is about four bytes of it, and no reply is longer than it may be.
        let partial = (summary.partial_bytes / BYTES_PER_TOKEN).min(self.most_output);
        usage.output = text.max(partial).max(summary.output_at_least);
        usage.audio_output = usage.audio_output.max(summary.delivered.audio_tokens());
    }

    fn note_end(&mut self, end: &End) {
        let summary = &end.summary;
        self.record.end(self.step, fault_of(end));
        if let (Some(reservation), Some(model)) = (&mut self.reservation, &summary.model) {
            reservation.served_by(model);
        }
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

    /// What a usage comes to.
    fn actuals(&self, usage: &Usage) -> Actuals {
        let tier = usage.service_tier.as_deref().or(self.asked_tier.as_deref());
        Actuals {
            attempted: true,
            input: usage.input(),
            input_uncached: usage.input().saturating_sub(usage.cache_read),
            cache_write: usage.cache_write.saturating_add(usage.cache_write_long),
            output: usage.total_output(),
            reasoning: usage.reasoning,
            cost: self.price.as_ref().map_or(NanoUsd::ZERO, |price| price.cost(usage, tier)),
        }
    }

    fn book(&mut self, usage: &Usage, estimated: bool) {
        let tier = usage.service_tier.as_deref().or(self.asked_tier.as_deref());
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
            facts.usage_estimated = estimated || self.estimated;
        });
        self.settle(&self.actuals(usage));
    }

    /// Settles to this and what failed attempts were charged.
    fn settle(&mut self, last: &Actuals) {
        let mut actuals = self.charged;
        actuals.add(&self.charged_last);
        actuals.add(last);
        if let Some(reservation) = self.reservation.take() {
            // A request may have several accounts, one for each model it was tried with.
            self.record.note(|facts| facts.cost = facts.cost.saturating_add(actuals.cost));
            reservation.settle(&actuals);
        }
    }
}

/// What went wrong with an answer that had begun, for the trace.
fn fault_of(end: &End) -> Option<&'static str> {
    match end.broke {
        _ if end.summary.error.is_some() => Some("server_error"),
        Some(Broke::ClientGone) => Some("client_gone"),
        Some(Broke::Silence) => Some("timeout"),
        Some(Broke::Upstream | Broke::Unfinished) => Some("broken"),
        None => None,
    }
}

impl Drop for Account {
    /// The client left before the provider answered. What was sent is charged: the prompt, and no output. What was not is given back
    /// by the reservation's own drop. Between two attempts there is nothing to charge.
    fn drop(&mut self) {
        if self.attempts == 0 || self.reservation.is_none() {
            return;
        }
        if !self.attempting {
            return self.settle_failed();
        }
        self.record.end(self.step, Some("client_gone"));
        self.record.note(|facts| facts.ending = Ending::ClientGone);
        if self.api.is_free() {
            self.settle(&Actuals { attempted: true, ..Actuals::default() });
        } else {
            self.book(&Usage { uncached_input: self.input.best, ..Usage::default() }, true);
        }
    }
}
