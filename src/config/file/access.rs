//! `[auth]`, `[keys]` and `[identity]`, as written.

use super::super::choice::{AuthMode, UnknownCustomers};
use super::super::node::{Node, Value};
use super::super::policy::BodySource;
use super::super::problem::{Findings, Place};
use super::super::read::{At, Read, field, only, table, text};
use super::super::secret::SecretSource;
use super::super::value::{Limitable, Pattern};
use super::{Quota, RateLimit, Spend};
use crate::domain::Priority;
use ipnet::IpNet;

table! {
    /// `[auth]`
    Auth {
        /// Whose provider key is used.
        mode: At<AuthMode>,
        /// Networks besides loopback that passthrough serves.
        trusted_networks: At<Vec<At<IpNet>>>,
    }

    /// `[keys.NAME]`
    Key {
        /// `blake3:` and the hash of the key in hexadecimal.
        hash: At<KeyHash>,
        /// The key itself, from environment or file.
        key: At<SecretSource>,
        /// Plans it may name.
        plans: Vec<At<String>>,
        /// The highest priority it may ask for.
        priority: Priority,
        /// Models it may use.
        models: Vec<Pattern>,
        /// Customers it may act for.
        customers: Vec<Pattern>,
        /// Paths it may call.
        routes: Vec<Pattern>,
        /// Pools whose models it may use.
        pools: Vec<At<String>>,
        /// Customers it may name for the first time within an hour.
        new_customers_per_hour: Limitable<u64>,
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
    }

    /// `[identity]`
    Identity {
        /// The plan of a customer that has none.
        default_plan: At<String>,
        /// `refuse`, or the plan of requests without an id.
        anonymous: At<String>,
        /// What happens to customers without an entry.
        unknown_customers: UnknownCustomers,
        /// Whether ids may look like e-mail addresses.
        allow_emails: bool,
        /// Customers that an application may name for the first time within an hour.
        new_customers_per_hour: Limitable<u64>,
        /// Body fields that may name the customer.
        body_sources: Vec<BodySource>,
        /// What the provider learns of the id.
        forward_id: ForwardId,
    }
}

/// `[identity] forward_id`
#[derive(Clone, Debug)]
pub enum ForwardId {
    /// Not at all.
    No,
    /// As it is.
    AsIs,
    /// As a hash with this key.
    Hashed(At<SecretSource>),
}

impl Read for ForwardId {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXPECTED: &str = "\"no\", \"as_is\" or { hashed_with = { env = \"NAME\" } }";
        if let Value::Table(table) = &node.value {
            only(table, place, &["hashed_with"], findings);
            let key = field(table, "hashed_with", place, findings);
            if key.is_none() {
                findings.missing(place, "hashed_with", format!("write {EXPECTED}"));
            }
            return key.map(Self::Hashed);
        }
        match text(node, place, EXPECTED, findings)? {
            "no" => Some(Self::No),
            "as_is" => Some(Self::AsIs),
            other => {
                findings.problem(place, format!("{other:?} is unknown"), format!("write {EXPECTED}"));
                None
            }
        }
    }
}

/// The hash of a gateway key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl Read for KeyHash {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXPECTED: &str = "\"blake3:\" and 64 hexadecimal digits";
        let text = text(node, place, EXPECTED, findings)?;
        let hash = text.strip_prefix("blake3:").and_then(|hex| blake3::Hash::from_hex(hex).ok());
        if hash.is_none() {
            // Not echoed: it may be the key itself, put in the wrong place.
            findings.problem(place, "is not the hash of a key", format!("write {EXPECTED}"));
        }
        hash.map(|hash| Self(*hash.as_bytes()))
    }
}
