//! Who may: a token, compared in constant time; without one only this machine, and not on behalf of a web page.
//!
//! A page in a browser of this machine can reach a loopback port. It cannot send a token it does not know; where none is asked for, the
//! names the request carries give it away: `Origin` and `Sec-Fetch-Site` say for which page it is sent, and `Host` says under which name
//! the page found us (a page whose own name was made to resolve to loopback is, to the browser, of the same origin).

use super::{Fault, only_reads};
use crate::config::policy::Admin;
use crate::stack::Gateway;
use crate::stack::router::Peer;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What has to be shown. The console asks for the same, in a form instead of a header.
pub(crate) struct Guard {
    /// The hash of the token: equal lengths, whatever is shown. `None` = nothing, on loopback.
    token: Option<[u8; 32]>,
}

impl Guard {
    pub(crate) fn new(settings: &Admin) -> Self {
        Self { token: settings.token.as_ref().map(|token| *blake3::hash(token.expose().as_bytes()).as_bytes()) }
    }

    /// Whether there is a token at all.
    pub(crate) const fn asks_for_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether this is the token; anything is where none is asked for.
    pub(crate) fn knows(&self, shown: &[u8]) -> bool {
        self.token.is_none_or(|token| blake3::hash(shown).as_bytes().ct_eq(&token).into())
    }

    fn admits(&self, request: &Request) -> Result<(), Fault> {
        if self.asks_for_token() {
            let shown = bearer(request.headers()).ok_or(Fault::Unauthorized)?;
            if !self.knows(shown) {
                return Err(Fault::Unauthorized);
            }
        }
        self.admits_page(request)
    }

    /// Whether the request was sent to us under a name of ours, and not for a page of somebody else.
    pub(crate) fn admits_page(&self, request: &Request) -> Result<(), Fault> {
        let headers = request.headers();
        let host = host(request);
        if !self.asks_for_token() && !host.as_ref().is_some_and(|host| is_this_machine(host.host())) {
            return Err(Fault::HostNotAllowed);
        }
        let site = headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes());
        if site.is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
            return Err(Fault::OriginNotAllowed);
        }
        match headers.get(ORIGIN) {
            Some(origin) if !host.is_some_and(|host| is_origin(origin.as_bytes(), &host)) => Err(Fault::OriginNotAllowed),
            _ => Ok(()),
        }
    }
}

/// Lets a request pass, or answers it. What has to be shown is what the configuration of the moment says.
pub(super) async fn check(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let guard = gateway.policy.load().admin.as_ref().map(Guard::new);
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match guard.map_or(Err(Fault::Unauthorized), |guard| guard.admits(&request)) {
        Ok(()) => next.run(request).await,
        Err(fault) => {
            tracing::warn!(target: "admin", ?peer, cause = fault.shape().1, "refused");
            return fault.into_response();
        }
    };
    if !only_reads(&method) {
        let path: String = path.chars().take(200).collect();
        tracing::info!(target: "admin", ?peer, %method, path, status = response.status().as_u16(), "asked for a change");
    }
    response
}

/// The name the request was sent to: `Host`, or HTTP/2's `:authority`.
fn host(request: &Request) -> Option<Authority> {
    let mut named = request.headers().get_all(HOST).iter();
    match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().ok()?.parse().ok(),
        (None, _) => request.uri().authority().cloned(),
        (Some(_), Some(_)) => None,
    }
}

fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether an origin (`https://host:port`) is the host the request was sent to. TLS may end before us, so the scheme does not count.
fn is_origin(origin: &[u8], host: &Authority) -> bool {
    let origin = std::str::from_utf8(origin).unwrap_or_default();
    let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host.as_str()))
}

/// The one token of a request.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::Secret;
    use axum::body::Body;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/admin/triage");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).expect("a request")
    }

    fn guard(token: Option<&str>) -> Guard {
        Guard::new(&Admin { listen: ([127, 0, 0, 1], 0).into(), token: token.map(Secret::new), tls: None })
    }

    #[test]
    fn without_a_token_only_this_machine_under_its_own_names_may() {
        let guard = guard(None);
        for (headers, right) in [
            (&[("host", "localhost:8081")][..], Ok(())),
            (&[("host", "127.0.0.1:8081")], Ok(())),
            (&[("host", "[::1]:8081")], Ok(())),
            (&[("host", "LocalHost")], Ok(())),
            (&[("host", "evil.example:8081")], Err(Fault::HostNotAllowed)),
            (&[("host", "127.0.0.1.evil.example")], Err(Fault::HostNotAllowed)),
            (&[("host", "10.0.0.1")], Err(Fault::HostNotAllowed)),
            (&[("host", "localhost"), ("host", "evil.example")], Err(Fault::HostNotAllowed)),
            (&[], Err(Fault::HostNotAllowed)),
            (&[("host", "localhost:8081"), ("origin", "http://localhost:8081")], Ok(())),
            (&[("host", "localhost:8081"), ("origin", "http://localhost:3000")], Err(Fault::OriginNotAllowed)),
            (&[("host", "localhost:8081"), ("origin", "https://evil.example")], Err(Fault::OriginNotAllowed)),
            (&[("host", "localhost:8081"), ("origin", "null")], Err(Fault::OriginNotAllowed)),
            (&[("host", "localhost:8081"), ("sec-fetch-site", "cross-site")], Err(Fault::OriginNotAllowed)),
            (&[("host", "localhost:8081"), ("sec-fetch-site", "same-site")], Err(Fault::OriginNotAllowed)),
            (&[("host", "localhost:8081"), ("sec-fetch-site", "same-origin")], Ok(())),
            (&[("host", "localhost:8081"), ("sec-fetch-site", "none")], Ok(())),
        ] {
            assert_eq!(guard.admits(&request(headers)), right, "{headers:?}");
        }
    }

    #[test]
    fn with_a_token_it_has_to_be_shown_once_and_exactly() {
        let guard = guard(Some("0123456789abcdef0123"));
        for (headers, right) in [
            (&[("authorization", "Bearer 0123456789abcdef0123")][..], Ok(())),
            (&[("authorization", "bearer 0123456789abcdef0123"), ("host", "admin.example.com")], Ok(())),
            (&[("authorization", "Bearer 0123456789abcdef012")], Err(Fault::Unauthorized)),
            (&[("authorization", "Bearer 0123456789abcdef01234")], Err(Fault::Unauthorized)),
            (&[("authorization", "Bearer 0123456789ABCDEF0123")], Err(Fault::Unauthorized)),
            (&[("authorization", "Basic 0123456789abcdef0123")], Err(Fault::Unauthorized)),
            (&[("authorization", "Bearer ")], Err(Fault::Unauthorized)),
            (&[("authorization", "Bear")], Err(Fault::Unauthorized)),
            (&[("authorization", "Bearer 0123456789abcdef0123"), ("authorization", "Bearer x")], Err(Fault::Unauthorized)),
            (&[("host", "localhost")], Err(Fault::Unauthorized)),
            (
                &[("authorization", "Bearer 0123456789abcdef0123"), ("host", "a.example"), ("origin", "https://b.example")],
                Err(Fault::OriginNotAllowed),
            ),
            (&[("authorization", "Bearer 0123456789abcdef0123"), ("host", "a.example"), ("origin", "https://a.example")], Ok(())),
        ] {
            assert_eq!(guard.admits(&request(headers)), right, "{headers:?}");
        }
    }
}
