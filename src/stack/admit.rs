//! Layer 10: commits all claims in one atomic store call, all or nothing, and waits for the start time it may be given.
//!
//! A place in the settlement queue is taken first, so whatever is admitted can be settled without waiting. Whoever must wait for its
//! own limits for long claims the provider ceiling only when its time has come: one more call.

use super::account::Used;
use super::call::{Call, Earlier, Grounds, Rejected, Reply};
use super::customer_rate;
use super::gateway::Gateway;
use super::serve::Serve;
use super::shadow::{self, Asks, Beside};
use super::slots::NoSlot;
use crate::history::Teller;
use crate::limit::{Admission, Decision, Line, Measure, Refusal, Remedy, Scope};
use crate::reply::{self, Rejection, Standing};
use crate::store::leases::About;
use crate::store::reservation::Reservation;
use crate::store::settler::SettlePlace;
use crate::store::{Asked, StoreError};
use crate::telemetry::metrics::StoreLabels;
use crate::telemetry::otlp::Kind;
use crate::upstream::Tasks;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Layer;

/// Admits for whatever it wraps.
#[derive(Clone, Debug)]
pub struct AdmitLayer(pub Arc<Gateway>);

impl<S> Layer<S> for AdmitLayer {
    type Service = Admit<S>;
    fn layer(&self, inner: S) -> Admit<S> {
        Admit { inner, gateway: self.0.clone() }
    }
}

/// See [`AdmitLayer`].
#[derive(Clone, Debug)]
pub struct Admit<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Box<Call>> for Admit<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, mut call: Box<Call>) -> Result<Reply, Self::Error> {
        let standing = admit(&mut call, &self.gateway).await?;
        let dialect = call.who.api.dialect();
        let cap = call.edits.output_cap;
        match self.inner.serve(call).await {
            Ok(mut reply) => {
                reply::answer_headers(reply.headers_mut(), &standing, dialect, cap);
                Ok(reply)
            }
            Err(mut rejected) => {
                rejected.standing = Some(standing);
                Err(rejected)
            }
        }
    }
}

async fn admit(call: &mut Call, gateway: &Arc<Gateway>) -> Result<Standing, Box<Rejected>> {
    let earlier = call.earlier.take().map_or_else(Earlier::default, |earlier| *earlier);
    let mut claims = std::mem::take(&mut call.claims);
    if earlier.counted {
        claims.retain(|claim| claim.measure != Measure::Request || matches!(claim.scope.scope, Scope::Share | Scope::Pool));
    }
    let customer = &call.who.customer;
    // Who has as many requests in flight as it may have would be turned away behind this anyway: it spends its message, as whatever else
    // is refused, but holds no dollars and takes nothing of the ceiling meanwhile. Who gets in between is for `concurrency` to say.
    let turned_away = gateway.slots.full(&customer.scope.owner, customer.plan.max_in_flight);
    if turned_away.is_some() {
        claims.retain(|claim| claim.measure == Measure::Message);
    }
    let elastic = call.worst.filter(|_| turned_away.is_none());
    let elastic = elastic.and_then(|worst| worst.elastic(call.output.cap, call.output.floor));
    let admission = Admission {
        reservation: gateway.reservation_id(),
        customer: call.who.customer.scope.clone(),
        claims,
        elastic,
        lease: u64::try_from(gateway.lease.as_micros()).unwrap_or(u64::MAX),
    };
    let asks = match (&turned_away, earlier.standing.is_some() || earlier.counted || earlier.replaces.is_some()) {
        (_, true) => Asks::Again,
        (Some(_), false) => Asks::Message,
        (None, false) => Asks::Whole,
    };
    let asked_at = gateway.clock.now();
    let step = call.who.record.begin(|| Kind::Admission);
    let asked = match earlier.replaces {
        Some(used) => replace(gateway, used, admission).await,
        None => {
            let place = gateway.settler.try_place().ok_or(Rejection::Overloaded { retry_in: 1_000_000 })?;
            let asked = ask(gateway, admission, place, call).await;
            asked.map(|(admission, decision, place)| (admission, decision, Taken::Place(place)))
        }
    };
    call.who.record.end(step, asked.as_ref().err().map(Rejection::cause));
    let (admission, decision, taken) = asked?;
    call.who.record.note(|facts| facts.decided = Some(decision.at));
    gateway.watch(&call.who, &admission.claims, &decision);
    // Before the cap is lowered: the shadow is asked what the request asked for.
    let shadow = shadow::look(gateway, call, asks, elastic, decision.at);
    let mut standing = Standing::of(&admission.claims, &decision, call.who.policy.notice_percent);
    if let Some(before) = &earlier.standing {
        standing.complete(before);
    }
    if !decision.admitted {
        customer_rate::remember(gateway, &admission.claims, &decision, &standing, asked_at);
        return Err(refused(call, &admission, &decision, standing));
    }
    if let Some(granted) = decision.granted {
        call.output.cap = granted;
        call.output.expected = call.output.expected.min(granted.saturating_mul(call.output.choices));
        call.edits.output_cap = Some(granted);
        call.who.record.note(|facts| facts.output_cap = granted);
    }
    // From here on dropping the future gives everything back: a caller that leaves the line gives up its place.
    let Admission { reservation: id, customer, claims, elastic, lease } = admission;
    let deferred = decision.deferred();
    let later: Vec<_> = if deferred { claims.iter().filter(|claim| claim.is_ceiling()).cloned().collect() } else { Vec::new() };
    let mut reservation = match taken {
        Taken::Place(place) => {
            Reservation::of(id, customer.clone(), Line::taken_over(claims, elastic.as_ref(), &decision), place)
        }
        Taken::Replaced(reservation) => reservation,
    };
    if let Some(metered) = reservation.metered() {
        metered.concerns(About { request: call.who.record.id, model: call.target.model.clone() });
    }
    let teller = Teller {
        history: gateway.history.clone(),
        customer: call.who.customer.id.clone(),
        upstream: call.target.upstream.name.clone(),
        model: call.target.model.clone(),
        at: decision.at,
    };
    reservation = reservation.told(match shadow {
        Some(hold) => Box::new(Beside { teller, hold }),
        None => Box::new(teller),
    });
    if let Some(NoSlot::CustomerInFlight { limit, in_flight }) = turned_away {
        let rejection = Rejection::Concurrent { limit, in_flight };
        return Err(Box::new(Rejected { standing: Some(standing), ..*Box::<Rejected>::from(rejection) }));
    }
    wait(call, decision.start_in).await;
    if deferred {
        let second = Admission { reservation: id, customer, claims: later, elastic: None, lease };
        // Should the client leave during this call, the ceiling may stay claimed for an attempt that is never made: at most one minute's
        // refill late, never early. Its own limits are given back.
        let step = call.who.record.begin(|| Kind::Admission);
        let decided = decide(gateway, &second).await;
        call.who.record.end(step, decided.as_ref().err().map(Rejection::cause));
        let decision = decided?;
        call.who.record.note(|facts| facts.decided = Some(decision.at));
        if !decision.admitted {
            return Err(refused(call, &second, &decision, standing));
        }
        reservation.extend(&second.claims, None, &decision);
        wait(call, decision.start_in).await;
    }
    call.who.record.note(|facts| facts.admitted = Some(call.who.record.elapsed()));
    call.reservation = Some(reservation);
    Ok(standing)
}

