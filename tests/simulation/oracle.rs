//! What must come out, computed the slow and obvious way: wide integers, lists instead of slots, seconds tried one by one. It shares no
//! arithmetic with the store, only the rules of the design.

use crate::limits::{Ask, Key, MINUTE, SECOND, Shape, Shrinks};
use std::collections::{HashMap, HashSet};
use tollgate::domain::{Period, ReservationId, Timestamp};
use tollgate::limit::{Measure, Outcome};

/// Buckets are counted in this part of a token, in which every rate with a headroom in millionths is a whole number a microsecond.
const PART: i128 = 60_000_000 * 1_000_000;
/// Readings of one clock that differ by less are jitter.
const JITTER: u64 = SECOND;
/// Starts of the months from January to June 2027, Unix seconds.
const MONTHS: [u64; 6] = [1_798_761_600, 1_801_440_000, 1_803_859_200, 1_806_537_600, 1_809_129_600, 1_811_808_000];

#[derive(Clone, Debug)]
pub enum State {
    /// Parts in the bucket, when, and of which lowest terms the rate was.
    Bucket { level: i128, at: u64, terms: i128 },
    /// Second and amount, ascending.
    Window(Vec<(u64, u64)>),
    /// Start, spent, held: the present period and the one before.
    Budget([(u64, u128, u128); 2]),
}

/// What the store should answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected {
    pub admitted: bool,
    pub start_in: u64,
    pub granted: Option<u64>,
    pub outcomes: Vec<Outcome>,
    /// Used, held, remaining.
    pub stands: Vec<(u64, u64, u64)>,
}

#[derive(Clone, Default)]
pub struct Oracle {
    pub states: HashMap<Key, State>,
    held: HashSet<ReservationId>,
    ended: HashSet<ReservationId>,
}

impl Oracle {
    pub fn admit(&mut self, now: Timestamp, id: ReservationId, asks: &[Ask], shrinks: Option<Shrinks>) -> Expected {
        let mut states: Vec<State> = asks.iter().map(|ask| self.at(now, ask)).collect();
        let mut amounts: Vec<u64> = asks.iter().map(|ask| ask.amount).collect();
        let mut outcomes: Vec<Outcome> =
            asks.iter().zip(&states).map(|(ask, state)| fit(state, ask.shape, now, ask.amount)).collect();
        let granted = shrinks.and_then(|shrinks| shrink(&shrinks, asks, &states, &mut amounts, &mut outcomes));
        let own = asks.iter().zip(&outcomes).filter(|(ask, _)| !ask.is_ceiling()).map(|(_, outcome)| wait(*outcome)).max();
        if own.unwrap_or(0) > SECOND {
            for (_, outcome) in asks.iter().zip(&mut outcomes).filter(|(ask, _)| ask.is_ceiling()) {
                *outcome = Outcome::Deferred;
            }
        }
        let admitted = outcomes.iter().all(|outcome| outcome.passes());
        for (i, ask) in asks.iter().enumerate() {
            let passes = outcomes[i].passes() && outcomes[i] != Outcome::Deferred;
            if passes && (admitted || ask.measure == Measure::Message) {
                take(&mut states[i], now.plus(wait(outcomes[i])), amounts[i]);
                self.states.insert(ask.key.clone(), states[i].clone());
            }
        }
        if admitted && asks.iter().any(Ask::is_budget) {
            self.held.insert(id);
        }
        let start_in = if admitted { outcomes.iter().map(|outcome| wait(*outcome)).max().unwrap_or(0) } else { 0 };
        let stands = asks.iter().zip(&states).map(|(ask, state)| stands(state, ask.shape, now)).collect();
        Expected { admitted, start_in, granted: granted.filter(|_| admitted), outcomes, stands }
    }

    /// One admission in the place of another: as if that had ended, or nothing at all.
    pub fn replace(
        &mut self,
        now: Timestamp,
        old: (ReservationId, &[(Ask, u64, u64)]),
        id: ReservationId,
        asks: &[Ask],
        shrinks: Option<Shrinks>,
    ) -> Expected {
        let mut after = self.clone();
        after.settle(now, old.0, old.1);
        let expected = after.admit(now, id, asks, shrinks);
        if expected.admitted {
            *self = after;
        }
        expected
    }

