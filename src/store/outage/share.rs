//! What one gateway may hand out by itself in one outage, decided by the same pure functions as always over small limits of its own.
//!
//! Per limit of every scope (customer, user, app, pool, gateway alike), when it is first asked in the outage:
//!
//! - A **budget or quota** becomes one whose cap is the share of what was last seen remaining. That is all there is for the whole
//!   outage: should a period end meanwhile, what was used goes on counting, since nothing was seen of the new one.
//! - A **bucket** holds at first the share of what is left of it by now, and refills at the share of its rate. So a customer's flow
//!   goes on, thinner, instead of ending after one share, and the gateways together hand out the share of the rate. Its capacity
//!   stays: what is saved up is of the share either way, and a request larger than the share of a capacity must be able to pass once.
//!   It begins with one token at least, or a plan of a few messages would have no service at all.
//! - A **window** becomes one of the share of its limit. It cannot save up, so what is larger than that does not pass.
//!
//! The share is `share / gateways`. A limit that was never seen has none.

use super::memory::{Memory, Seen};
use crate::domain::Timestamp;
use crate::limit::budget::PeriodState;
use crate::limit::decide::{self, State, States};
use crate::limit::{Admission, Bucket, BucketState, BudgetState, Decision, LimitName, Rule, ScopeKey, Settlement, WindowState};
use std::collections::HashMap;

/// A part of a whole: millionths, divided among gateways.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Millionths.
    pub millionths: u32,
    /// Among how many; at least one.
    pub gateways: u64,
}

impl Part {
    fn of(self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.millionths) / (1_000_000 * u128::from(self.gateways));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Rounded up: something of anything.
    fn some_of(self, whole: u64) -> u64 {
        let part = (u128::from(whole) * u128::from(self.millionths)).div_ceil(1_000_000 * u128::from(self.gateways));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// All limits asked in one outage.
pub struct Shares {
    part: Part,
    accounts: HashMap<(ScopeKey, LimitName), Account>,
}

/// One limit.
struct Account {
    rule: Rule,
    state: State,
    seen: Seen,
}

impl Shares {
    /// Nothing asked yet.
    pub fn new(part: Part) -> Self {
        Self { part, accounts: HashMap::new() }
    }

    /// Decides without the store. `None` when a limit was never seen; taken only if admitted (but for the message, as ever).
    pub fn admit(&mut self, admission: &Admission, memory: &Memory, now: Timestamp) -> Option<Decision> {
        let mut small = admission.clone();
        for claim in &mut small.claims {
            let key = (claim.scope.clone(), claim.limit);
            let account = match self.accounts.entry(key) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    let seen = memory.last(&claim.scope, claim.limit)?;
                    entry.insert(Account::open(seen, &claim.rule, self.part, now))
                }
            };
            account.turn(&claim.rule, now);
            claim.rule = account.rule_for(&claim.rule);
        }
        let mut decision = decide::admit(now, &small, self);
        for (claim, verdict) in admission.claims.iter().zip(&mut decision.verdicts) {
            let account = self.accounts.get(&(claim.scope.clone(), claim.limit));
            // What the customer reads is how the real limit stands, as far as is known; what is left is what is left here.
            if let (Rule::Budget { .. }, Some(account)) = (claim.rule, account) {
                verdict.used = verdict.used.saturating_add(account.seen.used);
            }
        }
        Some(decision)
    }

    /// Settles what was decided here.
    pub fn settle(&mut self, settlement: &Settlement, now: Timestamp) {
        let mut small = settlement.clone();
        small.lines.retain_mut(|line| {
            let account = self.accounts.get(&(line.claim.scope.clone(), line.claim.limit));
            account.is_some_and(|account| {
                line.claim.rule = account.rule_for(&line.claim.rule);
                true
            })
        });
        decide::settle(now, &small, decide::Hold::AsClaimed, self);
    }

