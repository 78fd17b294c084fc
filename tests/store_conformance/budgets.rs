//! Budgets and quotas, and what settlement does to them.

use crate::fixture::*;
use tollgate::domain::{Boundaries, Period, Timestamp, Zone};
use tollgate::limit::{Claim, LimitName, Line, Measure, Outcome, Scope, ScopeKey, Settlement};
use tollgate::store::Balance;

const DAY: u64 = 24 * HOUR;

fn instant(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().expect("a timestamp");
    Timestamp(u64::try_from(instant.as_microsecond()).expect("after 1970"))
}

/// Claims of one day that know `boundaries`, at an absolute time: outcome, time to the reset, period booked in.
async fn day_at(store: &Fixture, now: Timestamp, boundaries: Boundaries, amount: u64) -> (Asked, Outcome, u64, u64) {
    let admission = store.admission(vec![budget(Period::Day, boundaries, 100, amount)]);
    let decision = store.ledger.admit(&admission, Some(now)).await.expect("the store answers");
    let verdict = decision.verdicts[0];
    (Asked { admission, decision }, verdict.outcome, verdict.reset_in, verdict.booked)
}

pub async fn a_thousand_times_three_tenths_of_a_cent(store: Fixture) {
    for i in 0..1_000 {
        let asked = store.ask(i, vec![dollars(3 * DOLLAR, 3_000_000)]).await;
        assert!(asked.decision.admitted, "request {i}");
        store.settle(i, &asked, &[3_000_000]).await;
    }
    assert_eq!(store.outcome(HOUR, dollars(3 * DOLLAR, 3_000_000)).await, Outcome::Exhausted);
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (3 * DOLLAR, 0));
}

pub async fn tiny_costs_are_not_rounded(store: Fixture) {
    for i in 0..1_000 {
        let asked = store.ask(i, vec![dollars(DOLLAR, 750)]).await;
        store.settle(i, &asked, &[750]).await;
    }
    assert_eq!(store.balance(&customer()).await.spent, 750_000, "$0.00075");
    let most = 9_000_000 * DOLLAR;
    let asked = store.ask(HOUR, vec![dollars(most, most - 750_001)]).await;
    assert_eq!(asked.decision.verdicts[0].remaining, 1, "the largest cap is counted to the nano-dollar");
    store.settle(HOUR, &asked, &[most - 750_001]).await;
    assert_eq!(store.balance(&customer()).await.spent, most - 1);
    assert_eq!(store.outcome(HOUR, dollars(most, 2)).await, Outcome::Exhausted);
    assert_eq!(store.outcome(HOUR, dollars(most, 1)).await, Outcome::Fits);
}

pub async fn in_flight_is_told_apart_from_spent(store: Fixture) {
    let first = store.ask(0, vec![dollars(100, 60)]).await;
    assert_eq!(store.outcome(0, dollars(100, 41)).await, Outcome::InFlight);
    assert_eq!(store.outcome(0, dollars(100, 101)).await, Outcome::Exhausted);
    store.settle(0, &first, &[60]).await;
    let asked = store.ask(0, vec![dollars(100, 41)]).await;
    let verdict = asked.decision.verdicts[0];
    assert_eq!((verdict.outcome, verdict.used, verdict.held, verdict.remaining), (Outcome::Exhausted, 60, 0, 40));
    assert_eq!(verdict.reset_in, 12 * HOUR, "midnight");
    assert_eq!(store.outcome(0, dollars(100, 40)).await, Outcome::Fits);
    assert_eq!(store.outcome(0, dollars(50, 1)).await, Outcome::Exhausted, "a cap lowered below what is spent");
}

pub async fn a_cap_of_zero_refuses_whatever_costs(store: Fixture) {
    assert_eq!(store.outcome(0, dollars(0, 1)).await, Outcome::Exhausted);
    assert_eq!(store.outcome(0, dollars(0, 0)).await, Outcome::Fits, "what costs nothing passes");
}

pub async fn periods_follow_the_deciding_clock(store: Fixture) {
    // The gateway believes in the evening of the 30th; the store's clock decides.
    let believed = Zone::default().boundaries(Period::Day, instant("2026-11-30T23:59:58Z"));
    let midnight = instant("2026-12-01T00:00:00Z");
    let (_, outcome, reset_in, booked) = day_at(&store, Timestamp(midnight.0 - 1), believed, 100).await;
    assert_eq!((outcome, reset_in, booked), (Outcome::Fits, 1, midnight.secs() - 86_400));
    let (_, outcome, reset_in, booked) = day_at(&store, midnight, believed, 100).await;
    assert_eq!((outcome, reset_in, booked), (Outcome::Fits, DAY, midnight.secs()), "a new day, a new budget");
    let (_, outcome, _, booked) = day_at(&store, Timestamp(midnight.0 - 1), believed, 1).await;
    assert_eq!((outcome, booked), (Outcome::InFlight, midnight.secs()), "a clock set back does not open the old day again");
}

