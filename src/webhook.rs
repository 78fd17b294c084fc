//! News for other systems: a signed POST, repeated while it fails for a while, given up after that, and never waited for.
//!
//! The form is that of Standard Webhooks: `webhook-id` (the same for every attempt, and for the same news told twice: receivers use it to
//! recognise repeats), `webhook-timestamp`, and `webhook-signature`: `v1,` and the base64 of an HMAC-SHA256 over `id.timestamp.body`.
//!
//! The client is its own: nothing of what goes to providers, no redirects (they would carry a customer's data to wherever they point),
//! no proxies from the environment. Addresses often hold a secret in their path, so only the host is ever logged.

mod post;
mod sign;

pub(crate) use post::Http;
pub use post::{Failure, Post};
pub use sign::{Key, NoKey};

use crate::config::policy;
use crate::domain::Clock;
use crate::telemetry::Metrics;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// News that are not delivered yet, at most.
pub const QUEUE: usize = 1_000;
/// Attempts at the same time.
const AT_ONCE: usize = 8;
/// The pause after the first failure; it grows fourfold with each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The part of a pause by which it varies, so that what failed together does not return together.
const JITTER: f64 = 0.2;

/// Posts news to one address.
pub struct Webhook {
    inner: Arc<Inner>,
    places: Arc<Semaphore>,
    sending: TaskTracker,
    /// No more pauses: the gateway ends.
    hurry: CancellationToken,
    cut: CancellationToken,
}

struct Inner {
    post: Box<dyn Post>,
    key: Option<Key>,
    timeout: Duration,
    attempts: u32,
    turns: Semaphore,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// One piece of news.
struct News {
    id: String,
    body: Bytes,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook with these settings.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn start(settings: &policy::Webhook, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Result<Self, reqwest::Error> {
        Ok(Self::through(Box::new(post::Http::new(&settings.url)?), settings, clock, metrics))
    }

    /// The same through another way to post.
    #[must_use]
    pub fn through(post: Box<dyn Post>, settings: &policy::Webhook, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        // A key that is none was refused when the configuration was read.
        let key = settings.secret.as_ref().and_then(|secret| Key::read(secret).ok());
        let inner = Inner {
            post,
            key,
            timeout: settings.timeout,
            attempts: settings.attempts.max(1),
            turns: Semaphore::new(AT_ONCE),
            clock,
            metrics,
        };
        Self {
            inner: Arc::new(inner),
            places: Arc::new(Semaphore::new(QUEUE)),
            sending: TaskTracker::new(),
            hurry: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    /// Sends news. Never waits and never fails: what cannot be delivered is logged and counted.
    pub fn send(&self, id: String, body: &serde_json::Value) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.inner.given_up(&id, "too many wait to be delivered");
            return;
        };
        let news = News { id, body: body.to_string().into() };
        let (inner, hurry, cut) = (Arc::clone(&self.inner), self.hurry.clone(), self.cut.clone());
        self.sending.spawn(async move {
            if cut.run_until_cancelled(inner.deliver(&news, &hurry)).await.is_none() {
                inner.given_up(&news.id, "the gateway ended first");
            }
            drop(place);
        });
    }

    /// Makes one attempt and says what came of it, for whoever tries a webhook out.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn try_out(&self, id: String, body: &serde_json::Value) -> Result<(), Failure> {
        self.inner.attempt(&News { id, body: body.to_string().into() }).await
    }

    /// News that are neither delivered nor given up yet.
    #[must_use]
    pub fn undelivered(&self) -> usize {
        self.sending.len()
    }

    /// Waits until everything is delivered or given up, at most `patience`; what pauses between two attempts makes its last one now.
    pub async fn drain(&self, patience: Duration) {
        self.sending.close();
        self.hurry.cancel();
        let _ = timeout(patience, self.sending.wait()).await;
        self.cut.cancel();
        self.sending.wait().await;
    }
}

impl Inner {
    /// Delivers, or gives up.
    async fn deliver(&self, news: &News, hurry: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let last = attempt >= self.attempts || hurry.is_cancelled();
            let failure = match self.attempt(news).await {
                Ok(()) => return self.metrics.triage.webhook("delivered"),
                Err(failure) => failure,
            };
            if last || !failure.may_pass() {
                return self.given_up(&news.id, &failure.to_string());
            }
            self.metrics.triage.webhook("repeated");
            tracing::info!(webhook_id = news.id, attempt, host = self.post.host(), reason = %failure, "a webhook failed and is repeated");
            let wait = failure.wait().map_or(pause, |wait| wait.max(pause)).min(LONGEST_PAUSE);
            let wait = wait.mul_f64(1.0 + fastrand::f64() * JITTER);
            let _ = timeout(wait, hurry.cancelled()).await;
            pause = (pause * 4).min(LONGEST_PAUSE);
        }
    }

    /// One attempt, which holds a turn only while it lasts: what pauses is in nobody's way.
    async fn attempt(&self, news: &News) -> Result<(), Failure> {
        let _turn = self.turns.acquire().await; // never closed
        timeout(self.timeout, self.post.post(self.headers(news), news.body.clone())).await.unwrap_or(Err(Failure::Timeout))
    }

    /// Signed anew for each attempt: receivers refuse timestamps that are old.
    fn headers(&self, news: &News) -> HeaderMap {
        let timestamp = self.clock.now().secs();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
        // Ids are ours: visible ASCII.
        if let Ok(id) = HeaderValue::try_from(&news.id) {
            headers.insert("webhook-id", id);
        }
        if let Some(signature) = self.key.as_ref().map(|key| key.sign(&news.id, timestamp, &news.body)) {
            headers.insert("webhook-signature", signature);
        }
        headers
    }

    fn given_up(&self, id: &str, reason: &str) {
        self.metrics.triage.webhook("given_up");
        tracing::error!(webhook_id = id, host = self.post.host(), reason, "a webhook is given up");
    }
}

#[cfg(test)]
mod tests;
