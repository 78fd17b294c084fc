//! Leases of holds: gateways that live renew them, and whoever comes first books those that nobody renews.
//!
//! One sorted set for all customers says when to look at whom, so that also those are looked at who never come back. It may be early,
//! since renewals do not move it, and never late; a sweep of a customer puts it right. In a cluster there is one such set under each
//! tag, 257 in all, in the slot of the holds it knows of.

use super::call::Sweep;
use super::keys::Index;
use super::{RedisLedger, call, reply};
use crate::domain::Timestamp;
use crate::limit::{Scope, ScopeKey};
use crate::store::{Renewal, StoreError};

/// Renewals in one round trip.
const RENEWALS_PER_CALL: usize = 128;
/// Customers looked at in one round trip.
const CUSTOMERS_PER_CALL: usize = 32;
/// Holds booked by one call of the script, which keeps the server from everybody else meanwhile.
const HOLDS_PER_SWEEP: u64 = 16;

/// A customer who may have holds to book.
struct Due {
    index: Index,
    customer: ScopeKey,
    /// Hashes that their records name.
    named: Vec<String>,
}

impl RedisLedger {
    pub(super) async fn renew_all(&self, batch: &[Renewal], now: Option<Timestamp>) -> Result<(), StoreError> {
        let sha = self.servers.scripts().renew();
        let groups = self.servers.groups();
        for part in batch.chunks(RENEWALS_PER_CALL) {
            let command = |renewal| groups.iter().map(move |group| (*group, renewal));
            let commands = part.iter().flat_map(command).map(|(group, renewal)| {
                let Renewal { customer, .. } = renewal;
                (group.slot(&customer.owner), call::renew(sha, group, renewal, now))
            });
            for reply in self.servers.all(commands.collect()).await? {
                reply::renewed(&reply)?;
            }
        }
        Ok(())
    }

    /// Looks at every customer who is due, again and again while there is more to book: each look books holds, or moves the customer
    /// out of what is due.
    pub(super) async fn sweep_due(&self, now: Option<Timestamp>) -> Result<usize, StoreError> {
        let until = match now {
            Some(now) => now,
            None => self.time().await?,
        };
        let mut indexes = self.servers.indexes();
        let mut booked = 0;
        loop {
            let due = self.due(&mut indexes, until).await?;
            if due.is_empty() {
                return Ok(booked);
            }
            for part in due.chunks(CUSTOMERS_PER_CALL) {
                let (holds, named) = self.book(part, now).await?;
                booked += holds;
                if !named.is_empty() {
                    booked += self.book(&named, now).await?.0;
                }
            }
        }
    }

    /// The earliest of the servers' clocks: what is due by it is due everywhere.
    pub(super) async fn time(&self) -> Result<Timestamp, StoreError> {
        let slots = self.servers.indexes().into_iter().map(Index::slot);
        let slots = match &self.servers {
            super::Servers::One(_) => slots.collect(),
            super::Servers::Cluster(cluster) => cluster.one_of_each_master(slots).await?,
        };
        let times = self.servers.all(slots.into_iter().map(|slot| (slot, redis::cmd("TIME"))).collect()).await?;
        let times = times.iter().map(reply::time).collect::<Result<Vec<_>, _>>()?;
        times.into_iter().min().ok_or_else(|| StoreError::Failed(String::from("CLUSTERDOWN there are no masters")))
    }

    /// Customers who are due, and leaves only those indexes that have any.
    async fn due(&self, indexes: &mut Vec<Index>, until: Timestamp) -> Result<Vec<Due>, StoreError> {
        let query = |index: &Index| {
            let mut command = redis::cmd("ZRANGEBYSCORE");
            command.arg(index.to_string()).arg("-inf").arg(until.micros()).arg("LIMIT").arg(0).arg(CUSTOMERS_PER_CALL);
            (index.slot(), command)
        };
        let replies = self.servers.all(indexes.iter().map(query).collect()).await?;
        let mut all = Vec::new();
        let mut left = Vec::new();
        for (&index, reply) in indexes.iter().zip(&replies) {
            let owners = reply::owners(reply)?;
            if !owners.is_empty() {
                left.push(index);
            }
            let due = |owner| Due { index, customer: ScopeKey { scope: Scope::Customer, owner }, named: Vec::new() };
            all.extend(owners.into_iter().map(due));
        }
        *indexes = left;
        Ok(all)
    }

    /// Books holds of these customers: how many, and who is to be looked at again with which hashes declared.
    async fn book(&self, due: &[Due], now: Option<Timestamp>) -> Result<(usize, Vec<Due>), StoreError> {
        let command = |due: &Due| {
            let Due { index, customer, named } = due;
            let group = index.group();
            let sweep = Sweep { customer, group, lost_hold: self.lost_hold, most: HOLDS_PER_SWEEP, named };
            (group.slot(&customer.owner), sweep.command(self.servers.scripts().sweep(), now))
        };
        let replies = self.servers.all(due.iter().map(command).collect()).await?;
        let (mut booked, mut again) = (0, Vec::new());
        for (due, reply) in due.iter().zip(&replies) {
            let (holds, named) = reply::swept(reply)?;
            booked += holds;
            if !named.is_empty() {
                again.push(Due { index: due.index, customer: due.customer.clone(), named });
            }
        }
        Ok((booked, again))
    }
}
