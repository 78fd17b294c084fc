//! The states of many owners, packed: what one lock of the store protects.
//!
//! A customer with a message bucket, RPM, TPM and budgets of a day and a month takes a place in an index (5 bytes, at most 2.3 of them), 32
//! bytes in a list that is at most an eighth too long, its id and five slots of 24 bytes: below 240 bytes, whatever the allocator adds.

use super::place::{Minute, Place};
use super::record::BalanceKey;
use crate::domain::{Period, Timestamp};
use crate::limit::budget::PeriodState;
use crate::limit::decide::State;
use crate::limit::{BucketState, BudgetState, LimitName, Rule, Scope, ScopeKey, WindowState};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// A state is kept at least this long after its last use, seconds.
const IDLE: u64 = 3_600;

/// A part is swept no more often than this, seconds.
const SWEEP_EVERY: u64 = 60;

/// The states of many owners.
#[derive(Default)]
pub struct Part {
    /// The numbers of those who are known, by their names, which are kept once: with the states.
    index: HashTable<Number>,
    hasher: RandomState,
    /// Each owner, at its number.
    owners: Vec<Owner>,
    /// Numbers that are nobody's.
    free: Vec<Number>,
    swept: u64,
}

/// Somebody who has states.
#[derive(Default)]
struct Owner {
    name: Box<str>,
    states: Box<[Slot]>,
}

/// The number of an owner within its part, good until the part is swept: of a request with a dozen limits each owner is looked up once.
pub type Number = u32;

/// One state. `until` is when a state that holds nothing begins to say the same as none at all.
#[derive(Debug)]
enum Slot {
    /// A bucket of which nothing is held, as all of customers are.
    Bucket {
        place: Place,
        until: Minute,
        unit: u32,
        level: i64,
        at: Timestamp,
    },
    /// Any other: a mirror, one whose units are large, one in debt for weeks.
    Wide {
        place: Place,
        until: u32,
        state: Box<BucketState>,
    },
    Window {
        place: Place,
        until: u32,
        state: Box<WindowState>,
    },
    /// Fields and no [`PeriodState`], or there would be no room for the rest in 24 bytes.
    Current {
        place: Place,
        start: u32,
        spent: u64,
        held: u64,
    },
    Previous {
        place: Place,
        start: u32,
        spent: u64,
        held: u64,
    },
}

impl Slot {
    const fn place(&self) -> Place {
        match self {
            Self::Bucket { place, .. }
            | Self::Wide { place, .. }
            | Self::Window { place, .. }
            | Self::Current { place, .. }
            | Self::Previous { place, .. } => *place,
        }
    }

    fn period(&self) -> Option<PeriodState> {
        match self {
            Self::Current { start, spent, held, .. } | Self::Previous { start, spent, held, .. } => {
                Some(PeriodState { start: u64::from(*start), spent: *spent, held: *held })
            }
            Self::Bucket { .. } | Self::Wide { .. } | Self::Window { .. } => None,
        }
    }

    fn is_dead(&self, now: u64) -> bool {
        match self {
            Self::Bucket { until, .. } => until.is_over(now),
            Self::Wide { until, .. } | Self::Window { until, .. } => u64::from(*until) < now,
            Self::Current { place, start, held, .. } | Self::Previous { place, start, held, .. } => {
                over_at(place.limit(), u64::from(*start)) < now && *held == 0
            }
        }
    }

    /// Whether the two are versions of one state.
    fn same(&self, other: &Self) -> bool {
        self.place() == other.place() && std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// A bucket that says the same as none from the second `until` on.
    fn bucket(place: Place, state: BucketState, now: u64, until: u64) -> Self {
        let BucketState { level, at, unit, held } = state;
        match (held, u32::try_from(unit), Minute::of(now, until)) {
            (0, Ok(unit), Some(until)) => Self::Bucket { place, until, unit, level, at },
            _ => Self::Wide { place, until: second(until), state: Box::new(state) },
        }
    }
}

impl Part {
    /// The number of an owner that has any state.
    pub fn number(&self, owner: &str) -> Option<Number> {
        self.find(self.hasher.hash_one(owner), owner)
    }

    fn find(&self, hash: u64, owner: &str) -> Option<Number> {
        self.index.find(hash, |number| *self.owners[*number as usize].name == *owner).copied()
    }

