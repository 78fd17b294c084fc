//! How much of each provider ceiling this process used in the trailing minute: what was settled, and what requests in flight are
//! expected to use.
//!
//! A claim that is only an estimate (the output that is expected, from the cap downwards) reserves all of it, but says little of what will be
//! used: a level goes up at once and comes down after many minutes, so a gateway that has just started and believed every cap would make
//! its customers pay for half an hour. So the gauge counts what is in flight at the part that claims like it came to lately, and as long
//! as none has, at a quarter. It is a moment late at most, and meanwhile the ceiling itself is claimed in full.
//!
//! Told by reservations, so that everything that is admitted is seen, on whatever path it ends. Kept in memory: a process that has just
//! started has used nothing.

use crate::domain::{Clock, Timestamp};
use crate::limit::{Gauge, LimitName, Line, Measure, Rule};
use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Whole, in millionths.
const WHOLE: u128 = 1_000_000;
/// Microseconds.
const MINUTE: u128 = 60_000_000;
/// Ceilings watched at once. There is one a pool, in passthrough mode one a pool and credential.
const MOST: usize = 4_096;
/// A ceiling that nobody has asked for so long is forgotten, microseconds; its minute is over.
const IDLE: u64 = 120_000_000;

/// See the module.
pub struct Ceilings {
    clock: Arc<dyn Clock>,
    used: Mutex<HashMap<Arc<str>, Use>>,
}

struct Use {
    seen: Timestamp,
    limits: Vec<Metered>,
}

/// Without experience an estimated claim counts so much, millionths of it.
const UNKNOWN: u128 = 250_000;
/// Settlements after which older ones count half.
const MEMORY: u32 = 256;

struct Metered {
    name: LimitName,
    /// What it allows a minute, in millionths of a request or token: a small limit with headroom is no whole number.
    ceiling: u128,
    /// What is known: settled, or claimed at what it will come to.
    gauge: Gauge,
    /// Claims in flight that are estimates.
    open: Gauge,
    experience: Experience,
}

/// What estimates came to, lately.
#[derive(Default)]
struct Experience {
    claimed: u128,
    used: u128,
    count: u32,
}

impl Experience {
    fn learn(&mut self, claimed: u64, used: u64) {
        self.claimed += u128::from(claimed);
        self.used += u128::from(used);
        self.count += 1;
        if self.count >= MEMORY {
            (self.claimed, self.used, self.count) = (self.claimed / 2, self.used / 2, self.count / 2);
        }
    }

    fn likely(&self, open: u64) -> u64 {
        let likely = (u128::from(open) * self.used).checked_div(self.claimed).unwrap_or(u128::from(open) * UNKNOWN / WHOLE);
        u64::try_from(likely).unwrap_or(u64::MAX)
    }
}

/// How much of one ceiling was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose ceiling: the pool's, or the pool's and a credential's.
    pub owner: Arc<str>,
    /// By limit, millionths of the ceiling.
    pub limits: Vec<(LimitName, u64)>,
}

impl Ceilings {
    /// Nothing used yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, used: Mutex::default() }
    }

    /// These claims were admitted. Gives the time to settle them with.
    pub fn claimed(&self, lines: &[Line]) -> Timestamp {
        let now = self.clock.now();
        self.with(now, lines, |metered, line| match is_estimate(line) {
            true => metered.open.add(now, line.claim.amount),
            false => metered.gauge.add(now, line.claim.amount),
        });
        now
    }

    /// These claims, admitted at `since`, are settled.
    pub fn settled(&self, since: Timestamp, lines: &[Line]) {
        let now = self.clock.now();
        self.with(now, lines, |metered, line| {
            let (claimed, actual) = (line.claim.amount, line.actual);
            if is_estimate(line) {
                metered.settle_estimate(since, now, claimed, actual);
            } else if line.claim.measure == Measure::Output && claimed == 0 {
                // Output that is counted as it is produced was not claimed; by now it is there.
                metered.gauge.add(now, actual);
            } else {
                metered.gauge.correct(since, claimed, actual);
            }
        });
    }

    /// What is used of every ceiling that anybody asked for lately.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let now = self.clock.now();
        let mut used = self.used.lock();
        used.retain(|_, one| now.since(one.seen) < IDLE);
        let part = |(owner, one): (&Arc<str>, &mut Use)| Part {
            owner: owner.clone(),
            limits: one.limits.iter_mut().map(|metered| (metered.name, metered.millionths(now))).collect(),
        };
        used.iter_mut().map(part).collect()
    }

    fn with(&self, now: Timestamp, lines: &[Line], act: impl Fn(&mut Metered, &Line)) {
        let mut ceilings = lines.iter().filter_map(|line| per_minute(line).map(|ceiling| (line, ceiling))).peekable();
        if ceilings.peek().is_none() {
            return;
        }
        let mut used = self.used.lock();
        for (line, ceiling) in ceilings {
            let owner = &line.claim.scope.owner;
            if !used.contains_key(owner) {
                if used.len() >= MOST {
                    continue;
                }
                used.insert(owner.clone(), Use { seen: now, limits: Vec::new() });
            }
            let Some(one) = used.get_mut(owner) else { continue };
            one.seen = now.max(one.seen);
            let at = one.limits.iter().position(|metered| metered.name == line.claim.limit).unwrap_or_else(|| {
                one.limits.push(Metered::new(line.claim.limit, ceiling));
                one.limits.len() - 1
            });
            one.limits[at].ceiling = ceiling;
            act(&mut one.limits[at], line);
        }
    }
}