    /// What was used or is held of every budget, for whoever remembers what is left.
    pub fn used(&self) -> impl Iterator<Item = (&ScopeKey, LimitName, u64)> {
        self.accounts.iter().filter_map(|((scope, limit), account)| match &account.state {
            State::Budget(budget) => {
                let used = |period: PeriodState| period.spent.saturating_add(period.held);
                Some((scope, *limit, used(budget.current)))
            }
            State::Bucket(_) | State::Window(_) => None,
        })
    }
}

impl States for Shares {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        self.accounts.get(&(scope.clone(), limit)).map(|account| account.state.clone())
    }

    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        if let Some(account) = self.accounts.get_mut(&(scope.clone(), limit)) {
            account.state = state;
        }
    }
}

impl Account {
    fn open(seen: Seen, rule: &Rule, part: Part, now: Timestamp) -> Self {
        let (rule, state) = match *rule {
            Rule::Budget { cap, boundaries } => {
                let mut budget = BudgetState::default();
                budget.advance(&boundaries, now);
                (Rule::Budget { cap: part.of(seen.remaining.min(cap)), boundaries }, State::Budget(budget))
            }
            Rule::Bucket { bucket, max_wait, forgive, mirrors } => {
                let small = small(bucket, part);
                // What it has earned since it was seen is there, too.
                let level = seen.remaining.min(bucket.capacity()).saturating_mul(bucket.unit());
                let last = BucketState::of(i64::try_from(level).unwrap_or(0), seen.at, bucket.unit());
                let left = bucket.remaining(bucket.advance(Some(last), now));
                let tokens = part.some_of(left);
                let level = i64::try_from(tokens.saturating_mul(small.unit())).unwrap_or(0);
                let state = BucketState::of(level, now, small.unit());
                (Rule::Bucket { bucket: small, max_wait, forgive, mirrors }, State::Bucket(state))
            }
            Rule::Window { limit, max_wait } => {
                let (most, left) = (part.some_of(limit), part.some_of(seen.remaining.min(limit)));
                let mut window = WindowState::default();
                if left < most {
                    window.take(now.secs(), most - left);
                }
                (Rule::Window { limit: most, max_wait }, State::Window(Box::new(window)))
            }
        };
        Self { rule, state, seen }
    }

    /// The small rule with the waits and periods that this claim asks for. A rule of another kind (the plan changed in the outage) is
    /// refused by a cap of nothing.
    fn rule_for(&self, asked: &Rule) -> Rule {
        match (self.rule, *asked) {
            (Rule::Budget { cap, .. }, Rule::Budget { cap: real, boundaries }) => Rule::Budget { cap: cap.min(real), boundaries },
            (Rule::Bucket { bucket, forgive, mirrors, .. }, Rule::Bucket { max_wait, .. }) => {
                Rule::Bucket { bucket, max_wait, forgive, mirrors }
            }
            (Rule::Window { limit, .. }, Rule::Window { max_wait, .. }) => Rule::Window { limit, max_wait },
            (_, Rule::Budget { boundaries, .. }) => Rule::Budget { cap: 0, boundaries },
            _ => Rule::Window { limit: 0, max_wait: 0 },
        }
    }

    /// Takes what was used along into a period that began since.
    fn turn(&mut self, asked: &Rule, now: Timestamp) {
        if let (State::Budget(budget), Rule::Budget { boundaries, .. }) = (&mut self.state, asked) {
            let before = budget.current;
            budget.advance(boundaries, now);
            if budget.current.start != before.start {
                budget.current.spent = before.spent.saturating_add(before.held);
            }
        }
    }
}

