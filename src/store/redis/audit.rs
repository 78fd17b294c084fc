//! The audit of the books in Redis: what can be recomputed there, while gateways serve.
//!
//! Redis keeps balances and what is in flight, not each booking (that is the embedded store's ledger). So what is spent cannot be
//! recomputed; what is *held* can: it is the sum of the hold records, budget by budget. And every hold must be one that a sweeper will
//! find, or nobody would ever free it.
//!
//! All our keys are walked with `SCAN`, at each master of a cluster, with a pause between the steps. What is read at different moments
//! may differ because of what happened in between, so every difference is looked at once more by a script that sees one moment. What
//! stays is none of the traffic. For a budget that all customers share that script reads all holds under its tag: some milliseconds of
//! the server with ten thousand requests in flight. Keys that are moved between servers during the walk may be missed by it.

mod read;

pub(super) use self::read::HoldRecord;
use self::read::{HOLDS, Held, LIMITS, Names};
use super::RedisLedger;
use super::keys::Index;
use super::servers::Servers;
use super::slots;
use super::stored::{self, StoredBudget};
use crate::domain::Timestamp;
use crate::limit::LimitName;
use crate::store::StoreError;
use redis::{Cmd, Value};
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const BUDGET: &str = include_str!("../../../lua/audit.lua");
const LEASE: &str = include_str!("../../../lua/audit_lease.lua");

/// Names asked of a server in one step.
const STEP: usize = 512;
/// The pause after each step.
const PAUSE: Duration = Duration::from_millis(2);
/// Commands in one round trip.
const PER_CALL: usize = 64;
/// Entries of an index read in one step.
const ENTRIES: usize = 1_000;
/// Gateways sweep every minute. Holds that are due for longer than this are swept by nobody.
pub const UNSWEPT_AFTER: Duration = Duration::from_secs(600);
/// Differences that are kept; more are counted.
const KEPT: usize = 1_000;

/// What an audit of Redis found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Balances that were compared.
    pub balances: usize,
    /// Reservations in flight.
    pub holds: usize,
    /// Customers who have some, in a cluster once for each half of the books.
    pub customers: usize,
    /// What does not add up, by key; a thousand at most.
    pub differences: Vec<Difference>,
    /// How many differences there are beside those.
    pub more: usize,
}

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// What is held of a budget is not the sum of its holds.
    Held {
        /// The key the budget is kept in.
        key: String,
        /// Its limit.
        limit: LimitName,
        /// Start of the period, Unix seconds.
        period: u64,
        /// What is stored as held; `None` where no such budget is stored.
        stored: Option<u64>,
        /// The sum of the holds.
        holds: u64,
    },
    /// A balance or a hold is not as a gateway writes it (a negative number, say): it counts as never seen.
    Unreadable {
        /// The key it is kept in.
        key: String,
        /// Its limit or reservation.
        field: String,
    },
    /// A sweeper will not look at a customer when the first of their holds is due: should its gateway die, it stays held.
    Unindexed {
        /// The hash of the holds.
        key: String,
        /// When the first one is due, microseconds since the epoch.
        due: u64,
        /// When a sweeper would look; `None`: never.
        looks: Option<u64>,
    },
    /// A customer's holds were due long ago, or are gone, and no gateway has looked.
    Unswept {
        /// The index.
        key: String,
        /// The customer.
        customer: String,
        /// Since when, microseconds since the epoch.
        due: u64,
    },
}

/// What the walk has found so far.
#[derive(Default)]
struct Walk {
    audit: Audit,
    /// What is stored as held, and what the holds add up to, by budget and period.
    held: BTreeMap<Held, [u64; 2]>,
    /// Hashes of holds.
    holds: Vec<Names>,
    /// Keys that were read, by their hash: a server may name a key twice.
    read: HashSet<u64>,
    hasher: RandomState,
}