    /// The number of an owner, known or not.
    pub fn number_for(&mut self, owner: &str) -> Number {
        let hash = self.hasher.hash_one(owner);
        if let Some(number) = self.find(hash, owner) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            if self.owners.len() == self.owners.capacity() {
                // A part has a few hundred owners: moving them more often than by doubling costs less than the room.
                self.owners.reserve_exact(self.owners.len() / 8 + 1);
            }
            self.owners.push(Owner::default());
            Number::try_from(self.owners.len() - 1).expect("fewer than four billion owners of one part")
        });
        self.owners[number as usize].name = owner.into();
        let (owners, hasher) = (&self.owners, &self.hasher);
        self.index.insert_unique(hash, number, |number| hasher.hash_one(&*owners[*number as usize].name));
        number
    }

    /// The state of a limit.
    pub fn get(&self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        self.state(self.number(&scope.owner)?, scope.scope, limit)
    }

    /// The state of a limit of the owner with this number.
    pub fn state(&self, owner: Number, scope: Scope, limit: LimitName) -> Option<State> {
        let place = Place::of(scope, limit);
        let mut budget: Option<BudgetState> = None;
        for slot in self.owners[owner as usize].states.iter().filter(|slot| slot.place() == place) {
            match slot {
                Slot::Bucket { level, at, unit, .. } => {
                    return Some(State::Bucket(BucketState::of(*level, *at, u64::from(*unit))));
                }
                Slot::Wide { state, .. } => return Some(State::Bucket(**state)),
                Slot::Window { state, .. } => return Some(State::Window(state.clone())),
                Slot::Current { .. } => budget.get_or_insert_default().current = slot.period().unwrap_or_default(),
                Slot::Previous { .. } => budget.get_or_insert_default().previous = slot.period().unwrap_or_default(),
            }
        }
        budget.map(State::Budget)
    }

    /// Keeps a state of the owner with this number. `rule` tells how long a bucket or window stays worth keeping.
    pub fn put(&mut self, owner: Number, scope: Scope, limit: LimitName, state: State, rule: Option<Rule>, now: Timestamp) {
        let place = Place::of(scope, limit);
        match state {
            State::Bucket(state) => {
                let full_in = match rule {
                    Some(Rule::Bucket { bucket, .. }) => bucket.until_full(state).div_ceil(1_000_000),
                    _ => 0,
                };
                let (now, idle) = (now.secs(), IDLE.max(full_in));
                self.set(owner, Slot::bucket(place, state, now, now.saturating_add(idle)));
            }
            State::Window(state) => {
                let until = second(now.secs() + IDLE.max(state.until_empty(now).div_ceil(1_000_000)));
                self.set(owner, Slot::Window { place, until, state });
            }
            State::Budget(budget) => {
                let BudgetState { current: PeriodState { start, spent, held }, previous } = budget;
                self.set(owner, Slot::Current { place, start: second(start), spent, held });
                if previous != PeriodState::default() {
                    let PeriodState { start, spent, held } = previous;
                    self.set(owner, Slot::Previous { place, start: second(start), spent, held });
                }
            }
        }
    }

    fn set(&mut self, owner: Number, new: Slot) {
        let slots = &mut self.owners[owner as usize].states;
        if let Some(slot) = slots.iter_mut().find(|slot| slot.same(&new)) {
            *slot = new;
            return;
        }
        // Rare: a limit's first use, or a rule of another kind under the same name, whose old state then counts for nothing.
        let mut grown = std::mem::take(slots).into_vec();
        let related = |slot: &Slot| slot.period().is_some() && new.period().is_some();
        grown.retain(|slot| slot.place() != new.place() || related(slot));
        grown.reserve_exact(1);
        grown.push(new);
        *slots = grown.into_boxed_slice();
    }

    /// All budgets and quotas of a scope.
    pub fn budgets(&self, scope: &ScopeKey) -> impl Iterator<Item = (LimitName, PeriodState)> + '_ {
        let kind = scope.scope;
        let slots = self.number(&scope.owner).map(|number| &self.owners[number as usize].states);
        slots.into_iter().flatten().filter_map(move |slot| match slot {
            Slot::Current { place, .. } if place.scope() == kind => Some((place.limit(), slot.period()?)),
            _ => None,
        })
    }

    /// At most once a minute: forgets owners whose every state says the same as none, and names the balances that went with them.
    ///
    /// A part is small (there are thousands), so this takes microseconds. Without `with_budgets` owners that have any are kept:
    /// their balances must leave the journal in the same step.
    pub fn sweep(&mut self, now: Timestamp, with_budgets: bool) -> Vec<BalanceKey> {
        let now = now.secs();
        let mut forgotten = Vec::new();
        if now.saturating_sub(self.swept) < SWEEP_EVERY {
            return forgotten;
        }
        self.swept = now;
        let (owners, free) = (&mut self.owners, &mut self.free);
        self.index.retain(|number| {
            let Owner { name, states } = &mut owners[*number as usize];
            let keep = states.iter().any(|slot| !slot.is_dead(now) || (!with_budgets && slot.period().is_some()));
            if !keep {
                forgotten.extend(states.iter().filter_map(|slot| {
                    let (place, period) = (slot.place(), slot.period()?.start);
                    let scope = ScopeKey { scope: place.scope(), owner: (**name).into() };
                    Some(BalanceKey { scope, limit: place.limit(), period })
                }));
                (*name, *states) = Default::default();
                free.push(*number);
            }
            keep
        });
        if self.index.is_empty() {
            (self.owners, self.free) = (Vec::new(), Vec::new());
        }
        if self.index.capacity() > 64 + 4 * self.index.len() {
            let (owners, hasher) = (&self.owners, &self.hasher);
            self.index.shrink_to_fit(|number| hasher.hash_one(&*owners[*number as usize].name));
        }
        forgotten
    }

    /// How many owners it knows.
    pub fn len(&self) -> usize {
        self.index.len()
    }
}

/// The Unix second at which a period that started at `start` is certainly over and nobody settles in it any more: the longest period
/// of its kind and a day for streams that began in its last second.
pub const fn over_at(limit: LimitName, start: u64) -> u64 {
    let days = match limit.period() {
        Some(Period::Month) => 31,
        Some(Period::Week) => 7,
        _ => 1,
    };
    start.saturating_add((days + 1) * 86_400 + 2 * 3_600)
}

/// Seconds fit 32 bits until 2106.
fn second(secs: u64) -> u32 {
    u32::try_from(secs).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