pub async fn days_of_a_zone_follow_its_calendar(store: Fixture) {
    for (owner, zone, now, reset) in [
        ("ny1", "America/New_York", "2026-03-08T05:00:00Z", 23),
        ("ny2", "America/New_York", "2026-11-01T04:00:00Z", 25),
        ("tokyo", "Asia/Tokyo", "2026-12-31T15:00:00Z", 24),
        ("utc", "UTC", "2026-12-31T00:00:00Z", 24),
    ] {
        let (start, end) = (instant(now), instant(now).plus(reset * HOUR));
        let boundaries = Zone::named(zone).expect("a zone").boundaries(Period::Day, start);
        let claim = of(Scope::Customer, owner, budget(Period::Day, boundaries, 100, 100));
        for (at, outcome, booked) in
            [(start, Outcome::Fits, start), (Timestamp(end.0 - 1), Outcome::InFlight, start), (end, Outcome::Fits, end)]
        {
            let admission = store.admission(vec![claim.clone()]);
            let verdict = store.ledger.admit(&admission, Some(at)).await.expect("the store answers").verdicts[0];
            assert_eq!((verdict.outcome, verdict.booked), (outcome, booked.secs()), "{owner} at {at:?}");
            if booked == start {
                assert_eq!(verdict.reset_in, end.since(at), "{owner}: to local midnight");
            }
        }
    }
}

pub async fn a_reservation_is_settled_once(store: Fixture) {
    let asked = store.ask(0, vec![dollars(DOLLAR, 500), per_minute(LimitName::Tpm, 10_000, 1_000)]).await;
    for (i, actual) in [300, 300, 9_000].into_iter().enumerate() {
        store.settle(i as u64, &asked, &[actual, 2_000]).await;
    }
    store.settle(59 * MINUTE, &asked, &[300, 2_000]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (300, 0));
    let again = store.ask(59 * MINUTE, vec![dollars(DOLLAR, 500)]).await;
    store.settle(59 * MINUTE, &asked, &[300, 2_000]).await;
    assert_eq!(store.balance(&customer()).await.held, 500, "another request's hold is not touched");
    store.settle(59 * MINUTE, &again, &[1, 0]).await;
    assert_eq!(store.balance(&customer()).await, Balance { spent: 301, held: 0, ..balance });
}

pub async fn an_unknown_reservation_is_booked_once(store: Fixture) {
    let held = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
    let verdicts = held.decision.clone();
    let unknown = Asked { admission: store.admission(vec![dollars(DOLLAR, 200)]), decision: verdicts };
    for _ in 0..3 {
        store.settle(0, &unknown, &[150]).await;
    }
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (150, 500), "booked, and nobody else's hold is given back");
    store.settle(0, &held, &[500]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (650, 0));
}

pub async fn what_is_held_is_given_back_whatever_the_settlement_claims(store: Fixture) {
    let other = store.ask(0, vec![dollars(DOLLAR, 1_000)]).await;
    for (claimed, actual) in [(900, 30), (100, 30), (0, 30)] {
        let before = store.balance(&customer()).await;
        let mut asked = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
        asked.admission.claims[0].amount = claimed;
        store.settle(0, &asked, &[actual]).await;
        let balance = store.balance(&customer()).await;
        assert_eq!((balance.spent, balance.held), (before.spent + actual, 1_000), "{claimed} claimed of 500 held");
    }
    // What it does not mention was held for nothing. (In a cluster: of the same group of books. Another one's hold ends with its lease.)
    let asked = store.ask(0, vec![dollars(DOLLAR, 500), of(Scope::User, "c/u", dollars(DOLLAR, 500))]).await;
    let mut some = settlement(&asked, &[40, 40]);
    some.lines.pop();
    store.ledger.settle(&[some], Some(NOON)).await.expect("the store answers");
    for (scope, right) in [(customer(), (130, 1_000)), (key(Scope::User, "c/u"), (0, 0))] {
        let balances = store.ledger.read(&scope).await.expect("the store answers");
        assert_eq!(balances.iter().map(|b| (b.spent, b.held)).collect::<Vec<_>>(), [right], "{scope:?}");
    }
    store.settle(0, &other, &[0]).await;
    assert_eq!(store.balance(&customer()).await.held, 0);
}

pub async fn an_unknown_hold_refunds_no_rate_that_was_never_charged(store: Fixture) {
    let tpm = |amount| per_minute(LimitName::Tpm, 10_000, amount);
    assert!(store.ask(0, vec![tpm(6_000)]).await.decision.admitted);
    let settle = async |lines: &[(Claim, u64)]| {
        let line = |(claim, actual): &(Claim, u64)| Line { claim: claim.clone(), actual: *actual, booked: NOON.secs() - 43_200 };
        let reservation = store.admission(Vec::new()).reservation;
        let unknown = Settlement { reservation, customer: customer(), lines: lines.iter().map(line).collect() };
        store.ledger.settle(&[unknown], Some(NOON)).await.expect("the store answers");
    };
    settle(&[(dollars(DOLLAR, 500), 20), (tpm(5_000), 100)]).await;
    assert_eq!(store.remaining(0, &tpm(0)).await, 4_000, "nothing was taken of it, and nothing comes back");
    settle(&[(dollars(DOLLAR, 500), 20), (tpm(1_000), 1_300)]).await;
    assert_eq!(store.remaining(0, &tpm(0)).await, 3_700, "more than it claimed was used");
    settle(&[(tpm(1_000), 100)]).await;
    assert_eq!(store.remaining(0, &tpm(0)).await, 4_600, "what claims no budget is never held, and settles as it says");
}

