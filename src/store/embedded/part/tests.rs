use super::*;
use crate::limit::Bucket;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn customer(name: &str) -> ScopeKey {
    ScopeKey { scope: Scope::Customer, owner: name.into() }
}

fn bucket_rule() -> (Bucket, Option<Rule>) {
    let bucket = Bucket::new(10, 5, 60_000_000).expect("exact");
    (bucket, Some(Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false }))
}

fn put(part: &mut Part, scope: &ScopeKey, limit: LimitName, state: State, rule: Option<Rule>) {
    let owner = part.number_for(&scope.owner);
    part.put(owner, scope.scope, limit, state, rule, NOW);
}

fn slots<'a>(part: &'a Part, owner: &str) -> &'a [Slot] {
    &part.owners[part.number(owner).expect("known") as usize].states
}

fn budget(start: u64, held: u64) -> State {
    let current = PeriodState { start, spent: 7, held };
    State::Budget(BudgetState { current, previous: PeriodState::default() })
}

#[test]
fn a_known_customer_takes_less_than_240_bytes() {
    let mut part = Part::default();
    let (bucket, rule) = bucket_rule();
    let scope = customer("0123abcd-4567-89ef-0123-456789abcdef");
    for limit in [LimitName::Messages, LimitName::Rpm, LimitName::Tpm] {
        put(&mut part, &scope, limit, State::Bucket(bucket.advance(None, NOW)), rule);
    }
    for period in [Period::Day, Period::Month] {
        put(&mut part, &scope, LimitName::Spend(period), budget(NOW.secs(), 0), None);
    }
    let slots = slots(&part, &scope.owner);
    assert_eq!((slots.len(), size_of::<Slot>()), (5, 24));
    // An allocation costs its size, 8 bytes, and the way to the next multiple of 16.
    let allocated = |bytes: usize| (bytes + 8).next_multiple_of(16);
    // The index doubles at 7/8: right after, 16/7 places an owner, each with a byte of its own.
    let place = ((size_of::<Number>() + 1) * 16).div_ceil(7);
    let listed = size_of::<Owner>() * 9 / 8;
    let bytes = place + listed + allocated(scope.owner.len()) + allocated(size_of_val(slots));
    assert!(bytes <= 240, "{bytes}");
    assert!(bytes + size_of::<Slot>() <= 264, "{bytes} with yesterday's budget besides");
}

#[test]
fn thousands_are_told_apart_whoever_comes_and_goes() {
    let (bucket, rule) = bucket_rule();
    let mut part = Part::default();
    let name = |number: u64| format!("customer-{number}");
    let state = |number: u64| State::Bucket(BucketState { level: number.cast_signed(), ..bucket.advance(None, NOW) });
    for number in 0..5_000 {
        put(&mut part, &customer(&name(number)), LimitName::Rpm, state(number), rule);
        // Who has money in flight stays.
        if number % 3 == 0 {
            put(&mut part, &customer(&name(number)), LimitName::Spend(Period::Day), budget(NOW.secs(), 1), None);
        }
    }
    assert!(part.owners.capacity() <= 5_000 * 9 / 8 + 1, "{}", part.owners.capacity());
    part.sweep(NOW.plus(7_200_000_000), true);
    assert_eq!((part.len(), part.free.len()), (1_667, 3_333));
    for number in 5_000..8_000 {
        put(&mut part, &customer(&name(number)), LimitName::Rpm, state(number), rule);
    }
    assert_eq!((part.len(), part.owners.len()), (4_667, 5_000), "in the places of those who left");
    for number in 0..8_000 {
        let there = number % 3 == 0 || number >= 5_000;
        assert_eq!(part.get(&customer(&name(number)), LimitName::Rpm), there.then(|| state(number)), "{number}");
    }
    part.sweep(NOW.plus(3 * 86_400_000_000), true);
    assert_eq!(part.len(), 1_667);
    assert!(part.index.capacity() <= 64 + 4 * 1_667, "what is not needed is given back");
}

