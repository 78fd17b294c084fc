//! Shadow limits: a proposed plan, looked at on live traffic by the code that decides for real, of which nothing is refused.
//!
//! Every request that asks the limits of a plan with a shadow asks those as well, in a ledger of this process's memory that holds
//! nothing else; what they would have refused is counted, logged, and kept in the history. The request itself, its claims and its answer
//! are as without. It is settled beside the real reservation, so budgets and token buckets of the shadow follow what was really used.
//!
//! Each gateway looks at its own traffic, and forgets it when it ends: behind two gateways a shadow sees half of a customer each. What
//! the message bucket of the real plan refuses without asking the store is not seen.

use super::call::Call;
use super::customer_rate::claim;
use super::gateway::Gateway;
use super::spend::budgets;
use super::token_rate::rates;
use crate::config::policy::{Limits, Shadow};
use crate::domain::{Clock, Timestamp};
use crate::history::Teller;
use crate::limit::{Admission, Claim, Elastic, Line, Measure, Refusal, ScopeKey, Settlement};
use crate::store::Ledger;
use crate::store::embedded::EmbeddedLedger;
use crate::store::reservation::{Actuals, Witness};
use crate::telemetry::metrics::{Name, ShadowLabels};
use futures_util::FutureExt;
use std::sync::Arc;

/// The books of the shadows.
pub struct Shadows(Arc<EmbeddedLedger>);

impl Shadows {
    /// Nothing used yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(EmbeddedLedger::in_memory(clock)))
    }
}

/// Which part of a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// All of it, for the first time.
    Whole,
    /// Its message alone: it is turned away for its slots.
    Message,
    /// Once more with another model: neither a message nor a request, and it is counted already.
    Again,
}

/// Looks at the shadow of the call's plan, where it has one. `at` is when the real limits were asked.
pub fn look(gateway: &Gateway, call: &Call, asks: Asks, elastic: Option<Elastic>, at: Timestamp) -> Option<Hold> {
    let shadows = &call.who.policy.shadows;
    // One look at an empty map, where there are none.
    let plan = &call.who.customer.plan.name;
    let shadow = if shadows.is_empty() { None } else { shadows.get(plan) }?;
    let admission = Admission {
        reservation: gateway.reservation_id(),
        customer: call.who.customer.scope.clone(),
        claims: claims(gateway, call, shadow, asks),
        elastic: elastic.filter(|_| asks != Asks::Message),
        lease: u64::MAX,
    };
    let decision = gateway.shadows.0.admit(&admission, Some(at)).now_or_never()?.ok()?;
    if decision.admitted {
        let (ledger, lines) = (gateway.shadows.0.clone(), admission.lines(&decision));
        let Admission { reservation, customer, .. } = admission;
        return Some(Hold { ledger, settlement: Some(Settlement { reservation, customer, lines }) });
    }
    if asks != Asks::Again
        && let Some(refusal) = Refusal::worst(&admission.claims, &decision)
    {
        let (scope, limit) = (refusal.scope.as_str(), refusal.limit.as_str());
        call.who.record.note(|facts| facts.shadow_refused = Some((scope, limit)));
        gateway.metrics.shadow_refusals.get_or_create(&ShadowLabels { plan: Name(plan.clone()), scope, limit }).inc();
    }
    None
}

/// What a call asks of a shadow: as of its plan and the user inside it.
fn claims(gateway: &Gateway, call: &Call, shadow: &Shadow, asks: Asks) -> Vec<Claim> {
    let customer = &call.who.customer;
    let mut claims = Vec::new();
    let mut of = |scope: &ScopeKey, limits: &Limits| {
        claims.extend(limits.messages.as_ref().map(|limit| claim(scope, limit, 1)));
        rates(&mut claims, scope, limits, call);
        budgets(gateway, &mut claims, scope, limits, call);
    };
    of(&customer.scope, &shadow.limits);
    if let Some((_, scope)) = &customer.user {
        of(scope, &shadow.user);
    }
    claims.retain(|claim| match asks {
        Asks::Whole => true,
        Asks::Message => claim.measure == Measure::Message,
        Asks::Again => !matches!(claim.measure, Measure::Message | Measure::Request),
    });
    claims
}

/// What a request holds of a shadow. Dropped it is given back; [`Beside`] settles it.
pub struct Hold {
    ledger: Arc<EmbeddedLedger>,
    /// `None` once settled.
    settlement: Option<Settlement>,
}

impl Hold {
    fn settle(&mut self, used: &Actuals) {
        let Some(mut settlement) = self.settlement.take() else { return };
        let actual = |line: &Line| used.of(&line.claim);
        for line in &mut settlement.lines {
            line.actual = actual(line);
        }
        // A ledger in memory answers at once.
        let _ = self.ledger.settle(&[settlement], None).now_or_never();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.settle(&Actuals::default());
    }
}

/// Tells the history of a reservation, and settles the shadow beside it.
pub struct Beside {
    /// The history.
    pub teller: Teller,
    /// The shadow.
    pub hold: Hold,
}

impl Witness for Beside {
    fn settled(self: Box<Self>, used: &Actuals, served: Option<&str>) {
        let Self { teller, mut hold } = *self;
        Box::new(teller).settled(used, served);
        hold.settle(used);
    }
}
