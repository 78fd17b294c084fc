//! Tollgate in the lab: the limiter over books in memory, the ladder over a gauge, and what the stack does with their answers.

mod claims;
mod gauge;

pub use claims::{Ask, Calendar};

use super::books::Books;
use crate::config::Policy;
use crate::config::policy::{App, Limits, Plan, Pool};
use crate::domain::{NanoUsd, Period, Priority, ReservationId, Timestamp};
use crate::limit::{Admission, Claim, Line, Refusal, Scope, ScopeKey, Settlement};
use crate::stack::expected::Expected;
use crate::stack::token_rate::Demand;
use crate::store::reservation::Actuals;
use crate::wire::Usage;
use gauge::Gauge;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The smallest output cap worth having, unless the model's configuration says otherwise: as in `stack/output.rs`.
const FLOOR: u64 = 16;
/// A background request that is paused by the level is told to come back after so long, microseconds.
const PAUSED_RETRY: u64 = 60_000_000;

/// The gateway of a run.
pub struct Gateway {
    policy: Arc<Policy>,
    books: Books,
    gauges: HashMap<Arc<str>, Gauge>,
    expected: Expected,
    calendar: Calendar,
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
    /// Whether it is the request itself, not a fallback.
    pub first: bool,
    /// What is left of the wait budget.
    pub wait: Duration,
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
    settlement: Settlement,
    deferred: Vec<Claim>,
    plan: Arc<str>,
    expected: u64,
    started: Timestamp,
}

