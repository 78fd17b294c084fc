//! `[alerts]`, as written.

use super::super::choice::choice;
use super::super::node::Node;
use super::super::problem::{Findings, Place};
use super::super::read::{At, Named, Read, table};
use super::super::secret::SecretSource;
use super::super::value::{Keep, Timeout};
use super::HookUrl;
use crate::config::policy::AlertKind;

table! {
    /// `[alerts]`
    Alerts {
        /// Percent of a spend cap that are told.
        spend: At<Vec<At<u64>>>,
        /// Days in a row at a cap.
        days_at_cap: At<u64>,
        /// Percent of a pool's ceiling.
        pool_percent: At<u64>,
        /// For how long.
        pool_for: Timeout,
        /// The same prompt in a minute.
        loop_per_minute: At<u64>,
        /// What nobody is told of.
        quiet: Vec<AlertKind>,
        /// Whether they are logged.
        log: bool,
        /// How long they are kept.
        keep: Keep,
        /// Where operators reach the admin listener.
        admin_url: At<String>,
        /// `[alerts.webhooks.NAME]`
        webhooks: Named<Destination>,
    }

    /// `[alerts.webhooks.NAME]`
    Destination {
        /// The address.
        url: At<HookUrl>,
        /// The key of the signature.
        secret: At<SecretSource>,
        /// How long one attempt may take.
        timeout: Timeout,
        /// Attempts at most.
        attempts: At<u64>,
        /// What it is told.
        kinds: Vec<AlertKind>,
    }
}

impl Read for AlertKind {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        choice(node, place, &Self::ALL.map(|kind| (kind.as_str(), kind)), findings)
    }
}
