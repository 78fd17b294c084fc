//! The Redis store: the ledger of any number of gateways, decided by scripts inside the server.
//!
//! A request costs one call of `lua/admit.lua` before the provider call and one of `lua/settle.lua` after it, both shared by requests that
//! come together. The scripts follow [`crate::limit::decide`] to the number. The time is the server's, so gateways
//! whose clocks disagree still decide alike.
//!
//! [`RedisServers`] says where: one server, the master that sentinels name (found anew whenever a connection is made), or a cluster. In
//! a cluster a request that claims from its customer and from what all share costs a second call and, off its path, a confirmation; see
//! `split` for the states in between and who may die when. A settlement is a call to each group of its customer's reservations.
//!
//! What it does not do: it neither retries a call that timed out (the caller knows whether that is safe) nor answers in the server's
//! place while that is away. While a slot of a cluster moves (resharding without atomic slot migration), scripts on its keys answer
//! TRYAGAIN until it has arrived; they are repeated for as long as the deadline lets them.

mod asks;
pub mod audit;
mod away;
mod call;
mod cluster;
mod command;
mod confirm;
#[cfg(test)]
mod damaged;
mod documents;
mod fleet;
mod floor;
mod keys;
mod leases;
mod link;
mod look;
mod reply;
mod scripts;
mod sentinel;
mod series;
mod servers;
mod settle;
mod slots;
mod split;
mod stands;
mod stored;
mod sums;
mod told;
mod topology;

pub use self::documents::RedisDocuments;

use self::asks::Asks;
use self::call::Ask;
use self::confirm::Confirms;
use self::floor::Floors;
use self::keys::{Key, Shelf};
use self::link::Eviction;
use self::servers::Servers;
use self::slots::Group;
use super::{Asked, Balance, Known, Ledger, Look, Renewal, Seen, StoreError};
use crate::config::policy::{LostHold, RedisServers, Secret};
use crate::domain::{ReservationId, Timestamp};
use crate::limit::{Admission, Decision, Scope, ScopeKey, Settlement};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// Requests that one call of a script is about: what they share is read and written once, but nobody else is served meanwhile, and all of
/// them wait for the last.
const PER_SCRIPT: usize = 16;
/// Budgets of which it is remembered what was spent.
const REMEMBERED: usize = 200_000;

/// The ledger in Redis. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct RedisLedger {
    servers: Servers,
    confirms: Confirms,
    lost_hold: LostHold,
    floors: Arc<Floors>,
    asks: Asks,
}

impl RedisLedger {
    /// A ledger on the server at this address, or on the cluster that these addresses belong to (`redis://` or `rediss://`; one server
    /// also `redis+unix://`). See [`RedisLedger::open`].
    ///
    /// # Errors
    /// As of [`RedisLedger::open`].
    pub fn connect(urls: &[&str], deadline: Duration) -> Result<Self, StoreError> {
        let servers = RedisServers::of(urls.iter().map(|url| Secret::new(url)).collect());
        Self::open(&servers, deadline)
    }

    /// A ledger on these servers, each call bounded by `deadline`.
    ///
    /// Does not wait for them and does not fail when they are away: calls do, until they are back. Inside a runtime connections are
    /// made at once, else with the first call.
    ///
    /// # Errors
    /// When there is no address or one is not well-formed. The text does not repeat it, since it may hold a password.
    pub fn open(servers: &RedisServers, deadline: Duration) -> Result<Self, StoreError> {
        let confirms = Confirms::new(split::provisional(deadline));
        let floors = Arc::new(Floors::new(REMEMBERED));
        let servers = Servers::open(servers, deadline)?;
        let asks = Asks::new(&servers, &floors, deadline);
        Ok(Self { servers, confirms, lost_hold: LostHold::default(), floors, asks })
    }

    /// The same ledger; holds of gateways that died are treated so when it sweeps.
    #[must_use]
    pub const fn with_lost_hold(mut self, lost_hold: LostHold) -> Self {
        self.lost_hold = lost_hold;
        self
    }

    /// Whether a server may evict keys (and with them budgets) when its memory is full; `None` while that is not known.
    #[must_use]
    pub fn may_evict(&self) -> Option<bool> {
        match self.servers.eviction() {
            Eviction::Unknown => None,
            Eviction::Never => Some(false),
            Eviction::Possible => Some(true),
        }
    }

    /// One call of `admit.lua`.
    async fn decide(&self, ask: &Ask<'_>, now: Option<Timestamp>) -> Result<Decision, StoreError> {
        match asks::alone(&self.servers, &self.floors, ask, now).await? {
            Asked::Decided(decision) => Ok(decision),
            Asked::Stale(_) => Err(StoreError::Failed(String::from("admit compared what it was not told"))),
        }
    }

