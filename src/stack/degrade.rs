//! Layer 7: a plan instead of an error.
//!
//! On the way in the level of its pool may shorten a request ([`give_up`]). One that limits or provider stop walks its plan's chain for that cause ([`crate::degrade::chain`] has the rules): it waits and
//! asks again, asks the model's fallback, is handed over to a person. What it holds from a try that failed at the provider is swapped for
//! the claims of the next in one step of the store; what a limit refused holds nothing, and is claimed anew. The message of layer 4 is
//! spent once, whatever is tried.
//!
//! At the end of the chain stands what stopped the request first: our refusal, or the provider's own error. Every answer says which model
//! gave it and what was given up for it.

use super::account::Used;
use super::call::{Call, Earlier, Rejected, Reply};
use super::failed::ProviderFault;
use super::fallback::{self, Barred};
use super::gateway::Gateway;
use super::give_up;
use super::handoff;
use super::serve::Serve;
use crate::config::policy::{Fallback, Plan, Step};
use crate::degrade::Degraded;
use crate::degrade::chain::{Cause, Move, Permits, Walk};
use crate::limit::Remedy;
use crate::reply::{self, Rejection};
use crate::telemetry::otlp::Kind;
use crate::telemetry::record::Facts;
use crate::triage::Attempt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower::Layer;

/// When a customer with too many requests in flight may be let in, microseconds: one of them may have ended by then.
const CONCURRENT_RETRY: u64 = 1_000_000;

/// Degrades for whatever it wraps.
#[derive(Clone, Debug)]
pub struct DegradeLayer(pub Arc<Gateway>);

impl<S> Layer<S> for DegradeLayer {
    type Service = Degrade<S>;
    fn layer(&self, inner: S) -> Degrade<S> {
        Degrade { inner, gateway: self.0.clone() }
    }
}

/// See [`DegradeLayer`].
#[derive(Clone, Debug)]
pub struct Degrade<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Box<Call>> for Degrade<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, mut call: Box<Call>) -> Result<Reply, Self::Error> {
        let since = Instant::now();
        give_up::apply(&mut call, &self.gateway)?;
        // The claims of the layers above stay with the first try: they are spent with it.
        let spare = call.fork();
        let first = match self.inner.serve(call).await {
            Ok(reply) => return Ok(marked(reply, &spare)),
            Err(rejected) => rejected,
        };
        let Some(cause) = cause_of(&first) else { return end(first, &spare) };
        let chain = chain_of(&spare.who.customer.plan, cause);
        if chain.is_empty() {
            return end(first, &spare);
        }
        let tried = vec![attempt(&spare.target.model, outcome_of(&first))];
        let (inner, gateway) = (&self.inner, &self.gateway);
        let on_the_way = Try { spare: &spare, cause, first, tried, held: None, counted: false, since, inner, gateway };
        Box::pin(on_the_way.walk(chain)).await
    }
}

fn chain_of(plan: &Plan, cause: Cause) -> &[Step] {
    match cause {
        Cause::Spend => &plan.on_spend,
        Cause::Tokens => &plan.on_tokens,
        Cause::Provider => &plan.on_provider,
    }
}

/// What stopped a try; `None` where that is final.
fn cause_of(rejected: &Rejected) -> Option<Cause> {
    if rejected.flood {
        return None;
    }
    if rejected.failed.is_some() {
        return Some(Cause::Provider);
    }
    match &rejected.rejection {
        Rejection::Limit(refusal) | Rejection::OutputFloor { refusal, .. } => Cause::of(refusal),
        // The customer's own bound, like its rates.
        Rejection::Concurrent { .. } => Some(Cause::Tokens),
        Rejection::Overloaded { .. } | Rejection::Upstream(_) => Some(Cause::Provider),
        _ => None,
    }
}

/// When a try may be let through, microseconds, if waiting can help.
fn retry_in(rejected: &Rejected) -> Option<u64> {
    if let Some(failed) = &rejected.failed {
        let stated = match failed.fault {
            ProviderFault::RateLimited { retry_after } => retry_after,
            ProviderFault::BreakerOpen { retry_in } => Some(retry_in),
            _ => None,
        };
        return stated.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    }
    match &rejected.rejection {
        Rejection::Limit(refusal) => match refusal.remedy {
            Remedy::Wait(micros) | Remedy::InFlight(micros) => Some(micros),
            Remedy::NextPeriod(_) | Remedy::Never => None,
        },
        Rejection::Concurrent { .. } => Some(CONCURRENT_RETRY),
        Rejection::Overloaded { retry_in } => Some(*retry_in),
        _ => None,
    }
}

/// What came of a try, a word.
fn outcome_of(rejected: &Rejected) -> &'static str {
    rejected.failed.as_ref().map_or_else(|| rejected.rejection.cause(), |failed| failed.fault.as_str())
}

/// A try, for whoever reads the ticket.
fn attempt(model: &str, outcome: &str) -> Attempt {
    Attempt { model: model.into(), outcome: outcome.into() }
}

/// What a try holds, to be swapped for what the next one claims.
fn taken_from(rejected: &mut Rejected) -> Option<Used> {
    rejected.failed.as_mut()?.take_used()
}

/// The end of the chain: the provider's own error, where there is one, or the refusal. Nothing was given up for it then.
fn end(first: Box<Rejected>, call: &Call) -> Result<Reply, Box<Rejected>> {
    call.who.record.note(|facts| facts.degraded.clear());
    first.pass_on()
}

