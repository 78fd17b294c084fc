//! The heart of the suite: random histories get the same answers, to the number, from a store and from the pure functions.
//!
//! A history is a plan (a rule for every limit) and steps: time that goes on, jumps over periods or runs back; admissions by the plan's
//! rules or by others (a changed limit, another kind of limit); settlements over and under what was claimed, repeated, of unknown
//! reservations, with wrong periods, that claim more than was held or leave it out; other claims in the place of a reservation in flight or ended. The only thing left out is a settlement repeated after more than the hour a store remembers.

use crate::fixture::*;
use crate::reference::Reference;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tollgate::domain::{Period, ReservationId, Timestamp, Zone};
use tollgate::limit::{Admission, Bucket, Claim, Elastic, LimitName, Line, Measure, Rule, Scope, ScopeKey, Settlement};
use tollgate::store::Balance;

const RATES: [LimitName; 5] = [LimitName::Messages, LimitName::Rpm, LimitName::Tpm, LimitName::OutputTpm, LimitName::Tpd];
const BUDGETS: [LimitName; 4] = [
    LimitName::Spend(Period::Day),
    LimitName::Spend(Period::Week),
    LimitName::Spend(Period::Month),
    LimitName::TokenQuota(Period::Day),
];
const SCOPES: [(Scope, &str); 6] = [
    (Scope::User, "/u"),
    (Scope::Customer, ""),
    (Scope::App, ""),
    (Scope::Share, "/background"),
    (Scope::Pool, ""),
    (Scope::Gateway, ""),
];
/// Rules by number: buckets whose units differ widely, then windows.
const RULES: usize = 14;

#[derive(Clone, Debug)]
enum Step {
    Time(i64),
    /// To the next midnight of UTC or New York (in winter), give or take a microsecond.
    Midnight {
        hour: u64,
        off: i64,
    },
    /// To the next full second, where windows change.
    FullSecond,
    Admit {
        asks: Vec<Ask>,
        elastic: Option<Elastic>,
        again: bool,
    },
    Settle {
        which: Index,
        percent: Vec<u64>,
        twice: bool,
    },
    Replace {
        which: Index,
        percent: Vec<u64>,
        asks: Vec<Ask>,
        elastic: Option<Elastic>,
    },
    Unknown {
        asks: Vec<Ask>,
        percent: u64,
        periods_back: u64,
    },
}

#[derive(Clone, Debug)]
struct Ask {
    scope: usize,
    limit: usize,
    /// Another rule than the plan's.
    rule: Option<usize>,
    wait: u64,
    forgive: bool,
    amount: u64,
    cap: u64,
    /// How far the gateway's clock is from the store's, hours.
    skew: i64,
}

fn ask() -> impl Strategy<Value = Ask> {
    let amount = prop_oneof![6 => 0..6_u64, 3 => 0..130_u64, 2 => 0..5_000_u64];
    // Some limits are asked over and over, so that their states grow old.
    let scope = prop_oneof![5 => Just(1), 3 => Just(4), 2 => 0..SCOPES.len()];
    let limit = prop_oneof![2 => Just(0), 3 => Just(1), 3 => Just(2), 3 => Just(5), 4 => 0..RATES.len() + BUDGETS.len()];
    let wait = prop_oneof![3 => Just(0), 1 => Just(700_000), 1 => Just(3 * SECOND), 1 => Just(MINUTE), 1 => Just(10 * MINUTE)];
    let cap = prop_oneof![1 => Just(0), 4 => 1..400_u64, 4 => 1_000..20_000_u64, 1 => Just(9_000_000 * DOLLAR)];
    let rule = prop_oneof![5 => Just(None), 1 => (0..RULES).prop_map(Some)];
    let skew = prop_oneof![6 => Just(0), 1 => -30..30_i64];
    (scope, limit, rule, wait, any::<bool>(), amount, cap, skew).prop_map(
        |(scope, limit, rule, wait, forgive, amount, cap, skew)| Ask { scope, limit, rule, wait, forgive, amount, cap, skew },
    )
}