#[test]
fn states_of_one_name_in_different_scopes_are_apart() {
    let mut part = Part::default();
    let app = ScopeKey { scope: Scope::App, owner: "x".into() };
    put(&mut part, &app, LimitName::Spend(Period::Day), budget(1, 0), None);
    assert_eq!(part.get(&customer("x"), LimitName::Spend(Period::Day)), None);
    assert_eq!(part.get(&app, LimitName::Spend(Period::Week)), None);
    assert_eq!(part.get(&app, LimitName::Spend(Period::Day)), Some(budget(1, 0)));
}

#[test]
fn a_rule_of_another_kind_starts_afresh() {
    let mut part = Part::default();
    let (bucket, rule) = bucket_rule();
    let scope = customer("c");
    put(&mut part, &scope, LimitName::Rpm, State::Bucket(bucket.advance(None, NOW)), rule);
    put(&mut part, &scope, LimitName::Rpm, State::Window(Box::default()), None);
    assert_eq!(part.get(&scope, LimitName::Rpm), Some(State::Window(Box::default())));
    assert_eq!(slots(&part, "c").len(), 1);
}

#[test]
fn only_what_says_nothing_is_swept() {
    let day = LimitName::Spend(Period::Day);
    let mut part = Part::default();
    let (bucket, rule) = bucket_rule();
    let today = NOW.secs();
    put(&mut part, &customer("idle"), LimitName::Rpm, State::Bucket(bucket.advance(None, NOW)), rule);
    put(&mut part, &customer("spent"), day, budget(today, 0), None);
    put(&mut part, &customer("in flight"), day, budget(today, 5), None);
    let later = NOW.plus(3 * 86_400_000_000);
    assert_eq!((part.sweep(NOW.plus(3_600_000_000), true), part.len()), (vec![], 3), "an hour is not too long");
    assert_eq!((part.sweep(later, false), part.len()), (vec![], 2), "balances stay");
    assert_eq!((part.sweep(later, true), part.len()), (vec![], 2), "once a minute");
    let gone = BalanceKey { scope: customer("spent"), limit: day, period: today };
    assert_eq!((part.sweep(later.plus(60_000_000), true), part.len()), (vec![gone], 1));
    assert_eq!(part.get(&customer("in flight"), day), Some(budget(today, 5)));
}

#[test]
fn what_does_not_fit_a_small_slot_is_kept_all_the_same() {
    let (bucket, rule) = bucket_rule();
    let mut part = Part::default();
    let scope = customer("c");
    let unit = bucket.unit().cast_signed();
    let month = -(5 * 60 * 24 * 30) * unit;
    for state in [
        BucketState { level: 5, at: NOW, unit: u64::from(u32::MAX) + 1, held: 0 },
        BucketState { level: 5, at: NOW, unit: bucket.unit(), held: 7 },
        BucketState::of(month, NOW, bucket.unit()),
        BucketState::of(-5, NOW, bucket.unit()),
    ] {
        put(&mut part, &scope, LimitName::Tpm, State::Bucket(state), rule);
        assert_eq!(part.get(&scope, LimitName::Tpm), Some(State::Bucket(state)));
        assert_eq!(slots(&part, "c").len(), 1, "in the place of the one before");
    }
    put(&mut part, &scope, LimitName::Tpm, State::Bucket(BucketState::of(month, NOW, bucket.unit())), rule);
    part.sweep(NOW.plus(29 * 86_400_000_000), true);
    assert_eq!(part.len(), 1, "in debt for thirty days");
    part.sweep(NOW.plus(31 * 86_400_000_000), true);
    assert_eq!(part.len(), 0);
}

#[test]
fn a_bucket_in_deep_debt_outlives_the_hour() {
    let mut part = Part::default();
    let (bucket, rule) = bucket_rule();
    let state = State::Bucket(BucketState::of(-600 * bucket.unit().cast_signed(), NOW, bucket.unit()));
    put(&mut part, &customer("debtor"), LimitName::Rpm, state.clone(), rule);
    part.sweep(NOW.plus(7_000_000_000), true);
    assert_eq!(part.get(&customer("debtor"), LimitName::Rpm), Some(state), "full again only after 122 minutes");
    part.sweep(NOW.plus(7_400_000_000), true);
    assert_eq!(part.len(), 0);
}
