//! One run: a store, some gateways, and what is known of every reservation. Here is how they are asked and checked; what happens next is
//! decided in `events`.

use crate::limits::{Ask, HOUR, Key, MINUTE, Plan, SECOND, Scarce, Shape, Shared, Shrinks};
use crate::oracle::{Expected, Oracle};
use crate::provider::Mirror;
use fastrand::Rng;
use futures_util::FutureExt;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate::domain::{Clock, ReservationId, Timestamp};
use tollgate::limit::{Admission, Decision, Elastic, Line, Measure, Outcome, Scope, ScopeKey, Settlement};
use tollgate::store::Ledger;

/// Sunday, 31 January 2027, 20:00 UTC: the end of a day and of a month is near.
const START: u64 = 1_801_425_600 * SECOND;
/// A live gateway renews its holds long before this.
pub const LEASE: u64 = 2 * MINUTE;
/// Ended reservations are remembered for an hour; nothing is repeated later.
pub const REPLAY: u64 = 55 * MINUTE;

/// The store's clock: it stands still unless it is moved, and may lag in a reading.
#[derive(Default)]
pub struct VirtualClock(AtomicU64);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its start time, and whether the ceiling is still to be claimed then.
    Waits { start: u64, deferred: bool },
    /// At the provider.
    Runs,
}

/// One reservation whose gateway lives.
pub struct Flight {
    pub id: ReservationId,
    pub gateway: usize,
    pub customer: ScopeKey,
    /// What it holds, and the same as the settlement has it.
    pub held: Vec<Ask>,
    pub lines: Vec<Line>,
    /// What it claims of the ceiling, now or at its start.
    pub ceiling: Vec<Ask>,
    pub phase: Phase,
    /// When each claim of the ceiling arrived at the provider: index of its line, time.
    pub arrived: Vec<(usize, u64)>,
}

/// The end of a reservation, on its way to the store.
#[derive(Clone)]
pub struct Ending {
    pub settlement: Settlement,
    pub held: Vec<Ask>,
    pub arrived: Vec<(usize, u64)>,
    /// When it was first delivered, or its hold swept.
    pub first: Option<u64>,
}

/// A customer's sliding window as a log of starts: when, whose, how much, of which limit.
type Minute = Vec<(u64, ReservationId, u64, u64)>;

pub struct World {
    pub rng: Rng,
    pub now: u64,
    clock: Arc<VirtualClock>,
    pub ledger: Box<dyn Ledger>,
    pub oracle: Oracle,
    pub jitter: bool,
    pub scarce: Scarce,
    pub plans: Vec<Plan>,
    pub plan_of: [usize; 2],
    pub shared: Shared,
    pub ceiling: [Mirror; 2],
    pub minutes: HashMap<Key, Minute>,
    pub flights: Vec<Flight>,
    pub queues: [Vec<Ending>; 3],
    pub delivered: Vec<Ending>,
    /// Holds that nobody renews: when their lease ends, and how the sweep books them.
    pub orphans: Vec<(u64, Ending)>,
    /// What a frozen gateway still has to say.
    pub late: Vec<Ending>,
    /// Most that may be spent and held in a period: the largest cap that admitted anything, and what was booked beyond any hold.
    pub allowed: HashMap<(Key, u64), (u64, u64)>,
    /// The most that may be missing from a bucket: its debt is at most one capacity and what may wait.
    deepest: HashMap<Key, u64>,
    /// What each reservation was booked at, by whoever ended it first.
    pub fates: HashMap<ReservationId, Vec<(Key, u64, u64)>>,
    next: u128,
    pub trace: Option<Vec<String>>,
    pub tally: BTreeMap<&'static str, u64>,
}

pub type Checked<T = ()> = Result<T, String>;

