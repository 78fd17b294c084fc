//! Layer 9: dollars and quotas per day, week and month, of user, customer, app and the whole gateway.
//!
//! Only claims; `admit` decides. Dollars are claimed at the worst case the request can cost, so whatever is admitted together stays
//! under the cap together; settlement puts the true cost in their place.

use super::call::{Call, Rejected, Reply};
use super::gateway::Gateway;
use super::serve::Serve;
use crate::config::policy::Limits;
use crate::domain::NanoUsd;
use crate::limit::{Claim, LimitName, Measure, Rule, Scope, ScopeKey};
use std::sync::Arc;
use tower::Layer;

/// Claims money and quotas for whatever it wraps.
#[derive(Clone, Debug)]
pub struct SpendLayer(pub Arc<Gateway>);

impl<S> Layer<S> for SpendLayer {
    type Service = Spend<S>;
    fn layer(&self, inner: S) -> Spend<S> {
        Spend { inner, gateway: self.0.clone() }
    }
}

/// See [`SpendLayer`].
#[derive(Clone, Debug)]
pub struct Spend<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Box<Call>> for Spend<S> {
    type Error = Box<Rejected>;

    fn serve(&self, mut call: Box<Call>) -> impl Future<Output = Result<Reply, Self::Error>> + Send {
        let mut claims = std::mem::take(&mut call.claims);
        let customer = &call.who.customer;
        budgets(&self.gateway, &mut claims, &customer.scope, &customer.plan.limits, &call);
        if customer.plan.suspended && call.request.is_some() {
            close(&self.gateway, &mut claims, &call);
        }
        if let Some((_, scope)) = &customer.user {
            budgets(&self.gateway, &mut claims, scope, &customer.plan.user, &call);
        }
        let app = ScopeKey { scope: Scope::App, owner: call.who.app.name.clone() };
        budgets(&self.gateway, &mut claims, &app, &call.who.app.limits, &call);
        let whole = ScopeKey { scope: Scope::Gateway, owner: "".into() };
        budgets(&self.gateway, &mut claims, &whole, &call.who.policy.gateway, &call);
        call.claims = claims;
        self.inner.serve(call)
    }
}

/// What a call of a suspended customer claims of caps of zero, though it may cost nothing: a nano-dollar, which does not fit. Refused by
/// the store as ever, which knows whether the suspension is still in force.
fn close(gateway: &Gateway, claims: &mut Vec<Claim>, call: &Call) {
    let customer = &call.who.customer;
    for (period, cap) in customer.plan.limits.spend.iter().filter(|(_, cap)| *cap == NanoUsd::ZERO) {
        let limit = LimitName::Spend(*period);
        match claims.iter_mut().find(|claim| claim.scope == customer.scope && claim.limit == limit) {
            Some(claim) => claim.amount = claim.amount.max(1),
            None => {
                let boundaries = gateway.boundaries(&call.who.policy.zone, *period, call.who.at);
                let rule = Rule::Budget { cap: cap.get(), boundaries };
                claims.push(Claim { scope: customer.scope.clone(), limit, rule, measure: Measure::Money, amount: 1 });
            }
        }
    }
}

/// What a call claims of the budgets and quotas of one scope.
pub(super) fn budgets(gateway: &Gateway, claims: &mut Vec<Claim>, scope: &ScopeKey, limits: &Limits, call: &Call) {
    let zone = &call.who.policy.zone;
    let rule = |cap, period| Rule::Budget { cap, boundaries: gateway.boundaries(zone, period, call.who.at) };
    if let Some(worst) = &call.worst {
        let amount = worst.at(call.output.cap).get();
        for (period, cap) in &limits.spend {
            let (limit, rule) = (LimitName::Spend(*period), rule(cap.get(), *period));
            claims.push(Claim { scope: scope.clone(), limit, rule, measure: Measure::Money, amount });
        }
    }
    for (limit, cap) in &limits.quotas {
        let (measure, amount) = match limit {
            LimitName::RequestQuota(_) => (Measure::Request, 1),
            _ if call.who.api.is_free() => continue,
            // As with rates: never more than the quota as long as the input alone fits it; the difference is settled.
            _ => {
                let input = call.input.best;
                let most = input.saturating_add(call.output.cap.saturating_mul(call.output.choices));
                (Measure::Tokens, most.min((*cap).max(input)))
            }
        };
        let Some(period) = limit.period() else { continue };
        claims.push(Claim { scope: scope.clone(), limit: *limit, rule: rule(*cap, period), measure, amount });
    }
}
