//! Layer 4: the message bucket of the customer (and of the user inside it).
//!
//! Claims one message, which `admit` takes whatever else refuses the request, so a flood of requests that are doomed for another
//! reason runs dry too. Whoever was just seen empty is refused right here: no body is read, no store is asked.

use super::call::{Customer, Identified, Rejected, Reply};
use super::gateway::Gateway;
use super::serve::Serve;
use crate::config::policy::{Limit, LimitKind};
use crate::domain::Timestamp;
use crate::limit::{Claim, Decision, LimitName, Outcome, Refusal, Rule, ScopeKey};
use crate::reply::{Rejection, Standing};
use std::sync::Arc;
use tower::Layer;

/// Claims the message bucket for whatever it wraps.
#[derive(Clone, Debug)]
pub struct CustomerRateLayer(pub Arc<Gateway>);

impl<S> Layer<S> for CustomerRateLayer {
    type Service = CustomerRate<S>;
    fn layer(&self, inner: S) -> CustomerRate<S> {
        CustomerRate { inner, gateway: self.0.clone() }
    }
}

/// See [`CustomerRateLayer`].
#[derive(Clone, Debug)]
pub struct CustomerRate<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Identified, Error = Box<Rejected>>> Serve<Identified> for CustomerRate<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, mut request: Identified) -> Result<Reply, Self::Error> {
        // Not when the request arrived: its customer may have been read from a body that took its time.
        let now = self.gateway.clock.now();
        for (scope, limit) in buckets(&request.who.customer) {
            if let Some((refusal, standing)) = self.gateway.empty.refusal(&scope.owner, now) {
                let rejected =
                    Rejected { flood: true, standing: Some(standing), ..*Box::<Rejected>::from(Rejection::Limit(refusal)) };
                return Err(Box::new(rejected));
            }
            request.claims.push(claim(scope, limit, 1));
        }
        self.inner.serve(request).await
    }
}

/// The message buckets of a request: the customer's, then the user's.
fn buckets(customer: &Customer) -> impl Iterator<Item = (&ScopeKey, &Limit)> {
    let own = customer.plan.limits.messages.as_ref().map(|limit| (&customer.scope, limit));
    let user = customer.user.as_ref().zip(customer.plan.user.messages.as_ref()).map(|((_, scope), limit)| (scope, limit));
    own.into_iter().chain(user)
}

/// A claim on a configured rate limit.
#[must_use]
pub fn claim(scope: &ScopeKey, limit: &Limit, amount: u64) -> Claim {
    let max_wait = u64::try_from(limit.max_wait.as_micros()).unwrap_or(u64::MAX);
    let rule = match limit.kind {
        // Only the customer's own limits forgive: a ceiling mirrors what the provider counted.
        LimitKind::Bucket(bucket) => Rule::Bucket { bucket, max_wait, forgive: scope.scope.is_customers(), mirrors: false },
        LimitKind::Sliding(limit) => Rule::Window { limit, max_wait },
    };
    Claim { scope: scope.clone(), limit: limit.name, rule, measure: limit.measure, amount }
}

/// Remembers the message buckets that a decision showed to be empty. `now` is read before the store is asked, so that what is
/// remembered ends no later than the instant the store gave.
pub fn remember(gateway: &Gateway, claims: &[Claim], decision: &Decision, standing: &Standing, now: Timestamp) {
    for (claim, verdict) in claims.iter().zip(&decision.verdicts) {
        if let (LimitName::Messages, Outcome::Refused(wait)) = (claim.limit, verdict.outcome)
            && let Some(refusal) = Refusal::of(claim, verdict, decision.at)
        {
            gateway.empty.remember(&claim.scope.owner, &refusal, wait, standing, now);
        }
    }
}