impl World {
    pub fn new(seed: u64, ledger: impl FnOnce(Arc<dyn Clock>) -> Box<dyn Ledger>, traced: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let clock = Arc::new(VirtualClock::default());
        let scarce = if rng.bool() { Scarce::Money } else { Scarce::Rates };
        let shared = Shared::random(&mut rng, scarce);
        let jitter = rng.u8(0..4) == 0;
        Self {
            now: START + rng.u64(0..4 * HOUR),
            ledger: ledger(clock.clone()),
            clock,
            oracle: Oracle::default(),
            jitter,
            scarce,
            plans: (0..3).map(|_| Plan::random(&mut rng, scarce)).collect(),
            plan_of: [0, 1],
            ceiling: [shared.rpm, shared.tpm].map(|shape| Mirror::new(shape, jitter)),
            shared,
            minutes: HashMap::new(),
            flights: Vec::new(),
            queues: Default::default(),
            delivered: Vec::new(),
            orphans: Vec::new(),
            late: Vec::new(),
            deepest: HashMap::new(),
            allowed: HashMap::new(),
            fates: HashMap::new(),
            next: 1,
            trace: traced.then(Vec::new),
            tally: BTreeMap::new(),
            rng,
        }
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let (secs, micros) = ((self.now - START) / SECOND, (self.now - START) % SECOND);
            trace.push(format!("{secs:>7}.{micros:06}  {}", text()));
        }
    }

    pub fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub fn new_id(&mut self) -> ReservationId {
        self.next += 1;
        ReservationId::new(self.next)
    }

    /// What the store's clock shows to this call.
    pub fn reading(&mut self) -> Timestamp {
        let lag = if self.jitter && self.rng.u8(0..3) == 0 { self.rng.u64(0..900_000) } else { 0 };
        self.clock.0.store(self.now - lag, Ordering::Relaxed);
        self.clock.now()
    }

    /// Asks the store, and the oracle the same.
    pub fn admit(&mut self, id: ReservationId, customer: &ScopeKey, asks: &[Ask], shrinks: Option<Shrinks>) -> Checked<Decision> {
        let admission = self.admission(id, customer, asks, shrinks);
        let now = self.reading();
        let decision = self.ledger.admit(&admission, None).now_or_never().expect("in memory").map_err(|e| e.to_string())?;
        let expected = self.oracle.admit(now, id, asks, shrinks);
        self.compare(asks, &decision, &expected)?;
        Ok(decision)
    }

    pub fn admission(&mut self, id: ReservationId, customer: &ScopeKey, asks: &[Ask], shrinks: Option<Shrinks>) -> Admission {
        // A gateway's clock may be hours off; the store's own decides.
        let skew = self.rng.u64(0..10) * HOUR;
        let gateway = Timestamp(if self.rng.bool() { self.now + skew } else { self.now - skew });
        let claims = asks.iter().map(|ask| ask.claim(gateway)).collect();
        let elastic = shrinks.map(|s| Elastic::new(s.fixed.into(), s.per_token.into(), s.wanted, s.floor).expect("exact"));
        Admission { reservation: id, customer: customer.clone(), claims, elastic, lease: LEASE }
    }

    /// The store's decision is the one that is right.
    pub fn compare(&mut self, asks: &[Ask], decision: &Decision, expected: &Expected) -> Checked {
        let answered = Expected {
            admitted: decision.admitted,
            start_in: decision.start_in,
            granted: decision.granted,
            outcomes: decision.verdicts.iter().map(|v| v.outcome).collect(),
            stands: decision.verdicts.iter().map(|v| (v.used, v.held, v.remaining)).collect(),
        };
        if answered != *expected {
            return Err(format!("asked {asks:#?}\nthe store says {answered:?}\nright would be {expected:?}"));
        }
        for (ask, verdict) in asks.iter().zip(&decision.verdicts) {
            let Shape::Bucket { capacity, per_minute, max_wait, .. } = ask.shape else { continue };
            let most = self.deepest.entry(ask.key.clone()).or_default();
            *most = (*most).max(2 * capacity + per_minute * max_wait / MINUTE + 1);
            if verdict.used > *most || verdict.remaining > capacity {
                return Err(format!("{:?} misses {} and has {}", ask.key, verdict.used, verdict.remaining));
            }
            if decision.admitted {
                self.minutes.remove(&ask.key); // The window, if there was one, is forgotten.
            }
        }
        Ok(())
    }

    /// What an admission took becomes part of a flight.
    pub fn takes(&mut self, flight: &mut Flight, asks: &[Ask], shrinks: Option<Shrinks>, decision: &Decision) -> Checked {
        let gateway = Timestamp(self.now);
        let claims: Vec<_> = asks.iter().map(|ask| ask.claim(gateway)).collect();
        let elastic = shrinks.map(|s| Elastic::new(s.fixed.into(), s.per_token.into(), s.wanted, s.floor).expect("exact"));
        let lines = Line::taken(&claims, elastic.as_ref(), decision);
        let lowered = shrinks.zip(decision.granted).map(|(shrinks, cap)| shrinks.cost(cap));
        for (ask, verdict) in asks.iter().zip(&decision.verdicts) {
            if verdict.outcome == Outcome::Deferred {
                continue;
            }
            let wait = if let Outcome::Starts(wait) = verdict.outcome { wait } else { 0 };
            let amount = lowered.filter(|_| ask.measure == Measure::Money).unwrap_or(ask.amount);
            let ask = Ask { amount, made: Some(self.now / SECOND), ..ask.clone() };
            match ask.shape {
                Shape::Window { limit, .. } if !ask.is_ceiling() => {
                    self.in_window(&ask.key, (decision.at.plus(wait).micros(), flight.id, ask.amount, limit))?;
                }
                Shape::Budget { cap } => {
                    let most = self.allowed.entry((ask.key.clone(), verdict.booked)).or_default();
                    most.0 = most.0.max(cap);
                }
                _ if ask.is_ceiling() => {
                    let mirror = &mut self.ceiling[limit_of(&ask)];
                    mirror.takes(ask.amount);
                    // Its place is where this limit has one, but it starts where the last of all limits has.
                    if wait < decision.start_in {
                        mirror.is_late();
                    }
                }
                _ => {}
            }
            flight.held.push(ask);
        }
        let same = flight.held[flight.lines.len()..].iter().map(|ask| ask.amount).eq(lines.iter().map(|line| line.claim.amount));
        if !same {
            return Err(format!("{lines:?} is not what was taken: {:?}", flight.held));
        }
        flight.lines.extend(lines);
        Ok(())
    }

    /// A start in a customer's window: in no 60 seconds more than the limit.
    fn in_window(&mut self, key: &Key, start: (u64, ReservationId, u64, u64)) -> Checked {
        let now = self.now;
        let minute = self.minutes.entry(key.clone()).or_default();
        minute.push(start);
        minute.retain(|(at, ..)| at + 2 * MINUTE > now);
        for (end, ..) in minute.iter().filter(|(at, ..)| *at >= start.0) {
            let inside = minute.iter().filter(|(at, ..)| at <= end && at + MINUTE > *end);
            let (sum, most) = inside.fold((0, 0), |(sum, most), (_, _, n, limit)| (sum + n, most.max(*limit)));
            if sum > most {
                return Err(format!("{key:?}: {sum} started within 60 s, of {most}"));
            }
        }
        Ok(())
    }

    /// A call leaves for the provider: what it holds of the ceiling and has not sent before arrives there.
    pub fn starts(&mut self, which: usize) -> Checked {
        let flight = &mut self.flights[which];
        flight.phase = Phase::Runs;
        for (line, ask) in flight.held.iter().enumerate().filter(|(_, ask)| ask.is_ceiling()) {
            if !flight.arrived.iter().any(|(sent, _)| *sent == line) {
                flight.arrived.push((line, self.now));
                self.ceiling[limit_of(ask)].arrives(self.now, ask.amount)?;
            }
        }
        Ok(())
    }

    /// A call oversleeps its start.
    pub fn oversleeps(&mut self) {
        self.ceiling.iter_mut().for_each(Mirror::is_late);
    }
}

/// Requests or tokens of the ceiling.
pub fn limit_of(ask: &Ask) -> usize {
    assert_eq!(ask.key.0.scope, Scope::Pool);
    usize::from(ask.key.1 == tollgate::limit::LimitName::Tpm)
}
