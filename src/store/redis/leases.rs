//! Leases of holds: gateways that live renew them, and whoever comes first books those that nobody renews.
//!
//! One sorted set for all customers says when to look at whom, so that also those are looked at who never come back. It may be early,
//! since renewals do not move it, and never late; a sweep of a customer puts it right.

use super::keys::{Key, Shelf};
use super::{RedisLedger, call, reply};
use crate::domain::Timestamp;
use crate::limit::{Scope, ScopeKey};
use crate::store::{Renewal, StoreError};
use redis::Pipeline;

/// Renewals in one round trip.
const RENEWALS_PER_CALL: usize = 128;
/// Customers looked at in one round trip.
const CUSTOMERS_PER_CALL: usize = 32;
/// Holds booked by one call of the script, which keeps the server from everybody else meanwhile.
const HOLDS_PER_SWEEP: u64 = 16;

impl RedisLedger {
    pub(super) async fn renew_all(&self, batch: &[Renewal], now: Option<Timestamp>) -> Result<(), StoreError> {
        let sha = self.link.scripts().renew();
        for part in batch.chunks(RENEWALS_PER_CALL) {
            let mut pipeline = Pipeline::with_capacity(part.len());
            for renewal in part {
                pipeline.add_command(call::renew(sha, renewal, now));
            }
            for reply in self.link.call(&mut pipeline).await? {
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
            None => reply::time(&self.one(redis::cmd("TIME")).await?)?,
        };
        let nobody = ScopeKey { scope: Scope::Customer, owner: "".into() };
        let mut booked = 0;
        loop {
            let mut due = redis::cmd("ZRANGEBYSCORE");
            due.arg(Key { scope: &nobody, shelf: Shelf::Leases }).arg("-inf").arg(until.micros());
            due.arg("LIMIT").arg(0).arg(CUSTOMERS_PER_CALL);
            let owners = reply::owners(&self.one(due).await?)?;
            if owners.is_empty() {
                return Ok(booked);
            }
            let mut pipeline = Pipeline::with_capacity(owners.len());
            for owner in owners {
                let customer = ScopeKey { scope: Scope::Customer, owner };
                pipeline.add_command(call::sweep(self.link.scripts().sweep(), &customer, self.lost_hold, HOLDS_PER_SWEEP, now));
            }
            for reply in self.link.call(&mut pipeline).await? {
                booked += reply::swept(&reply)?;
            }
        }
    }
}
