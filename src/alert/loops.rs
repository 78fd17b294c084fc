//! Finds customers that send the same prompt over and over: an application that is caught in a loop pays for every turn.
//!
//! Counts (customer, prompt) pairs over the last minute, in this process. Of a prompt only a fingerprint is kept, under a key of the
//! process's own. The memory is of a fixed size: which prompt is forgotten for a new one is decided among eight, and it is the one not
//! seen for the longest time, so a loop is not forgotten while it runs.
//!
//! A minute is counted in slices of five seconds, of which the oldest is dropped as a whole. So what is counted lies within sixty seconds
//! (nothing is called a loop that is none), and all of the last 55 seconds is counted.

use crate::domain::Timestamp;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Groups of pairs; a power of two.
const SETS: usize = 1_024;
/// Pairs in a group.
const WAYS: usize = 8;
/// Slices of a minute.
const SLICES: usize = 12;
/// Seconds of a slice.
const SLICE: u64 = 5;

/// See the module.
pub struct Loops {
    key: u64,
    sets: Box<[Mutex<[Entry; WAYS]>]>,
}

/// One pair, 40 bytes.
#[derive(Clone, Copy, Default)]
struct Entry {
    fingerprint: u64,
    /// The last slice it was seen in.
    slice: u32,
    counts: [u16; SLICES],
}

impl Loops {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self { key: fastrand::u64(..), sets: (0..SETS).map(|_| Mutex::default()).collect() }
    }

    /// Counts a prompt and gives how often this customer sent it in the last minute, this time included.
    #[must_use]
    pub fn count(&self, customer: &str, prompt: &[u8], now: Timestamp) -> u32 {
        // A loop is no secret and a wrong alert no harm, so a fast hash does: forging a collision needs the key.
        let fingerprint = xxh3_64_with_seed(prompt, xxh3_64_with_seed(customer.as_bytes(), self.key));
        let slice = u32::try_from(now.secs() / SLICE).unwrap_or(u32::MAX);
        let index = usize::try_from(fingerprint % SETS as u64).unwrap_or_default();
        let mut set = self.sets[index].lock();
        let at = set.iter().position(|entry| entry.fingerprint == fingerprint && entry.slice > 0).unwrap_or_else(|| {
            let oldest = set.iter().enumerate().min_by_key(|(_, entry)| (entry.slice, entry.total()));
            oldest.map_or(0, |(at, _)| at)
        });
        let entry = &mut set[at];
        if entry.fingerprint != fingerprint {
            *entry = Entry { fingerprint, ..Entry::default() };
        }
        entry.add(slice.max(1));
        entry.total()
    }
}

impl Entry {
    fn add(&mut self, slice: u32) {
        // A clock that was set back counts on in the last slice it knew.
        let slice = slice.max(self.slice);
        if slice - self.slice >= SLICES as u32 {
            self.counts = [0; SLICES];
        } else {
            for passed in self.slice + 1..=slice {
                self.counts[passed as usize % SLICES] = 0;
            }
        }
        self.slice = slice;
        let count = &mut self.counts[slice as usize % SLICES];
        *count = count.saturating_add(1);
    }

    fn total(&self) -> u32 {
        self.counts.iter().map(|count| u32::from(*count)).sum()
    }
}

impl std::fmt::Debug for Loops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loops").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_800_000_000;

    #[test]
    fn a_loop_is_counted_by_customer_and_prompt_and_ends_with_its_minute() {
        let loops = Loops::new();
        let at = |secs| Timestamp::from_secs(START + secs);
        for turn in 1..=40 {
            assert_eq!(loops.count("t", b"again", at(0)), turn);
        }
        assert_eq!(loops.count("u", b"again", at(0)), 1, "another customer");
        assert_eq!(loops.count("t", b"again!", at(0)), 1, "another prompt");
        assert_eq!(loops.count("t", b"again", at(54)), 41, "within 55 seconds");
        assert_eq!(loops.count("t", b"again", at(60)), 2, "the first forty are a minute old");
        assert_eq!(loops.count("t", b"again", at(30)), 3, "a clock that was set back");
        assert_eq!(loops.count("t", b"again", at(600)), 1);
    }

    #[test]
    fn memory_is_bounded_and_a_running_loop_is_not_forgotten_for_others() {
        let loops = Loops::new();
        let at = |secs| Timestamp::from_secs(START + secs);
        for turn in 0..50_u64 {
            assert_eq!(u64::from(loops.count("t", b"again", at(turn))), turn + 1);
            for other in 0..2_000 {
                let _ = loops.count("t", format!("{turn} {other}").as_bytes(), at(turn));
            }
        }
        assert_eq!(size_of::<Entry>(), 40);
    }

    proptest! {
        /// Whatever comes when: never more than there were in the last 60 seconds, never fewer than in the last 55.
        #[test]
        fn the_count_lies_between_that_of_55_and_of_60_seconds(gaps in prop::collection::vec((0_u64..9_000_000, 0_u8..3), 1..300)) {
            let loops = Loops::new();
            let (mut now, mut seen) = (START * 1_000_000, Vec::new());
            for (gap, prompt) in gaps {
                now += gap;
                seen.push((now, prompt));
                let counted = loops.count("t", &[prompt], Timestamp(now)) as usize;
                let within = |micros: u64| seen.iter().filter(|(at, one)| *one == prompt && now - at < micros).count();
                prop_assert!(counted <= within(60_000_000), "{counted} of {}", within(60_000_000));
                prop_assert!(counted >= within(55_000_000), "{counted} of {}", within(55_000_000));
            }
        }
    }
}
