//! A bounded set of those who came last.

use crate::domain::Timestamp;
use std::collections::HashSet;

/// All are forgotten so often, microseconds: who still comes is then seen by the store again before that forgets it.
const FRESH: u64 = 30 * 86_400 * 1_000_000;

/// A customer's id as a hash: of one length however long the id is, and hard to make collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 16]);

impl Digest {
    pub(super) fn of(id: &str) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..16]);
        Self(short)
    }
}

/// The last so many, and up to twice as many. Two halves: who is met again moves to the younger one; once that is full the older one is
/// dropped, and those in it who did not come meanwhile are forgotten. Every step is short, whatever the size.
#[derive(Debug)]
pub(super) struct Remembered {
    half: usize,
    young: HashSet<Digest>,
    old: HashSet<Digest>,
    since: Timestamp,
}

impl Remembered {
    pub(super) fn at_least(half: usize) -> Self {
        Self { half, young: HashSet::new(), old: HashSet::new(), since: Timestamp(0) }
    }

    pub(super) fn knows(&mut self, who: Digest, now: Timestamp) -> bool {
        if now.since(self.since) > FRESH {
            (self.young, self.old, self.since) = (HashSet::new(), HashSet::new(), now);
        }
        if self.young.contains(&who) {
            return true;
        }
        let known = self.old.contains(&who);
        if known {
            self.remember(who);
        }
        known
    }

    pub(super) fn remember(&mut self, who: Digest) {
        if self.young.len() >= self.half && !self.young.contains(&who) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(who);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn it_never_holds_more_than_twice_its_half_and_keeps_who_comes_back() {
        let mut set = Remembered::at_least(100);
        let regular = Digest::of("regular");
        set.remember(regular);
        for n in 0..10_000 {
            set.remember(Digest::of(&format!("c-{n}")));
            assert!(set.len() <= 200, "{}", set.len());
            assert!(n % 50 != 0 || set.knows(regular, NOW), "whoever comes back is kept");
            // Looked at without being met again; the regular is the hundredth.
            let earlier = Digest::of(&format!("c-{}", n.max(98) - 98));
            assert!(set.young.contains(&earlier) || set.old.contains(&earlier), "the last hundred are");
        }
        assert!(!set.knows(Digest::of("c-5000"), NOW), "who stays away is not");
    }

    #[test]
    fn nobody_is_remembered_for_longer_than_the_store_is_asked_in() {
        let (mut set, regular) = (Remembered::at_least(100), Digest::of("regular"));
        assert!(!set.knows(regular, Timestamp(2 * FRESH)));
        set.remember(regular);
        assert!(set.knows(regular, Timestamp(3 * FRESH)));
        assert!(!set.knows(regular, Timestamp(3 * FRESH + 1)));
    }
}
