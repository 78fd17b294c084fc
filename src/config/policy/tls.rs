//! `[server.tls]` and `[admin.tls]`: certificates, read and found sound.

use std::sync::Arc;
use std::time::Duration;

/// What a listener shows of itself, and what it asks of its clients.
#[derive(Clone)]
pub struct Tls {
    /// Certificate, key and what is asked of clients; HTTP/2 and HTTP/1.1 by ALPN.
    pub config: Arc<rustls::ServerConfig>,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Whether clients have to show a certificate, may show one, or are not asked (`None`).
    pub client_auth: Option<ClientAuth>,
    /// When the first certificate of the chain to end ends, seconds since the Unix epoch.
    pub expires: u64,
    /// The hash of what was read: two that are equal serve the same.
    pub hash: [u8; 32],
}

/// `client_auth`: what is asked of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Without a certificate of `client_ca` there is no connection.
    Required,
    /// Whoever shows a certificate has to show one of `client_ca`.
    Optional,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("client_auth", &self.client_auth).field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        let Self { config: _, handshake_timeout, client_auth, expires: _, hash } = self;
        (handshake_timeout, client_auth, hash) == (&other.handshake_timeout, &other.client_auth, &other.hash)
    }
}

impl Eq for Tls {}
