//! What `/metrics` says of TLS: handshakes, and how long the certificates are good for.

use super::metrics::{HandshakeLabels, ListenerLabels};
use crate::config::Policy;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// All absent without TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsMetrics {
    /// Handshakes by listener and result.
    pub handshakes: Family<HandshakeLabels, Counter>,
    /// When the certificate of a listener ends, seconds since the Unix epoch.
    pub expires: Family<ListenerLabels, Gauge>,
}

impl TlsMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let Self { handshakes, expires } = self.clone();
        r.register("tls_handshakes", "TLS handshakes, by listener and result", handshakes);
        r.register("tls_certificate_expires_seconds", "When the certificate of a listener ends, Unix time", expires);
    }

    /// From now on these certificates are shown.
    pub fn show(&self, policy: &Policy) {
        let admin = policy.admin.as_ref().and_then(|admin| admin.tls.as_ref());
        for (listener, tls) in [("server", policy.server.tls.as_ref()), ("admin", admin)] {
            match tls {
                Some(tls) => {
                    let expires = i64::try_from(tls.expires).unwrap_or(i64::MAX);
                    self.expires.get_or_create(&ListenerLabels { listener }).set(expires);
                }
                None => drop(self.expires.remove(&ListenerLabels { listener })),
            }
        }
    }
}