impl Metered {
    fn new(name: LimitName, ceiling: u128) -> Self {
        Self { name, ceiling, gauge: Gauge::default(), open: Gauge::default(), experience: Experience::default() }
    }

    fn settle_estimate(&mut self, since: Timestamp, now: Timestamp, claimed: u64, actual: u64) {
        self.open.correct(since, claimed, 0);
        // The gauge may not have come as far as the claim yet; it must, or there is no second to book on.
        self.gauge.used(now);
        self.gauge.correct(since, 0, actual);
        // A claim that came to nothing (the call failed) says nothing of answers.
        if actual > 0 {
            self.experience.learn(claimed, actual);
        }
    }

    fn millionths(&mut self, now: Timestamp) -> u64 {
        let open = self.open.used(now);
        let used = self.gauge.used(now).saturating_add(self.experience.likely(open));
        let used = u128::from(used) * WHOLE * WHOLE;
        u64::try_from(used.checked_div(self.ceiling).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// Whether a claim is what a request is expected to use, of which the truth is known only when it is over.
fn is_estimate(line: &Line) -> bool {
    match line.claim.measure {
        Measure::Tokens => true,
        Measure::Output => line.claim.amount > 0,
        _ => false,
    }
}

/// What the ceiling allows a minute, in millionths; `None` for other limits, and for those of a day, which say nothing about a minute.
fn per_minute(line: &Line) -> Option<u128> {
    let minute = matches!(line.claim.limit, LimitName::Rpm | LimitName::Tpm | LimitName::InputTpm | LimitName::OutputTpm);
    match line.claim.rule {
        _ if !line.claim.is_ceiling() || !minute => None,
        Rule::Bucket { bucket, .. } => (u128::from(bucket.gain()) * MINUTE * WHOLE).checked_div(u128::from(bucket.unit())),
        Rule::Window { limit, .. } => Some(u128::from(limit) * WHOLE),
        Rule::Budget { .. } => None,
    }
}

impl std::fmt::Debug for Ceilings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ceilings").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Bucket, Claim, Scope, ScopeKey};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    fn line(scope: Scope, limit: LimitName, measure: Measure, amount: u64) -> Line {
        let bucket = Bucket::with_headroom(100_000, 100_000, 60_000_000, 970_000).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: false };
        Line {
            claim: Claim { scope: ScopeKey { scope, owner: "mini".into() }, limit, rule, measure, amount },
            actual: 0,
            booked: 0,
        }
    }

    #[test]
    fn counts_what_is_expected_until_it_is_settled_against_the_ceiling() {
        let clock = Arc::new(Hand::default());
        let ceilings = Ceilings::new(clock.clone());
        clock.0.store(1_000, Ordering::Relaxed);
        let mut lines = [
            line(Scope::Pool, LimitName::Tpm, Measure::Tokens, 48_500),
            line(Scope::Customer, LimitName::Tpm, Measure::Tokens, 90_000),
            line(Scope::Pool, LimitName::Tpd, Measure::Tokens, 48_500),
            line(Scope::Share, LimitName::Tpm, Measure::Tokens, 48_500),
        ];
        let since = ceilings.claimed(&lines);
        let tpm = |millionths| vec![Part { owner: "mini".into(), limits: vec![(LimitName::Tpm, millionths)] }];
        assert_eq!(ceilings.parts(), tpm(125_000), "a quarter of 48,500, of 97,000");
        clock.0.store(1_030, Ordering::Relaxed);
        lines[0].actual = 9_700;
        ceilings.settled(since, &lines);
        assert_eq!(ceilings.parts(), tpm(100_000));
        let again = [line(Scope::Pool, LimitName::Tpm, Measure::Tokens, 48_500)];
        ceilings.claimed(&again);
        assert_eq!(ceilings.parts(), tpm(200_000), "by now a fifth is known to be used");
        ceilings.settled(clock.now(), &again);
        assert_eq!(ceilings.parts(), tpm(100_000), "it failed, which says nothing of answers");
        clock.0.store(1_060, Ordering::Relaxed);
        assert_eq!(ceilings.parts(), tpm(0), "a minute later");
        clock.0.store(1_151, Ordering::Relaxed);
        assert_eq!(ceilings.parts(), [], "forgotten");
    }

    #[test]
    fn caps_in_flight_do_not_fill_the_gauge_of_a_gateway_that_has_just_started() {
        let clock = Arc::new(Hand::default());
        let ceilings = Ceilings::new(clock);
        for _ in 0..12 {
            ceilings.claimed(&[line(Scope::Pool, LimitName::Tpm, Measure::Tokens, 16_000)]);
        }
        assert_eq!(ceilings.parts()[0].limits, [(LimitName::Tpm, 494_845)], "the caps come to twice the ceiling");
        let reserved = line(Scope::Pool, LimitName::InputTpm, Measure::Reserved, 97_000);
        ceilings.claimed(&[reserved]);
        assert_eq!(
            ceilings.parts()[0].limits[1],
            (LimitName::InputTpm, 1_000_000),
            "what the provider takes at once counts at once"
        );
    }

    #[test]
    fn output_counts_when_it_is_there() {
        let clock = Arc::new(Hand::default());
        let ceilings = Ceilings::new(clock.clone());
        let mut lines = [line(Scope::Pool, LimitName::OutputTpm, Measure::Output, 0)];
        let since = ceilings.claimed(&lines);
        clock.0.store(90, Ordering::Relaxed);
        lines[0].actual = 97_000;
        ceilings.settled(since, &lines);
        assert_eq!(ceilings.parts()[0].limits, [(LimitName::OutputTpm, 1_000_000)]);
    }
}
