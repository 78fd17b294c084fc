//! What must hold for any limits and any traffic.

use super::tests::{DAY, MINUTE, Memory, NOW, ask, bucket, budget, end, scope};
use super::*;
use crate::domain::{NanoUsd, Period};
use crate::limit::bucket::Bucket;
use crate::limit::{BudgetState, Scope};
use proptest::collection::vec;
use proptest::prelude::*;

fn bucket_rule() -> impl Strategy<Value = Rule> {
    let sizes = (1_u64..2_000, 1_u64..2_000, 1_u64..600_000_000, prop_oneof![Just(0), 0_u64..20_000_000], any::<bool>());
    sizes.prop_map(|(capacity, amount, period, max_wait, forgive)| {
        let bucket = Bucket::new(capacity, amount, period).expect("small numbers are exact");
        Rule::Bucket { bucket, max_wait, forgive, mirrors: false }
    })
}

fn window_rule() -> impl Strategy<Value = Rule> {
    (1_u64..2_000, prop_oneof![Just(0), 0_u64..20_000_000]).prop_map(|(limit, max_wait)| Rule::Window { limit, max_wait })
}

fn of_rule(rule: Rule, amount: u64) -> Admission {
    let claim = Claim { scope: scope(Scope::Customer), limit: LimitName::Tpm, rule, measure: Measure::Tokens, amount };
    ask(&[claim], None)
}

/// Steps of traffic: microseconds until the request, what it asks, and what of it turns out to be used when it ends at once.
fn traffic() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>)>> {
    vec((prop_oneof![Just(0), 0_u64..1_000, 0_u64..40_000_000], 0_u64..1_500, proptest::option::of(0_u64..3_000)), 1..60)
}