    /// The keys of the numbers that must be known of a customer and of the plans, and their slots.
    fn known_keys<'a>(&self, customer: &'a ScopeKey) -> [(u16, Key<'a>); 2] {
        let groups = self.servers.groups();
        let (own, shared) = (groups[0], groups[groups.len() - 1]);
        let [said, _] = call::known_keys(customer, own);
        let [_, plans] = call::known_keys(customer, shared);
        [(own.slot(&customer.owner), said), (shared.slot(""), plans)]
    }

    /// The numbers that are in force.
    async fn in_force(&self, customer: &ScopeKey) -> Result<Known, StoreError> {
        let get = |(slot, key)| {
            let mut command = redis::cmd("GET");
            command.arg(key);
            (slot, command)
        };
        let replies = self.servers.all(self.known_keys(customer).map(get).into()).await?;
        match replies.as_slice() {
            [said, plans] => Ok(Known { customer: reply::number(said)?, plans: reply::number(plans)? }),
            _ => Err(StoreError::Failed(String::from("no reply to a command"))),
        }
    }

    /// One call of `replace.lua`.
    async fn exchange(&self, old: &Settlement, ask: &Ask<'_>, now: Option<Timestamp>) -> Result<Decision, StoreError> {
        let slot = ask.group.slot(&ask.admission.customer.owner);
        let command = call::replace(self.servers.scripts().replace(), old, ask, &self.floors, now);
        let decided = reply::decided(&self.servers.one(slot, command).await?, ask.claims())?;
        // A refusal tells how things would stand, not how they do.
        if decided.decision.admitted {
            self.floors.decided(ask.claims(), &decided);
        }
        Ok(decided.decision)
    }
}

impl Ledger for RedisLedger {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        async move {
            match &self.servers {
                Servers::One(_) => match self.asks.ask(admission, None, now).await? {
                    Asked::Decided(decision) => Ok(decision),
                    Asked::Stale(_) => Err(StoreError::Failed(String::from("admit compared what it was not told"))),
                },
                Servers::Cluster(_) => split::admit(self, admission, now).await,
            }
        }
        .boxed()
    }

    fn admit_known<'a>(
        &'a self,
        admission: &'a Admission,
        known: &'a Known,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Asked, StoreError>> {
        async move {
            match &self.servers {
                Servers::One(_) => self.asks.ask(admission, Some(*known), now).await,
                // Their numbers lie in two slots, and who asks both groups cannot take anything back so late: they are looked at before.
                Servers::Cluster(_) => {
                    let in_force = self.in_force(&admission.customer).await?;
                    if in_force != *known {
                        return Ok(Asked::Stale(in_force));
                    }
                    split::admit(self, admission, now).await.map(Asked::Decided)
                }
            }
        }
        .boxed()
    }

    fn tells(&self) -> bool {
        true
    }

    fn tell<'a>(
        &'a self,
        customer: Option<&'a ScopeKey>,
        number: u64,
        keep: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let nobody = ScopeKey { scope: Scope::Customer, owner: "".into() };
            let [said, plans] = self.known_keys(customer.unwrap_or(&nobody));
            let (slot, key) = if customer.is_some() { said } else { plans };
            self.servers.one(slot, call::tell(key, number, keep)).await.map(drop)
        }
        .boxed()
    }

    fn told(&self) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        async move {
            let nobody = ScopeKey { scope: Scope::Customer, owner: "".into() };
            let [_, (slot, plans)] = self.known_keys(&nobody);
            let mut command = redis::cmd("GET");
            command.arg(plans);
            reply::number(&self.servers.one(slot, command).await?).map(Some)
        }
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        async move {
            match &self.servers {
                Servers::One(_) => self.exchange(old, &Ask::all(admission, Group::Whole), now).await,
                Servers::Cluster(_) => split::replace(self, old, admission, now).await,
            }
        }
        .boxed()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.settle_all(batch, now).boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        async move {
            let groups = self.servers.groups();
            let group = *groups.iter().find(|group| group.keeps(scope.scope)).expect("every scope lies in a group");
            let customer = scope.owner.split('/').next().unwrap_or_default();
            let mut command = redis::cmd("GET");
            command.arg(Key { scope, shelf: Shelf::Limits, group });
            reply::balances(&self.servers.one(group.slot(customer), command).await?)
        }
        .boxed()
    }

    fn look<'a>(&'a self, look: &'a Look, now: Option<Timestamp>) -> BoxFuture<'a, Result<Seen, StoreError>> {
        async move {
            let Look { customer, claims } = look;
            // An admission that takes nothing. What is the customer's lies in the first group.
            let (reservation, customer, claims) = (ReservationId::new(0), customer.clone(), claims.clone());
            let admission = Admission { reservation, customer, claims, elastic: None, lease: 0 };
            let ask = Ask { mode: call::Mode::Refused, ..Ask::all(&admission, self.servers.groups()[0]) };
            let slot = ask.group.slot(&admission.customer.owner);
            let reply = self.servers.one(slot, call::look(self.servers.scripts().look(), &ask, &self.floors, now)).await?;
            look::seen(&reply, &admission.claims)
        }
        .boxed()
    }

    fn renew<'a>(&'a self, batch: &'a [Renewal], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.renew_all(batch, now).boxed()
    }

    fn sweep(&self, now: Option<Timestamp>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.sweep_due(now).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.servers.one(Group::Shared.slot(""), redis::cmd("PING")).map(|reply| reply.map(drop)).boxed()
    }

    fn provisional(&self) -> Option<Duration> {
        matches!(self.servers, Servers::Cluster(_)).then_some(self.confirms.provisional)
    }
}
