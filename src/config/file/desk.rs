//! `[triage]` and `[admin]`, as written.

use super::super::node::{Node, Value};
use super::super::problem::{Findings, Place, Source};
use super::super::read::{At, Read, table};
use super::super::secret::SecretSource;
use super::super::value::{Keep, Size, Timeout};
use super::Tls;
use std::net::SocketAddr;

table! {
    /// `[triage]`
    Triage {
        /// How long a ticket waits before it expires.
        keep: Keep,
        /// How long a claimed ticket belongs to its agent.
        lease: Timeout,
        /// Whether the conversation is kept.
        conversation: bool,
        /// The most bytes of it.
        conversation_max: At<Size>,
        /// Whether the request itself is kept, so that it can be asked again.
        requests: At<bool>,
        /// The most bytes of its body.
        request_max: At<Size>,
        /// Open tickets of one customer.
        open_per_customer: At<u64>,
        /// Open tickets of all.
        open: At<u64>,
        /// Who is told.
        webhook: Webhook,
    }

    /// `webhook`
    Webhook {
        /// The address.
        url: At<HookUrl>,
        /// The key of the signature.
        secret: At<SecretSource>,
        /// How long one attempt may take.
        timeout: Timeout,
        /// Attempts at most.
        attempts: At<u64>,
    }

    /// `[admin]`
    Admin {
        /// Where to listen.
        listen: At<SocketAddr>,
        /// What callers must show.
        token: At<SecretSource>,
        /// `[admin.tls]`
        tls: Tls,
    }
}

/// The address of a webhook: plain, or from where secrets come from, as many hold one in their path.
#[derive(Clone, Debug)]
pub enum HookUrl {
    /// Written as it is.
    Plain(String),
    /// From the environment or a file.
    Secret(SecretSource),
}

impl Read for HookUrl {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        match (&node.value, &node.source) {
            (Value::Text(text), Source::File { .. } | Source::Shipped) => Some(Self::Plain(text.clone())),
            _ => SecretSource::read(node, place, findings).map(Self::Secret),
        }
    }
}