/// A bucket at the share of its rate.
fn small(bucket: Bucket, part: Part) -> Bucket {
    let capacity = bucket.capacity();
    let period = bucket.unit().checked_mul(part.gateways);
    let exact = period.and_then(|period| Bucket::with_headroom(capacity, bucket.gain(), period, part.millionths).ok());
    // A rate too odd to be divided exactly: what it holds now, and no more.
    exact.or_else(|| Bucket::new(capacity, 0, 1).ok()).unwrap_or(bucket)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{DAY, admission, customer, settlement};
    use super::*;
    use crate::domain::{Boundaries, Period};
    use crate::limit::{Claim, Measure, Outcome, Verdict};

    const TENTH: Part = Part { millionths: 100_000, gateways: 1 };
    const SECOND: u64 = 1_000_000;

    fn seen(memory: &Memory, admission: &Admission, at: Timestamp, remaining: &[u64]) {
        let verdict = |remaining: &u64| Verdict {
            outcome: Outcome::Fits,
            used: 40,
            held: 0,
            remaining: *remaining,
            reset_in: 0,
            booked: 0,
        };
        let verdicts = remaining.iter().map(verdict).collect();
        memory.saw(admission, &Decision { at, admitted: true, start_in: 0, granted: None, verdicts });
    }

    fn admitted(shares: &mut Shares, memory: &Memory, admission: &Admission, now: u64) -> bool {
        shares.admit(admission, memory, Timestamp::from_secs(now)).is_some_and(|decision| decision.admitted)
    }

    #[test]
    fn a_budget_is_the_share_of_what_was_left_divided_by_the_gateways() {
        for (gateways, right) in [(1, 100), (2, 50), (3, 33), (4, 25), (1_001, 0)] {
            let memory = Memory::new(10);
            seen(&memory, &admission(1, "c", 1), DAY, &[1_000]);
            let mut shares = Shares::new(Part { gateways, ..TENTH });
            let taken = (0..500).filter(|id| admitted(&mut shares, &memory, &admission(*id, "c", 1), DAY.secs())).count();
            assert_eq!(taken, right, "{gateways} gateways");
        }
    }

    #[test]
    fn settling_gives_back_what_was_not_used_and_midnight_gives_nothing() {
        let memory = Memory::new(10);
        seen(&memory, &admission(1, "c", 1), DAY, &[1_000]);
        let mut shares = Shares::new(TENTH);
        assert!(admitted(&mut shares, &memory, &admission(1, "c", 60), DAY.secs()));
        assert!(!admitted(&mut shares, &memory, &admission(2, "c", 60), DAY.secs()));
        shares.settle(&settlement(1, "c", 60, 30, DAY), DAY);
        assert!(admitted(&mut shares, &memory, &admission(2, "c", 60), DAY.secs()));
        assert!(!admitted(&mut shares, &memory, &admission(3, "c", 11), DAY.secs()), "30 spent, 60 held");
        let tomorrow = DAY.secs() + 86_400;
        assert!(!admitted(&mut shares, &memory, &admission(4, "c", 11), tomorrow), "what is used goes on counting");
        assert!(admitted(&mut shares, &memory, &admission(5, "c", 10), tomorrow));
        assert_eq!(shares.used().map(|(_, _, used)| used).collect::<Vec<_>>(), [100]);
        assert!(shares.admit(&admission(6, "stranger", 1), &memory, DAY).is_none(), "never seen");
        let decision = shares.admit(&admission(7, "c", 0), &memory, Timestamp::from_secs(tomorrow)).expect("seen");
        assert_eq!(decision.verdicts[0].used, 40 + 90, "what the customer reads counts from what was seen");
        assert_eq!(decision.verdicts[0].booked, tomorrow, "booked in the new period");
    }

    #[test]
    fn a_rate_goes_on_at_its_share_and_never_below_one_request() {
        let minute = 60 * SECOND;
        // capacity, per minute, last seen left, gateways -> at once, and in the ten minutes after
        for (capacity, rate, left, gateways, at_once, later) in [
            (120, 60, 120, 1, 12, 60),
            (120, 60, 0, 1, 0, 60),
            (120, 60, 120, 3, 4, 20),
            (10, 5, 10, 4, 1, 1),
            (1, 60, 1, 1, 1, 60),
        ] {
            let bucket = Bucket::new(capacity, rate, minute).expect("exact");
            let rule = Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false };
            let claim = Claim { scope: customer("c"), limit: LimitName::Rpm, rule, measure: Measure::Request, amount: 1 };
            let asks = Admission { claims: vec![claim], ..admission(1, "c", 1) };
            let memory = Memory::new(10);
            seen(&memory, &asks, DAY, &[left]);
            let mut shares = Shares::new(Part { gateways, ..TENTH });
            let now = (0..500).filter(|_| admitted(&mut shares, &memory, &asks, DAY.secs())).count();
            assert_eq!(now, at_once, "{capacity} at {rate}/m, {left} left, {gateways} gateways");
            let after = (1..=600).filter(|second| admitted(&mut shares, &memory, &asks, DAY.secs() + second)).count();
            assert_eq!(after, later, "{capacity} at {rate}/m, {left} left, {gateways} gateways");
        }
    }

    #[test]
    fn a_bucket_seen_empty_long_ago_has_filled_since() {
        let bucket = Bucket::new(100, 60, 60 * SECOND).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false };
        let claim = Claim { scope: customer("c"), limit: LimitName::Rpm, rule, measure: Measure::Request, amount: 1 };
        let asks = Admission { claims: vec![claim], ..admission(1, "c", 1) };
        let memory = Memory::new(10);
        seen(&memory, &asks, DAY, &[0]);
        let mut shares = Shares::new(TENTH);
        let taken = (0..50).filter(|_| admitted(&mut shares, &memory, &asks, DAY.secs() + 50)).count();
        assert_eq!(taken, 5, "a tenth of the 50 that came back");
    }

    #[test]
    fn a_request_larger_than_the_share_passes_once_enough_is_saved_up() {
        let bucket = Bucket::new(40_000, 40_000, 60 * SECOND).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false };
        let claim = Claim { scope: customer("c"), limit: LimitName::Tpm, rule, measure: Measure::Tokens, amount: 2_500 };
        let asks = Admission { claims: vec![claim], ..admission(1, "c", 1) };
        let memory = Memory::new(10);
        seen(&memory, &asks, DAY, &[40_000]);
        let mut shares = Shares::new(Part { gateways: 4, ..TENTH });
        // 1,000 at first, and 1,000 a minute.
        let passes: Vec<_> = (0..300).filter(|second| admitted(&mut shares, &memory, &asks, DAY.secs() + second)).collect();
        assert_eq!(passes, [90, 240]);
    }

    #[test]
    fn a_window_keeps_its_minute() {
        let rule = Rule::Window { limit: 100, max_wait: 0 };
        let claim = Claim { scope: customer("c"), limit: LimitName::Tpm, rule, measure: Measure::Tokens, amount: 1 };
        let asks = Admission { claims: vec![claim], ..admission(1, "c", 1) };
        let memory = Memory::new(10);
        seen(&memory, &asks, DAY, &[40]);
        let mut shares = Shares::new(TENTH);
        let at = |shares: &mut Shares, second| (0..50).filter(|_| admitted(shares, &memory, &asks, DAY.secs() + second)).count();
        assert_eq!((at(&mut shares, 0), at(&mut shares, 30), at(&mut shares, 61)), (4, 0, 10));
    }

    #[test]
    fn a_limit_whose_kind_changed_meanwhile_lets_nothing_pass() {
        let memory = Memory::new(10);
        seen(&memory, &admission(1, "c", 1), DAY, &[1_000]);
        let mut shares = Shares::new(TENTH);
        assert!(admitted(&mut shares, &memory, &admission(1, "c", 1), DAY.secs()));
        let mut other = admission(2, "c", 1);
        other.claims[0].rule = Rule::Window { limit: 100, max_wait: 0 };
        other.claims[0].measure = Measure::Tokens;
        assert!(!admitted(&mut shares, &memory, &other, DAY.secs()));
        let mut lowered = admission(3, "c", 1);
        lowered.claims[0].rule = Rule::Budget { cap: 0, boundaries: Boundaries([0; 4]) };
        assert!(!admitted(&mut shares, &memory, &lowered, DAY.secs()));
        assert_eq!(other.claims[0].limit, LimitName::Spend(Period::Day));
    }
}