async fn wait(call: &Call, micros: u64) {
    if micros > 0 {
        let wait = Duration::from_micros(micros);
        call.who.record.note(|facts| facts.waited += wait);
        let step = call.who.record.begin(|| Kind::Wait("limit"));
        tokio::time::sleep(wait).await;
        call.who.record.end(step, None);
    }
}

/// What an admission is settled through.
enum Taken {
    /// A place in the queue.
    Place(SettlePlace),
    /// The reservation that took the place of an earlier one of the same request.
    Replaced(Reservation),
}

/// Asks the store to put an admission in the place of a reservation. Where it does not fit, the earlier reservation has ended all the same:
/// there is no further use for it.
async fn replace(gateway: &Gateway, used: Used, admission: Admission) -> Result<(Admission, Decision, Taken), Rejection> {
    let Used { reservation, actuals } = used;
    let replaced = reservation.replaced(&actuals, admission, &gateway.ledger, &gateway.tasks).await;
    let decision = decided(gateway, "replace", replaced.decision)?;
    Ok((replaced.admission, decision, Taken::Replaced(replaced.reservation)))
}

/// Asks the store. A client that leaves while the question is on its way does not call it back: a task waits for the answer and
/// gives back what it took.
async fn ask(
    gateway: &Arc<Gateway>,
    admission: Admission,
    place: SettlePlace,
    call: &Call,
) -> Result<(Admission, Decision, SettlePlace), Rejection> {
    let (shared, grounds, body) = (gateway.clone(), call.who.known.clone(), call.body.clone());
    let asking = Box::pin(async move {
        let decision = match grounds {
            Some(grounds) => decide_by(&shared, &admission, &grounds, body).await,
            None => decide(&shared, &admission).await,
        };
        (decision, admission)
    });
    let mut question = Question { asking: Some(asking), place: Some(place), tasks: gateway.tasks.clone() };
    let (decision, admission) = std::future::poll_fn(|cx| question.poll(cx)).await;
    let place = question.place.take().ok_or(Rejection::Internal)?;
    Ok((admission, decision?, place))
}

