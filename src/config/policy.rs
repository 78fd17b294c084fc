//! The compiled configuration: everything resolved, nothing left to parse or to look up by name twice.

mod alerts;
mod degrade;
mod providers;
mod store;
mod telemetry;
mod tls;

pub use alerts::{AlertKind, Alerts, Destination};
pub use degrade::{Admin, Class, Classes, Fallback, Handoff, History, Levels, Records, Repeats, Retry, Triage, Webhook};
pub use providers::{Counts, Model, Pool, Upstream};
pub use store::{LostHold, Outage, RedisServers, StoreKind};
pub use telemetry::{Otlp, Telemetry};
pub use tls::{ClientAuth, Tls};

use super::book::Book;
use super::settings::Settings;
use crate::domain::{NanoUsd, Period, Priority, Zone};
use crate::limit::{Bucket, LimitName, Measure};
use crate::pricing::PriceTable;
use crate::wire::Dialect;
use foldhash::HashMap;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The whole configuration, as the running gateway reads it. Replaced as a whole on reload.
#[derive(Debug)]
pub struct Policy {
    /// `[server]`
    pub server: Server,
    /// `[auth]` and the gateway keys.
    pub auth: Auth,
    /// `[identity]`
    pub identity: Identity,
    /// `[store]`
    pub store: StoreKind,
    /// `[upstreams.*]`, by name.
    pub upstreams: HashMap<Arc<str>, Arc<Upstream>>,
    /// The upstream of models in no pool, by the dialect of the route: the one named `openai` or `anthropic`, else the first of the
    /// file that speaks it.
    pub default_upstreams: HashMap<Dialect, Arc<Upstream>>,
    /// `[pools.*]`, in the order of the file; the first whose patterns match a model is its pool.
    pub pools: Vec<Arc<Pool>>,
    /// `[models.*]`, by exact name.
    pub models: HashMap<Arc<str>, Model>,
    /// Prices: the built-in table, the optional price file, then `[models.*].price`.
    pub prices: PriceTable,
    /// `[plans.*]`, by name.
    pub plans: HashMap<Arc<str>, Arc<Plan>>,
    /// The same as written, for what is laid over them at run time.
    pub book: Arc<Book>,
    /// `[customers.*]`: the customer's plan with its overrides applied.
    pub customers: HashMap<Arc<str>, Arc<Plan>>,
    /// `[gateway]`: limits of the whole gateway.
    pub gateway: Limits,
    /// `[priorities.*]`: the share of a pool's ceiling each priority may use, in millionths; absent = all of it.
    pub shares: HashMap<Priority, u32>,
    /// `[budget] zone`: where budgets reset.
    pub zone: Zone,
    /// `[budget] notice`: percent of a cap from which answers carry `x-tollgate-notice`.
    pub notice_percent: u8,
    /// `[pricing] unpriced`: what happens to a model without a price.
    pub unpriced: Unpriced,
    /// `[pricing] features`: what is held for features whose cost cannot be bounded.
    pub unbounded: Unbounded,
    /// `[retry]`
    pub retry: Retry,
    /// `[classes.*]`
    pub classes: Classes,
    /// `[levels]`
    pub levels: Levels,
    /// `[handoff]`
    pub handoff: Handoff,
    /// `[triage]`
    pub triage: Triage,
    /// `[records]`
    pub records: Records,
    /// `[history]`
    pub history: History,
    /// `[shadow.plans.*]`, by the plan that they stand behind.
    pub shadows: HashMap<Arc<str>, Arc<Shadow>>,
    /// `[repeats]`
    pub repeats: Repeats,
    /// `[alerts]`
    pub alerts: Alerts,
    /// `[telemetry]`
    pub telemetry: Telemetry,
    /// `[admin]`; `None` = there is no such listener.
    pub admin: Option<Admin>,
    /// `[concurrency]`
    pub concurrency: Concurrency,
    /// All of it as it was written, for people.
    pub settings: Settings,
}

