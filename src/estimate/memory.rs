//! Counts that were made before: system prompts, tools and history come again with each turn.

use foldhash::HashMap;

use parking_lot::Mutex;
use std::sync::LazyLock;
use xxhash_rust::xxh3::Xxh3;

use super::{piece::Piece, tally::PieceCount};

/// Shards, so that threads seldom meet on a lock.
const SHARDS: usize = 16;

/// Drawn anew by each process.
static SECRET: LazyLock<u64> = LazyLock::new(|| fastrand::u64(..));

/// Shorter pieces are counted nearly as fast as they are looked up, and seldom come again.
pub(crate) const SMALLEST: usize = 40;

/// 128 bits over the kind, the rules and the bytes of a piece, under a secret of this process. Two pieces that share them would share a
/// count, which settlement corrects; without the secret nobody can look for such a pair. A cryptographic hash took 4 % of a
/// request's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(u128);

impl Key {
    /// The key of `piece` counted under the rules with the number `rules`.
    pub(crate) fn of(piece: &Piece<'_>, rules: u16) -> Self {
        let [low, high] = rules.to_le_bytes();
        let mut hasher = Xxh3::with_seed(*SECRET);
        hasher.update(&[piece.kind as u8, low, high]);
        hasher.update(piece.json);
        Self(hasher.digest128())
    }

    const fn shard(self) -> usize {
        (self.0 % SHARDS as u128) as usize
    }
}

/// A bounded memory in two generations: when the young one is full it becomes the old one, and what was asked for again meanwhile moves back.
/// So recently used counts stay, without a list to keep in order.
#[derive(Debug)]
pub(crate) struct Memory {
    shards: [Mutex<Generations>; SHARDS],
    /// Entries of one generation in one shard; 0 remembers nothing.
    capacity: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Key, PieceCount>,
    old: HashMap<Key, PieceCount>,
}

impl Memory {
    /// A memory of at most `entries` counts (rounded up to a multiple of 32), about 100 bytes each. 0 switches it off.
    pub(crate) fn new(entries: usize) -> Self {
        Self { shards: Default::default(), capacity: entries.div_ceil(2 * SHARDS) }
    }

    /// The count remembered under `key`.
    pub(crate) fn get(&self, key: Key) -> Option<PieceCount> {
        let mut shard = self.shards[key.shard()].lock();
        if let Some(count) = shard.young.get(&key) {
            return Some(*count);
        }
        let count = shard.old.remove(&key)?;
        shard.insert(key, count, self.capacity);
        Some(count)
    }

    /// Remembers `count`.
    pub(crate) fn put(&self, key: Key, count: PieceCount) {
        if self.capacity > 0 {
            self.shards[key.shard()].lock().insert(key, count, self.capacity);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.young.len() + shard.old.len()).sum()
    }
}

impl Generations {
    fn insert(&mut self, key: Key, count: PieceCount, capacity: usize) {
        if self.young.len() >= capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece::SegmentKind;
    use super::*;

    fn key(n: u128) -> Key {
        Key(n)
    }

    fn count(n: u64) -> PieceCount {
        PieceCount { tokens: n, ..PieceCount::default() }
    }

    #[test]
    fn remembers_what_was_put() {
        let memory = Memory::new(100);
        memory.put(key(7), count(70));
        assert_eq!(memory.get(key(7)), Some(count(70)));
        assert_eq!(memory.get(key(8)), None);
    }

    #[test]
    fn never_holds_more_than_it_was_given() {
        let memory = Memory::new(320);
        for n in 0..10_000 {
            memory.put(key(n), count(1));
        }
        assert!(memory.len() <= 320, "{}", memory.len());
        assert_eq!(memory.get(key(9_999)), Some(count(1)), "the newest is there");
    }

    #[test]
    fn what_is_used_survives_a_flood_of_what_is_not() {
        let memory = Memory::new(320);
        memory.put(key(5), count(50));
        for n in 100..10_000 {
            memory.put(key(n), count(1));
            assert_eq!(memory.get(key(5)), Some(count(50)), "after {n}");
        }
    }

    #[test]
    fn nothing_is_remembered_when_switched_off() {
        let memory = Memory::new(0);
        memory.put(key(5), count(50));
        assert_eq!(memory.get(key(5)), None);
    }

    #[test]
    fn kind_rules_and_bytes_all_make_the_key() {
        let of = |kind, json: &'static [u8], rules| Key::of(&Piece { kind, json }, rules);
        let one = of(SegmentKind::ChatMessage, b"{}", 1);
        assert_eq!(one, of(SegmentKind::ChatMessage, b"{}", 1));
        assert_ne!(one, of(SegmentKind::Message, b"{}", 1));
        assert_ne!(one, of(SegmentKind::ChatMessage, b"[]", 1));
        assert_ne!(one, of(SegmentKind::ChatMessage, b"{}", 2));
        assert_ne!(one, of(SegmentKind::ChatMessage, b"{}", 257));
    }
}
