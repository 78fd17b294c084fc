//! The part of the policy about what operators are told of.

use super::Webhook;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What an alert is about. One word each, the same in the configuration, the log, the metrics and webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// A part of a spend cap is spent.
    SpendCap,
    /// Somebody is at a spend cap for the first time.
    FirstAtCap,
    /// Somebody is at a spend cap for several days in a row.
    DaysAtCap,
    /// A pool's ceiling is nearly used up, for minutes.
    PoolBusy,
    /// What is given up in a pool has changed.
    LevelChanged,
    /// A customer sends the same prompt over and over.
    PromptLoop,
    /// The store is away, or back.
    StoreOutage,
    /// A provider refuses the configured account: a wrong key, no money left.
    ProviderAccount,
    /// News for other systems are given up.
    WebhookLost,
    /// A model is asked for that has no price.
    UnpricedModel,
    /// An operator tries the alerts out.
    Test,
}

impl AlertKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::SpendCap,
        Self::FirstAtCap,
        Self::DaysAtCap,
        Self::PoolBusy,
        Self::LevelChanged,
        Self::PromptLoop,
        Self::StoreOutage,
        Self::ProviderAccount,
        Self::WebhookLost,
        Self::UnpricedModel,
        Self::Test,
    ];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpendCap => "spend_cap",
            Self::FirstAtCap => "first_at_cap",
            Self::DaysAtCap => "days_at_cap",
            Self::PoolBusy => "pool_busy",
            Self::LevelChanged => "level_changed",
            Self::PromptLoop => "prompt_loop",
            Self::StoreOutage => "store_outage",
            Self::ProviderAccount => "provider_account",
            Self::WebhookLost => "webhook_lost",
            Self::UnpricedModel => "unpriced_model",
            Self::Test => "test",
        }
    }

    /// The one of this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// `[alerts]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alerts {
    /// Percent of a spend cap that are told, rising, from 1 to 100.
    pub spend: Vec<u8>,
    /// Days in a row at a cap after which it is told.
    pub days_at_cap: u32,
    /// Percent of a pool's ceiling from which it is busy.
    pub pool_percent: u8,
    /// For how long it has to be.
    pub pool_for: Duration,
    /// More of the same prompt by one customer within a minute are a loop; zero = not looked for.
    pub loop_per_minute: u32,
    /// Kinds that nobody is told of.
    pub quiet: Vec<AlertKind>,
    /// Whether alerts stand in the process log.
    pub log: bool,
    /// How long they can be looked up.
    pub keep: Duration,
    /// Where operators reach the admin listener, without a slash at the end.
    pub admin_url: Arc<str>,
    /// Whom else to tell, in the order of the file.
    pub webhooks: Vec<Destination>,
}

/// `[alerts.webhooks.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its name.
    pub name: Arc<str>,
    /// Where.
    pub webhook: Webhook,
    /// What it is told; empty = everything.
    pub kinds: Vec<AlertKind>,
}

impl Destination {
    /// Whether it wants to know of these. A test goes to everybody.
    #[must_use]
    pub fn wants(&self, kind: AlertKind) -> bool {
        kind == AlertKind::Test || self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

impl Default for Alerts {
    fn default() -> Self {
        Self {
            spend: vec![50, 80, 100],
            days_at_cap: 3,
            pool_percent: 80,
            pool_for: Duration::from_secs(300),
            loop_per_minute: 30,
            quiet: Vec::new(),
            log: true,
            keep: Duration::from_secs(30 * 86_400),
            admin_url: "http://127.0.0.1:8081".into(),
            webhooks: Vec::new(),
        }
    }
}

impl Alerts {
    /// Whether anybody is told of these.
    #[must_use]
    pub fn tells(&self, kind: AlertKind) -> bool {
        !self.quiet.contains(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_word_and_stored_as_it() {
        for kind in AlertKind::ALL {
            assert_eq!(AlertKind::named(kind.as_str()), Some(kind));
            assert_eq!(serde_json::json!(kind), kind.as_str());
        }
        assert_eq!(AlertKind::named("Test"), None);
    }
}
