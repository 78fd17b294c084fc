//! The steps of one request: what it waited for, and each call of a provider. Noted by the layers as they happen, told at its end.

use super::Otlp;
use super::context::{Context, MOST_SPANS};
use crate::config::policy::Upstream;
use crate::domain::Timestamp;
use http::HeaderValue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// What a request spends its time on.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The store decides on its claims.
    Admission,
    /// It waits, for this.
    Wait(&'static str),
    /// A provider is called.
    Attempt {
        /// The model that is asked.
        model: Arc<str>,
        /// Whether the price table lists it, so that its name may stand in metrics.
        known: bool,
        /// The provider.
        upstream: Arc<Upstream>,
    },
}

/// One step, in time since the request arrived.
#[derive(Clone, Debug)]
pub struct Step {
    /// What.
    pub kind: Kind,
    /// When it began.
    pub began: Duration,
    /// When it ended; `None` for what the end of the request cut off.
    pub ended: Option<Duration>,
    /// The status of the provider's reply.
    pub status: Option<u16>,
    /// Why it failed.
    pub fault: Option<&'static str>,
}

/// A step that has begun; of no meaning when nothing is exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepId(Option<usize>);

/// The trace of one request.
pub struct Trace {
    /// Whom it is told.
    pub otlp: Arc<Otlp>,
    /// When the request arrived.
    pub at: Timestamp,
    /// Which trace it is.
    pub context: Context,
    steps: Mutex<Vec<Step>>,
}

impl Trace {
    /// The trace of a request that arrives now.
    #[must_use]
    pub fn new(otlp: Arc<Otlp>, at: Timestamp) -> Self {
        let context = Context::begun(otlp.sample());
        Self { otlp, at, context, steps: Mutex::default() }
    }

    /// A step begins. Beyond a number that no sound configuration reaches they are left out.
    pub fn begin(&self, kind: Kind, began: Duration) -> StepId {
        let mut steps = self.steps.lock();
        if steps.len() == MOST_SPANS {
            return StepId(None);
        }
        steps.push(Step { kind, began, ended: None, status: None, fault: None });
        StepId(Some(steps.len() - 1))
    }

    /// A step ends; only its first end counts.
    pub fn end(&self, id: StepId, ended: Duration, fault: Option<&'static str>) {
        let mut steps = self.steps.lock();
        let step = id.0.and_then(|index| steps.get_mut(index));
        if let Some(step) = step.filter(|step| step.ended.is_none()) {
            (step.ended, step.fault) = (Some(ended), fault);
        }
    }

    /// The provider has answered the call that is under way with this status.
    pub fn replied(&self, status: u16) {
        let mut steps = self.steps.lock();
        if let Some(step) = steps.iter_mut().rev().find(|step| matches!(step.kind, Kind::Attempt { .. })) {
            step.status = Some(status);
        }
    }

    /// What tells a provider of the trace: the call that is under way.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        let index = self.steps.lock().iter().rposition(|step| matches!(step.kind, Kind::Attempt { .. }));
        // Of a trace that is not exported nobody will find the call; the request's own id does as well.
        self.context.header(index.map_or(self.context.span, |index| self.context.inner(index)))
    }

    /// All of it.
    #[must_use]
    pub fn take(&self) -> Vec<Step> {
        std::mem::take(&mut *self.steps.lock())
    }
}