/// A question to the store that is answered whether or not anybody still waits.
struct Question {
    asking: Option<BoxFuture<'static, (Result<Decision, Rejection>, Admission)>>,
    place: Option<SettlePlace>,
    tasks: Tasks,
}

impl Question {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Result<Decision, Rejection>, Admission)> {
        let Some(asking) = &mut self.asking else { return Poll::Pending };
        let answer = std::task::ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(answer)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let (Some(asking), Some(place)) = (self.asking.take(), self.place.take()) {
            self.tasks.spawn(async move {
                if let (Ok(decision), Admission { reservation, customer, claims, elastic, .. }) = asking.await
                    && decision.admitted
                {
                    drop(Reservation::new(reservation, customer, &claims, elastic.as_ref(), &decision, place));
                }
            });
        }
    }
}

/// As [`decide`], if what the request goes by is in force. Otherwise `identify` learns what is, and the rejection never gets further.
async fn decide_by(gateway: &Gateway, admission: &Admission, grounds: &Grounds, body: Bytes) -> Result<Decision, Rejection> {
    match gateway.ledger.admit_known(admission, &grounds.known, None).await {
        Ok(Asked::Decided(decision)) => decided(gateway, "admit", Ok(decision)),
        Ok(Asked::Stale(in_force)) => {
            gateway.metrics.store_calls.get_or_create(&StoreLabels { operation: "admit", result: "stale" }).inc();
            let _ = grounds.stale.set((in_force, body));
            Err(Rejection::LimitsUnavailable)
        }
        Err(error) => decided(gateway, "admit", Err(error)),
    }
}

pub(super) async fn decide(gateway: &Gateway, admission: &Admission) -> Result<Decision, Rejection> {
    decided(gateway, "admit", gateway.ledger.admit(admission, None).await)
}

/// Counts what the store said.
fn decided(gateway: &Gateway, operation: &'static str, decision: Result<Decision, StoreError>) -> Result<Decision, Rejection> {
    let result = match &decision {
        Ok(_) => "ok",
        Err(StoreError::Unreachable(_)) => "unreachable",
        Err(StoreError::Failed(_)) => "failed",
        Err(StoreError::Away(_)) => "away",
    };
    gateway.metrics.store_calls.get_or_create(&StoreLabels { operation, result }).inc();
    decision.map_err(|error| {
        // A store that is away is logged once per outage.
        if !matches!(error, StoreError::Away(_)) {
            tracing::warn!(%error, "the store did not decide an admission");
        }
        Rejection::LimitsUnavailable
    })
}

fn refused(call: &Call, admission: &Admission, decision: &Decision, standing: Standing) -> Box<Rejected> {
    let rejection = match (suspended(call, admission, decision), Refusal::worst(&admission.claims, decision)) {
        (Some(refusal), _) => Rejection::Suspended(refusal),
        (None, Some(refusal)) => with_floor(refusal, call, admission),
        // A decision that is not admitted without a limit that refused is the store's fault.
        (None, None) => Rejection::LimitsUnavailable,
    };
    let messages = admission.claims.iter().zip(&decision.verdicts).filter(|(claim, _)| claim.measure == Measure::Message);
    let flood = messages.into_iter().any(|(_, verdict)| !verdict.outcome.passes());
    Box::new(Rejected { standing: Some(standing), flood, ..*Box::<Rejected>::from(rejection) })
}

/// What the cap of zero of a suspended customer said. It is the reason whatever else refuses, too.
fn suspended(call: &Call, admission: &Admission, decision: &Decision) -> Option<Refusal> {
    let customer = &call.who.customer;
    let verdicts = admission.claims.iter().zip(&decision.verdicts).filter(|_| customer.plan.suspended);
    let closed = |refusal: &Refusal| refusal.measure == Measure::Money && refusal.max == 0;
    verdicts
        .filter(|(claim, _)| claim.scope == customer.scope)
        .filter_map(|(claim, verdict)| Refusal::of(claim, verdict, decision.at))
        .find(closed)
}

/// A dollar cap that does not even afford the smallest useful answer says so, with both numbers.
fn with_floor(refusal: Refusal, call: &Call, admission: &Admission) -> Rejection {
    match admission.elastic {
        Some(elastic) if refusal.measure == Measure::Money && matches!(refusal.remedy, Remedy::NextPeriod(_)) => {
            if elastic.cost(call.output.floor).get() > refusal.max {
                // Not even an unspent cap affords the shortest answer: no reset will help.
                return Rejection::Limit(refusal);
            }
            let room = refusal.max.saturating_sub(refusal.used);
            Rejection::OutputFloor { affordable: elastic.affordable(room).unwrap_or(0), floor: call.output.floor, refusal }
        }
        _ => Rejection::Limit(refusal),
    }
}
