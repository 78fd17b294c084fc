//! The Redis store: the ledger of any number of gateways, decided by scripts inside the server.
//!
//! A request costs one `EVALSHA` of `lua/admit.lua` before the provider call and one of `lua/settle.lua` after it; a batch of
//! settlements is one round trip. The scripts follow [`crate::limit::decide`] to the number. The time is the server's, so gateways
//! whose clocks disagree still decide alike.
//!
//! What it does not do: it keeps no connection to a cluster or sentinel yet, and it neither retries a call that timed out (the
//! caller knows whether that is safe) nor answers in the server's place while that is away.

mod call;
mod documents;
mod fleet;
mod floor;
mod keys;
mod leases;
mod link;
mod reply;
mod scripts;

pub use self::documents::RedisDocuments;

use self::floor::Floors;
use self::keys::{Key, Shelf};
use self::link::{Eviction, Link};
use super::{Asked, Balance, Known, Ledger, Renewal, StoreError};
use crate::config::policy::LostHold;
use crate::domain::Timestamp;
use crate::limit::{Admission, Decision, ScopeKey, Settlement};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::{Pipeline, Value};
use std::sync::Arc;
use std::time::Duration;

/// Settlements sent in one round trip; a longer batch takes several, so that none of them outlasts the deadline.
const SETTLEMENTS_PER_CALL: usize = 128;
/// Budgets of which it is remembered what was spent.
const REMEMBERED: usize = 200_000;

/// The ledger in a Redis server. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct RedisLedger {
    link: Link,
    lost_hold: LostHold,
    floors: Arc<Floors>,
}

impl RedisLedger {
    /// A ledger on the server at this address (`redis://`, `rediss://` or `redis+unix://`), each call bounded by `deadline`.
    ///
    /// Does not wait for the server and does not fail when it is away: calls do, until it is back. Inside a runtime the connection is
    /// made at once, else with the first call.
    ///
    /// # Errors
    /// When there is not exactly one address or it is not well-formed. The text does not repeat it, since it may hold a password.
    pub fn connect(urls: &[&str], deadline: Duration) -> Result<Self, StoreError> {
        let url = match urls {
            [url] => *url,
            [] => return Err(StoreError::Failed(String::from("no redis address is configured"))),
            _ => return Err(StoreError::Failed(String::from("several redis addresses (a cluster) are not supported yet"))),
        };
        let client = redis::Client::open(url)
            .map_err(|_| StoreError::Failed(String::from("the redis address is not of the form redis://host:port/database")))?;
        let link = Link::new(client, deadline);
        if tokio::runtime::Handle::try_current().is_ok() {
            // A failure shows in the log and in the first call.
            let _ = link.dial();
        }
        Ok(Self { link, lost_hold: LostHold::default(), floors: Arc::new(Floors::new(REMEMBERED)) })
    }

    /// The same ledger; holds of gateways that died are treated so when it sweeps.
    #[must_use]
    pub const fn with_lost_hold(mut self, lost_hold: LostHold) -> Self {
        self.lost_hold = lost_hold;
        self
    }

    /// Whether the server may evict keys (and with them budgets) when its memory is full; `None` while that is not known.
    #[must_use]
    pub fn may_evict(&self) -> Option<bool> {
        match self.link.eviction() {
            Eviction::Unknown => None,
            Eviction::Never => Some(false),
            Eviction::Possible => Some(true),
        }
    }

    /// One command, one reply.
    async fn one(&self, command: redis::Cmd) -> Result<Value, StoreError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command);
        let mut replies = self.link.call(&mut pipeline).await?;
        replies.pop().ok_or_else(|| StoreError::Failed(String::from("no reply to a command")))
    }
}

impl Ledger for RedisLedger {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        async move {
            let reply = self.one(call::admit(self.link.scripts().admit(), admission, &self.floors, now)).await?;
            let decision = reply::decision(&reply, admission.claims.len())?;
            self.floors.decided(admission, &decision, &reply);
            Ok(decision)
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
            let command = call::admit_known(self.link.scripts().admit_known(), admission, known, &self.floors, now);
            let reply = self.one(command).await?;
            if let Some(in_force) = reply::stale(&reply)? {
                return Ok(Asked::Stale(in_force));
            }
            let decision = reply::decision(&reply, admission.claims.len())?;
            self.floors.decided(admission, &decision, &reply);
            Ok(Asked::Decided(decision))
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
        self.one(call::tell(customer, number, keep)).map(|reply| reply.map(drop)).boxed()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let sha = self.link.scripts().settle();
            for part in batch.chunks(SETTLEMENTS_PER_CALL) {
                let mut pipeline = Pipeline::with_capacity(part.len());
                for settlement in part {
                    pipeline.add_command(call::settle(sha, settlement, &self.floors, now));
                }
                for (settlement, reply) in part.iter().zip(self.link.call(&mut pipeline).await?) {
                    reply::settled(&reply)?;
                    self.floors.settled(settlement, &reply);
                }
            }
            Ok(())
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
            let command = call::replace(self.link.scripts().replace(), old, admission, &self.floors, now);
            let reply = self.one(command).await?;
            let decision = reply::decision(&reply, admission.claims.len())?;
            // A refusal tells how things would stand, not how they do.
            if decision.admitted {
                self.floors.decided(admission, &decision, &reply);
            }
            Ok(decision)
        }
        .boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        async move {
            let mut command = redis::cmd("HGETALL");
            command.arg(Key { scope, shelf: Shelf::Budgets });
            reply::balances(&self.one(command).await?)
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
        self.one(redis::cmd("PING")).map(|reply| reply.map(drop)).boxed()
    }
}
