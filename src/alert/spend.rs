//! Spend caps: which are near, what is really spent of them, and since when somebody is at one.
//!
//! An admission shows what is spent and *held*, and holds are the worst case: most of them come back. So a cap that looks near is put on a
//! list here, and what is spent of it is read from the books until nothing of it is in flight any more. That also sees the last
//! settlement of a customer who then stays away. What was told of a cap is remembered, so that its owner's further requests cost nothing.

use super::observation::Cap;
use crate::domain::{Period, Timestamp};
use crate::limit::{LimitName, ScopeKey};
use crate::store::documents::{Collection, Documents, Expected, Write, Written};
use crate::store::{Ledger, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// Caps that are watched or remembered at once.
const MOST: usize = 20_000;
/// Caps whose books are read in one turn.
const READS: usize = 64;
/// The longest pause between two looks at a cap, turns.
const LONGEST_PAUSE: u64 = 32;
/// How long a streak of days is remembered: over the day after.
const STREAK: Duration = Duration::from_secs(3 * 86_400);
/// Tries at a streak that others change at the same time.
const TRIES: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spend {
    watches: HashMap<(ScopeKey, Period), Watch>,
    turn: u64,
}

#[derive(Debug)]
struct Watch {
    cap: Cap,
    /// The highest step that was told, percent.
    told: u8,
    /// The start of the day in which it was said that its owner is at the cap.
    at_cap: Option<u64>,
    /// Whether a request was refused for it.
    refused: bool,
    /// The next look, and the pause behind it; `None` = it rests.
    next: Option<(u64, u64)>,
}

/// What is to be told of a cap.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) cap: Cap,
    pub(super) spent: u64,
    /// The steps that were passed, rising; the last is the one to tell.
    pub(super) steps: Vec<u8>,
    /// Whether its owner is at the cap, today for the first time as far as is known here.
    pub(super) at_cap: bool,
    /// Whether a request was refused for it.
    pub(super) refused: bool,
}

impl Spend {
    /// A cap is near. `today` is when the day began; `false` when there is no room to watch it.
    pub(super) fn near(&mut self, cap: Cap, refused: bool, last_step: u8, today: u64) -> bool {
        let key = (cap.scope.clone(), cap.period);
        if !self.watches.contains_key(&key) && self.watches.len() >= MOST {
            self.watches.retain(|_, watch| watch.next.is_some());
            if self.watches.len() >= MOST {
                return false;
            }
        }
        let turn = self.turn;
        let watch = self.watches.entry(key).or_insert_with(|| Watch::new(cap.clone()));
        if watch.cap.start != cap.start || watch.cap.cap != cap.cap {
            // Another period, or another cap: its steps are others.
            *watch = Watch { at_cap: watch.at_cap, ..Watch::new(cap) };
        }
        let all_told = watch.told >= last_step && watch.at_cap == Some(today);
        watch.refused |= refused;
        if watch.next.is_none() && !all_told && (watch.told < last_step || refused) {
            watch.next = Some((turn, 1));
        }
        true
    }

    /// Reads the books of what is due and gives what is to be told. Where they cannot be read it is tried again later.
    pub(super) async fn look(&mut self, ledger: &dyn Ledger, steps: &[u8], now: Timestamp, today: u64) -> Vec<Reached> {
        self.turn += 1;
        let turn = self.turn;
        let due = self.watches.iter().filter(|(_, watch)| watch.next.is_some_and(|(next, _)| next < turn));
        let due: Vec<_> = due.map(|(key, _)| key.clone()).take(READS).collect();
        let mut reached = Vec::new();
        for key in due {
            let Some(watch) = self.watches.get_mut(&key) else { continue };
            if now.secs() >= watch.cap.end.saturating_add(60) {
                self.watches.remove(&key); // its period is over
                continue;
            }
            let read = tokio::time::timeout(super::PATIENCE, ledger.read(&watch.cap.scope)).await;
            let Ok(Ok(balances)) = read else {
                watch.pause(turn);
                break; // the store is away or slow; so it would be for the others
            };
            let limit = LimitName::Spend(watch.cap.period);
            let balance = balances.into_iter().find(|one| one.limit == limit && one.period == watch.cap.start);
            let (spent, held) = balance.map_or((0, 0), |balance| (balance.spent, balance.held));
            if held == 0 {
                watch.next = None;
            } else {
                watch.pause(turn);
            }
            reached.extend(watch.reached(spent, steps, today));
        }
        reached
    }

