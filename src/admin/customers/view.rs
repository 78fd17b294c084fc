//! One customer, whole: whoever asks why it was refused finds the answer in this one call.

use crate::admin::Fault;
use crate::admin::overrides::OverrideView;
use crate::admin::shown::{LimitStanding, PlanShape, Room, claims};
use crate::directory::{Assigned, Current};
use crate::domain::{CustomerId, Timestamp, UserId};
use crate::records::{Notable, Seen};
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::stack::call::Customer;
use crate::store::leases::InFlight;
use crate::store::{Look, Seen as Looked};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Holds that are listed; more are counted.
const LISTED: usize = 100;

/// A customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CustomerView {
    /// The exact id.
    pub customer: String,
    /// When all of this was so, by the clock of the store, RFC 3339.
    pub at: String,
    /// Whether it was seen in the last three months, is configured, or has an override.
    pub known: bool,
    /// When it was last noted as seen, RFC 3339; it may have been seen up to a day later.
    pub seen_at: Option<String>,
    /// By which plan its request was decided then: a key may name another plan for a customer to which nobody gave one.
    pub seen_plan: Option<String>,
    /// Who gave the plan.
    pub assigned: Assigned,
    /// The plan that its override names though there is none of that name any more; what else the override says holds. Null: none.
    pub plan_gone: Option<String>,
    /// Whether `[customers.ID]` of the configuration says something of it.
    pub configured: bool,
    /// Whether an operator has suspended it: nothing is served, whatever it costs and whatever credits there are.
    pub suspended: bool,
    /// The plan in force, with everything that is set for this customer.
    pub plan: PlanShape,
    /// What is set at run time; null: nothing.
    #[serde(rename = "override")]
    pub said: Option<OverrideView>,
    /// Limits that would refuse the smallest request now: `limit` of those in `limits`, or `in_flight`.
    pub refusing: Vec<String>,
    /// Of the limits that would not refuse it the one that is used furthest: a larger request may not fit. Null: there is none.
    pub fullest: Option<Fullest>,
    /// How each limit stands.
    pub limits: Vec<LimitStanding>,
    /// Requests in flight.
    pub in_flight: InFlightView,
    /// What requests in flight hold, the oldest first as far as their age is known; at most 100.
    pub holds: Vec<HoldView>,
    /// Holds that are not listed.
    pub more_holds: u64,
    /// Its latest requests that were not served as asked, the latest first; at most 30, as old as records are kept.
    pub refusals: Vec<Notable>,
}

/// The limit that is used furthest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fullest {
    /// Whose: `customer` or `user`.
    pub scope: String,
    /// Which.
    pub limit: String,
    /// How much of it is used and held, in thousandths, rounded down.
    pub permille: u64,
}

impl Fullest {
    fn of(limits: &[LimitStanding]) -> Option<Self> {
        let open = limits.iter().filter(|limit| matches!(limit.room, Room::Open | Room::Waits));
        let part = |limit: &LimitStanding| {
            let taken = u128::from(limit.used) + u128::from(limit.held);
            (taken * 1_000).checked_div(u128::from(limit.max)).map(|part| u64::try_from(part).unwrap_or(u64::MAX))
        };
        let (permille, limit) = open.filter_map(|limit| Some((part(limit)?, limit))).max_by_key(|(part, _)| *part)?;
        Some(Self { scope: limit.scope.clone(), limit: limit.limit.clone(), permille })
    }
}

/// Requests in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InFlightView {
    /// Running or waiting for a slot in the process that was asked.
    pub here: u32,
    /// The most that one process lets in; null: no such limit.
    pub max: Option<u32>,
}

/// What one request in flight holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HoldView {
    /// The reservation.
    pub reservation: String,
    /// What it holds of the dollar caps, nano-dollars.
    pub nano_usd: u64,
    /// When it is taken for lost unless its gateway renews it, RFC 3339; null where holds have no leases (the embedded store).
    pub deadline: Option<String>,
    /// Whether its request is in the process that was asked; what follows is known only of those.
    pub here: bool,
    /// Since when, RFC 3339.
    pub since: Option<String>,
    /// The request.
    pub request_id: Option<String>,
    /// The model it is held for.
    pub model: Option<String>,
}

