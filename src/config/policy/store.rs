//! `[store]`: where the books are kept, and what happens while they are away.

use super::Secret;
use std::path::PathBuf;
use std::time::Duration;

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreKind {
    /// One process, its journal in this directory.
    Embedded {
        /// The directory.
        path: PathBuf,
        /// What becomes of the holds of a process that died.
        lost_hold: LostHold,
    },
    /// Redis.
    Redis {
        /// Which servers.
        servers: RedisServers,
        /// Deadline of one store call.
        deadline: Duration,
        /// How long a hold stands that is not renewed.
        lease: Duration,
        /// What becomes of the holds of a gateway that died.
        lost_hold: LostHold,
        /// `outage`, `journal` and `journal_max`: what happens while it is away.
        outage: Outage,
    },
}

impl StoreKind {
    /// How long a hold stands without being renewed, unless configured.
    pub const LEASE: Duration = Duration::from_secs(120);

    /// How long a hold stands without being renewed.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        match self {
            Self::Embedded { .. } => Self::LEASE,
            Self::Redis { lease, .. } => *lease,
        }
    }
}

/// `[store] urls`, `cluster` and `sentinel`: the servers that keep the books. Addresses come with their credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisServers {
    /// One server.
    One(Secret),
    /// A cluster: some of its nodes. The first address also says how to log in at all the others.
    Cluster(Vec<Secret>),
    /// The master that sentinels name.
    Sentinel {
        /// The name it has there.
        master: String,
        /// The sentinels.
        sentinels: Vec<Secret>,
        /// How to log in at the master: an address whose host and port do not count. Without TLS and password where it is missing.
        login: Option<Secret>,
    },
}

impl RedisServers {
    /// The server at this address, or the cluster that several belong to.
    #[must_use]
    pub fn of(mut urls: Vec<Secret>) -> Self {
        if urls.len() == 1 { Self::One(urls.swap_remove(0)) } else { Self::Cluster(urls) }
    }
}

/// What happens to money held by requests whose process died: nobody knows what they used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostHold {
    /// The hold is charged: no dollar over the cap, whatever happened. Of a stream on Redis only as much as it can have used, as far as
    /// that is known.
    #[default]
    Charge,
    /// The whole hold is given back.
    Release,
}

/// `[store] outage`, and the journal: what happens while Redis is away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// How long requests are decided without it; zero: not at all.
    pub max: Duration,
    /// The part of what it last said is left that all gateways together may use meanwhile, millionths.
    pub share: u32,
    /// Failed calls in a row after which it is probed instead of asked.
    pub failures: u32,
    /// The longest pause between probes.
    pub probe: Duration,
    /// Directory of the settlements that wait for it.
    pub journal: PathBuf,
    /// The most bytes that one process keeps there.
    pub journal_max: u64,
}

impl Default for Outage {
    fn default() -> Self {
        Self {
            max: Duration::from_secs(300),
            share: 100_000,
            failures: 3,
            probe: Duration::from_secs(1),
            journal: PathBuf::from("tollgate-journal"),
            journal_max: 64 << 20,
        }
    }
}
