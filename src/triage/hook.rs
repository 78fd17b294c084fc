//! Where news of tickets are posted to, replaced while the desk is open: what waits to be posted goes where it was meant to go.

use crate::config::policy;
use crate::domain::Clock;
use crate::telemetry::Metrics;
use crate::webhook::Webhook;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// See the module.
pub(super) struct Hook {
    current: ArcSwapOption<Wired>,
    /// Replaced, with news that are not delivered yet.
    retired: Mutex<Vec<Arc<Wired>>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// A webhook, and what it was made from.
pub(super) struct Wired {
    settings: policy::Webhook,
    webhook: Webhook,
}

impl Hook {
    /// No webhook yet.
    pub(super) fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self { current: ArcSwapOption::empty(), retired: Mutex::default(), clock, metrics }
    }

    /// What [`Hook::put`] will put in force: the webhook of these settings, that in force if they are the same.
    ///
    /// # Errors
    /// When its HTTP client cannot be built.
    pub(super) fn prepare(&self, settings: Option<&policy::Webhook>) -> Result<Option<Arc<Wired>>, reqwest::Error> {
        let Some(settings) = settings else { return Ok(None) };
        if let Some(same) = self.current.load_full().filter(|current| current.settings == *settings) {
            return Ok(Some(same));
        }
        let webhook = Webhook::start(settings, self.clock.clone(), self.metrics.clone())?;
        Ok(Some(Arc::new(Wired { settings: settings.clone(), webhook })))
    }

    /// From now on news go there.
    pub(super) fn put(&self, wired: Option<Arc<Wired>>) {
        let before = self.current.swap(wired.clone());
        let replaced = before.filter(|before| !wired.is_some_and(|wired| Arc::ptr_eq(before, &wired)));
        let mut retired = self.retired.lock();
        retired.extend(replaced);
        retired.retain(|old| old.webhook.undelivered() > 0);
    }

    /// Posts news, if there is where to.
    pub(super) fn send(&self, id: impl FnOnce() -> String, body: impl FnOnce() -> serde_json::Value) {
        if let Some(wired) = &*self.current.load() {
            wired.webhook.send(id(), &body());
        }
    }

    /// Waits until everything is delivered or given up, at most `patience`.
    pub(super) async fn drain(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let retired = std::mem::take(&mut *self.retired.lock());
        for wired in self.current.load_full().into_iter().chain(retired) {
            wired.webhook.drain(deadline.saturating_duration_since(Instant::now())).await;
        }
    }
}
