//! Tollgate in the lab: the limiter over books in memory, the ladder over the gauges, and what the stack does with their answers.

mod claims;
mod pools;

pub use claims::{Ask, Calendar};

use super::books::Books;
use crate::config::Policy;
use crate::config::policy::{App, Limits, Plan};
use crate::domain::{NanoUsd, Period, Priority, ReservationId, Timestamp};
use crate::limit::{Admission, Claim, LimitName, Refusal, Remedy, Rule, Scope, ScopeKey, Settlement};
use crate::stack::expected::Expected;
use crate::stack::give_up::PAUSED_FOR;
use crate::stack::output::{floor_of, most_of};
use crate::stack::token_rate::Demand;
use crate::store::reservation::Actuals;
use crate::wire::Usage;
use pools::Pools;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Customers seen empty, after which those are forgotten that are no more.
const MOST_EMPTY: usize = 10_000;

/// The gateway of a run.
pub struct Gateway {
    policy: Arc<Policy>,
    books: Books,
    pools: Pools,
    expected: Expected,
    calendar: Calendar,
    /// Customers whose message bucket is empty, with the refusal and the instant at which it ends.
    empty: HashMap<Arc<str>, (Timestamp, Refusal)>,
    reservations: u128,
}

/// A request as the gateway sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Whose.
    pub customer: &'a ScopeKey,
    /// Which of their users, where that is known.
    pub user: Option<&'a ScopeKey>,
    /// The calling application, where it has limits.
    pub app: Option<&'a App>,
    /// The customer's plan.
    pub plan: &'a Arc<Plan>,
    /// The model that is to answer.
    pub model: &'a Arc<str>,
    /// Its priority.
    pub priority: Priority,
    /// Its input tokens.
    pub input: u64,
    /// The output cap it asks for.
    pub cap: Option<u64>,
    /// Whether it is the request itself, not a fallback or a further try.
    pub first: bool,
}

/// What an admitted request holds until it ends.
#[derive(Debug)]
pub struct Held {
    /// Its model.
    pub model: Arc<str>,
    /// The output cap that goes to the provider.
    pub cap: u64,
    /// Whether level 2, or what the budget affords, made it shorter than asked.
    pub short: bool,
    /// The output that was expected of it.
    pub expected: u64,
    settlement: Settlement,
    deferred: Vec<Claim>,
    plan: Arc<str>,
    since: Timestamp,
}

/// The gateway's decision.
#[derive(Debug)]
pub enum Decided {
    /// It may start after so many microseconds.
    Starts(Box<Held>, u64),
    /// A limit says no.
    Refused(Refusal),
    /// Background work is paused; to be asked again after so many microseconds.
    Paused(u64),
}

impl Gateway {
    /// A fresh one.
    pub fn new(policy: &Arc<Policy>) -> Self {
        Self {
            pools: Pools::new(&policy.levels),
            policy: Arc::clone(policy),
            books: Books::default(),
            expected: Expected::default(),
            calendar: Calendar::default(),
            empty: HashMap::new(),
            reservations: 0,
        }
    }

    /// The books, to begin with more than nothing in them.
    pub const fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    /// What a customer has spent today.
    pub fn spent(&self, customer: &ScopeKey) -> NanoUsd {
        self.books.spent(customer, Period::Day)
    }

    /// A look at the gauges, as production takes it; gives the highest level of any pool.
    pub fn look(&mut self, now: Timestamp) -> u8 {
        self.pools.step(now)
    }

    /// Decides a request.
    pub fn decide(&mut self, now: Timestamp, asked: &Asked<'_>) -> Decided {
        if asked.first
            && let Some(refusal) = self.known_empty(now, &asked.customer.owner)
        {
            return Decided::Refused(refusal);
        }
        let policy = Arc::clone(&self.policy);
        let pool = policy.pool_of(asked.model);
        let level = pool.map_or(0, |pool| self.pools.level(&pool.name));
        if level >= 1 && asked.priority == Priority::Background {
            return Decided::Paused(PAUSED_FOR);
        }
        let model = policy.models.get(asked.model);
        let floor = model.and_then(|model| model.output_floor).unwrap_or_else(|| floor_of(asked.model));
        let planned = asked.plan.max_output_tokens.map(|plan| plan.max(floor));
        let most = most_of(model, policy.prices.get(asked.model).as_deref());
        let wanted = match (asked.cap, planned) {
            (Some(asked), Some(planned)) => asked.min(planned),
            (Some(asked), None) => asked,
            (None, planned) => planned.unwrap_or(most).min(most),
        };
        let floor = floor.min(wanted);
        let cap = if level >= 2 { wanted.min(policy.levels.output_cap.max(floor)) } else { wanted };
        let expected = self.expected.output(asked.model, &asked.plan.name, cap);
        let ask = Ask {
            scopes: scopes(asked, &policy),
            model: Arc::clone(asked.model),
            priority: asked.priority,
            demand: Demand { input: asked.input, cap, expected },
            floor,
            message: asked.first,
            level,
        };
        let (claims, elastic) = ask.claims(&policy, pool.map(AsRef::as_ref), &mut self.calendar, now);
        self.reservations += 1;
        let (reservation, customer) = (ReservationId::new(self.reservations), asked.customer.clone());
        let admission = Admission { reservation, customer, claims, elastic, lease: u64::MAX };
        let decision = self.books.admit(now, &admission);
        if !decision.admitted {
            let refusal = Refusal::worst(&admission.claims, &decision).expect("what is not admitted was refused by a limit");
            self.remember(now, &asked.customer.owner, &refusal);
            return Decided::Refused(refusal);
        }
        let lines = admission.lines(&decision);
        self.pools.claimed(now, &lines);
        let deferred =
            if decision.deferred() { admission.claims.into_iter().filter(Claim::is_ceiling).collect() } else { Vec::new() };
        let cap = decision.granted.unwrap_or(cap);
        let held = Held {
            model: Arc::clone(asked.model),
            cap,
            short: cap < wanted,
            expected: expected.min(cap),
            settlement: Settlement { reservation, customer: admission.customer, lines },
            deferred,
            plan: Arc::clone(&asked.plan.name),
            since: now,
        };
        Decided::Starts(Box::new(held), decision.start_in)
    }