pub async fn what_is_held_after_the_end_is_given_back_and_books_nothing(store: Fixture) {
    let tpm = |amount| per_minute(LimitName::Tpm, 10_000, amount);
    let first = store.ask(0, vec![dollars(DOLLAR, 500), tpm(1_000)]).await;
    store.settle(0, &first, &[70, 400]).await;
    // An admission of the same reservation that was long on its way.
    let mut late = store.admission(vec![dollars(DOLLAR, 300)]);
    late.reservation = first.admission.reservation;
    assert!(store.ask_this(SECOND, late).await.decision.admitted);
    assert_eq!(store.balance(&customer()).await.held, 300);
    for _ in 0..2 {
        store.settle(SECOND, &first, &[70, 400]).await;
        let balance = store.balance(&customer()).await;
        assert_eq!((balance.spent, balance.held), (70, 0), "booked once, and nothing held");
    }
    assert_eq!(store.remaining(0, &tpm(0)).await, 9_600);
}

pub async fn a_reservation_belongs_to_the_period_of_its_admission(store: Fixture) {
    let (yesterday, ..) = {
        let boundaries = Zone::default().boundaries(Period::Day, NOON);
        day_at(&store, NOON, boundaries, 70).await
    };
    let tomorrow = Zone::default().boundaries(Period::Day, NOON.plus(DAY));
    let (_, outcome, _, booked) = day_at(&store, NOON.plus(DAY), tomorrow, 100).await;
    assert_eq!(outcome, Outcome::Fits);
    store.settle(DAY, &yesterday, &[70]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.period, balance.spent, balance.held), (booked, 0, 100), "the new day is not charged");
    let (day_before, ..) = day_at(&store, NOON, Zone::default().boundaries(Period::Day, NOON), 0).await;
    let mut long_gone = Asked { admission: store.admission(vec![dollars(100, 5)]), decision: day_before.decision };
    long_gone.decision.verdicts[0].booked -= 30 * 86_400;
    store.settle(DAY, &long_gone, &[5]).await;
    assert_eq!(store.balance(&customer()).await, balance, "a period long gone is history");
}

pub async fn a_batch_settles_many_customers(store: Fixture) {
    let mut batch = Vec::new();
    for i in 0..300 {
        let owner = format!("batch-{}", i % 100);
        let mut admission = store.admission(vec![of(Scope::Customer, &owner, dollars(DOLLAR, 10))]);
        admission.customer = key(Scope::Customer, &owner);
        let asked = store.ask_this(0, admission).await;
        assert!(asked.decision.admitted);
        batch.push(settlement(&asked, &[7]));
    }
    for _ in 0..2 {
        store.ledger.settle(&batch, Some(NOON)).await.expect("the store answers");
    }
    for i in 0..100 {
        let scope: ScopeKey = key(Scope::Customer, &format!("batch-{i}"));
        let balance = store.balance(&scope).await;
        assert_eq!((balance.spent, balance.held), (21, 0), "{scope:?}");
    }
    assert!(store.ledger.read(&customer()).await.expect("the store answers").is_empty(), "nobody else's");
    store.ledger.settle(&[], Some(NOON)).await.expect("nothing to do");
}

pub async fn a_quota_counts_like_a_budget(store: Fixture) {
    let quota = |limit: LimitName, measure, amount| {
        let period = limit.period().expect("a quota");
        let boundaries = Zone::default().boundaries(period, NOON);
        Claim { limit, measure, ..budget(period, boundaries, 1_000, amount) }
    };
    let tokens = LimitName::TokenQuota(Period::Week);
    let requests = LimitName::RequestQuota(Period::Month);
    let asked = store.ask(0, vec![quota(tokens, Measure::Tokens, 900), quota(requests, Measure::Request, 1)]).await;
    assert_eq!(asked.decision.verdicts[0].reset_in, 6 * DAY + 12 * HOUR, "Monday noon to the next Monday");
    assert_eq!(asked.decision.verdicts[1].reset_in, 12 * HOUR, "the last day of the month");
    store.settle(0, &asked, &[1_200, 1]).await;
    let balances = store.ledger.read(&customer()).await.expect("the store answers");
    let right = [(requests, 1, 0), (tokens, 1_200, 0)];
    assert_eq!(
        balances.iter().map(|b| (b.limit, b.spent, b.held)).collect::<Vec<_>>(),
        right,
        "more than the quota, and said so"
    );
    assert_eq!(store.outcome(0, quota(tokens, Measure::Tokens, 1)).await, Outcome::Exhausted);
}