fn elastic() -> impl Strategy<Value = Option<Elastic>> {
    let small = (0..3_000_000_u64, 1..2_000_000_u64, 1..2_000_u64, 0..40_u64);
    let dear = (0..1_000_u64, 1_000_000_000..9_000_000_000_u64, 1..1_000_000_u64, 0..9_u64);
    prop_oneof![small, dear].prop_map(|(fixed, per_token, wanted, floor)| {
        Elastic::new(u128::from(fixed), u128::from(per_token), wanted, floor.min(wanted - 1))
    })
}

fn step() -> impl Strategy<Value = Step> {
    let time = prop_oneof![
        6 => 0..2_000_i64,
        6 => 0..3_000_000_i64,
        6 => 0..150_000_000_i64,
        2 => 0..2 * HOUR as i64,
        2 => 0..60 * HOUR as i64,
        1 => 0..1_000 * HOUR as i64,
        4 => (0..130_i64).prop_map(|seconds| seconds * SECOND as i64),
        2 => -1_000_000..0_i64,
        1 => Just(-1_000_000),
        1 => Just(-1_000_001),
        1 => -3_000_000..0_i64,
        1 => -80 * HOUR as i64..0,
    ];
    let asks = || prop_oneof![4 => vec(ask(), 1), 3 => vec(ask(), 2..4), 1 => vec(ask(), 4..9)];
    let elastic = prop_oneof![2 => Just(None), 1 => elastic()];
    let percent = || prop_oneof![2 => Just(100), 2 => Just(0), 3 => 0..100_u64, 2 => 100..400_u64];
    prop_oneof![
        6 => time.prop_map(Step::Time),
        1 => (prop_oneof![Just(0_u64), Just(5)], -1..2_i64).prop_map(|(hour, off)| Step::Midnight { hour, off }),
        1 => Just(Step::FullSecond),
        8 => (asks(), elastic, prop::bool::weighted(0.1)).prop_map(|(asks, elastic, again)| Step::Admit { asks, elastic, again }),
        5 => (any::<Index>(), vec(percent(), 12), prop::bool::weighted(0.2))
            .prop_map(|(which, percent, twice)| Step::Settle { which, percent, twice }),
        3 => (any::<Index>(), vec(percent(), 12), asks(), prop_oneof![2 => Just(None), 1 => self::elastic()])
            .prop_map(|(which, percent, asks, elastic)| Step::Replace { which, percent, asks, elastic }),
        2 => (asks(), percent(), 0..3_u64)
            .prop_map(|(asks, percent, periods_back)| Step::Unknown { asks, percent, periods_back }),
    ]
}

fn rate_rule(number: usize, max_wait: u64, (forgive, mirrors): (bool, bool)) -> Rule {
    let bucket = |capacity, amount, period| Bucket::new(capacity, amount, period).expect("exact");
    let bucket = match number {
        0 => bucket(10, 10, MINUTE),
        1 => bucket(3, 1, 15 * SECOND),
        2 => bucket(10, 7, 10 * SECOND),
        3 => Bucket::with_headroom(500, 500, MINUTE, 970_000).expect("exact"),
        4 => Bucket::with_headroom(4_000, 4_000, MINUTE, 999_983).expect("exact"),
        5 => bucket(120, 1, SECOND),
        6 => bucket(1_000_000_000_000, 1_000_000_000_000, MINUTE),
        7 => bucket(0, 0, MINUTE),
        8 => bucket(20, 0, MINUTE),
        9 => bucket(60, 86_399, 24 * HOUR + 1), // nothing cancels out
        10 => bucket(7, 3, 1),                  // three a microsecond
        11 => return Rule::Window { limit: 4, max_wait },
        12 => return Rule::Window { limit: 150, max_wait },
        _ => return Rule::Window { limit: 6_000, max_wait },
    };
    Rule::Bucket { bucket, max_wait, forgive, mirrors }
}

