//! What a gateway asks of Redis beside admissions and settlements: how many gateways live, and whether a hold is still known.

use super::RedisLedger;
use super::keys::{Key, Shelf};
use crate::domain::ReservationId;
use crate::limit::ScopeKey;
use crate::store::StoreError;
use crate::store::outage::Remote;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::Value;

const FLEET: &str = include_str!("../../../lua/fleet.lua");
/// Lives with what all customers share.
const GATEWAYS: &str = "tg1:{shared}:gateways";

impl Remote for RedisLedger {
    fn beat(&self, gateway: u128, patience: u64) -> BoxFuture<'_, Result<usize, StoreError>> {
        async move {
            let mut command = redis::cmd("EVAL");
            // By source: a few hundred bytes every few seconds, and a probe must not depend on what the server has cached.
            command.arg(FLEET).arg(1).arg(GATEWAYS).arg(format!("{gateway:032x}")).arg(patience);
            match self.one(command).await? {
                Value::Int(live) => Ok(usize::try_from(live).unwrap_or(1).max(1)),
                _ => Err(StoreError::Failed(String::from("fleet answered something else than a number"))),
            }
        }
        .boxed()
    }

    fn knows_hold<'a>(&'a self, customer: &'a ScopeKey, reservation: ReservationId) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            for shelf in [Shelf::Holds, Shelf::Lost] {
                let mut command = redis::cmd("HEXISTS");
                command.arg(Key { scope: customer, shelf }).arg(reservation.to_string());
                if matches!(self.one(command).await?, Value::Int(1)) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        .boxed()
    }

    fn repaired(&self) -> u64 {
        self.floors.repaired()
    }

    fn may_evict(&self) -> Option<bool> {
        Self::may_evict(self)
    }
}
