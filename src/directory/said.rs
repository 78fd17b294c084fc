//! What was said of one customer, and the plan it amounts to.

use super::kept::Kept;
use super::view::View;
use crate::config::book::{Book, Said};
use crate::config::policy::Plan;
use crate::domain::{NanoUsd, Period, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// See the module.
pub struct Entry {
    /// Under which it is in force.
    pub number: u64,
    /// When it was read.
    pub(super) read_at: Timestamp,
    kept: Option<Kept>,
    /// `None` = nothing that can be used.
    said: Option<Said>,
    compiled: Mutex<Option<Compiled>>,
}

/// The plan that was made last.
struct Compiled {
    view: Arc<View>,
    otherwise: Option<Box<str>>,
    until: Timestamp,
    plan: Arc<Plan>,
}

impl Entry {
    pub(super) fn new(id: &str, kept: Option<Kept>, book: &Book, number: u64, read_at: Timestamp) -> Self {
        let fields = kept.as_ref().map(|kept| Value::Object(kept.fields.clone()));
        let said = fields.and_then(|fields| match book.customer_kept(id, &fields) {
            Ok(said) => Some(said),
            Err(problems) => {
                for problem in problems {
                    tracing::error!(%problem, "what was said of a customer at run time cannot be used");
                }
                None
            }
        });
        Self { number, read_at, kept, said, compiled: Mutex::default() }
    }

    /// The same over other plans.
    pub(super) fn over(&self, id: &str, book: &Book) -> Self {
        let new = Self::new(id, self.kept.clone(), book, self.number, self.read_at);
        if let Some(plan) = new.said.as_ref().and_then(Said::plan).filter(|plan| !book.has_plan(plan)) {
            tracing::warn!(customer = id, plan, "an override names a plan that is gone; what else it says holds");
        }
        new
    }

    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_none()
    }

    /// The plan that it assigns, while it holds.
    #[must_use]
    pub fn assigns(&self, now: Timestamp) -> Option<&str> {
        self.holding(now).and_then(Said::plan)
    }

    fn holding(&self, now: Timestamp) -> Option<&Said> {
        self.said.as_ref().filter(|_| self.kept.as_ref().is_some_and(|kept| kept.holds(now)))
    }

    /// The customer's plan, credits included. `otherwise` is the plan of a customer that neither this nor the configuration gives one.
    #[must_use]
    pub fn plan(&self, view: &Arc<View>, id: &str, otherwise: Option<&str>, now: Timestamp) -> Option<Arc<Plan>> {
        let mut compiled = self.compiled.lock();
        let same = |made: &&Compiled| Arc::ptr_eq(&made.view, view) && made.otherwise.as_deref() == otherwise && now < made.until;
        if let Some(made) = compiled.as_ref().filter(same) {
            return Some(made.plan.clone());
        }
        let mut until = Timestamp(u64::MAX);
        let holding = self.holding(now);
        let mut plan = view.book.plan_of(id, holding, otherwise)?;
        let suspension = self.kept.as_ref().and_then(|kept| kept.suspended).filter(|suspension| suspension.holds(now));
        let suspended = suspension.is_some() || holding.is_some_and(Said::closes);
        if let Some(kept) = &self.kept {
            if let Some(end) = kept.until.map(Timestamp).filter(|end| now < *end) {
                until = until.min(end);
            }
            if let Some(end) = suspension.and_then(|suspension| suspension.until).map(Timestamp) {
                until = until.min(end);
            }
            for credit in kept.credits.iter().filter(|credit| credit.counts(now)) {
                until = until.min(Timestamp::from_secs(credit.end));
                for (period, cap) in &mut Arc::make_mut(&mut plan).limits.spend {
                    // A credit is no way round a suspension.
                    let closed = suspended && *cap == NanoUsd::ZERO;
                    if Some(*period) == credit.of_period() && !closed {
                        *cap = cap.saturating_add(NanoUsd::new(credit.nano_usd));
                    }
                }
            }
        }
        if suspended {
            let plan = Arc::make_mut(&mut plan);
            plan.suspended = true;
            if suspension.is_some() {
                close(&mut plan.limits.spend);
            }
        }
        *compiled = Some(Compiled { view: view.clone(), otherwise: otherwise.map(Into::into), until, plan: plan.clone() });
        Some(plan)
    }
}

/// Puts a cap of zero dollars in the place of the day's, so that the store refuses whatever claims anything at all.
fn close(caps: &mut Vec<(Period, NanoUsd)>) {
    caps.retain(|(period, _)| *period != Period::Day);
    caps.insert(0, (Period::Day, NanoUsd::ZERO));
}