proptest! {
    /// Refused until the promised instant, admitted exactly at it.
    #[test]
    fn a_promise_is_kept_to_the_microsecond(rule in prop_oneof![bucket_rule(), window_rule()], traffic in traffic()) {
        let (mut states, mut now) = (Memory::default(), NOW);
        for (after, amount, actual) in traffic {
            now = now.plus(after);
            let admission = of_rule(rule, amount);
            let decision = admit(now, &admission, &mut states);
            match decision.verdicts[0].outcome {
                Outcome::Refused(wait) => {
                    let early = admit(Timestamp(now.plus(wait).micros() - 1), &admission, &mut states.clone());
                    prop_assert_eq!(early.verdicts[0].outcome, Outcome::Refused(1));
                    prop_assert!(admit(now.plus(wait), &admission, &mut states.clone()).admitted);
                }
                Outcome::Never => prop_assert!(!admit(now.plus(1_000 * MINUTE), &admission, &mut states.clone()).admitted),
                _ => prop_assert!(decision.admitted),
            }
            if let Some(actual) = actual.filter(|_| decision.admitted) {
                settle(now, &end(&admission, &decision, |_| actual), Hold::AsClaimed, &mut states);
            }
        }
    }

    /// A bucket admits exactly what a bucket of fractions without any cleverness admits, refunds and overruns included.
    #[test]
    fn a_bucket_is_the_naive_bucket(
        (capacity, amount, period, forgive) in (1_u64..2_000, 1_u64..2_000, 1_u64..600_000_000, any::<bool>()),
        traffic in traffic(),
    ) {
        let bucket = Bucket::new(capacity, amount, period).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive, mirrors: false };
        let (mut states, mut now) = (Memory::default(), NOW);
        // Tokens x period: a microsecond earns `amount`.
        let (full, whole) = (i128::from(capacity) * i128::from(period), |tokens: u64| i128::from(tokens) * i128::from(period));
        let mut naive = full;
        for (after, asked, actual) in traffic {
            now = now.plus(after);
            naive = full.min(naive + i128::from(after) * i128::from(amount));
            let admission = of_rule(rule, asked);
            let decision = admit(now, &admission, &mut states);
            // What asks for nothing is not refused for debts of others; the model has no opinion on what exceeds the bucket.
            prop_assert_eq!(decision.admitted, asked <= capacity && whole(asked) <= naive, "{} of {}", asked, naive);
            if decision.admitted {
                naive -= whole(asked);
                let actual = actual.unwrap_or(asked);
                settle(now, &end(&admission, &decision, |_| actual), Hold::AsClaimed, &mut states);
                let floor = if forgive { naive.min(-full) } else { i128::MIN };
                naive = (naive + whole(asked) - whole(actual)).min(full).max(if actual > asked { floor } else { i128::MIN });
            }
            if let Some(State::Bucket(state)) = states.state(&scope(Scope::Customer), LimitName::Tpm) {
                let level = bucket.advance(Some(state), now).level;
                prop_assert!(level <= (capacity * bucket.unit()).cast_signed(), "a refund above capacity");
                prop_assert_eq!(i128::from(level) * i128::from(period), naive * i128::from(bucket.unit()), "drift");
            }
        }
    }

    /// A mirror never shows room that the account does not have: an account that is charged with what was used at the moment the reply is
    /// there, whatever was claimed, however long requests run, in whatever order they end, and also where some never end for us.
    #[test]
    fn a_mirror_never_shows_more_than_the_account_has(
        (capacity, amount, period) in (1_u64..2_000, 1_u64..2_000, 1_u64..600_000_000),
        steps in vec((prop_oneof![Just(0), 0_u64..1_000, 0_u64..40_000_000], 0_u64..1_500, 0_u64..3_000, any::<prop::sample::Index>(), 0..8_u8), 1..120),
    ) {
        let bucket = Bucket::new(capacity, amount, period).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: true };
        let (mut states, mut now) = (Memory::default(), NOW);
        let (full, whole) = (i128::from(capacity) * i128::from(period), |tokens: u64| i128::from(tokens) * i128::from(period));
        let (mut account, mut lost) = (full, false);
        let mut flying: Vec<(Admission, Decision)> = Vec::new();
        for (after, asked, actual, which, act) in steps {
            now = now.plus(after);
            account = full.min(account + i128::from(after) * i128::from(amount));
            match act {
                0..=3 => {
                    let admission = of_rule(rule, asked);
                    let decision = admit(now, &admission, &mut states);
                    if decision.admitted {
                        prop_assert!(asked == 0 || account >= whole(asked), "room for {} that the account does not have: {}", asked, account);
                        flying.push((admission, decision));
                    }
                }
                4..=6 if !flying.is_empty() => {
                    let (admission, decision) = flying.swap_remove(which.index(flying.len()));
                    account -= whole(actual);
                    settle(now, &end(&admission, &decision, |_| actual), Hold::AsClaimed, &mut states);
                }
                // Its gateway died before the account was charged, and nobody tells us.
                7 if !flying.is_empty() => {
                    flying.swap_remove(which.index(flying.len()));
                    lost = true;
                }
                _ => {}
            }
            if let Some(State::Bucket(state)) = states.state(&scope(Scope::Customer), LimitName::Tpm) {
                let state = bucket.advance(Some(state), now);
                let level = i128::from(state.level) * i128::from(period);
                let both = level + i128::from(state.held) * i128::from(period);
                prop_assert!(both <= full * i128::from(bucket.unit()));
                prop_assert!(level <= account * i128::from(bucket.unit()), "level {} of {}", level, account);
                if !lost {
                    prop_assert_eq!(both, account * i128::from(bucket.unit()), "level and held are what the account has");
                }
            }
        }
        // What nobody ends is paid back: after long enough the bucket is full, and nothing is held.
        let settled = states.state(&scope(Scope::Customer), LimitName::Tpm);
        if let Some(State::Bucket(state)) = settled {
            let later = bucket.advance(Some(state), now.plus(1_000 * 86_400_000_000));
            prop_assert_eq!((bucket.remaining(later), later.held), (capacity, 0));
        }
    }

    /// Where everything is settled at once, a mirror and any other bucket decide alike.
    #[test]
    fn a_mirror_that_is_settled_at_once_is_the_naive_bucket(
        (capacity, amount, period) in (1_u64..2_000, 1_u64..2_000, 1_u64..600_000_000),
        traffic in traffic(),
    ) {
        let bucket = Bucket::new(capacity, amount, period).expect("exact");
        let mut both = [true, false].map(|mirrors| (Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors }, Memory::default()));
        let mut now = NOW;
        for (after, asked, actual) in traffic {
            now = now.plus(after);
            let decided = both.each_mut().map(|(rule, states)| {
                let admission = of_rule(*rule, asked);
                let decision = admit(now, &admission, states);
                if decision.admitted {
                    settle(now, &end(&admission, &decision, |_| actual.unwrap_or(asked)), Hold::AsClaimed, states);
                }
                (decision.admitted, decision.verdicts[0].outcome, decision.verdicts[0].used)
            });
            prop_assert_eq!(decided[0], decided[1]);
        }
    }

    /// A window admits exactly what fits the list of everything admitted in the last 60 seconds, its own second whole.
    #[test]
    fn a_window_is_the_naive_window(limit in 1_u64..2_000, traffic in traffic()) {
        let rule = Rule::Window { limit, max_wait: 0 };
        let (mut states, mut now) = (Memory::default(), NOW);
        let mut log: Vec<(u64, u64)> = Vec::new();
        for (after, asked, _) in traffic {
            now = now.plus(after);
            let used: u64 = log.iter().filter(|(second, _)| second + 60 >= now.secs()).map(|(_, amount)| amount).sum();
            let decision = admit(now, &of_rule(rule, asked), &mut states);
            prop_assert_eq!(decision.admitted, used + asked <= limit, "{} used", used);
            if decision.admitted {
                log.push((now.secs(), asked));
            }
        }
    }

    /// Whoever waits starts when there is room: at every start the bucket has been filled far enough for all who started.
    #[test]
    fn start_times_never_outrun_the_rate(size in 1_u64..200, amounts in vec((0_u64..300_000, 1_u64..50), 1..80)) {
        let (mut states, mut now, mut started) = (Memory::default(), NOW, 0_u128);
        for (after, amount) in amounts {
            now = now.plus(after);
            let admission = ask(&[bucket(Scope::Pool, LimitName::Tpm, Measure::Tokens, size, 2 * MINUTE, amount)], None);
            let decision = admit(now, &admission, &mut states);
            if decision.admitted {
                started += u128::from(amount);
                let earned = u128::from(now.plus(decision.start_in).since(NOW)) * u128::from(size);
                prop_assert!(started * u128::from(MINUTE) <= u128::from(size) * u128::from(MINUTE) + earned);
            }
        }
    }
}