    /// Each line: what was held, where it was booked, what was used instead.
    pub fn settle(&mut self, now: Timestamp, id: ReservationId, lines: &[(Ask, u64, u64)]) {
        if !self.ended.insert(id) {
            return;
        }
        let known = self.held.remove(&id);
        for (ask, booked, actual) in lines {
            let (claimed, actual) = (ask.amount, *actual);
            // The plan counts in another way since: what there was to correct is gone.
            let other = |state: &State| {
                !matches!(
                    (state, ask.shape),
                    (State::Bucket { .. }, Shape::Bucket { .. })
                        | (State::Window(_), Shape::Window { .. })
                        | (State::Budget(_), Shape::Budget { .. })
                )
            };
            if self.states.get(&ask.key).is_some_and(other) {
                continue;
            }
            // A rate that was used as claimed is not touched: the plan may be another one since, and there is nothing to correct.
            if claimed == actual && !matches!(ask.shape, Shape::Budget { .. }) {
                continue;
            }
            let mut state = self.at(now, ask);
            match (&mut state, ask.shape) {
                (State::Bucket { level, .. }, Shape::Bucket { capacity, forgive, .. }) => {
                    let full = i128::from(capacity) * PART;
                    let floor = if forgive { (*level).min(-full) } else { i128::MIN };
                    let corrected = *level + (i128::from(claimed) - i128::from(actual)) * PART;
                    *level = if actual <= claimed { corrected.min(full) } else { corrected.max(floor) };
                }
                (State::Window(slots), _) if actual > claimed => add(slots, now.secs(), actual - claimed),
                (State::Window(slots), _) => {
                    if let Some((_, sum)) = slots.iter_mut().find(|(second, _)| second == booked) {
                        *sum = sum.saturating_sub(claimed - actual);
                    }
                    slots.retain(|(_, sum)| *sum > 0); // whoever left is not in line any more
                }
                (State::Budget(periods), _) => {
                    if let Some((_, spent, held)) = periods.iter_mut().find(|(start, ..)| start == booked) {
                        *spent += u128::from(actual);
                        *held -= if known { u128::from(claimed) } else { 0 };
                    }
                }
                (State::Bucket { .. }, _) => unreachable!("other shapes were passed over"),
            }
            self.states.insert(ask.key.clone(), state);
        }
    }

    /// The state of a limit, moved on to `now`.
    fn at(&self, now: Timestamp, ask: &Ask) -> State {
        match (ask.shape, self.states.get(&ask.key)) {
            (Shape::Bucket { capacity, per_minute, headroom, .. }, state) => {
                let (full, gain) = (i128::from(capacity) * PART, i128::from(per_minute) * i128::from(headroom));
                let terms = PART / gcd(gain, PART);
                let Some(&State::Bucket { level, at, terms: old }) = state else {
                    return State::Bucket { level: full, at: now.micros(), terms };
                };
                // Between rates that share no unit only whole tokens are carried over.
                let level = if old == terms { level } else { level.div_euclid(PART) * PART };
                let late = if at > now.micros() && at - now.micros() <= JITTER { at } else { now.micros() };
                let earned = i128::from(late.saturating_sub(at)) * gain;
                State::Bucket { level: (level.min(full) + earned).min(full), at: late, terms }
            }
            (Shape::Window { .. }, Some(State::Window(slots))) => {
                State::Window(slots.iter().copied().filter(|(second, _)| second + 60 >= now.secs()).collect())
            }
            (Shape::Window { .. }, _) => State::Window(Vec::new()),
            (Shape::Budget { .. }, state) => {
                let mut periods = if let Some(State::Budget(periods)) = state { *periods } else { [(0, 0, 0); 2] };
                let period = ask.key.1.period().expect("a budget");
                // A claim knows the calendar up to the period after the one in which it was made.
                let known = ask.made.map_or(u64::MAX, |made| period_after(period, made));
                let start = period_start(period, now.secs()).min(known);
                if start > periods[0].0 {
                    periods = [(start, 0, 0), periods[0]];
                }
                State::Budget(periods)
            }
        }
    }
}

pub fn period_start(period: Period, secs: u64) -> u64 {
    match period {
        Period::Day => secs / 86_400 * 86_400,
        Period::Week => unimplemented!("no week is simulated"),
        Period::Month => *MONTHS.iter().rfind(|start| **start <= secs).expect("2027"),
    }
}

fn period_after(period: Period, secs: u64) -> u64 {
    match period {
        Period::Month => *MONTHS.iter().find(|start| **start > secs).expect("2027"),
        _ => period_start(period, secs) + 86_400,
    }
}

