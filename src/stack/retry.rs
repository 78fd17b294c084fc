//! Layer 11: tries again what failed at the provider, within a number of attempts and a budget of time.
//!
//! It stands outside `concurrency`, so a call that sleeps holds no slot and each attempt takes one anew. Each further attempt claims the
//! provider's ceiling once more; where that has no room in time there is none. A client that leaves drops all of it, which settles.
//! The first attempt costs nothing here: a call that works is never looked at.

use super::call::{Call, Rejected, Reply};
use super::failed::{Failed, ProviderFault, TheirReply};
use super::gateway::Gateway;
use super::serve::Serve;
use crate::degrade::retry::{Budget, Stop};
use crate::domain::Priority;
use crate::telemetry::metrics::{Name, ReasonLabels, RetryLabels};
use crate::telemetry::otlp::Kind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower::Layer;

/// Retries for whatever it wraps.
#[derive(Clone, Debug)]
pub struct RetryLayer(pub Arc<Gateway>);

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;
    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, gateway: self.0.clone() }
    }
}

/// See [`RetryLayer`].
#[derive(Clone, Debug)]
pub struct Retry<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Box<Call>> for Retry<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, call: Box<Call>) -> Result<Reply, Self::Error> {
        let mut spent = Spent::of(&call);
        let mut result = self.inner.serve(call).await;
        while let Err(mut rejected) = result {
            let Some(failed) = rejected.failed.take() else { return Err(rejected) };
            match Box::pin(spent.again(failed, &self.gateway)).await {
                Ok(call) => result = self.inner.serve(call).await,
                Err(failed) => {
                    rejected.failed = Some(failed);
                    return Err(rejected);
                }
            }
        }
        result
    }
}

/// What was spent on one request so far.
struct Spent {
    budget: Budget,
    retries: u32,
    /// Waits before the first attempt that count, and all waits after it.
    waited: Duration,
    /// The attempts themselves, by the clock.
    attempting: Duration,
    since: Instant,
    /// What the provider said to the attempt before, for a next one that does not even get a slot.
    earlier: Option<Box<TheirReply>>,
}

impl Spent {
    fn of(call: &Call) -> Self {
        let retry = &call.who.policy.retry;
        // Background work waits long for its share of the ceiling; that is no time a person spends waiting.
        let waited =
            if call.who.priority == Priority::Background { Duration::ZERO } else { call.who.record.read(|facts| facts.waited) };
        Self {
            budget: Budget { retries: retry.max, time: retry.wait_budget },
            retries: 0,
            waited,
            // A fallback goes on with the budget of the model before it.
            attempting: call.who.record.read(|facts| facts.attempting),
            since: Instant::now(),
            earlier: None,
        }
    }

    /// Waits for the next attempt and prepares it.
    ///
    /// # Errors
    /// The failed call, where there is none.
    async fn again(&mut self, mut failed: Box<Failed>, gateway: &Gateway) -> Result<Box<Call>, Box<Failed>> {
        let took = self.since.elapsed();
        self.attempting += took;
        failed.call.who.record.note(|facts| facts.attempting += took);
        failed.inherit(self.earlier.take());
        match self.prepare(&mut failed, gateway).await {
            Ok(()) => {
                self.retries += 1;
                let (call, earlier) = failed.again();
                self.earlier = earlier;
                self.since = Instant::now();
                Ok(call)
            }
            Err(reason) => {
                gateway.metrics.retries_ended.get_or_create(&ReasonLabels { reason }).inc();
                // The client's SDK would make as many attempts of its own, each of them several here.
                failed.advise_against_retry |= self.retries > 0;
                Err(failed)
            }
        }
    }

    async fn prepare(&mut self, failed: &mut Failed, gateway: &Gateway) -> Result<(), &'static str> {
        if !failed.may_retry {
            return Err("of_no_use");
        }
        let stated = match failed.fault {
            ProviderFault::RateLimited { retry_after } => retry_after,
            ProviderFault::Server(_) => failed.stated_wait,
            _ => None,
        };
        let next = self.budget.next(self.retries, self.elapsed(), stated, gateway.pauses.dice());
        let wait = next.map_err(|stop| match stop {
            Stop::Retries => "attempts",
            Stop::Time => "wait_budget",
        })?;
        self.pause(wait, failed, gateway).await;
        self.waited += failed.claim(gateway, self.budget.left(self.elapsed())).await.ok_or("ceiling")?;
        let labels = RetryLabels { upstream: Name(failed.call.target.upstream.name.clone()), cause: failed.fault.as_str() };
        gateway.metrics.retries.get_or_create(&labels).inc();
        Ok(())
    }

    /// Counted before it is waited, so that the log of a request whose client leaves meanwhile tells why it took so long.
    async fn pause(&mut self, wait: Duration, failed: &Failed, gateway: &Gateway) {
        self.waited += wait;
        failed.call.who.record.note(|facts| facts.waited += wait);
        let step = failed.call.who.record.begin(|| Kind::Wait("backoff"));
        gateway.pauses.pause(wait).await;
        failed.call.who.record.end(step, None);
    }

    fn elapsed(&self) -> Duration {
        self.waited + self.attempting
    }
}
