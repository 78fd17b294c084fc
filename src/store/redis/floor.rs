//! The floor: what this gateway last saw spent of each budget, passed along with every claim and settlement.
//!
//! A server that was replaced by an older copy of itself, or flushed, knows less than its gateways do. Where it has less spent in a period
//! than was seen in the same generation or a later one, the script takes what was seen. So what is lost is at most what no gateway
//! that asks again has seen: what was held at the time, and what others booked since. Whatever lowers the amount on purpose (the
//! correction of a hold that was booked for lost) begins a new generation, so that it is not undone.
//!
//! That a server had lost something is an alarm: a line in the log at most once a minute, and a count for the metrics.

use super::reply::{Decided, Settled};
use crate::domain::Timestamp;
use crate::limit::{Claim, LimitName, Line, ScopeKey};
use foldhash::HashMap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Locks: requests of different customers seldom meet.
const SHARDS: usize = 64;
/// Between two lines in the log.
const QUIET: Duration = Duration::from_secs(60);

/// What was seen spent of one budget. Whatever is later compares greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Floor {
    /// Start of the period, Unix seconds.
    pub(super) period: u64,
    /// How often what is spent was lowered on purpose.
    pub(super) generation: u64,
    /// Nano-dollars, tokens or requests.
    pub(super) spent: u64,
}

type Seen = HashMap<(ScopeKey, LimitName), Floor>;

/// Two generations of memory: once the younger is full it becomes the older, and the older is forgotten. What is asked moves up.
#[derive(Debug, Default)]
struct Shard {
    young: Seen,
    old: Seen,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Floors {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// Budgets a shard's younger memory may hold.
    most: usize,
    repaired: AtomicU64,
    at: AtomicU64,
    alarmed: Mutex<Option<Instant>>,
}

impl Floors {
    /// Remembers at least `budgets`, at most twice as many.
    pub(super) fn new(budgets: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            most: budgets.div_ceil(SHARDS).max(1),
            repaired: AtomicU64::new(0),
            at: AtomicU64::new(0),
            alarmed: Mutex::new(None),
        }
    }

    /// What was last seen of a budget; zeros if nothing was.
    pub(super) fn of(&self, scope: &ScopeKey, limit: LimitName) -> Floor {
        let key = (scope.clone(), limit);
        let shard = self.shard(scope).lock();
        shard.young.get(&key).or_else(|| shard.old.get(&key)).copied().unwrap_or_default()
    }

    /// When the server last decided, by its own clock; zero if it has not yet.
    pub(super) fn at(&self) -> Timestamp {
        Timestamp(self.at.load(Ordering::Relaxed))
    }

    /// Budgets that the server had lost something of.
    pub(super) fn repaired(&self) -> u64 {
        self.repaired.load(Ordering::Relaxed)
    }

    /// Learns from the answer to an admission (or a replacement).
    pub(super) fn decided<'a>(&self, claims: impl Iterator<Item = &'a Claim>, decided: &Decided) {
        for ((claim, verdict), generation) in claims.zip(&decided.decision.verdicts).zip(&decided.generations) {
            if claim.is_budget() {
                let floor = Floor { period: verdict.booked, generation: *generation, spent: verdict.used };
                self.saw(&claim.scope, claim.limit, floor);
            }
        }
        self.at.store(decided.decision.at.micros(), Ordering::Relaxed);
        self.alarm(decided.repaired);
    }

    /// Learns from the answer to a settlement.
    pub(super) fn settled<'a>(&self, lines: impl Iterator<Item = &'a Line>, settled: &Settled) {
        let budgets = lines.filter(|line| line.claim.is_budget());
        for (line, [spent, generation]) in budgets.zip(&settled.left) {
            let floor = Floor { period: line.booked, generation: *generation, spent: *spent };
            self.saw(&line.claim.scope, line.claim.limit, floor);
        }
        self.alarm(settled.repaired);
    }

    fn saw(&self, scope: &ScopeKey, limit: LimitName, floor: Floor) {
        if floor.spent == 0 && floor.generation == 0 {
            return;
        }
        let key = (scope.clone(), limit);
        let mut shard = self.shard(scope).lock();
        // Replies may overtake each other.
        let known = shard.young.get(&key).or_else(|| shard.old.get(&key)).copied().unwrap_or_default();
        if shard.young.len() >= self.most && !shard.young.contains_key(&key) {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(key, floor.max(known));
    }

    fn alarm(&self, budgets: u64) {
        if budgets == 0 {
            return;
        }
        let total = self.repaired.fetch_add(budgets, Ordering::Relaxed) + budgets;
        let mut alarmed = self.alarmed.lock();
        if alarmed.is_none_or(|at| at.elapsed() >= QUIET) {
            *alarmed = Some(Instant::now());
            tracing::error!(
                budgets = total,
                "redis has lost what was spent of budgets (a failover to an older copy, a flush?); what this gateway saw was put back"
            );
        }
    }

    fn shard(&self, scope: &ScopeKey) -> &Mutex<Shard> {
        // The remainder is below `SHARDS`, so it fits any `usize`.
        &self.shards[usize::try_from(self.hasher.hash_one(scope) % SHARDS as u64).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Period;
    use crate::limit::Scope;

    const DAY: LimitName = LimitName::Spend(Period::Day);

    fn customer(n: usize) -> ScopeKey {
        ScopeKey { scope: Scope::Customer, owner: n.to_string().into() }
    }

    const fn floor(period: u64, generation: u64, spent: u64) -> Floor {
        Floor { period, generation, spent }
    }

    #[test]
    fn what_is_later_stays() {
        let floors = Floors::new(10);
        let customer = customer(1);
        for (seen, known) in [
            (floor(1, 0, 5), floor(1, 0, 5)),
            (floor(1, 0, 3), floor(1, 0, 5)),
            (floor(1, 1, 2), floor(1, 1, 2)),
            (floor(1, 0, 9), floor(1, 1, 2)),
            (floor(2, 0, 1), floor(2, 0, 1)),
            (floor(1, 9, 9), floor(2, 0, 1)),
            (floor(2, 1, 0), floor(2, 1, 0)),
            (floor(3, 0, 0), floor(2, 1, 0)),
        ] {
            floors.saw(&customer, DAY, seen);
            assert_eq!(floors.of(&customer, DAY), known, "{seen:?}");
        }
        assert_eq!(floors.of(&customer, LimitName::Spend(Period::Week)), Floor::default());
    }

    #[test]
    fn memory_is_bounded_and_who_comes_often_stays() {
        let floors = Floors::new(640);
        for n in 0..20_000 {
            floors.saw(&customer(n), DAY, floor(1, 0, 1));
            floors.saw(&customer(0), DAY, floor(1, 0, 7));
        }
        for shard in &floors.shards {
            let shard = shard.lock();
            assert!(shard.young.len() <= 10 && shard.old.len() <= 10);
        }
        assert_eq!(floors.of(&customer(0), DAY), floor(1, 0, 7));
        assert_eq!(floors.of(&customer(1), DAY), Floor::default(), "long not seen");
    }
}