fn fit(state: &State, shape: Shape, now: Timestamp, amount: u64) -> Outcome {
    let after = |micros: u64, max_wait: u64| match micros {
        0 => Outcome::Fits,
        wait if wait <= max_wait => Outcome::Starts(wait),
        wait => Outcome::Refused(wait - max_wait),
    };
    match (state, shape) {
        (State::Bucket { level, at, .. }, Shape::Bucket { capacity, per_minute, headroom, max_wait, .. }) => {
            // Filled up to a time that a reading may lag behind.
            let ahead = if *level < i128::from(amount) * PART { at.saturating_sub(now.micros()) } else { 0 };
            let missing = i128::from(amount) * PART - level;
            let gain = i128::from(per_minute) * i128::from(headroom);
            if amount > capacity || (missing > 0 && gain == 0) {
                return Outcome::Never;
            }
            after(ahead + u64::try_from((missing.max(0) + gain - 1) / gain).expect("not negative"), max_wait)
        }
        (State::Window(slots), Shape::Window { limit, max_wait }) => {
            if amount > limit {
                return Outcome::Never;
            }
            // Not before anybody who is in line already.
            let mut start = slots.last().map_or(now.secs(), |(newest, _)| now.secs().max(*newest));
            while slots.iter().filter(|(second, _)| second + 60 >= start).map(|(_, n)| n).sum::<u64>() + amount > limit {
                start += 1;
            }
            after((start * SECOND).saturating_sub(now.micros()), max_wait)
        }
        (State::Budget(periods), Shape::Budget { cap }) => {
            let ((_, spent, held), cap, amount) = (periods[0], u128::from(cap), u128::from(amount));
            match () {
                () if spent + amount > cap || (cap == 0 && amount > 0) => Outcome::Exhausted,
                () if spent + held + amount > cap => Outcome::InFlight,
                () => Outcome::Fits,
            }
        }
        _ => unreachable!("a state of its own shape"),
    }
}

/// Of what every exhausted budget has left, the largest output cap; all dollar claims then hold its cost.
fn shrink(by: &Shrinks, asks: &[Ask], states: &[State], amounts: &mut [u64], outcomes: &mut [Outcome]) -> Option<u64> {
    let fits = |cap: u64, room: u128| u128::from(by.cost(cap)) <= room;
    let largest = |room: u128| {
        let (mut fit, mut over) = (0, by.wanted + 1);
        while over - fit > 1 {
            let middle = fit.midpoint(over);
            if fits(middle, room) { fit = middle } else { over = middle }
        }
        fits(0, room).then_some(fit)
    };
    let dollars: Vec<usize> = (0..asks.len()).filter(|i| asks[*i].measure == Measure::Money).collect();
    let books = |i: usize| match (&states[i], asks[i].shape) {
        (State::Budget(periods), Shape::Budget { cap }) => (u128::from(cap), periods[0].1, periods[0].2),
        _ => unreachable!("dollars come from budgets"),
    };
    let (mut granted, mut hopeless) = (by.wanted, false);
    for i in dollars.iter().copied().filter(|i| outcomes[*i] == Outcome::Exhausted).collect::<Vec<_>>() {
        let (cap, spent, held) = books(i);
        let unspent = cap.saturating_sub(spent);
        match largest(unspent.saturating_sub(held)) {
            Some(cap) if cap >= by.floor => {
                granted = granted.min(cap);
                outcomes[i] = Outcome::Fits; // whatever refuses, it is not this
            }
            _ => {
                hopeless = true;
                if largest(unspent).is_some_and(|cap| cap >= by.floor) {
                    outcomes[i] = Outcome::InFlight;
                }
            }
        }
    }
    if hopeless || granted == by.wanted {
        return None;
    }
    for i in dollars {
        let (cap, spent, held) = books(i);
        amounts[i] = by.cost(granted);
        outcomes[i] = if spent + held + u128::from(amounts[i]) <= cap { Outcome::Fits } else { Outcome::InFlight };
    }
    Some(granted)
}

fn take(state: &mut State, start: Timestamp, amount: u64) {
    match state {
        State::Bucket { level, .. } => *level -= i128::from(amount) * PART,
        State::Window(slots) => add(slots, start.secs(), amount),
        State::Budget(periods) => periods[0].2 += u128::from(amount),
    }
}

fn add(slots: &mut Vec<(u64, u64)>, second: u64, amount: u64) {
    match slots.last_mut() {
        _ if amount == 0 => {}
        Some((newest, sum)) if *newest >= second => *sum += amount,
        _ => slots.push((second, amount)),
    }
}

fn stands(state: &State, shape: Shape, now: Timestamp) -> (u64, u64, u64) {
    let whole = |n: i128| u64::try_from(n).expect("small and not negative");
    match (state, shape) {
        (State::Bucket { level, .. }, Shape::Bucket { capacity, .. }) => {
            let missing = i128::from(capacity) * PART - level;
            (whole((missing + PART - 1) / PART), 0, whole((*level).max(0) / PART))
        }
        (State::Window(slots), Shape::Window { limit, .. }) => {
            let used = slots.iter().filter(|(second, _)| second + 60 >= now.secs()).map(|(_, n)| n).sum::<u64>();
            (used, 0, limit.saturating_sub(used))
        }
        (State::Budget(periods), Shape::Budget { cap }) => {
            let (_, spent, held) = periods[0];
            let (spent, held) = (u64::try_from(spent).expect("small"), u64::try_from(held).expect("small"));
            (spent, held, cap.saturating_sub(spent + held))
        }
        _ => unreachable!("a state of its own shape"),
    }
}

const fn wait(outcome: Outcome) -> u64 {
    if let Outcome::Starts(wait) = outcome { wait } else { 0 }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

// A bucket's gain is per minute.
const _: () = assert!(MINUTE == 60_000_000);
