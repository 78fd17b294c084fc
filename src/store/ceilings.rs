//! How much of each provider ceiling this process used in the trailing minute: what was settled, and what requests in flight are
//! expected to use.
//!
//! Told by reservations, so that everything that is admitted is seen, on whatever path it ends. Kept in memory: a process that has just
//! started has used nothing.

use crate::domain::{Clock, Timestamp};
use crate::limit::{Gauge, LimitName, Line, Measure, Rule};
use parking_lot::Mutex;
use foldhash::HashMap;
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

struct Metered {
    name: LimitName,
    /// What it allows a minute, in millionths of a request or token: a small limit with headroom is no whole number.
    ceiling: u128,
    gauge: Gauge,
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
        self.with(now, lines, |gauge, line| gauge.add(now, line.claim.amount));
        now
    }

    /// These claims, admitted at `since`, are settled.
    pub fn settled(&self, since: Timestamp, lines: &[Line]) {
        let now = self.clock.now();
        self.with(now, lines, |gauge, line| match line.claim.measure {
            // Output that is counted as it is produced was not claimed; by now it is there.
            Measure::Output if line.claim.amount == 0 => gauge.add(now, line.actual),
            _ => gauge.correct(since, line.claim.amount, line.actual),
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

    fn with(&self, now: Timestamp, lines: &[Line], act: impl Fn(&mut Gauge, &Line)) {
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
                one.limits.push(Metered { name: line.claim.limit, ceiling, gauge: Gauge::default() });
                one.limits.len() - 1
            });
            one.limits[at].ceiling = ceiling;
            act(&mut one.limits[at].gauge, line);
        }
    }
}

impl Metered {
    fn millionths(&mut self, now: Timestamp) -> u64 {
        let used = u128::from(self.gauge.used(now)) * WHOLE * WHOLE;
        u64::try_from(used.checked_div(self.ceiling).unwrap_or(0)).unwrap_or(u64::MAX)
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
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: false };
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
        assert_eq!(ceilings.parts(), tpm(500_000), "48,500 of 97,000");
        clock.0.store(1_030, Ordering::Relaxed);
        lines[0].actual = 9_700;
        ceilings.settled(since, &lines);
        assert_eq!(ceilings.parts(), tpm(100_000));
        clock.0.store(1_060, Ordering::Relaxed);
        assert_eq!(ceilings.parts(), tpm(0), "a minute later");
        clock.0.store(1_151, Ordering::Relaxed);
        assert_eq!(ceilings.parts(), [], "forgotten");
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