    /// What was to be told could not be.
    pub(super) fn again(&mut self, cap: &Cap) {
        let turn = self.turn;
        if let Some(watch) = self.watches.get_mut(&(cap.scope.clone(), cap.period)) {
            watch.at_cap = None;
            watch.next = Some((turn + LONGEST_PAUSE, LONGEST_PAUSE));
        }
    }
}

impl Watch {
    const fn new(cap: Cap) -> Self {
        Self { cap, told: 0, at_cap: None, refused: false, next: None }
    }

    fn pause(&mut self, turn: u64) {
        let pause = self.next.map_or(1, |(_, pause)| pause);
        self.next = Some((turn + pause, (pause * 2).min(LONGEST_PAUSE)));
    }

    fn reached(&mut self, spent: u64, steps: &[u8], today: u64) -> Option<Reached> {
        // Whoever is refused for what is spent is at the cap: the rest is too little to be of use.
        let full = spent >= self.cap.cap || self.refused;
        let percent = u128::from(spent) * 100 / u128::from(self.cap.cap.max(1));
        let passed = |step: u8| percent >= u128::from(step) || (full && step == 100);
        let steps: Vec<u8> = steps.iter().copied().filter(|step| *step > self.told && passed(*step)).collect();
        let at_cap = full && self.at_cap != Some(today);
        if let Some(last) = steps.last() {
            self.told = *last;
        }
        if at_cap {
            self.at_cap = Some(today);
        }
        (at_cap || !steps.is_empty()).then(|| Reached { cap: self.cap.clone(), spent, steps, at_cap, refused: self.refused })
    }
}

/// How many days in a row somebody has been at a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Streak {
    /// The start of the last of them, Unix seconds.
    day: u64,
    /// How many.
    pub(super) days: u32,
    /// The start of the first.
    pub(super) since: u64,
}

/// Somebody is at a cap in the day that began at `today`; `yesterday` began the one before. The same from whichever gateway, however often.
pub(super) async fn streak(documents: &dyn Documents, cap: &Cap, today: u64, yesterday: u64) -> Result<Streak, StoreError> {
    let id = format!("days:{}:{}:{}", cap.scope.scope.as_str(), cap.scope.owner, cap.period.as_str());
    let id = super::once::Mark::new(id, STREAK).id;
    let mut found = documents.get(Collection::AlertMarks, &id, None).await?;
    for _ in 0..TRIES {
        let before: Option<Streak> = found.as_ref().and_then(|document| serde_json::from_slice(&document.value).ok());
        let streak = match before {
            Some(before) if before.day >= today => return Ok(before),
            Some(before) if before.day == yesterday => {
                Streak { day: today, days: before.days.saturating_add(1), since: before.since }
            }
            _ => Streak { day: today, days: 1, since: today },
        };
        let write = Write {
            collection: Collection::AlertMarks,
            id: id.clone(),
            expected: found.as_ref().map_or(Expected::Nothing, |document| Expected::Version(document.version)),
            value: Some(serde_json::to_vec(&streak).unwrap_or_default().into()),
            keep: Some(STREAK),
            rank: 0,
        };
        match documents.put(&write, None).await? {
            Written::Done(_) => return Ok(streak),
            Written::Found(other) => found = other,
        }
    }
    Err(StoreError::Failed("others change it all the time".to_owned()))
}
