//! What a gateway asks of Redis beside admissions and settlements: how many gateways live, and whether a hold is still known.

use super::RedisLedger;
use super::keys::{Key, Shelf};
use super::slots::Group;
use crate::limit::{Line, Settlement};
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
            match self.servers.one(Group::Shared.slot(""), command).await? {
                Value::Int(live) => Ok(usize::try_from(live).unwrap_or(1).max(1)),
                _ => Err(StoreError::Failed(String::from("fleet answered something else than a number"))),
            }
        }
        .boxed()
    }

    fn known_lines<'a>(&'a self, settlement: &'a Settlement) -> BoxFuture<'a, Result<Vec<Line>, StoreError>> {
        async move {
            let Settlement { reservation, customer, lines } = settlement;
            let mut known = Vec::new();
            for &group in self.servers.groups() {
                let lines: Vec<Line> = lines.iter().filter(|line| group.keeps(line.claim.scope.scope)).cloned().collect();
                if lines.is_empty() {
                    continue;
                }
                let holds = |shelf| {
                    let mut command = redis::cmd("HEXISTS");
                    command.arg(Key { scope: customer, shelf, group }).arg(reservation.to_string());
                    (group.slot(&customer.owner), command)
                };
                let replies = self.servers.all([Shelf::Holds, Shelf::Lost].map(holds).into()).await?;
                if replies.contains(&Value::Int(1)) {
                    known.extend(lines);
                }
            }
            Ok(known)
        }
        .boxed()
    }

    fn repaired(&self) -> u64 {
        self.floors.repaired()
    }

    fn late(&self) -> u64 {
        self.servers.late()
    }

    fn may_evict(&self) -> Option<bool> {
        Self::may_evict(self)
    }
}