    /// Whoever was just seen empty is refused without a look at the books, as in production: a flood costs nothing.
    fn known_empty(&self, now: Timestamp, owner: &Arc<str>) -> Option<Refusal> {
        let (until, refusal) = self.empty.get(owner).filter(|(until, _)| now < *until)?;
        Some(Refusal { remedy: Remedy::Wait(until.since(now)), ..refusal.clone() })
    }

    fn remember(&mut self, now: Timestamp, owner: &Arc<str>, refusal: &Refusal) {
        if let (LimitName::Messages, Scope::Customer, Remedy::Wait(wait)) = (refusal.limit, refusal.scope, refusal.remedy) {
            if self.empty.len() >= MOST_EMPTY {
                self.empty.retain(|_, (until, _)| now < *until);
            }
            self.empty.insert(Arc::clone(owner), (now.plus(wait), refusal.clone()));
        }
    }

    /// The wait for its own limits is over: claims the ceiling where that was left for now. `Ok` is the further wait.
    ///
    /// # Errors
    /// What the ceiling says against it.
    pub fn start(&mut self, now: Timestamp, held: &mut Held) -> Result<u64, Refusal> {
        let claims = std::mem::take(&mut held.deferred);
        if claims.is_empty() { Ok(0) } else { self.claim(now, held, claims) }
    }

    /// Claims the ceiling once more, for a further attempt at the provider that may wait so long. `Ok` is the wait.
    ///
    /// # Errors
    /// What the ceiling says against it.
    pub fn again(&mut self, now: Timestamp, held: &mut Held, left: Duration) -> Result<u64, Refusal> {
        let left = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
        let ceiling = held.settlement.lines.iter().map(|line| &line.claim).filter(|claim| claim.is_ceiling());
        let mut claims: Vec<Claim> = ceiling.cloned().collect();
        claims.sort_by_key(|claim| claim.limit);
        claims.dedup_by_key(|claim| claim.limit);
        for claim in &mut claims {
            if let Rule::Bucket { max_wait, .. } | Rule::Window { max_wait, .. } = &mut claim.rule {
                *max_wait = (*max_wait).min(left);
            }
        }
        if claims.is_empty() { Ok(0) } else { self.claim(now, held, claims) }
    }

    fn claim(&mut self, now: Timestamp, held: &mut Held, claims: Vec<Claim>) -> Result<u64, Refusal> {
        let Settlement { reservation, customer, .. } = &held.settlement;
        let admission =
            Admission { reservation: *reservation, customer: customer.clone(), claims, elastic: None, lease: u64::MAX };
        let decision = self.books.admit(now, &admission);
        if !decision.admitted {
            return Err(Refusal::worst(&admission.claims, &decision).expect("what is not admitted was refused by a limit"));
        }
        let lines = admission.lines(&decision);
        self.pools.claimed(now, &lines);
        held.settlement.lines.extend(lines);
        Ok(decision.start_in)
    }

    /// Books a request that was answered.
    pub fn answered(&mut self, now: Timestamp, held: Held, input: u64, output: u64) {
        self.expected.learn(&held.model, &held.plan, output);
        let cost = self.cost(&held.model, input, output);
        self.settle(now, held, &Actuals { attempted: true, input, input_uncached: input, output, cost, ..Actuals::default() });
    }

    /// Books a request that no provider answered.
    pub fn failed(&mut self, now: Timestamp, held: Held, attempted: bool) {
        self.settle(now, held, &Actuals { attempted, ..Actuals::default() });
    }

    fn settle(&mut self, now: Timestamp, held: Held, actuals: &Actuals) {
        let Held { mut settlement, since, .. } = held;
        for line in &mut settlement.lines {
            line.actual = actuals.of(&line.claim);
        }
        self.pools.settled(now, since, &settlement.lines);
        self.books.settle(now, &settlement);
    }

    /// Books what was used behind a limiter that holds nothing.
    pub fn book(&mut self, now: Timestamp, customer: &ScopeKey, model: &str, input: u64, output: u64) {
        let cost = self.cost(model, input, output);
        self.books.spend(now, customer, &self.policy.zone, cost);
    }

    fn cost(&self, model: &str, input: u64, output: u64) -> NanoUsd {
        let usage = Usage { uncached_input: input, output, ..Usage::default() };
        self.policy.prices.get(model).map_or(NanoUsd::ZERO, |price| price.cost(&usage, None))
    }
}

/// Whose limits a request has to fit.
fn scopes<'a>(asked: &Asked<'a>, policy: &'a Policy) -> Vec<(ScopeKey, &'a Limits)> {
    let mut scopes = vec![(asked.customer.clone(), &asked.plan.limits)];
    scopes.extend(asked.user.map(|user| (user.clone(), &asked.plan.user)));
    scopes.extend(asked.app.map(|app| (ScopeKey { scope: Scope::App, owner: app.name.clone() }, &app.limits)));
    let whole = &policy.gateway;
    if !whole.rates.is_empty() || !whole.spend.is_empty() || !whole.quotas.is_empty() {
        scopes.push((ScopeKey { scope: Scope::Gateway, owner: "".into() }, whole));
    }
    scopes
}