/// What two calls cannot hide: where the second one refuses, what the first one took is given back, but the state it was in has been
/// written. So nothing may turn on that here: limits keep their rules and zone, are asked once by a request, and time runs neither back
/// nor into another day. And dollars that shrink are claimed from one group only: of two groups the first would not know what the second affords.
fn in_two_calls(steps: &mut [Step]) {
    for step in steps {
        match step {
            Step::Time(by) => *by = (*by).max(0) % (5 * MINUTE as i64),
            Step::Midnight { .. } => *step = Step::FullSecond,
            Step::Admit { asks, elastic, .. } => {
                let mut seen = Vec::new();
                asks.retain(|ask| {
                    !seen.contains(&(ask.scope, ask.limit)) && {
                        seen.push((ask.scope, ask.limit));
                        true
                    }
                });
                let dollars = |customers| {
                    let is_theirs = move |ask: &&Ask| SCOPES[ask.scope].0.is_customers() == customers;
                    asks.iter().filter(is_theirs).any(|ask| ask.limit >= RATES.len() && ask.limit < RATES.len() + 3)
                };
                if dollars(true) && dollars(false) {
                    *elastic = None;
                }
                asks.iter_mut().for_each(plainly);
            }
            Step::Unknown { asks, periods_back, .. } => {
                *periods_back = 0;
                asks.iter_mut().for_each(plainly);
            }
            // A replacement is decided in another way, see the store.
            Step::Replace { .. } => *step = Step::FullSecond,
            Step::FullSecond | Step::Settle { .. } => {}
        }
    }
}

fn plainly(ask: &mut Ask) {
    (ask.rule, ask.skew, ask.forgive) = (None, 0, true);
    ask.amount = ask.amount.max(1); // what claims nothing leaves an empty slot in a window, or takes one back
}

/// One history under way: the store, the model, and what is open.
struct History<'a> {
    store: &'a Fixture,
    model: Reference,
    owner: String,
    plan: Vec<usize>,
    now: Timestamp,
    /// The latest it ever was.
    latest: Timestamp,
    open: Vec<(Settlement, Option<Timestamp>)>,
}