/// `[server]`
#[derive(Debug, Clone)]
pub struct Server {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The largest request body, decoded, in bytes.
    pub max_body: usize,
    /// How long a request's headers may take.
    pub header_timeout: Duration,
    /// How long the body may pause between two pieces.
    pub body_idle_timeout: Duration,
    /// How long the whole body may take.
    pub body_timeout: Duration,
    /// Most connections at once.
    pub max_connections: usize,
    /// How long SIGTERM waits for requests in flight.
    pub grace: Duration,
    /// `[server.tls]`; `None` = plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

/// Who may call.
#[derive(Debug, Clone)]
pub enum Auth {
    /// The caller's own provider key goes on; only callers from loopback or these networks.
    Passthrough {
        /// Networks besides loopback from which calls are taken.
        trusted: Vec<IpNet>,
    },
    /// Gateway keys; the provider's key comes from the upstream's configuration.
    Keys {
        /// By blake3 hash of the key.
        apps: HashMap<[u8; 32], Arc<App>>,
    },
}

/// A calling application: a gateway key and what it may do.
#[derive(Debug, Clone, Default)]
pub struct App {
    /// Its name.
    pub name: Arc<str>,
    /// Limits of its own.
    pub limits: Limits,
    /// Plans it may name in `X-Customer-Plan`; empty = it may not set the header.
    pub plans: Vec<Arc<str>>,
    /// The highest priority it may ask for.
    pub priority: Priority,
    /// Patterns of models it may use (`*` at the end); empty = all.
    pub models: Vec<Box<str>>,
    /// Patterns of customers it may act for; empty = all.
    pub customers: Vec<Box<str>>,
    /// Patterns of paths it may call; empty = all.
    pub routes: Vec<Box<str>>,
    /// Pools whose models it may use; empty = all, and models in no pool.
    pub pools: Vec<Box<str>>,
    /// Customers it may name for the first time within an hour; `None` = as `[identity]` says, `u64::MAX` = any number.
    pub new_customers: Option<u64>,
}

impl App {
    /// Whether it may use this model, of this pool.
    #[must_use]
    pub fn may_use(&self, model: &str, pool: Option<&Pool>) -> bool {
        let named = self.models.is_empty() || self.models.iter().any(|pattern| super::matches(pattern, model));
        named && (self.pools.is_empty() || pool.is_some_and(|pool| self.pools.iter().any(|known| **known == *pool.name)))
    }
}

/// `[identity]`
#[derive(Debug, Clone)]
pub struct Identity {
    /// The plan of a customer that has none.
    pub default_plan: Arc<Plan>,
    /// The plan of requests without an id; `None` = they are refused.
    pub anonymous: Option<Arc<Plan>>,
    /// Whether customers without a `[customers.*]` entry are served.
    pub unknown_customers: bool,
    /// Whether ids may look like e-mail addresses.
    pub allow_emails: bool,
    /// Body fields read when the header is absent, in this order: `metadata.user_id`, `safety_identifier`, `user`.
    pub body_sources: Vec<BodySource>,
    /// What the provider learns of the id.
    pub forward: ForwardId,
    /// Customers that an application may name for the first time within an hour; `None` = any number.
    pub new_customers: Option<u64>,
}

/// A field of the request body that may name the customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySource {
    /// `metadata.user_id`
    MetadataUserId,
    /// `safety_identifier`
    SafetyIdentifier,
    /// `user`
    User,
}

/// What the provider learns of the customer's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardId {
    /// Nothing.
    No,
    /// The id, in the API's own field, where the request has none.
    AsIs,
    /// A keyed hash of it (at most 64 characters).
    Hashed {
        /// The key of the hash.
        secret: Secret,
    },
}

/// `[plans.NAME]`, or a customer's own version of it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: Arc<str>,
    /// Limits of the customer.
    pub limits: Limits,
    /// Limits of each user inside the customer.
    pub user: Limits,
    /// The largest output cap; written into requests that have none.
    pub max_output_tokens: Option<u64>,
    /// Most requests of the customer in flight in one process.
    pub max_in_flight: Option<u32>,
    /// Where an upgrade is sold.
    pub upgrade_url: Option<Arc<str>>,
    /// What is tried when a cap or quota is reached.
    pub on_spend: Vec<Step>,
    /// What is tried when the customer's RPM or TPM is reached.
    pub on_tokens: Vec<Step>,
    /// What is tried when the provider has no room or fails.
    pub on_provider: Vec<Step>,
    /// Whether an operator has suspended the customer: some cap in `limits.spend` is zero, and shuts out what costs nothing, too.
    pub suspended: bool,
}

/// `[shadow.plans.NAME]`: limits proposed for a plan, looked at on live traffic and refusing nothing.
#[derive(Debug, Clone)]
pub struct Shadow {
    /// Limits of the customer.
    pub limits: Limits,
    /// Limits of each user inside the customer.
    pub user: Limits,
}

/// A step of a plan's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Wait for room.
    Wait,
    /// The model's configured fallback.
    Cheaper,
    /// A person.
    Handoff,
}

/// The limits of one scope, ready to be claimed.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The message bucket.
    pub messages: Option<Limit>,
    /// RPM, TPM (rates per minute).
    pub rates: Vec<Limit>,
    /// Dollar caps.
    pub spend: Vec<(Period, NanoUsd)>,
    /// Request and token quotas.
    pub quotas: Vec<(LimitName, u64)>,
}

/// A rate limit of one name: what a claim is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Which limit.
    pub name: LimitName,
    /// What it measures.
    pub measure: Measure,
    /// How it decides.
    pub kind: LimitKind,
    /// The longest wait for a start time.
    pub max_wait: Duration,
}

/// How a rate limit decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// A token bucket.
    Bucket(Bucket),
    /// At most this much in any 60 s.
    Sliding(u64),
}

/// What happens to a model without a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unpriced {
    /// 400 `model_not_priced`.
    Refuse,
    /// It costs nothing.
    Free,
}

/// What is held for features whose cost cannot be bounded; `None` = they are refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unbounded {
    /// Input tokens assumed for stored context (`previous_response_id`, `conversation`, `prompt`).
    pub stored_context_tokens: Option<u64>,
    /// Dollars held for a request with server-side tools.
    pub server_tools: Option<NanoUsd>,
}

/// `[concurrency]`
#[derive(Debug, Clone)]
pub struct Concurrency {
    /// Requests in flight to providers at once, this process.
    pub slots: usize,
    /// Requests waiting for a slot.
    pub queue: usize,
    /// Requests of one customer waiting for a slot.
    pub queue_per_customer: usize,
    /// How long a request may wait for a slot.
    pub max_wait: Duration,
    /// Calls that go on without their client, this process.
    pub orphans: usize,
    /// Those of one customer.
    pub orphans_per_customer: usize,
}

/// A string that never shows in logs or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The string itself; for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
