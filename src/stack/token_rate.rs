//! Layer 8: requests and tokens per minute, of user, customer, app and the provider ceiling.
//!
//! Only claims; `admit` decides. Customer limits are claimed on the best estimate and settled to the truth; the ceiling is claimed the
//! way the provider itself counts.

use super::call::{Call, Rejected, Reply};
use super::customer_rate::claim;
use super::serve::Serve;
use crate::config::policy::{Counts, Limit, LimitKind, Limits, Pool};
use crate::domain::Priority;
use crate::limit::{Claim, Measure, Rule, Scope, ScopeKey};
use std::sync::Arc;
use std::time::Duration;
use tower::Layer;

/// Claims rates for whatever it wraps.
#[derive(Clone, Debug)]
pub struct TokenRateLayer;

impl<S> Layer<S> for TokenRateLayer {
    type Service = TokenRate<S>;
    fn layer(&self, inner: S) -> TokenRate<S> {
        TokenRate { inner }
    }
}

/// See [`TokenRateLayer`].
#[derive(Clone, Debug)]
pub struct TokenRate<S> {
    inner: S,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Box<Call>> for TokenRate<S> {
    type Error = Box<Rejected>;

    fn serve(&self, mut call: Box<Call>) -> impl Future<Output = Result<Reply, Self::Error>> + Send {
        let mut claims = std::mem::take(&mut call.claims);
        let customer = &call.who.customer;
        rates(&mut claims, &customer.scope, &customer.plan.limits, &call);
        if let Some((_, scope)) = &customer.user {
            rates(&mut claims, scope, &customer.plan.user, &call);
        }
        let app = &call.who.app;
        if !app.limits.rates.is_empty() {
            rates(&mut claims, &ScopeKey { scope: Scope::App, owner: app.name.clone() }, &app.limits, &call);
        }
        if !call.who.policy.gateway.rates.is_empty() {
            let gateway = ScopeKey { scope: Scope::Gateway, owner: "".into() };
            rates(&mut claims, &gateway, &call.who.policy.gateway, &call);
        }
        ceiling(&mut claims, &call);
        call.claims = claims;
        self.inner.serve(call)
    }
}

/// What a call claims of the rates of one scope.
pub(super) fn rates(claims: &mut Vec<Claim>, scope: &ScopeKey, limits: &Limits, call: &Call) {
    let free = call.who.api.is_free();
    for limit in &limits.rates {
        match limit.measure {
            Measure::Request | Measure::Message => claims.push(claim(scope, limit, 1)),
            // A free route spends requests, no tokens.
            _ if free => {}
            _ => claims.push(claim(scope, limit, tokens(limit, call.input.best, call.output.expected))),
        }
    }
}

/// Input and expected output, but never more than the limit as long as the input alone fits: the difference is settled.
#[must_use]
pub fn tokens(limit: &Limit, input: u64, expected: u64) -> u64 {
    input.saturating_add(expected).min(most(limit).max(input))
}

const fn most(limit: &Limit) -> u64 {
    match limit.kind {
        LimitKind::Bucket(bucket) => bucket.capacity(),
        LimitKind::Sliding(limit) => limit,
    }
}

/// What the call claims of the ceiling of its pool, where it has one.
pub(super) fn ceiling(claims: &mut Vec<Claim>, call: &Call) {
    if let (Some(pool), Some(owner)) = (&call.target.pool, &call.target.ceiling) {
        claim_ceiling(claims, pool, owner, call.who.priority, call.level, Demand::of(call));
    }
}

/// The provider's own account limits, and the part of them that the request's priority may use, counted as the provider counts.
pub fn claim_ceiling(claims: &mut Vec<Claim>, pool: &Pool, owner: &Arc<str>, priority: Priority, level: u8, demand: Demand) {
    let halved = level >= 1 && priority == Priority::Internal;
    let share = if halved { Some(&pool.halved) } else { pool.shares.get(&priority) };
    // From level 3 on nothing waits for the ceiling: a line would only grow.
    let waits = level < 3;
    if let Some(share) = share {
        let scope = ScopeKey { scope: Scope::Share, owner: format!("{owner}/{}", priority.as_str()).into() };
        // What is larger than the share alone may have all of it: too large for the account is for the ceiling to say.
        claims.extend(share.iter().map(|limit| {
            let limit = waiting(limit, waits.then_some(limit.max_wait));
            mirroring(pool.counts, claim(&scope, &limit, asked(&limit, demand, pool.counts).min(most(&limit))))
        }));
    }
    let scope = ScopeKey { scope: Scope::Pool, owner: Arc::clone(owner) };
    for limit in &pool.ceiling {
        let patience = if priority == Priority::Background { pool.background_wait } else { limit.max_wait };
        let limit = waiting(limit, waits.then_some(patience));
        claims.push(mirroring(pool.counts, claim(&scope, &limit, asked(&limit, demand, pool.counts))));
    }
}

/// Where the account is charged with what was used when the reply is there, so are our buckets. Requests count when they come.
fn mirroring(counts: Counts, mut claim: Claim) -> Claim {
    if let (Counts::Actual, Rule::Bucket { mirrors, .. }) = (counts, &mut claim.rule) {
        *mirrors = !matches!(claim.measure, Measure::Request | Measure::Message);
    }
    claim
}

/// The size of a request, as far as it is known before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The best estimate of its input tokens.
    pub input: u64,
    /// Its output cap.
    pub cap: u64,
    /// The output that is expected.
    pub expected: u64,
}

impl Demand {
    const fn of(call: &Call) -> Self {
        Self { input: call.input.best, cap: call.output.cap, expected: call.output.expected }
    }
}

/// The limit with another patience; `None` = it does not wait.
fn waiting(limit: &Limit, patience: Option<Duration>) -> Limit {
    Limit { max_wait: patience.unwrap_or(Duration::ZERO), ..*limit }
}

/// What a request asks of one of a provider's limits.
fn asked(limit: &Limit, demand: Demand, counts: Counts) -> u64 {
    let Demand { input, cap, expected } = demand;
    match (limit.measure, counts) {
        (Measure::Request | Measure::Message, _) => 1,
        (Measure::Reserved, _) => cap.max(input).min(most(limit).max(input)),
        (Measure::Input, _) => input,
        // Output is counted as it is produced: nothing now, but no start while the limit is in debt.
        (Measure::Output, Counts::InputOutput) => 0,
        (Measure::Output, _) => expected.min(most(limit)),
        (Measure::Tokens | Measure::Money, _) => tokens(limit, input, expected),
    }
}