/// A step of money traffic.
#[derive(Clone, Debug)]
enum Step {
    /// A request: its fixed cost in pico-dollars, the output cap it wants, and whether it may shrink.
    Ask(u64, u64, bool),
    /// One of those in flight ends, having used so many thousandths of what it holds.
    End(prop::sample::Index, u64),
    /// Time passes, seconds.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..3_000_000, 1_u64..4_000, any::<bool>()).prop_map(|(fixed, wanted, elastic)| Step::Ask(fixed, wanted, elastic)),
        3 => (any::<prop::sample::Index>(), 0_u64..=1_000).prop_map(|(which, used)| Step::End(which, used)),
        1 => prop_oneof![0_u64..100, 80_000_u64..90_000].prop_map(Step::Wait),
    ];
    vec(step, 1..120)
}

const FLOOR: u64 = 16;
const MONTH: LimitName = LimitName::Spend(Period::Month);

/// The two budgets of a request with a rate limit beside them, so that refusals have several causes.
fn money(caps: [u64; 2], rpm: u64, amount: u64, now: Timestamp) -> Vec<Claim> {
    vec![
        bucket(Scope::Customer, LimitName::Rpm, Measure::Request, rpm, 0, 1),
        budget(Scope::Customer, DAY, caps[0], amount, now),
        budget(Scope::App, MONTH, caps[1], amount, now),
    ]
}

fn books(states: &mut Memory, claim: &Claim) -> BudgetState {
    match states.state(&claim.scope, claim.limit) {
        Some(State::Budget(book)) => book,
        _ => BudgetState::default(),
    }
}

