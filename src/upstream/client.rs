//! Calls to providers: where to, with which headers and which key, and what it means when no reply comes.

use super::headers;
use super::http::Http;
use crate::config::Policy;
use crate::config::policy::Upstream;
use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Request, Uri};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Names the trace that a request belongs to (W3C Trace Context).
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What tracing systems along the way add to it.
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How often a request is sent that the provider does not process.
const SENDS: u32 = 3;

/// What goes to a provider.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Where to.
    pub upstream: &'a Upstream,
    /// The client's method, path, query and headers.
    pub head: &'a http::request::Parts,
    /// The caller's own credential, in the header it came in; `None` = the upstream's configured key.
    pub credential: Option<(&'a HeaderName, &'a HeaderValue)>,
    /// The customer, for whom an idempotency key is hashed.
    pub customer: &'a str,
    /// The model that is asked, for which the key is hashed, too; empty for routes without one.
    pub model: &'a str,
    /// The `traceparent` that the provider is told, if any.
    pub trace: Option<HeaderValue>,
    /// The body; `None` for routes without one.
    pub body: Option<Bytes>,
    /// Whether it goes over a new connection: one that lay in the pool may have died there, and the next one as well.
    pub fresh: bool,
}

/// The reply of a provider, its body unread.
pub type ProviderReply = http::Response<reqwest::Body>;

/// Why the client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The system's certificates cannot be used.
    #[error("the HTTP client cannot be built: {0}")]
    Build(#[from] rustls::Error),
    /// The client for webhooks refused its settings.
    #[error("the HTTP client for webhooks cannot be built: {0}")]
    Webhook(#[from] reqwest::Error),
    /// A provider key is not a header value.
    #[error("the key of upstream {0} holds characters that a header cannot carry")]
    Key(Arc<str>),
}

/// Why a provider gave no reply. Never holds a URL or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReply {
    /// No connection: the request was never sent.
    Connect,
    /// No first byte in time.
    Timeout,
    /// The connection broke after the request was sent.
    Broken,
    /// The provider says that it did not process the request, however often it was sent.
    Unprocessed,
}

impl NoReply {
    /// The label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Unprocessed => "unprocessed",
        }
    }
}

/// Calls providers.
#[derive(Debug)]
pub struct Client {
    /// By connect timeout and pool idle timeout: the two settings that belong to a client rather than to a request. An idle timeout of
    /// zero is that of the client whose every connection is new.
    clients: RwLock<HashMap<(Duration, Duration), Arc<Http>>>,
    /// The base URLs of the upstreams, taken apart once.
    bases: RwLock<Vec<Arc<Base>>>,
    /// Upstreams that refused `stream_options`, learned from their 400s.
    refuses_usage: RwLock<HashSet<Arc<str>>>,
}

impl Client {
    /// A client for the upstreams of a policy.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn new(policy: &Policy) -> Result<Self, ClientError> {
        let client = Self { clients: RwLock::default(), bases: RwLock::default(), refuses_usage: RwLock::default() };
        client.prepare(policy)?;
        Ok(client)
    }

    /// Makes ready for the upstreams of another policy. Connections to providers stay, and requests in flight go on.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed then.
    pub fn prepare(&self, policy: &Policy) -> Result<(), ClientError> {
        let mut clients = HashMap::default();
        let bases = policy.upstreams.values().filter_map(|upstream| Base::of(&upstream.base_url).map(Arc::new)).collect();
        for upstream in policy.upstreams.values() {
            if let Some(key) = &upstream.api_key {
                HeaderValue::from_str(key.expose()).map_err(|_| ClientError::Key(upstream.name.clone()))?;
            }
            for fresh in [false, true] {
                if let std::collections::hash_map::Entry::Vacant(entry) = clients.entry(settings(upstream, fresh)) {
                    let (key, known) = (*entry.key(), self.clients.read().get(entry.key()).cloned());
                    entry.insert(known.map_or_else(|| build(key), Ok)?);
                }
            }
        }
        *self.clients.write() = clients;
        *self.bases.write() = bases;
        // Another server may be behind the same name.
        self.refuses_usage.write().clear();
        Ok(())
    }

    /// The client of these settings. A request that began under another configuration may have some that are no longer there.
    fn client(&self, settings: (Duration, Duration)) -> Result<Arc<Http>, NoReply> {
        if let Some(client) = self.clients.read().get(&settings) {
            return Ok(client.clone());
        }
        build(settings).map_err(|_| NoReply::Connect)
    }

    /// Whether `stream_options.include_usage` may be added to a request.
    #[must_use]
    pub fn may_include_usage(&self, upstream: &Upstream) -> bool {
        upstream.include_usage && !self.refuses_usage.read().contains(&upstream.name)
    }

    /// Remembers that an upstream refuses `stream_options`.
    pub fn refuses_usage(&self, upstream: &Arc<str>) {
        self.refuses_usage.write().insert(upstream.clone());
    }

    /// Sends a request and waits for the reply's headers. What the provider says it did not process is sent again at once.
    ///
    /// # Errors
    /// [`NoReply`], saying how far it got.
    pub async fn send(&self, outgoing: Outgoing<'_>) -> Result<ProviderReply, NoReply> {
        let upstream = outgoing.upstream;
        if let Ok(reply) = tokio::time::timeout(upstream.first_byte_timeout, self.insist(&outgoing)).await {
            return reply;
        }
        warn(upstream, NoReply::Timeout, "no first byte within first_byte_timeout");
        Err(NoReply::Timeout)
    }

    async fn insist(&self, outgoing: &Outgoing<'_>) -> Result<ProviderReply, NoReply> {
        let upstream = outgoing.upstream;
        let mut sent = 0;
        loop {
            sent += 1;
            // A connection that went away is shared no more, but the next may go away as soon; the last time it has one of its own.
            let client = self.client(settings(upstream, outgoing.fresh || sent == SENDS))?;
            let error = match client.send(self.request(outgoing)?).await {
                // 101: nobody asked for another protocol, so what follows is no answer to anything.
                Ok(reply) if reply.status().is_informational() => return Err(NoReply::Broken),
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let no_reply = match &error {
                error if error.unconnected => NoReply::Connect,
                error if error.unprocessed => NoReply::Unprocessed,
                _ => NoReply::Broken,
            };
            if no_reply != NoReply::Unprocessed || sent == SENDS {
                warn(upstream, no_reply, &causes(&error));
                return Err(no_reply);
            }
            tracing::debug!(upstream = %upstream.name, reason = causes(&error), "not processed by the provider, and sent again");
        }
    }

    fn request(&self, outgoing: &Outgoing<'_>) -> Result<Request<Bytes>, NoReply> {
        let mut request = Request::new(outgoing.body.clone().unwrap_or_default());
        *request.method_mut() = outgoing.head.method.clone();
        *request.uri_mut() = self.uri(outgoing.upstream, &outgoing.head.uri).ok_or(NoReply::Connect)?;
        *request.headers_mut() = Self::headers(outgoing);
        Ok(request)
    }

    /// The upstream's base URL in place of `/v1`, then the rest of the path and the query as they came.
    fn uri(&self, upstream: &Upstream, asked: &Uri) -> Option<Uri> {
        let known = self.bases.read().iter().find(|base| base.url == upstream.base_url).cloned();
        // A request that began under another configuration may have another one.
        known.or_else(|| Base::of(&upstream.base_url).map(Arc::new))?.joined(asked)
    }

    fn headers(outgoing: &Outgoing<'_>) -> http::HeaderMap {
        let sent = &outgoing.head.headers;
        let mut headers = headers::upward(sent);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if outgoing.body.is_some() && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        match outgoing.credential {
            Some((name, value)) => {
                headers.insert(name, value.clone());
            }
            None => authorize(&mut headers, outgoing.upstream),
        }
        if let Some(trace) = &outgoing.trace {
            headers.insert(TRACEPARENT, trace.clone());
            for state in sent.get_all(TRACESTATE) {
                headers.append(TRACESTATE, state.clone());
            }
        }
        let key = sent.get(IDEMPOTENCY_KEY).and_then(|key| headers::idempotency_key(key, outgoing.customer, outgoing.model));
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        headers
    }
}

