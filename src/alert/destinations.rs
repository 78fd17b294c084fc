//! Whom to tell beside the log: webhooks, each with its own queue and its own wishes.

use super::Kind;
use super::news::Alert;
use crate::config::policy::Destination;
use crate::domain::Clock;
use crate::telemetry::Metrics;
use crate::webhook::Webhook;
use std::sync::Arc;
use std::time::Duration;

/// How long the news of a destination that is no longer configured get.
const LEAVING: Duration = Duration::from_secs(10);

/// The webhooks in force.
pub(super) struct Destinations {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    settings: Vec<Destination>,
    webhooks: Vec<(Destination, Webhook)>,
}

impl Destinations {
    pub(super) fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self { clock, metrics, settings: Vec::new(), webhooks: Vec::new() }
    }

    /// Goes by these settings from now on. What the webhooks before have not delivered they still try to.
    pub(super) fn set(&mut self, settings: &[Destination]) {
        if self.settings == settings {
            return;
        }
        for (_, webhook) in self.webhooks.drain(..) {
            tokio::spawn(async move { webhook.drain(LEAVING).await });
        }
        settings.clone_into(&mut self.settings);
        for one in settings {
            match Webhook::start(&one.webhook, self.clock.clone(), self.metrics.clone()) {
                Ok(webhook) => self.webhooks.push((one.clone(), webhook)),
                Err(error) => tracing::error!(destination = &*one.name, %error, "alerts cannot be posted there"),
            }
        }
    }

    /// Tells everybody who wants to know. Never waits.
    pub(super) fn tell(&self, alert: &Alert) {
        let mut body = None;
        for (_, webhook) in self.webhooks.iter().filter(|(one, _)| one.wants(alert.kind)) {
            webhook.send(alert.id.clone(), body.get_or_insert_with(|| alert.body()));
        }
    }

    /// Waits until everything is delivered or given up, at most so long.
    pub(super) async fn drain(&self, patience: Duration) {
        futures_util::future::join_all(self.webhooks.iter().map(|(_, webhook)| webhook.drain(patience))).await;
    }
}

/// What came of trying a destination out.
#[derive(Debug)]
pub struct Tried {
    /// Its name.
    pub name: Arc<str>,
    /// `None` = it does not want alerts of this kind; otherwise what the one attempt came to.
    pub result: Option<Result<(), String>>,
    /// How long that took.
    pub took: Duration,
}

/// Sends a test to each of these, one attempt each, one after the other.
pub(super) async fn try_out(settings: &[Destination], kind: Kind, alert: &Alert, clock: Arc<dyn Clock>) -> Vec<Tried> {
    let mut tried = Vec::with_capacity(settings.len());
    for one in settings {
        let started = std::time::Instant::now();
        let result = if one.wants(kind) {
            Some(match Webhook::start(&one.webhook, clock.clone(), Arc::default()) {
                Ok(webhook) => webhook.try_out(alert.id.clone(), &alert.body()).await.map_err(|failure| failure.to_string()),
                Err(error) => Err(error.to_string()),
            })
        } else {
            None
        };
        tried.push(Tried { name: one.name.clone(), result, took: started.elapsed() });
    }
    tried
}
