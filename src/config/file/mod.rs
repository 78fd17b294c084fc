//! The configuration file as written: every table, every key. Nothing here is defaulted or looked up yet.
//!
//! `config/tollgate.toml` describes the keys for operators; the types say what each may hold.

mod access;
mod alerts;
mod desk;
mod limits;
mod provider;
mod telemetry;
mod tls;

pub use access::{Auth, ForwardId, Identity, Key};
pub use alerts::{Alerts, Destination};
pub use desk::{Admin, HookUrl, Triage, Webhook};
pub use limits::{Customer, Gateway, Messages, Plan, Quota, RateLimit, ShadowPlan, Spend, User};
pub use provider::{Ceiling, Fallback, LongContext, Model, ModelPrice, Pool, Pricing, Upstream};
pub use telemetry::{Otlp, Telemetry};
pub use tls::Tls;

use super::choice;
use super::node::Node;
use super::policy::LostHold;
use super::problem::{Findings, Place};
use super::read::{At, Named, Read, table};
use super::secret::StoreUrl;
use super::value::{Fraction, KeepOrNot, Size, Timeout, Wait};
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
        /// `[levels]`
        levels: Levels,
        /// `[retry]`
        retry: Retry,
        /// `[concurrency]`
        concurrency: Concurrency,
        /// `[handoff]`
        handoff: Handoff,
        /// `[repeats]`
        repeats: Repeats,
        /// `[triage]`
        triage: Triage,
        /// `[records]`
        records: Records,
        /// `[alerts]`: what operators are told of.
        alerts: Alerts,
        /// `[telemetry]`: what OpenTelemetry is told.
        telemetry: Telemetry,
        /// `[history]`
        history: History,
        /// `[shadow]`
        shadow: Shadow,
        /// `[admin]`
        admin: Admin,
    }

    /// `[shadow]`: plans that are looked at and refuse nothing.
    Shadow {
        /// `[shadow.plans.NAME]`
        plans: Named<ShadowPlan>,
    }

    /// `[history]`
    History {
        /// How long days are kept.
        days: KeepOrNot,
        /// How long hours are kept.
        hours: KeepOrNot,
        /// Between two flushes.
        flush: Timeout,
    }

    /// `[records]`
    Records {
        /// How long requests can be looked up.
        keep: KeepOrNot,
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
        /// `[server.tls]`
        tls: Tls,
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

    /// `[levels]`
    Levels {
        /// Percent of the ceiling in use from which level 1, 2 and 3 hold.
        at: At<Vec<At<u64>>>,
        /// Points below its threshold at which a level begins to end.
        margin: At<u64>,
        /// For how long the use has to stay there.
        hold: Wait,
        /// Level 2: the output cap.
        output_cap: At<u64>,
        /// Level 2: what is appended to the prompt.
        brevity: At<String>,
    }

    /// `[retry]`
    Retry {
        /// Most retries.
        max: At<u64>,
        /// How long a live request may wait, all waits together.
        wait_budget: Wait,
        /// When an upstream that fails is left alone.
        breaker: Breaker,
    }

    /// `[retry.breaker]`
    Breaker {
        /// Failures in the window.
        failures: At<u64>,
        /// Their part of all calls.
        share: At<Fraction>,
        /// The window.
        window: At<Timeout>,
        /// How long it is left alone.
        pause: At<Timeout>,
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
        /// Calls that go on without their client.
        orphans: At<u64>,
        /// Those of one customer.
        orphans_per_customer: At<u64>,
    }

    /// `[handoff]`
    Handoff {
        /// What the customer reads.
        message: At<String>,
    }

    /// `[repeats]`
    Repeats {
        /// How long a finished reply is kept.
        keep: Timeout,
        /// The longest reply that is kept.
        max_reply: Size,
        /// The longest body of an asynchronous request.
        max_request: At<Size>,
        /// Asynchronous requests that may wait or run at once.
        jobs: At<u64>,
        /// Those of one customer.
        jobs_per_customer: At<u64>,
        /// Those that one gateway runs at once.
        jobs_at_once: At<u64>,
        /// How long one may wait.
        job_wait: At<Timeout>,
    }
}
