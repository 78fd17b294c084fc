//! Questions the stack asks of the policy.

use super::policy::{Plan, Policy, Pool, Upstream};
use super::value::matches;
use crate::wire::Dialect;
use std::sync::Arc;

impl Policy {
    /// The pool of a model: the first of the file one of whose patterns matches.
    #[must_use]
    pub fn pool_of(&self, model: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.models.iter().any(|pattern| matches(pattern, model)))
    }

    /// Where a request for a model goes: to its pool's upstream, else to that of the route's dialect.
    ///
    /// `None` when nothing speaks the dialect, or when the pool's upstream speaks another: requests are never translated.
    #[must_use]
    pub fn upstream_of(&self, model: &str, dialect: Dialect) -> Option<&Arc<Upstream>> {
        match self.pool_of(model) {
            Some(pool) => Some(&pool.upstream).filter(|upstream| upstream.dialect == dialect),
            None => self.default_upstreams.get(&dialect),
        }
    }

    /// The plan the configuration gives a customer: its own version of its plan, else the default plan. `None` = it is unknown and
    /// unknown customers are refused.
    #[must_use]
    pub fn plan_of(&self, customer: &str) -> Option<&Arc<Plan>> {
        let default = Some(&self.identity.default_plan).filter(|_| self.identity.unknown_customers);
        self.customers.get(customer).or(default)
    }
}