/// One customer, and one user inside it if that is asked for.
///
/// # Errors
/// [`Fault::StoreUnavailable`].
pub async fn view(gateway: &Gateway, id: &CustomerId, user: Option<&UserId>) -> Result<CustomerView, Fault> {
    let policy = gateway.policy.load_full();
    let plans = gateway.directory.current_view(&policy).await?;
    let current = gateway.directory.current(&plans, id.as_str()).await?;
    let Current { plan, assigned, configured, gone, said } = current;
    let now = gateway.clock.now();
    let customer = Customer::new(id.clone(), plan.clone(), user.cloned());
    let periods = |period| gateway.boundaries(&policy.zone, period, now);
    let mut asked = claims(&customer.scope, &plan.limits, periods);
    if let Some((_, scope)) = &customer.user {
        asked.extend(claims(scope, &plan.user, periods));
    }
    let look = Look { customer: customer.scope.clone(), claims: asked };
    let mut looked = gateway.ledger.look(&look, None).await?;
    let (seen, refusals) = tokio::try_join!(gateway.records.seen(id.as_str()), gateway.records.refusals(id.as_str()))?;
    let running = gateway.settler.running().of(&customer.scope);
    // What runs here was admitted before: what the store did not tell of has come since, and is told of now.
    if running.iter().any(|one| looked.holds.iter().all(|hold| hold.reservation != one.reservation)) {
        looked = gateway.ledger.look(&look, None).await?;
    }

    let standing = |(claim, verdict)| LimitStanding::of(claim, verdict, looked.at);
    let limits: Vec<_> = look.claims.iter().zip(&looked.verdicts).map(standing).collect();
    let in_flight = InFlightView { here: gateway.slots.in_flight(&customer.scope.owner), max: plan.max_in_flight };
    let shut = limits.iter().filter(|limit| !matches!(limit.room, Room::Open | Room::Waits));
    let mut refusing: Vec<_> = shut.map(|limit| limit.limit.clone()).collect();
    if in_flight.max.is_some_and(|max| in_flight.here >= max) {
        refusing.push("in_flight".to_owned());
    }
    let mut holds = holds(&looked, running, now);
    let more_holds = holds.len().saturating_sub(LISTED) as u64;
    holds.truncate(LISTED);
    Ok(CustomerView {
        customer: id.to_string(),
        at: rfc3339(looked.at),
        known: seen.is_some() || configured || said.is_some(),
        seen_at: seen.as_ref().map(Seen::when).map(rfc3339),
        seen_plan: seen.and_then(|seen| seen.plan).map(String::from),
        assigned,
        plan_gone: gone.map(String::from),
        configured,
        suspended: plan.suspended,
        plan: PlanShape::of(&plan),
        said: said.as_ref().map(OverrideView::of),
        refusing,
        fullest: Fullest::of(&limits),
        limits,
        in_flight,
        holds,
        more_holds,
        refusals,
    })
}

/// What the books know of a customer's reservations, and what this process knows of its own; also of those that hold nothing there.
fn holds(looked: &Looked, running: Vec<InFlight>, now: Timestamp) -> Vec<HoldView> {
    let mut here: BTreeMap<u128, InFlight> = running.into_iter().map(|one| (one.reservation.bits(), one)).collect();
    let view = |reservation: String, nano_usd, deadline: Option<Timestamp>, own: Option<InFlight>| {
        let age = own.as_ref().map(|own| u64::try_from(own.age.as_micros()).unwrap_or(u64::MAX));
        let about = own.as_ref().and_then(|own| own.about.as_ref());
        HoldView {
            reservation,
            nano_usd,
            deadline: deadline.map(rfc3339),
            here: own.is_some(),
            since: age.map(|age| rfc3339(Timestamp(now.micros().saturating_sub(age)))),
            request_id: about.map(|about| about.request.to_string()),
            model: about.map(|about| about.model.to_string()),
        }
    };
    let mut all = Vec::with_capacity(looked.holds.len());
    for hold in &looked.holds {
        let own = here.remove(&hold.reservation.bits());
        all.push(view(hold.reservation.to_string(), hold.money.get(), hold.until, own));
    }
    all.extend(here.into_values().map(|own| view(own.reservation.to_string(), 0, None, Some(own))));
    all.sort_by(|a, b| (a.since.is_none(), &a.since, &a.reservation).cmp(&(b.since.is_none(), &b.since, &b.reservation)));
    all
}
