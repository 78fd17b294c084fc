//! The configuration file as written: every table, every key. Nothing here is defaulted or looked up yet.
//!
//! `README` and the commented example describe the keys for operators; the types say what each may hold.

use super::node::{Node, Value};
use super::policy::{BodySource, Counts, Step, Unpriced};
use super::problem::{Findings, Place};
use super::read::{At, Known as _, Named, Read, as_table, field, only, table, text};
use super::secret::{SecretSource, StoreUrl};
use super::value::{self, Fraction, Limitable, OnAbort, Pattern, PerPeriod, Size, Timeout, Wait, Window};
use crate::domain::{NanoUsd, Priority, Rate};
use crate::wire::Dialect;
use ipnet::IpNet;
use std::net::SocketAddr;

table! {
    /// The whole file.
    File {
        /// `[server]`
        server: Server,
        /// `[auth]`
        auth: Auth,
        /// `[keys.NAME]`: gateway keys.
        keys: Named<Key>,
        /// `[identity]`
        identity: Identity,
        /// `[store]`
        store: Store,
        /// `[upstreams.NAME]`
        upstreams: Named<Upstream>,
        /// `[pools.NAME]`
        pools: Named<Pool>,
        /// `[models."NAME"]`
        models: Named<Model>,
        /// `[pricing]`
        pricing: Pricing,
        /// `[plans.NAME]`
        plans: Named<Plan>,
        /// `[customers.ID]`
        customers: Named<Customer>,
        /// `[gateway]`: limits of the whole gateway.
        gateway: Gateway,
        /// `[classes.NAME]`
        classes: Named<Class>,
        /// `[priorities]`
        priorities: Priorities,
        /// `[budget]`
        budget: Budget,
        /// `[retry]`
        retry: Retry,
        /// `[concurrency]`
        concurrency: Concurrency,
        /// `[handoff]`
        handoff: Handoff,
    }

    /// `[server]`
    Server {
        /// Where to listen.
        listen: At<SocketAddr>,
        /// The largest request body.
        max_body: Size,
        /// How long headers may take.
        header_timeout: Timeout,
        /// How long a body may pause.
        body_idle_timeout: Timeout,
        /// How long a body may take.
        body_timeout: Timeout,
        /// Most connections at once.
        max_connections: At<u64>,
        /// How long SIGTERM waits.
        grace: Wait,
    }

    /// `[auth]`
    Auth {
        /// Whose provider key is used.
        mode: At<value::AuthMode>,
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
        unknown_customers: value::UnknownCustomers,
        /// Whether ids may look like e-mail addresses.
        allow_emails: bool,
        /// Body fields that may name the customer.
        body_sources: Vec<BodySource>,
        /// What the provider learns of the id.
        forward_id: ForwardId,
    }

    /// `[store]`
    Store {
        /// Which store.
        kind: At<value::Store>,
        /// Directory of the embedded store.
        path: At<String>,
        /// Addresses of Redis.
        urls: At<Vec<At<StoreUrl>>>,
        /// Deadline of one call to Redis.
        deadline: At<Timeout>,
    }

    /// `[upstreams.NAME]`
    Upstream {
        /// The URL in place of `/v1`.
        base_url: At<String>,
        /// The provider key.
        api_key: At<SecretSource>,
        /// The formats it speaks.
        dialect: Dialect,
        /// How long a connection may take.
        connect_timeout: Timeout,
        /// How long the first byte may take.
        first_byte_timeout: Timeout,
        /// How long a reply may pause.
        idle_timeout: Timeout,
        /// How long an idle connection is kept.
        pool_idle_timeout: Timeout,
        /// Whether `stream_options.include_usage` may be added.
        include_usage: bool,
        /// What happens to a stream whose client left.
        on_abort: OnAbort,
    }

    /// `[pools.NAME]`
    Pool {
        /// Its upstream.
        upstream: At<String>,
        /// Patterns of models.
        models: At<Vec<At<Pattern>>>,
        /// The account limits as the provider states them.
        ceiling: Ceiling,
        /// The part of the refill that is used.
        headroom: At<Fraction>,
        /// How the provider's minute works.
        window: Window,
        /// How the provider counts tokens.
        counts: At<Counts>,
        /// How long background work may wait.
        background_wait: Wait,
    }

    /// `[pools.NAME] ceiling`
    Ceiling {
        /// Requests per minute.
        rpm: At<u64>,
        /// Tokens per minute.
        tpm: At<u64>,
        /// Input tokens per minute.
        input_tpm: At<u64>,
        /// Output tokens per minute.
        output_tpm: At<u64>,
        /// Requests per day.
        rpd: At<u64>,
        /// Tokens per day.
        tpd: At<u64>,
    }

    /// `[models."NAME"]`
    Model {
        /// The cheaper model that may answer instead.
        fallback: At<String>,
        /// The smallest output cap worth having.
        output_floor: u64,
        /// The most it can put out.
        max_output_tokens: u64,
        /// What it costs, in place of the built-in price.
        price: ModelPrice,
    }

    /// `[models."NAME"] price`: dollars per million tokens.
    ModelPrice {
        /// Input.
        input: Rate,
        /// Input read from the prompt cache; absent = as input.
        cached_input: Rate,
        /// Input written to the cache at the short lifetime; absent = as input.
        cache_write: Rate,
        /// Input written to the cache at the long lifetime; absent = as the short one.
        cache_write_long: Rate,
        /// Output.
        output: Rate,
        /// Reasoning output; absent = as output.
        reasoning: Rate,
        /// Audio input; absent = as input.
        audio_input: Rate,
        /// Audio output; absent = as output.
        audio_output: Rate,
        /// What it costs above a size of the prompt.
        long_context: LongContext,
        /// Dollars for one web search of the provider.
        web_search_call: NanoUsd,
    }

    /// `price.long_context`: the whole request costs this when its input is above a size.
    LongContext {
        /// Input tokens above which it applies.
        above: At<u64>,
        /// Input.
        input: Rate,
        /// Cached input.
        cached_input: Rate,
        /// Cache write.
        cache_write: Rate,
        /// Cache write at the long lifetime.
        cache_write_long: Rate,
        /// Output.
        output: Rate,
    }

    /// `[pricing]`
    Pricing {
        /// A price file in LiteLLM's format.
        file: At<String>,
        /// What happens to models without a price.
        unpriced: Unpriced,
        /// What is held for features without a bound.
        features: Features,
    }

    /// `[pricing] features`
    Features {
        /// Input tokens assumed for context stored at the provider.
        stored_context_tokens: u64,
        /// Dollars held for a request with tools that run at the provider.
        server_tools: NanoUsd,
    }

    /// `[plans.NAME]`, and the overriding fields of a customer.
    Plan {
        /// The message bucket.
        messages: At<Limitable<Messages>>,
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
        /// Limits of each user inside the customer.
        user: User,
        /// The largest output cap.
        max_output_tokens: At<Limitable<u64>>,
        /// Most requests in flight in one process.
        max_in_flight: At<Limitable<u64>>,
        /// Where an upgrade is sold.
        upgrade_url: At<String>,
        /// What is tried at a cap or quota.
        on_spend: At<Vec<Step>>,
        /// What is tried at RPM or TPM.
        on_tokens: At<Vec<Step>>,
        /// What is tried when the provider has no room or fails.
        on_provider: At<Vec<Step>>,
    }

    /// `user`: limits of each user inside a customer.
    User {
        /// The message bucket.
        messages: At<Limitable<Messages>>,
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
    }

    /// `[gateway]`
    Gateway {
        /// Requests per minute.
        rpm: At<Limitable<RateLimit>>,
        /// Tokens per minute.
        tpm: At<Limitable<RateLimit>>,
        /// Dollar caps.
        spend: Spend,
        /// Quotas.
        quota: Quota,
    }

    /// `spend`: dollars per calendar period.
    Spend {
        /// A day.
        day: At<Limitable<NanoUsd>>,
        /// An ISO week.
        week: At<Limitable<NanoUsd>>,
        /// A month.
        month: At<Limitable<NanoUsd>>,
    }

    /// `quota`: requests and tokens per calendar period.
    Quota {
        /// Requests a day.
        requests_day: At<Limitable<u64>>,
        /// Requests a week.
        requests_week: At<Limitable<u64>>,
        /// Requests a month.
        requests_month: At<Limitable<u64>>,
        /// Tokens a day.
        tokens_day: At<Limitable<u64>>,
        /// Tokens a week.
        tokens_week: At<Limitable<u64>>,
        /// Tokens a month.
        tokens_month: At<Limitable<u64>>,
    }

    /// `rpm` or `tpm` in full.
    RateLimitTable {
        /// How much in a minute.
        limit: At<u64>,
        /// How it decides.
        window: Window,
        /// Capacity of the bucket; absent = the limit.
        burst: At<u64>,
        /// Longest wait for room.
        max_wait: Wait,
    }

    /// `messages` in full.
    MessagesTable {
        /// The refill.
        rate: At<PerPeriod>,
        /// The capacity; absent = twice the amount of the rate.
        burst: At<u64>,
        /// Longest wait for room.
        max_wait: Wait,
    }

    /// `[classes.NAME]`
    Class {
        /// Whether a fallback model may answer.
        fallback: bool,
    }

    /// `[priorities]`
    Priorities {
        /// `[priorities.internal]`
        internal: PriorityShare,
        /// `[priorities.background]`
        background: PriorityShare,
    }

    /// `[priorities.NAME]`
    PriorityShare {
        /// The part of a ceiling it may use.
        share: At<Fraction>,
    }

    /// `[budget]`
    Budget {
        /// The time zone in which days, weeks and months begin.
        zone: At<String>,
        /// Percent of a cap from which answers carry a notice.
        notice: At<u64>,
    }

    /// `[retry]`
    Retry {
        /// Most retries.
        max: At<u64>,
        /// How long a live request may wait, all waits together.
        wait_budget: Wait,
    }

    /// `[concurrency]`
    Concurrency {
        /// Requests in flight to providers.
        slots: At<u64>,
        /// Requests waiting for a slot.
        queue: At<u64>,
        /// Those of one customer.
        queue_per_customer: At<u64>,
        /// How long a request may wait for a slot.
        max_wait: Wait,
    }

    /// `[handoff]`
    Handoff {
        /// What the customer reads.
        message: At<String>,
    }
}

