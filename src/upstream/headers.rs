//! Which headers pass, in either direction.
//!
//! Up: nothing that could impersonate or leak (credentials, cookies, forwarding headers, our own) and nothing that belongs to one hop.
//! Down: nothing about the provider's account or its own site. Everything else passes, so new provider features need no release of ours.

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};

/// Header names that never go up, beyond the hop-by-hop ones.
fn stays_here(name: &str) -> bool {
    matches!(
        name,
        "authorization"
            | "x-api-key"
            | "api-key"
            | "cookie"
            | "host"
            | "content-length"
            | "content-encoding"
            | "content-md5"
            | "digest"
            | "content-digest"
            | "repr-digest"
            | "accept-encoding"
            | "expect"
            | "forwarded"
            | "via"
            | "prefer"
            | "x-real-ip"
            | "true-client-ip"
            | "x-client-ip"
            | "x-user-id"
            | "x-customer-id"
            | "x-customer-plan"
            | "x-priority"
            | "x-request-class"
            | "x-personal-data"
            | "x-conversation-id"
            | "x-request-id"
            | "idempotency-key"
            | "baggage"
            | "traceparent"
            | "tracestate"
            | "openai-organization"
            | "openai-project"
    ) || ["x-forwarded-", "x-tollgate-", "cf-", "proxy-", "sec-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Fields of one hop (RFC 9110 7.6.1).
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-authenticate"
            | "proxy-authorization"
    )
}

/// Headers of a provider that concern its account, its site, or one hop. Where it redirects to is its site's business: an SDK that
/// followed would take the prompt, and a key in a header of its own, to a host that nobody configured.
fn stays_there(name: &str) -> bool {
    matches!(
        name,
        "set-cookie"
            | "alt-svc"
            | "strict-transport-security"
            | "server"
            | "openai-organization"
            | "openai-project"
            | "anthropic-organization-id"
            | "anthropic-workspace-id"
            | "content-encoding"
            | "content-length"
            | "report-to"
            | "nel"
            | "location"
            | "content-location"
            | "refresh"
            | "via"
            | "x-powered-by"
            | "ratelimit"
            | "ratelimit-policy"
            | "etag"
            | "accept-ranges"
            | "content-digest"
            | "repr-digest"
    ) || ["x-ratelimit-", "anthropic-ratelimit-", "anthropic-priority-", "anthropic-fast-", "ratelimit-", "cf-", "x-tollgate-"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Names that the sender's `Connection` header declares as belonging to this hop.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// The client's headers that go to the provider.
///
/// What the client nominates in `Connection` is dropped, but never one that the provider needs: a client cannot strip what we depend on.
#[must_use]
pub fn upward(headers: &HeaderMap) -> HeaderMap {
    let nominated = nominated(headers);
    let mut out = HeaderMap::with_capacity(headers.len() + 4);
    for (name, value) in headers {
        let text = name.as_str();
        let dropped = stays_here(text) || is_hop_by_hop(text) || (nominated.contains(name) && !is_needed(text));
        if !dropped {
            out.append(name, value.clone());
        }
    }
    out
}

fn is_needed(name: &str) -> bool {
    matches!(name, "content-type" | "accept" | "user-agent" | "openai-beta") || name.starts_with("anthropic-")
}

/// Takes out of a provider's headers what does not concern the client.
pub fn downward(headers: &mut HeaderMap) {
    let mut gone = nominated(headers);
    gone.extend(headers.keys().filter(|name| stays_there(name.as_str()) || is_hop_by_hop(name.as_str())).cloned());
    for name in gone {
        headers.remove(&name);
    }
    // A request id that was sent twice is one id. Where nothing was sent twice there is nothing to look for.
    if headers.len() == headers.keys_len() {
        return;
    }
    for name in ["x-request-id", "request-id", "retry-after", "content-type"] {
        if headers.get_all(name).iter().nth(1).is_some()
            && let Some(first) = headers.get(name).cloned()
        {
            headers.insert(HeaderName::from_static(name), first);
        }
    }
}

/// The provider's id of a request, for the log.
#[must_use]
pub fn provider_request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("x-request-id").or_else(|| headers.get("request-id"))?;
    value.to_str().ok().map(|id| id.chars().take(128).collect())
}

/// The client's idempotency key as the provider sees it: one per customer, so that two customers' equal keys never meet, and opaque. And
/// one per model: what a fallback is asked is another body, which a provider that knows such keys refuses under a key it has seen.
#[must_use]
pub fn idempotency_key(sent: &HeaderValue, customer: &str, model: &str) -> Option<HeaderValue> {
    let key = blake3::derive_key("tollgate idempotency key of a customer", customer.as_bytes());
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(model.as_bytes()).update(&[0]).update(sent.as_bytes());
    HeaderValue::from_str(&hasher.finalize().to_hex()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_could_impersonate_or_leak_stays_here() {
        let sent = map(&[
            ("cookie", "s=1"),
            ("authorization", "Bearer client"),
            ("x-api-key", "client"),
            ("proxy-authorization", "x"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-customer-id", "t"),
            ("x-tollgate-anything", "1"),
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "a"),
            ("openai-beta", "b"),
            ("x-stainless-lang", "python"),
            ("content-type", "application/json"),
        ]);
        let up = upward(&sent);
        assert_eq!(names(&up), ["anthropic-beta", "anthropic-version", "content-type", "openai-beta", "x-stainless-lang"]);
    }

    #[test]
    fn a_client_cannot_nominate_away_what_is_needed() {
        let sent = map(&[
            ("connection", "close, X-Customer-Id, Authorization, Content-Type, X-Foo"),
            ("content-type", "application/json"),
            ("x-foo", "1"),
            ("keep-alive", "timeout=5"),
        ]);
        assert_eq!(names(&upward(&sent)), ["content-type"]);
    }

    #[test]
    fn the_providers_account_and_hop_stay_there() {
        let mut reply = map(&[
            ("connection", "close, X-Foo"),
            ("x-foo", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("trailer", "X"),
            ("set-cookie", "a=b"),
            ("server", "x"),
            ("openai-organization", "org"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("anthropic-ratelimit-tokens-limit", "1"),
            ("openai-processing-ms", "12"),
            ("x-request-id", "r1"),
            ("x-request-id", "r1"),
            ("retry-after", "7"),
            ("location", "https://elsewhere/"),
            ("cache-control", "no-cache"),
        ]);
        downward(&mut reply);
        assert_eq!(names(&reply), ["cache-control", "openai-processing-ms", "retry-after", "x-request-id"]);
        assert_eq!(reply.get_all("x-request-id").iter().count(), 1);
    }

    #[test]
    fn an_idempotency_key_is_one_per_customer_and_model() {
        let key = HeaderValue::from_static("k1");
        assert_eq!(idempotency_key(&key, "a", "m"), idempotency_key(&key, "a", "m"));
        assert_ne!(idempotency_key(&key, "a", "m"), idempotency_key(&key, "b", "m"));
        assert_ne!(idempotency_key(&key, "a", "m"), idempotency_key(&key, "a", "n"));
    }
}