/// Shows the upstream's own key, that of the configuration the request began under.
fn authorize(headers: &mut http::HeaderMap, upstream: &Upstream) {
    let Some(key) = &upstream.api_key else { return };
    let (name, value) = match upstream.dialect {
        crate::wire::Dialect::Anthropic => (X_API_KEY, HeaderValue::from_str(key.expose())),
        crate::wire::Dialect::OpenAi => (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {}", key.expose()))),
    };
    // That it fits a header was checked when the configuration was read.
    if let Ok(mut value) = value {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}

/// Says why a provider gave no reply; the client of the request learns only that it did not.
fn warn(upstream: &Upstream, no_reply: NoReply, reason: &str) {
    tracing::warn!(upstream = %upstream.name, base_url = %upstream.base_url, result = no_reply.as_str(), reason, "no reply from the provider");
}

/// An error with everything that caused it, outermost first.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

const fn settings(upstream: &Upstream, fresh: bool) -> (Duration, Duration) {
    (upstream.connect_timeout, if fresh { Duration::ZERO } else { upstream.pool_idle_timeout })
}

fn build((connect, idle): (Duration, Duration)) -> Result<Arc<Http>, rustls::Error> {
    Http::new(connect, idle).map(Arc::new)
}

/// A base URL, taken apart.
#[derive(Debug)]
struct Base {
    url: String,
    scheme: Scheme,
    authority: Authority,
    path: String,
}

impl Base {
    /// `None` where it is none: it was checked when the configuration was read.
    fn of(url: &str) -> Option<Self> {
        let Parts { scheme, authority, path_and_query, .. } = url.parse::<Uri>().ok()?.into_parts();
        let path = path_and_query.map_or_else(String::new, |path| path.path().trim_end_matches('/').to_owned());
        Some(Self { url: url.to_owned(), scheme: scheme?, authority: authority?, path })
    }

    fn joined(&self, asked: &Uri) -> Option<Uri> {
        let path = asked.path().strip_prefix("/v1")?;
        let query = asked.query().unwrap_or_default();
        let mut target = String::with_capacity(self.path.len() + path.len() + query.len() + 1);
        target.push_str(&self.path);
        target.push_str(path);
        if !query.is_empty() {
            target.push('?');
            target.push_str(query);
        }
        let mut parts = Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(Bytes::from(target)).ok()?);
        Uri::from_parts(parts).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_comes_behind_the_base() {
        for (base, asked, right) in [
            ("https://api.openai.com/v1", "/v1/chat/completions", Some("https://api.openai.com/v1/chat/completions")),
            ("http://127.0.0.1:8080", "/v1/models/a%2Fb?limit=5&x", Some("http://127.0.0.1:8080/models/a%2Fb?limit=5&x")),
            ("http://host/a/b/", "http://gateway/v1/messages", Some("http://host/a/b/messages")),
            ("http://host/v1", "/v2/messages", None),
        ] {
            let joined = Base::of(base).expect("a base").joined(&asked.parse().expect("a URI"));
            assert_eq!(joined.map(|uri| uri.to_string()).as_deref(), right, "{base} {asked}");
        }
    }
}
