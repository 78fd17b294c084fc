//! The way out: one POST.

use crate::config::policy::Secret;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use std::time::Duration;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Posts to one address.
pub trait Post: Send + Sync + 'static {
    /// One attempt.
    fn post(&self, headers: HeaderMap, body: Bytes) -> BoxFuture<'_, Result<(), Failure>>;

    /// The host, for the log.
    fn host(&self) -> &str;
}

/// Why an attempt failed. Never holds the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection.
    #[error("no connection")]
    Connect,
    /// It took too long.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke.
    #[error("the connection broke")]
    Broken,
    /// The receiver said something other than a success.
    #[error("the receiver answered {status}")]
    Status {
        /// What.
        status: StatusCode,
        /// When it wants to be asked again.
        wait: Option<Duration>,
    },
}

impl Failure {
    /// Whether another attempt may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect | Self::Timeout | Self::Broken => true,
            Self::Status { status, .. } => {
                status.is_server_error() || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
        }
    }

    /// How long the receiver wants to be left alone.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Status { wait, .. } => *wait,
            _ => None,
        }
    }
}

/// Over HTTP.
pub(crate) struct Http {
    client: reqwest::Client,
    url: Secret,
    host: String,
}

impl Http {
    pub(crate) fn new(url: &Secret) -> Result<Self, reqwest::Error> {
        // Where two TLS providers are compiled in, one has to be named; a second naming keeps the first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let host = url.expose().parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
        Ok(Self { client, url: url.clone(), host })
    }
}

impl Post for Http {
    fn post(&self, headers: HeaderMap, body: Bytes) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let request = self.client.post(self.url.expose()).headers(headers).body(body);
            let reply = request.send().await.map_err(|error| match () {
                () if error.is_connect() => Failure::Connect,
                () if error.is_timeout() => Failure::Timeout,
                () => Failure::Broken,
            })?;
            // The body is not read: nothing in it matters, and it may be of any length.
            let status = reply.status();
            if status.is_success() {
                return Ok(());
            }
            let wait = reply.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Err(Failure::Status { status, wait: wait.map(Duration::from_secs) })
        })
    }

    fn host(&self) -> &str {
        &self.host
    }
}
