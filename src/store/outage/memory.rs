//! What was last seen of every limit, for a bounded number of owners: all that is known when the store is away.

use crate::domain::Timestamp;
use crate::limit::{Admission, Claim, Decision, LimitName, ScopeKey, Verdict};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Locks: admissions of different customers seldom meet.
const SHARDS: usize = 64;

/// One limit when the store last spoke of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub limit: LimitName,
    /// What was left: tokens, requests or nano-dollars.
    pub remaining: u64,
    /// What was used of it.
    pub used: u64,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// See the module. Owners not seen for long are forgotten when there are too many.
pub struct Memory {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// Owners a shard's younger generation may hold.
    most: usize,
}

type Owners = HashMap<ScopeKey, Vec<Seen>>;

/// Two generations: once the younger is full it becomes the older, and the older is forgotten. Who is seen again moves up.
#[derive(Default)]
struct Shard {
    young: Owners,
    old: Owners,
}

impl Memory {
    /// Remembers at least `owners`, at most twice as many.
    pub fn new(owners: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new(), most: owners.div_ceil(SHARDS).max(1) }
    }

    /// Remembers what a decision of the store said.
    pub fn saw(&self, admission: &Admission, decision: &Decision) {
        let mut verdicts = decision.verdicts.as_slice();
        // Claims of one owner stand together.
        for claims in admission.claims.chunk_by(|a, b| a.scope == b.scope) {
            let Some((now, later)) = verdicts.split_at_checked(claims.len()) else { return };
            verdicts = later;
            self.shard(&claims[0].scope).lock().saw(claims, now, decision.at, self.most);
        }
    }

    /// What was last seen of a limit.
    pub fn last(&self, scope: &ScopeKey, limit: LimitName) -> Option<Seen> {
        let shard = self.shard(scope).lock();
        let seen = shard.young.get(scope).or_else(|| shard.old.get(scope))?;
        seen.iter().find(|seen| seen.limit == limit).copied()
    }

    /// Something was used without the store: it is not there any more, whatever was seen before.
    pub fn used(&self, scope: &ScopeKey, limit: LimitName, amount: u64) {
        let mut shard = self.shard(scope).lock();
        let Shard { young, old } = &mut *shard;
        let Some(seen) = young.get_mut(scope).or_else(|| old.get_mut(scope)) else { return };
        for seen in seen.iter_mut().filter(|seen| seen.limit == limit) {
            seen.remaining = seen.remaining.saturating_sub(amount);
            seen.used = seen.used.saturating_add(amount);
        }
    }

    /// Whether nobody was ever seen.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| {
            let shard = shard.lock();
            shard.young.is_empty() && shard.old.is_empty()
        })
    }

    fn shard(&self, scope: &ScopeKey) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one(scope);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }
}

impl Shard {
    fn saw(&mut self, claims: &[Claim], verdicts: &[Verdict], at: Timestamp, most: usize) {
        let scope = &claims[0].scope;
        if !self.young.contains_key(scope) {
            if self.young.len() >= most {
                self.old = std::mem::take(&mut self.young);
            }
            let seen = self.old.remove(scope).unwrap_or_default();
            self.young.insert(scope.clone(), seen);
        }
        let Some(owner) = self.young.get_mut(scope) else { return };
        for (claim, verdict) in claims.iter().zip(verdicts) {
            let now = Seen { limit: claim.limit, remaining: verdict.remaining, used: verdict.used, at };
            match owner.iter_mut().find(|seen| seen.limit == claim.limit) {
                // Decisions may be heard of in another order than they were made in.
                Some(seen) if seen.at > at => {}
                Some(seen) => *seen = now,
                None => owner.push(now),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{admission, customer, decision};
    use super::*;
    use crate::domain::Period;

    const SPEND: LimitName = LimitName::Spend(Period::Day);

    #[test]
    fn the_latest_decision_counts_whatever_the_order_of_the_replies() {
        let memory = Memory::new(100);
        assert!(memory.is_empty());
        for (at, remaining) in [(5, 50), (9, 20), (7, 30)] {
            memory.saw(&admission(1, "c", 1), &decision(at, remaining));
        }
        let seen = memory.last(&customer("c"), SPEND).expect("seen");
        assert_eq!((seen.remaining, seen.at), (20, Timestamp(9)));
        memory.used(&customer("c"), SPEND, 15);
        memory.used(&customer("c"), LimitName::Rpm, 15);
        assert_eq!(memory.last(&customer("c"), SPEND).map(|seen| seen.remaining), Some(5));
        assert_eq!((memory.last(&customer("c"), LimitName::Tpd), memory.last(&customer("d"), SPEND)), (None, None));
        assert!(!memory.is_empty());
    }

    #[test]
    fn owners_are_bounded_and_who_is_seen_often_stays() {
        let memory = Memory::new(640);
        for n in 0..20_000 {
            memory.saw(&admission(1, "often", 1), &decision(n, 7));
            memory.saw(&admission(1, &format!("c{n}"), 1), &decision(n, 7));
        }
        let known = (0..20_000).filter(|n| memory.last(&customer(&format!("c{n}")), SPEND).is_some()).count();
        assert!((640..=1_280).contains(&known), "{known}");
        assert!(memory.last(&customer("often"), SPEND).is_some());
        assert!(memory.last(&customer("c19999"), SPEND).is_some(), "the newest");
    }
}
