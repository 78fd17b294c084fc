//! Layer 2: who calls. A gateway key gives the app and what it may do; in passthrough mode the caller's own provider key goes on.
//!
//! Keys of the configuration are looked up first, then those made at run time ([`crate::directory::keys`]).

use super::Gateway;
use super::call::{Arrived, Authenticated, Credential, HeldKey, Rejected, Reply};
use super::identify::away;
use super::serve::Serve;
use crate::config::Policy;
use crate::config::policy::{App, Auth};
use crate::domain::Timestamp;
use crate::reply::{Forbidden, Rejection, Unauthenticated};
use crate::wire::Api;
use blake3::Hash;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use tower::Layer;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Azure's spelling, which some OpenAI-compatible clients use.
const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// The app of passthrough mode: everybody on the trusted networks.
static PASSTHROUGH: LazyLock<Arc<App>> = LazyLock::new(|| Arc::new(App { name: "passthrough".into(), ..App::default() }));

/// Authenticates whatever it wraps.
#[derive(Clone, Debug)]
pub struct AuthenticateLayer(pub Arc<Gateway>);

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Authenticate<S>;
    fn layer(&self, inner: S) -> Authenticate<S> {
        Authenticate { inner, gateway: self.0.clone() }
    }
}

/// See [`AuthenticateLayer`].
#[derive(Clone, Debug)]
pub struct Authenticate<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Authenticated, Error = Box<Rejected>>> Serve<Box<Arrived>> for Authenticate<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, arrived: Box<Arrived>) -> Result<Reply, Self::Error> {
        let (app, credential, key) = match authenticate(&arrived.policy.auth, &arrived.head.headers, arrived.peer)? {
            Caller::Known(app, credential) => (app, credential, None),
            Caller::Shows(hash) => {
                let (app, held) = match at_hand(&self.gateway, &hash, &arrived) {
                    Some(found) => found,
                    None => asked(&self.gateway, &hash, &arrived.policy, arrived.at).await?,
                };
                (app, Credential::Configured, Some(held))
            }
        };
        self.inner.serve(authenticated(arrived, app, credential, key)).await
    }
}

fn authenticated(arrived: Box<Arrived>, app: Arc<App>, credential: Credential, key: Option<HeldKey>) -> Authenticated {
    arrived.record.note(|facts| facts.app = Some(app.name.clone()));
    Authenticated { arrived, app, credential, key }
}

/// What a key made at run time opens, as far as this gateway knows; `None` where that has to be looked up: before it is refused, and on
/// routes that never come to `admit`, which would find out that it was revoked.
fn at_hand(gateway: &Gateway, hash: &Hash, arrived: &Arrived) -> Option<(Arc<App>, HeldKey)> {
    if matches!(arrived.api, Api::Jobs(_) | Api::Triage(_)) {
        return None;
    }
    let view = gateway.directory.at_hand()?;
    let held = view.ring.find(hash, arrived.at).ok()?;
    Some((held.app, HeldKey { hash: *hash, number: view.number }))
}

async fn asked(gateway: &Gateway, hash: &Hash, policy: &Arc<Policy>, at: Timestamp) -> Result<(Arc<App>, HeldKey), Rejection> {
    gateway.directory.catch_up().await.map_err(|error| away(&error))?;
    let view = gateway.directory.view(policy).await.map_err(|error| away(&error))?;
    let held = view.ring.find(hash, at).map_err(Rejection::Unauthenticated)?;
    Ok((held.app, HeldKey { hash: *hash, number: view.number }))
}

/// Who calls, as far as the configuration says.
enum Caller {
    /// Somebody it knows.
    Known(Arc<App>, Credential),
    /// Somebody with a key of this hash, which may have been made at run time.
    Shows(Hash),
}