proptest! {
    /// Never over a cap, nothing refused that would have fitted, the granted output cap as large as it can be, all or nothing, and
    /// at the end nothing held.
    #[test]
    fn money_is_kept_exactly(caps in [0_u64..20_000, 0_u64..30_000], rpm in 1_u64..100, steps in steps()) {
        let (mut states, mut now) = (Memory::default(), NOW);
        let mut flying: Vec<(Admission, Decision)> = Vec::new();
        let mut paid = 0_u64;
        for step in steps {
            match step {
                Step::Wait(seconds) => now = now.plus(seconds * 1_000_000),
                Step::Ask(fixed, wanted, shrinks) => {
                    let elastic = Elastic::new(fixed.into(), 1_000, wanted, FLOOR).filter(|_| shrinks);
                    let amount = NanoUsd::from_pico_ceil(u128::from(fixed) + u128::from(wanted) * 1_000).get();
                    let claims = money(caps, rpm, amount, now);
                    let stands: Vec<(u64, u64)> = claims[1..].iter().zip(caps).map(|(claim, cap)| {
                        let mut book = books(&mut states, claim);
                        let Rule::Budget { boundaries, .. } = claim.rule else { unreachable!("a budget") };
                        book.advance(&boundaries, now);
                        (cap - book.current.spent, cap - book.current.spent - book.current.held)
                    }).collect();
                    let room = stands[0].1.min(stands[1].1);
                    // Only what is *spent* lowers the output cap; what others hold comes back soon.
                    let exhausted = stands.iter().filter(|(unspent, _)| amount > *unspent).map(|(_, room)| *room).min();
                    let affordable = exhausted.map_or(Some(wanted), |room| elastic?.affordable(room).filter(|cap| *cap >= FLOOR));
                    let held = affordable.map(|cap| elastic.map_or(amount, |elastic| elastic.cost(cap).get()));
                    let before = states.clone();
                    let admission = ask(&claims, elastic);
                    let decision = admit(now, &admission, &mut states);
                    let rate_fits = decision.verdicts[0].outcome.passes();
                    prop_assert_eq!(decision.admitted, rate_fits && held.is_some_and(|held| held <= room), "{:?}", stands);
                    if decision.admitted {
                        prop_assert_eq!(decision.granted, affordable.filter(|cap| *cap < wanted));
                        if let Some((room, elastic)) = exhausted.zip(elastic) {
                            let next = decision.granted.expect("lowered") + 1;
                            prop_assert!(elastic.cost(next).get() > room, "a larger cap would have fitted");
                        }
                        flying.push((admission, decision));
                    } else {
                        prop_assert_eq!(&states, &before, "a refusal takes nothing");
                    }
                }
                Step::End(which, used) if !flying.is_empty() => {
                    let (admission, decision) = flying.swap_remove(which.index(flying.len()));
                    let settlement = end(&admission, &decision, |claim| claim.amount * used / 1_000);
                    paid += settlement.lines[1].actual;
                    settle(now, &settlement, Hold::AsClaimed, &mut states);
                }
                Step::End(..) => {}
            }
            for (claim, cap) in money(caps, rpm, 0, now)[1..].iter().zip(caps) {
                let book = books(&mut states, claim);
                prop_assert!(book.current.spent + book.current.held <= cap && book.previous.spent + book.previous.held <= cap);
            }
        }
        for (admission, decision) in flying.drain(..) {
            settle(now, &end(&admission, &decision, |_| 0), Hold::AsClaimed, &mut states);
        }
        let [_, day, month] = money(caps, rpm, 0, now).try_into().expect("three");
        for claim in [&day, &month] {
            let book = books(&mut states, claim);
            prop_assert_eq!((book.current.held, book.previous.held), (0, 0));
        }
        // A month of traffic at most touches two months, and both are in the book.
        let book = books(&mut states, &month);
        prop_assert_eq!(book.current.spent + book.previous.spent, paid, "every cost is booked once");
    }
}