/// `rpm` or `tpm`: a number, or the table.
#[derive(Clone, Debug)]
pub struct RateLimit(pub RateLimitTable);

impl Read for RateLimit {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        if matches!(node.value, Value::Table(_)) {
            return RateLimitTable::read(node, place, findings).map(Self);
        }
        let limit = At::read(node, place, findings)?;
        Some(Self(RateLimitTable { limit: Some(limit), ..RateLimitTable::empty(place.clone()) }))
    }
}

/// `messages`: a rate, or the table.
#[derive(Clone, Debug)]
pub struct Messages(pub MessagesTable);

impl Read for Messages {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        if matches!(node.value, Value::Table(_)) {
            return MessagesTable::read(node, place, findings).map(Self);
        }
        let rate = At::read(node, place, findings)?;
        Some(Self(MessagesTable { rate: Some(rate), ..MessagesTable::empty(place.clone()) }))
    }
}

/// `[customers.ID]`: a plan, and the fields that differ from it.
#[derive(Clone, Debug)]
pub struct Customer {
    /// Its plan; absent = the default plan.
    pub plan: Option<At<String>>,
    /// What differs.
    pub overrides: Plan,
}

impl Read for Customer {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let table = as_table(node, place, findings)?;
        only(table, place, &[&["plan"], Plan::KEYS].concat(), findings);
        Some(Self { plan: field(table, "plan", place, findings), overrides: Plan::fields(table, place, findings) })
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
