//! Customers whose message bucket was just seen empty, so that a flood is refused without reading bodies or asking the store.
//!
//! Trusted for at most a second and never past the instant the store gave, so a raised limit takes effect within a second.

use crate::domain::Timestamp;
use crate::limit::Refusal;
use crate::reply::Standing;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Longest trust in an entry, microseconds.
const TRUST: u64 = 1_000_000;
/// Most customers remembered; at ten times the customers that flood at once it is still small.
const CAPACITY: usize = 16_384;
/// Between two searches of a full map, microseconds.
const PURGE_EVERY: u64 = 100_000;

/// The map. Bounded: when full, what has expired is dropped, and if nothing has, nothing is remembered.
#[derive(Debug, Default)]
pub struct EmptyBuckets(Mutex<Map>);

#[derive(Debug, Default)]
struct Map {
    entries: HashMap<Arc<str>, Entry>,
    /// When what had expired was last dropped, so that a full map is not searched at every refusal.
    purged: Timestamp,
}

#[derive(Debug, Clone)]
struct Entry {
    refusal: Refusal,
    standing: Standing,
    seen: Timestamp,
    /// When the request would be admitted, by this gateway's clock.
    admits: Timestamp,
}

impl EmptyBuckets {
    /// Remembers a refusal of the message bucket that ends `wait` microseconds after `now`.
    pub fn remember(&self, bucket: &Arc<str>, refusal: &Refusal, wait: u64, standing: &Standing, now: Timestamp) {
        let mut map = self.0.lock();
        if map.entries.len() >= CAPACITY {
            if now.since(map.purged) >= PURGE_EVERY {
                map.purged = now;
                map.entries.retain(|_, entry| entry.holds(now));
            }
            if map.entries.len() >= CAPACITY {
                return;
            }
        }
        let entry = Entry { refusal: refusal.clone(), standing: standing.clone(), seen: now, admits: now.plus(wait) };
        map.entries.insert(bucket.clone(), entry);
    }

    /// The refusal, as of `now`, of a bucket still known to be empty.
    pub fn refusal(&self, bucket: &Arc<str>, now: Timestamp) -> Option<(Refusal, Standing)> {
        let mut map = self.0.lock();
        let entry = map.entries.get(bucket)?;
        if !entry.holds(now) {
            map.entries.remove(bucket);
            return None;
        }
        let mut refusal = entry.refusal.clone();
        refusal.remedy = crate::limit::Remedy::Wait(entry.admits.since(now));
        Some((refusal, entry.standing.clone()))
    }
}

impl Entry {
    fn holds(&self, now: Timestamp) -> bool {
        now >= self.seen && now.since(self.seen) < TRUST && now < self.admits
    }
}
