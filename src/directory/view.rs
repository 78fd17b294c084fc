//! The plans in force: those of the configuration with those set at run time laid over them, compiled.

use super::keys::{KeptKeys, Ring, Uses};
use crate::config::Policy;
use crate::config::book::Book;
use crate::config::policy::Plan;
use foldhash::HashMap;
use serde_json::Value;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct View {
    /// The configuration they are laid over.
    pub policy: Arc<Policy>,
    /// Under which they are in force.
    pub number: u64,
    /// What was set at run time.
    pub(super) said: Vec<(Arc<str>, Value)>,
    /// The gateway keys made at run time, as they are kept.
    pub(super) keys: KeptKeys,
    /// The same, compiled.
    pub ring: Ring,
    pub(super) book: Arc<Book>,
    /// `None` = those of the policy.
    compiled: Option<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    plans: HashMap<Arc<str>, Arc<Plan>>,
    customers: HashMap<Arc<str>, Arc<Plan>>,
}

impl View {
    /// Those of the configuration.
    #[must_use]
    pub fn of(policy: Arc<Policy>) -> Self {
        Self::with(policy, 0, Vec::new(), Arc::default(), &Uses::default())
    }

    /// With these laid over them. One that is no longer sound (the configuration may have changed since) is left out, and said so.
    pub(super) fn with(policy: Arc<Policy>, number: u64, said: Vec<(Arc<str>, Value)>, keys: KeptKeys, uses: &Uses) -> Self {
        let mut book = policy.book.clone();
        for (name, plan) in &said {
            match book.with_plan(name, plan) {
                Ok((with, _)) => book = Arc::new(with),
                Err(problems) => {
                    for problem in problems {
                        tracing::error!(%problem, plan = &**name, "a plan set at run time cannot be used");
                    }
                }
            }
        }
        let compiled = (!said.is_empty()).then(|| Compiled { plans: book.all_plans(), customers: book.all_customers() });
        uses.keep(&keys.iter().map(|(name, _)| &**name).collect::<Vec<_>>());
        let ring = Ring::compile(&keys, &book, uses);
        Self { policy, number, said, keys, ring, book, compiled }
    }

    /// A plan.
    #[must_use]
    pub fn plan(&self, name: &str) -> Option<&Arc<Plan>> {
        self.compiled.as_ref().map_or(&self.policy.plans, |compiled| &compiled.plans).get(name)
    }

    /// The names of all plans, in no order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let plans = self.compiled.as_ref().map_or(&self.policy.plans, |compiled| &compiled.plans);
        plans.keys().map(|name| &**name).collect()
    }

    /// A configured customer's version of its plan.
    #[must_use]
    pub fn customer(&self, id: &str) -> Option<&Arc<Plan>> {
        self.compiled.as_ref().map_or(&self.policy.customers, |compiled| &compiled.customers).get(id)
    }

    /// This plan of the configuration, as it is in force.
    #[must_use]
    pub fn current<'a>(&'a self, plan: &'a Arc<Plan>) -> &'a Arc<Plan> {
        match &self.compiled {
            Some(compiled) => compiled.plans.get(&plan.name).unwrap_or(plan),
            None => plan,
        }
    }
}