/// Says on the answer of a model which one it was and what was given up for it.
fn marked(mut reply: Reply, call: &Call) -> Reply {
    if reply.status().is_success() {
        call.who.record.read(|facts| {
            reply::mark_answer(reply.headers_mut(), &call.target.model, facts.pool_level, &facts.degraded);
        });
    }
    reply
}

/// A request on its way along its chain.
struct Try<'a, S> {
    spare: &'a Call,
    cause: Cause,
    /// What stopped it first, with what it holds.
    first: Box<Rejected>,
    tried: Vec<Attempt>,
    /// What a later step that failed at the provider holds.
    held: Option<Used>,
    /// Whether a provider has seen the request, so that it is counted already.
    counted: bool,
    since: Instant,
    inner: &'a S,
    gateway: &'a Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Try<'_, S> {
    async fn walk(mut self, chain: &[Step]) -> Result<Reply, Box<Rejected>> {
        let fallback = fallback::permitted(self.spare);
        let permits = Permits { cheaper: fallback.is_some(), handoff: handoff::permitted(self.spare) };
        let mut walk = Walk::new(chain);
        loop {
            let answer = match (walk.next(permits, retry_in(&self.first), self.left()), &fallback) {
                (Move::Wait(micros), _) => self.wait(micros).await,
                (Move::Cheaper, Some(fallback)) => self.cheaper(fallback).await,
                (Move::Cheaper, None) => None,
                (Move::Handoff, _) => {
                    let why = (self.cause, outcome_of(&self.first));
                    let tried = std::mem::take(&mut self.tried);
                    // Settled before the ticket is written, so that it tells what the attempts cost.
                    drop(self.take_held());
                    handoff::hand_off(self.spare, &self.first, why, tried, self.gateway).await
                }
                (Move::Refuse, _) => return end(self.first, self.spare),
            };
            if let Some(reply) = answer {
                return Ok(reply);
            }
        }
    }

    /// What is left of the time a request may be kept waiting, microseconds. Time spent in tries that failed counts.
    fn left(&self) -> u64 {
        let budget = self.spare.who.policy.retry.wait_budget;
        u64::try_from(budget.saturating_sub(self.since.elapsed()).as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits, and tries the same again.
    async fn wait(&mut self, micros: u64) -> Option<Reply> {
        let wait = Duration::from_micros(micros);
        self.spare.who.record.note(|facts| facts.waited += wait);
        let step = self.spare.who.record.begin(|| Kind::Wait("chain"));
        self.gateway.pauses.pause(wait).await;
        self.spare.who.record.end(step, None);
        let again = self.spare.fork();
        let reply = self.ask(again).await?;
        Some(marked(reply, self.spare))
    }

    /// Asks the fallback.
    async fn cheaper(&mut self, fallback: &Fallback) -> Option<Reply> {
        let record = self.spare.who.record.clone();
        // The record tells of the fallback from now on, and of the model asked for again should it not answer.
        let before = record.read(|facts| {
            (facts.model_is_known, facts.estimated_input, facts.output_cap, facts.pool_level, facts.degraded.clone())
        });
        let restore = |facts: &mut Facts| {
            facts.fallback_model = None;
            (facts.model_is_known, facts.estimated_input, facts.output_cap, facts.pool_level, facts.degraded) = before;
        };
        record.note(|facts| (facts.pool_level, facts.degraded) = (None, Vec::new()));
        let cheaper = match fallback::call_of(self.spare, fallback, self.gateway).await {
            Ok(cheaper) => cheaper,
            Err(barred) => {
                record.note(restore);
                self.note_barred(fallback, &barred);
                return None;
            }
        };
        let known = self.spare.who.policy.prices.lists(&cheaper.target.model);
        record.note(|facts| {
            facts.fallback_model = Some(cheaper.target.model.clone());
            facts.model_is_known = known;
            facts.estimated_input = cheaper.input.best;
            facts.output_cap = cheaper.output.cap;
            facts.cause = None;
        });
        let answering = cheaper.fork();
        if let Some(reply) = self.ask(cheaper).await {
            // An error here is about what this model cannot take; the client asked for another one and must not be puzzled by it.
            if reply.status().is_success() {
                record.note(|facts| facts.degraded.push(Degraded::Cheaper(self.cause)));
                return Some(marked(reply, &answering));
            }
            self.counted = true;
            self.tried.push(attempt(&answering.target.model, "refused_by_model"));
        }
        record.note(restore);
        None
    }

    /// One more try; `None` when it is refused in its turn.
    async fn ask(&mut self, mut call: Box<Call>) -> Option<Reply> {
        let replaces = self.take_held();
        self.counted |= replaces.as_ref().is_some_and(|used| used.actuals.attempted);
        let standing = self.first.standing.clone();
        call.earlier = Some(Box::new(Earlier { replaces, counted: self.counted, standing }));
        let model = call.target.model.clone();
        match self.inner.serve(call).await {
            Ok(reply) => Some(reply),
            Err(mut rejected) => {
                self.tried.push(attempt(&model, outcome_of(&rejected)));
                self.held = taken_from(&mut rejected);
                self.counted |= self.held.as_ref().is_some_and(|used| used.actuals.attempted);
                None
            }
        }
    }

    /// What the last try that reached a provider holds: of the request there is one reservation at a time.
    fn take_held(&mut self) -> Option<Used> {
        self.held.take().or_else(|| taken_from(&mut self.first))
    }

    fn note_barred(&mut self, fallback: &Fallback, barred: &Barred) {
        let reason = barred.as_str();
        self.tried.push(attempt(&fallback.model, reason));
        tracing::debug!(request_id = %self.spare.who.record.id, fallback = %fallback.model, reason, "the fallback cannot answer");
    }
}
