//! `[server.tls]` and `[admin.tls]`, as written.

use super::super::node::Node;
use super::super::policy::ClientAuth;
use super::super::problem::{Findings, Place};
use super::super::read::{At, Read, table};
use super::super::value::Timeout;

table! {
    /// `tls`
    Tls {
        /// The file of the certificate and those between it and its authority, PEM.
        cert: At<String>,
        /// The file of its key, PEM.
        key: At<String>,
        /// The file of the authorities of clients' certificates, PEM.
        client_ca: At<String>,
        /// Whether clients have to show one.
        client_auth: At<ClientAuth>,
        /// How long a handshake may take.
        handshake_timeout: Timeout,
    }
}