impl History<'_> {
    fn scope(&self, number: usize) -> ScopeKey {
        let (scope, suffix) = SCOPES[number];
        key(scope, &format!("{}{suffix}", self.owner))
    }

    fn claim(&self, ask: &Ask, elastic: Option<Elastic>) -> Claim {
        let scope = self.scope(ask.scope);
        if let Some(limit) = RATES.get(ask.limit) {
            let number = ask.rule.unwrap_or(self.plan[(ask.scope + ask.limit) % self.plan.len()]);
            let measure = if *limit == LimitName::Messages { Measure::Message } else { Measure::Tokens };
            // What does not forgive is a ceiling, and in the scopes of the pool one that mirrors its account.
            let mirrors = !ask.forgive && ask.scope >= 3;
            let rule = rate_rule(number, ask.wait, (ask.forgive, mirrors));
            return Claim { scope, limit: *limit, rule, measure, amount: ask.amount };
        }
        let limit = BUDGETS[ask.limit - RATES.len()];
        let period = limit.period().expect("a budget");
        let zone = if ask.forgive { Zone::default() } else { Zone::named("America/New_York").expect("a zone") };
        let clock = Timestamp(self.now.0.saturating_add_signed(ask.skew * HOUR as i64));
        let rule = Rule::Budget { cap: ask.cap, boundaries: zone.boundaries(period, clock) };
        let (measure, amount) = match limit {
            LimitName::Spend(_) => (Measure::Money, elastic.map_or(ask.amount, |e| e.cost(e.wanted).get())),
            _ => (Measure::Tokens, ask.amount),
        };
        Claim { scope, limit, rule, measure, amount }
    }

    async fn admit(&mut self, asks: &[Ask], elastic: Option<Elastic>, again: bool) -> Result<(), TestCaseError> {
        let claims = asks.iter().map(|ask| self.claim(ask, elastic)).collect();
        let mut admission = Admission { customer: key(Scope::Customer, &self.owner), elastic, ..self.store.admission(claims) };
        // The ceiling at its start time, another attempt: more claims of a reservation in flight.
        // Or one that has ended: what comes too late is held, and given back when its end is repeated.
        let joins = again && !self.open.is_empty();
        if let Some((open, _)) = self.open.last().filter(|_| joins) {
            admission.reservation = open.reservation;
        }
        let decision = self.store.ledger.admit(&admission, Some(self.now)).await.expect("the store answers");
        prop_assert_eq!(&decision, &self.model.decide(&admission, self.now), "of {:?}", admission);
        if decision.admitted {
            let mut taken = settlement(&Asked { admission, decision }, &vec![0; asks.len()]);
            match self.open.last_mut().filter(|_| joins) {
                Some((open, _)) => open.lines.append(&mut taken.lines),
                None => self.open.push((taken, None)),
            }
        }
        Ok(())
    }

    async fn settle(&mut self, which: &Index, percent: &[u64], twice: bool) -> Result<(), TestCaseError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let now = self.now;
        let Some((settlement, ended)) = self.ends(which, percent) else { return Ok(()) };
        *ended = ended.or(Some(now));
        let mut settlement = settlement.clone();
        // Whatever it says was held, and whether it says so at all.
        if percent[11].is_multiple_of(4) {
            settlement.lines.iter_mut().filter(|line| line.claim.is_budget()).for_each(|line| line.claim.amount *= 2);
        }
        if percent[10] == 0 {
            settlement.lines.pop();
        }
        for _ in 0..=u8::from(twice) {
            self.book(settlement.clone()).await?;
        }
        Ok(())
    }

    /// One of the reservations, as it ends or ended before, unless that is too long ago to be repeated.
    fn ends(&mut self, which: &Index, percent: &[u64]) -> Option<&mut (Settlement, Option<Timestamp>)> {
        let index = which.index(self.open.len());
        let (settlement, ended) = &mut self.open[index];
        let age = ended.map_or(0, |ended| self.latest.since(ended).max(ended.since(self.now)));
        for (line, percent) in settlement.lines.iter_mut().zip(percent) {
            line.actual = line.claim.amount.saturating_mul(*percent) / 100 + u64::from(*percent == 399);
        }
        (age <= HOUR).then(|| &mut self.open[index])
    }

    async fn replace(
        &mut self,
        which: &Index,
        percent: &[u64],
        asks: &[Ask],
        elastic: Option<Elastic>,
    ) -> Result<(), TestCaseError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let claims = asks.iter().map(|ask| self.claim(ask, elastic)).collect();
        let admission = Admission { customer: key(Scope::Customer, &self.owner), elastic, ..self.store.admission(claims) };
        let now = self.now;
        let Some((old, ended)) = self.ends(which, percent) else { return Ok(()) };
        let (old, before) = (old.clone(), *ended);
        let decision = self.store.ledger.replace(&old, &admission, Some(now)).await.expect("the store answers");
        prop_assert_eq!(&decision, &self.model.exchange(&old, &admission, now), "of {:?} for {:?}", admission, old);
        self.compare_balances().await?;
        if decision.admitted {
            if let Some((_, ended)) = self.open.iter_mut().find(|(open, _)| open.reservation == old.reservation) {
                *ended = before.or(Some(now));
            }
            self.open.push((settlement(&Asked { admission, decision }, &vec![0; asks.len()]), None));
            // Whoever did not hear the answer settles the old one.
            self.book(old).await?;
        }
        Ok(())
    }

    async fn unknown(&mut self, asks: &[Ask], percent: u64, periods_back: u64) -> Result<(), TestCaseError> {
        let mut seen: Vec<Line> = Vec::new();
        for (i, ask) in asks.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
            let mut claim = self.claim(ask, None);
            // No settlement has one limit twice with two rules.
            if seen.iter().any(|line| line.claim.scope == claim.scope && line.claim.limit == claim.limit) {
                continue;
            }
            claim.amount += i as u64;
            let booked = match claim.rule {
                Rule::Budget { boundaries, .. } => boundaries.0[(1 + periods_back as usize) % 3],
                _ => self.now.secs() - periods_back,
            };
            seen.push(Line { actual: claim.amount * percent / 100, claim, booked });
        }
        let reservation: ReservationId = self.store.admission(Vec::new()).reservation;
        self.book(Settlement { reservation, customer: key(Scope::Customer, &self.owner), lines: seen }).await
    }

    async fn book(&mut self, settlement: Settlement) -> Result<(), TestCaseError> {
        let batch = [settlement];
        self.store.ledger.settle(&batch, Some(self.now)).await.expect("the store answers");
        self.model.book(&batch[0], self.now);
        self.compare_balances().await
    }

    async fn compare_balances(&self) -> Result<(), TestCaseError> {
        for number in 0..SCOPES.len() {
            let scope = self.scope(number);
            let used = |mut balances: Vec<Balance>| {
                balances.retain(|balance| balance.spent > 0 || balance.held > 0);
                balances.sort_unstable_by_key(|balance| balance.limit);
                balances
            };
            let balances = self.store.ledger.read(&scope).await.expect("the store answers");
            prop_assert_eq!(used(balances), used(self.model.balances(&scope)), "of {:?}", scope);
        }
        Ok(())
    }

    async fn run(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        for step in steps {
            self.latest = self.latest.max(self.now);
            match step {
                Step::Time(by) => self.now = Timestamp(self.now.0.saturating_add_signed(*by)),
                Step::Midnight { hour, off } => {
                    let (day, shift) = (24 * HOUR, hour * HOUR);
                    let next = (self.now.0 - shift) / day * day + day + shift;
                    self.now = Timestamp(next.saturating_add_signed(*off));
                }
                Step::FullSecond => self.now = Timestamp::from_secs(self.now.secs() + 1),
                Step::Admit { asks, elastic, again } => self.admit(asks, *elastic, *again).await?,
                Step::Settle { which, percent, twice } => self.settle(which, percent, *twice).await?,
                Step::Replace { which, percent, asks, elastic } => self.replace(which, percent, asks, *elastic).await?,
                Step::Unknown { asks, percent, periods_back } => self.unknown(asks, *percent, *periods_back).await?,
            }
        }
        // Every limit once more, so that a difference nobody happened to ask for shows.
        for scope in 0..SCOPES.len() {
            let look = |limit| Ask { scope, limit, rule: None, wait: 0, forgive: true, amount: 0, cap: 1, skew: 0 };
            let asks: Vec<_> = (0..RATES.len() + BUDGETS.len()).map(look).collect();
            self.admit(&asks, None, false).await?;
        }
        self.compare_balances().await
    }
}

pub async fn every_answer_is_that_of_the_pure_functions(store: Fixture) {
    compare(store, |_| ()).await;
}

pub async fn every_answer_in_two_calls_is_that_of_the_pure_functions(store: Fixture) {
    compare(store, in_two_calls).await;
}

async fn compare(store: Fixture, change: impl Fn(&mut [Step])) {
    let runtime = tokio::runtime::Handle::current();
    let config = Config { cases: 200, failure_persistence: None, max_shrink_iters: 5_000, ..Config::default() };
    let histories = (vec(0..RULES, 8), vec(step(), 1..120));
    let number = std::cell::Cell::new(0);
    let result = tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&histories, |(plan, mut steps)| {
            change(&mut steps);
            number.set(number.get() + 1);
            let (model, owner) = (Reference::default(), format!("h{}", number.get()));
            let mut history = History { store: &store, model, owner, plan, now: NOON, latest: NOON, open: Vec::new() };
            runtime.block_on(history.run(&steps))
        })
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