impl RedisLedger {
    /// Recomputes what is held of every budget, and sees that every hold will be found by a sweeper. Gateways may serve meanwhile.
    /// `now`: the present; `None` stands for the server's.
    ///
    /// # Errors
    /// [`StoreError`] when a server cannot be asked: nothing is known then.
    pub async fn audit(&self, now: Option<Timestamp>) -> Result<Audit, StoreError> {
        let now = match now {
            Some(now) => now,
            None => self.time().await?,
        };
        let mut walk = Walk::default();
        for slot in self.walked().await? {
            self.walk(slot, &mut walk).await?;
        }
        self.compare(&mut walk).await?;
        self.leases(&mut walk).await?;
        self.unswept(&mut walk, now).await?;
        walk.audit.differences.sort();
        Ok(walk.audit)
    }

    /// A slot at each server to walk.
    async fn walked(&self) -> Result<Vec<u16>, StoreError> {
        match &self.servers {
            Servers::One(_) => Ok(vec![0]),
            // Whoever serves none of the tags has nothing of ours but documents.
            Servers::Cluster(cluster) => cluster.one_of_each_master(self.servers.indexes().into_iter().map(Index::slot)).await,
        }
    }

    /// Hashes of holds, then strings of limits; keys of other types are none of ours, whatever their names.
    async fn walk(&self, slot: u16, walk: &mut Walk) -> Result<(), StoreError> {
        for (kind, read, suffix) in [("hash", "HGETALL", HOLDS), ("string", "GET", LIMITS)] {
            let mut cursor = Vec::from(*b"0");
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg("tg1:*").arg("COUNT").arg(STEP).arg("TYPE").arg(kind);
                let (next, mut keys) = read::scanned(&self.servers.one(slot, scan).await?)?;
                keys.retain(|key| {
                    let ours = key.ends_with(suffix) && (suffix == LIMITS || Names::of(key, self.clustered()).is_some());
                    ours && walk.read.insert(walk.hasher.hash_one(key))
                });
                let values = keys.iter().map(|key| (key.as_str(), redis::cmd(read).arg(key).take()));
                for (key, reply) in self.answers(values).await? {
                    walk.takes_in(&key, &reply, self.clustered());
                }
                if next == b"0" {
                    break;
                }
                cursor = next;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Looks again at whatever differs, at one moment each.
    async fn compare(&self, walk: &mut Walk) -> Result<(), StoreError> {
        let suspects = std::mem::take(&mut walk.held).into_iter().filter(|(_, [stored, holds])| stored != holds);
        for (Held { key, limit, period }, _) in suspects {
            let beside = Names::beside(&key, self.clustered());
            let mut script = redis::cmd("EVAL");
            let mut keys = vec![key.clone(), beside.index];
            // Those that were found, too: an index that has lost them must not hide what they hold.
            let tag = slots::tag_of(&key);
            let found = walk
                .holds
                .iter()
                .filter(|names| beside.only.is_none() && (!self.clustered() || slots::tag_of(&names.holds) == tag));
            keys.extend(found.map(|names| names.holds.clone()));
            keys.extend(beside.only);
            script.arg(BUDGET).arg(keys.len()).arg(keys).arg(limit.as_str()).arg(beside.before).arg(beside.after);
            let reply = self.servers.one(slots::of_key(&key), script).await?;
            if let Some((stored, holds)) = read::budget(&reply, limit, period)? {
                walk.audit.finds(Difference::Held { key, limit, period, stored, holds });
            }
        }
        Ok(())
    }

    /// Whether sweepers will look at every hold.
    async fn leases(&self, walk: &mut Walk) -> Result<(), StoreError> {
        let holds = std::mem::take(&mut walk.holds);
        for part in holds.chunks(STEP) {
            let scripts = part.iter().map(|Names { holds, index, customer }| {
                let script = redis::cmd("EVAL").arg(LEASE).arg(2).arg(holds).arg(index).arg(customer).take();
                (holds.as_str(), script)
            });
            for (key, reply) in self.answers(scripts).await? {
                let [Some(due), looks] = read::lease(&reply)? else { continue };
                if looks.is_none_or(|looks| looks > due) {
                    walk.audit.finds(Difference::Unindexed { key, due, looks });
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Whether sweepers do look.
    async fn unswept(&self, walk: &mut Walk, now: Timestamp) -> Result<(), StoreError> {
        let until = now.micros().saturating_sub(u64::try_from(UNSWEPT_AFTER.as_micros()).unwrap_or(u64::MAX));
        for index in self.servers.indexes() {
            let key = index.to_string();
            let mut offset = 0;
            loop {
                let mut query = redis::cmd("ZRANGEBYSCORE");
                query.arg(&key).arg("-inf").arg(until).arg("WITHSCORES").arg("LIMIT").arg(offset).arg(ENTRIES);
                let entries = read::entries(&self.servers.one(index.slot(), query).await?)?;
                offset += entries.len();
                let full = entries.len() == ENTRIES;
                for (customer, due) in entries {
                    walk.audit.finds(Difference::Unswept { key: key.clone(), customer, due });
                }
                if !full {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Commands about one key each, some at a time, and their replies by key.
    async fn answers<'a>(
        &self,
        commands: impl Iterator<Item = (&'a str, Cmd)> + Send,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let commands: Vec<_> = commands.collect();
        let mut answers = Vec::with_capacity(commands.len());
        for part in commands.chunks(PER_CALL) {
            let calls = part.iter().map(|(key, command)| (slots::of_key(key), command.clone())).collect();
            let keys = part.iter().map(|(key, _)| (*key).to_owned());
            answers.extend(keys.zip(self.servers.all(calls).await?));
        }
        Ok(answers)
    }

    const fn clustered(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }
}

impl Walk {
    /// A hash of holds, or a string of budgets.
    fn takes_in(&mut self, key: &str, reply: &Value, clustered: bool) {
        match Names::of(key, clustered) {
            Some(names) => self.takes_in_holds(names, reply),
            None => self.takes_in_budgets(key, reply),
        }
    }

    fn takes_in_holds(&mut self, names: Names, reply: &Value) {
        let fields = read::fields(reply);
        self.audit.customers += usize::from(!fields.is_empty());
        for (field, text) in fields {
            self.audit.holds += 1;
            let Some(hold) = HoldRecord::read(&text) else {
                let field = String::from_utf8_lossy(&field).into_owned();
                self.audit.finds(Difference::Unreadable { key: names.holds.clone(), field });
                continue;
            };
            for (held, amount) in hold.parts {
                let sum = &mut self.held.entry(held).or_default()[1];
                *sum = sum.saturating_add(amount);
            }
        }
        self.holds.push(names);
    }

    fn takes_in_budgets(&mut self, key: &str, reply: &Value) {
        let Value::BulkString(stored) = reply else { return };
        let Some(budgets) = stored::budgets(stored) else {
            return self.audit.finds(Difference::Unreadable { key: key.to_owned(), field: String::from("all of it") });
        };
        for budget in budgets {
            let StoredBudget { limit, periods, .. } = match budget {
                Ok(budget) => budget,
                Err(number) => {
                    let limit = stored::limit_numbered(number);
                    let field = limit.map_or_else(|| format!("limit {number}"), |limit| limit.as_str().to_owned());
                    self.audit.finds(Difference::Unreadable { key: key.to_owned(), field });
                    continue;
                }
            };
            self.audit.balances += 1;
            for (period, _, held) in periods.into_iter().filter(|(.., held)| *held > 0) {
                let held_of = Held { key: key.to_owned(), limit, period };
                self.held.entry(held_of).or_default()[0] = held;
            }
        }
    }
}

impl Audit {
    fn finds(&mut self, difference: Difference) {
        if self.differences.len() < KEPT {
            self.differences.push(difference);
        } else {
            self.more += 1;
        }
    }

    /// Whether everything adds up.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}