impl Held {
    /// The output that was expected of it.
    pub const fn expected(&self) -> u64 {
        self.expected
    }
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
        let gauge = |pool: &Arc<Pool>| (Arc::clone(&pool.name), Gauge::new(pool, &policy.levels));
        Self {
            gauges: policy.pools.iter().map(gauge).collect(),
            policy: Arc::clone(policy),
            books: Books::default(),
            expected: Expected::default(),
            calendar: Calendar::default(),
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

    /// The highest level of any pool.
    pub fn level(&mut self, now: Timestamp) -> u8 {
        self.gauges.values_mut().map(|gauge| gauge.level(now)).max().unwrap_or(0)
    }

    /// Decides a request.
    pub fn decide(&mut self, now: Timestamp, asked: &Asked<'_>) -> Decided {
        let policy = Arc::clone(&self.policy);
        let pool = policy.pool_of(asked.model);
        let level = pool.and_then(|pool| self.gauges.get_mut(&pool.name)).map_or(0, |gauge| gauge.level(now));
        if level >= 1 && asked.priority == Priority::Background {
            return Decided::Paused(PAUSED_RETRY);
        }
        let planned = asked.plan.max_output_tokens.unwrap_or(u64::MAX);
        let most = policy.prices.get(asked.model).and_then(|price| price.max_output_tokens).unwrap_or(16_384);
        let wanted = asked.cap.map_or(planned.min(most), |cap| cap.min(planned));
        let floor = policy.models.get(asked.model).and_then(|model| model.output_floor).unwrap_or(FLOOR).min(wanted);
        let cap = if level >= 2 { wanted.min(policy.levels.output_cap.max(floor)) } else { wanted };
        let expected = self.expected.output(asked.model, &asked.plan.name, cap);
        let ask = Ask {
            scopes: scopes(asked, &policy),
            model: Arc::clone(asked.model),
            priority: asked.priority,
            demand: Demand { input: asked.input, cap, expected },
            floor,
            message: asked.first,
            wait: if level >= 3 { Duration::ZERO } else { asked.wait },
        };
        let (claims, elastic) = ask.claims(&policy, pool.map(AsRef::as_ref), &mut self.calendar, now);
        self.reservations += 1;
        let admission = Admission {
            reservation: ReservationId::new(self.reservations),
            customer: asked.customer.clone(),
            claims,
            elastic,
            lease: u64::MAX,
        };
        let decision = self.books.admit(now, &admission);
        if !decision.admitted {
            let refusal = Refusal::worst(&admission.claims, &decision).expect("what is not admitted was refused by a limit");
            return Decided::Refused(refusal);
        }
        let lines = admission.lines(&decision);
        let started = now.plus(decision.start_in);
        let deferred = if decision.deferred() { admission.claims.into_iter().filter(Claim::is_ceiling).collect() } else { Vec::new() };
        self.note(&lines, asked.model, started);
        let cap = decision.granted.unwrap_or(cap);
        let held = Held {
            model: Arc::clone(asked.model),
            cap,
            short: cap < wanted,
            settlement: Settlement { reservation: admission.reservation, customer: admission.customer, lines },
            deferred,
            plan: Arc::clone(&asked.plan.name),
            expected,
            started,
        };
        Decided::Starts(Box::new(held), decision.start_in)
    }

    /// The wait for its own limits is over: claims the ceiling where that was left for now. `Ok` is the further wait.
    ///
    /// # Errors
    /// What the ceiling says against it.
    pub fn start(&mut self, now: Timestamp, held: &mut Held) -> Result<u64, Refusal> {
        let claims = std::mem::take(&mut held.deferred);
        if claims.is_empty() { Ok(0) } else { self.claim(now, held, claims) }
    }

    /// Claims the ceiling once more, for a further attempt at the provider. `Ok` is the wait.
    ///
    /// # Errors
    /// What the ceiling says against it.
    pub fn again(&mut self, now: Timestamp, held: &mut Held) -> Result<u64, Refusal> {
        let ceiling = held.settlement.lines.iter().map(|line| &line.claim).filter(|claim| claim.is_ceiling());
        let mut claims: Vec<Claim> = ceiling.cloned().collect();
        claims.sort_by_key(|claim| claim.limit);
        claims.dedup_by_key(|claim| claim.limit);
        self.claim(now, held, claims)
    }

    fn claim(&mut self, now: Timestamp, held: &mut Held, claims: Vec<Claim>) -> Result<u64, Refusal> {
        let Settlement { reservation, customer, .. } = &held.settlement;
        let admission = Admission { reservation: *reservation, customer: customer.clone(), claims, elastic: None, lease: u64::MAX };
        let decision = self.books.admit(now, &admission);
        if !decision.admitted {
            return Err(Refusal::worst(&admission.claims, &decision).expect("what is not admitted was refused by a limit"));
        }
        let lines = admission.lines(&decision);
        held.started = now.plus(decision.start_in);
        self.note(&lines, &held.model, held.started);
        held.settlement.lines.extend(lines);
        Ok(decision.start_in)
    }

    fn note(&mut self, lines: &[Line], model: &str, start: Timestamp) {
        let policy = Arc::clone(&self.policy);
        if let Some(gauge) = policy.pool_of(model).and_then(|pool| self.gauges.get_mut(&pool.name)) {
            gauge.take(lines, start);
        }
    }

    /// Books a request that was answered.
    pub fn answered(&mut self, now: Timestamp, held: Box<Held>, input: u64, output: u64) {
        self.expected.learn(&held.model, &held.plan, output);
        let usage = Usage { uncached_input: input, output, ..Usage::default() };
        let cost = self.policy.prices.get(&held.model).map_or(NanoUsd::ZERO, |price| price.cost(&usage, None));
        self.settle(now, held, &Actuals { attempted: true, input, input_uncached: input, output, cost });
    }

    /// Books a request that no provider answered.
    pub fn failed(&mut self, now: Timestamp, held: Box<Held>, attempted: bool) {
        self.settle(now, held, &Actuals { attempted, ..Actuals::default() });
    }

    fn settle(&mut self, now: Timestamp, held: Box<Held>, actuals: &Actuals) {
        let Held { model, mut settlement, started, .. } = *held;
        for line in &mut settlement.lines {
            line.actual = actuals.of(&line.claim);
        }
        let policy = Arc::clone(&self.policy);
        if let Some(gauge) = policy.pool_of(&model).and_then(|pool| self.gauges.get_mut(&pool.name)) {
            gauge.settle(&settlement.lines, started);
        }
        self.books.settle(now, &settlement);
    }

    /// Books what was used behind a limiter that holds nothing.
    pub fn book(&mut self, now: Timestamp, customer: &ScopeKey, model: &str, input: u64, output: u64) {
        let usage = Usage { uncached_input: input, output, ..Usage::default() };
        let cost = self.policy.prices.get(model).map_or(NanoUsd::ZERO, |price| price.cost(&usage, None));
        let policy = Arc::clone(&self.policy);
        self.books.spend(now, customer, &policy.zone, cost);
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
