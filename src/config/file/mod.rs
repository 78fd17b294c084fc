//! The configuration file as written: every table, every key. Nothing here is defaulted or looked up yet.
//!
//! `config/tollgate.toml` describes the keys for operators; the types say what each may hold.

mod access;
mod limits;
mod provider;

pub use access::{Auth, ForwardId, Identity, Key};
pub use limits::{Customer, Gateway, Messages, Plan, Quota, RateLimit, Spend, User};
pub use provider::{Ceiling, LongContext, Model, ModelPrice, Pool, Pricing, Upstream};

use super::choice;
use super::node::Node;
use super::policy::LostHold;
use super::problem::{Findings, Place};
use super::read::{At, Named, Read, table};
use super::secret::StoreUrl;
use super::value::{Fraction, Size, Timeout, Wait};
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

    /// `[store]`
    Store {
        /// Which store.
        kind: At<choice::Store>,
        /// Directory of the embedded store.
        path: At<String>,
        /// Addresses of Redis: one server, or nodes of a cluster.
        urls: At<Vec<At<StoreUrl>>>,
        /// Whether they are a cluster's.
        cluster: At<bool>,
        /// Sentinels instead of addresses.
        sentinel: At<Sentinel>,
        /// Deadline of one call to Redis.
        deadline: At<Timeout>,
        /// How long a hold in Redis stands that is not renewed.
        lease: At<Timeout>,
        /// What becomes of the holds of a gateway that died.
        lost_hold: At<LostHold>,
        /// What happens while Redis is away.
        outage: At<Outage>,
        /// Directory of the settlements that wait for Redis.
        journal: At<String>,
        /// Most bytes there.
        journal_max: At<Size>,
    }

    /// `[store] sentinel`
    Sentinel {
        /// The name of the master.
        master: At<String>,
        /// Addresses of the sentinels.
        urls: At<Vec<At<StoreUrl>>>,
        /// How to log in at the master.
        login: At<StoreUrl>,
    }

    /// `[store] outage`
    Outage {
        /// How long requests are decided alone.
        max: Wait,
        /// Inside which part of what was left.
        share: At<Fraction>,
        /// Failures in a row that begin it.
        failures: At<u64>,
        /// The longest pause between probes.
        probe: At<Timeout>,
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