fn authenticate(auth: &Auth, headers: &HeaderMap, peer: IpAddr) -> Result<Caller, Rejection> {
    let (name, value) = credential(headers)?;
    match auth {
        Auth::Passthrough { trusted } => {
            let peer = peer.to_canonical();
            if !peer.is_loopback() && !trusted.iter().any(|net| net.contains(&peer)) {
                return Err(Rejection::Forbidden(Forbidden::Network));
            }
            Ok(Caller::Known(PASSTHROUGH.clone(), Credential::Callers(name, value)))
        }
        Auth::Keys { apps } => {
            let hash = hash(&value);
            Ok(match apps.get(&hash) {
                Some(app) => Caller::Known(app.clone(), Credential::Configured),
                None => Caller::Shows(Hash::from_bytes(hash)),
            })
        }
    }
}

/// The hash of the gateway key that a request shows.
///
/// # Errors
/// When it shows none, or two.
pub fn key_hash(headers: &HeaderMap) -> Result<[u8; 32], Rejection> {
    credential(headers).map(|(_, value)| hash(&value))
}

fn hash(credential: &HeaderValue) -> [u8; 32] {
    let key = credential.as_bytes().strip_prefix(b"Bearer ").unwrap_or(credential.as_bytes());
    blake3::hash(key.trim_ascii()).into()
}

/// The caller's credential, from wherever its SDK puts it. Two different ones are refused: which of them counts would be a guess.
fn credential(headers: &HeaderMap) -> Result<(HeaderName, HeaderValue), Rejection> {
    let mut found: Option<(HeaderName, &HeaderValue)> = None;
    for name in [AUTHORIZATION, X_API_KEY, API_KEY] {
        for value in headers.get_all(&name) {
            match &found {
                Some((first, other)) if *first == name && *other != value => {
                    return Err(Rejection::Unauthenticated(Unauthenticated::Unknown));
                }
                Some(_) => {}
                None if value.as_bytes().trim_ascii().is_empty() => {}
                None => found = Some((name.clone(), value)),
            }
        }
    }
    found.map(|(name, value)| (name, value.clone())).ok_or(Rejection::Unauthenticated(Unauthenticated::Missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::HashMap;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_gateway_key_is_found_wherever_an_sdk_puts_it() {
        let app = Arc::new(App { name: "shop".into(), ..(**PASSTHROUGH).clone() });
        let auth = Auth::Keys { apps: HashMap::from_iter([(*blake3::hash(b"tk-1").as_bytes(), app)]) };
        for pair in [("authorization", "Bearer tk-1"), ("x-api-key", "tk-1"), ("api-key", "tk-1")] {
            let Ok(Caller::Known(app, credential)) = authenticate(&auth, &headers(&[pair]), LOOPBACK) else { panic!("known") };
            assert_eq!(&*app.name, "shop");
            assert!(matches!(credential, Credential::Configured), "the caller's key never goes on");
        }
        let other = authenticate(&auth, &headers(&[("authorization", "Bearer tk-2")]), LOOPBACK);
        assert!(matches!(other, Ok(Caller::Shows(hash)) if hash == blake3::hash(b"tk-2")), "one that may be made at run time");
        for pairs in [&[][..], &[("authorization", "Bearer tk-1"), ("authorization", "Bearer x")]] {
            assert!(matches!(authenticate(&auth, &headers(pairs), LOOPBACK), Err(Rejection::Unauthenticated(_))), "{pairs:?}");
        }
    }

    #[test]
    fn passthrough_is_for_trusted_networks_only() {
        let auth = Auth::Passthrough { trusted: vec!["10.0.0.0/8".parse().expect("a network")] };
        let sent = headers(&[("authorization", "Bearer sk-1")]);
        for (peer, allowed) in
            [("127.0.0.1", true), ("::1", true), ("::ffff:10.1.2.3", true), ("10.1.2.3", true), ("192.0.2.1", false)]
        {
            let peer: IpAddr = peer.parse().expect("an address");
            assert_eq!(authenticate(&auth, &sent, peer).is_ok(), allowed, "{peer}");
        }
    }
}
