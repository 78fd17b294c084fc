//! Token buckets.

use crate::fixture::*;
use tollgate::limit::refusal::Remedy;
use tollgate::limit::{Bucket, Claim, LimitName, Outcome, Refusal, Rule, Scope};

fn tpm(amount: u64) -> Claim {
    per_minute(LimitName::Tpm, 10_000, amount)
}

fn rpm(amount: u64) -> Claim {
    per_minute(LimitName::Rpm, 60, amount)
}

pub async fn a_request_larger_than_the_bucket_never_fits(store: Fixture) {
    let asked = store.ask(0, vec![tpm(12_000)]).await;
    assert_eq!(asked.decision.verdicts[0].outcome, Outcome::Never);
    let refusal = Refusal::worst(&asked.admission.claims, &asked.decision).expect("refused");
    assert_eq!((refusal.asked, refusal.max, refusal.remedy), (12_000, 10_000, Remedy::Never));
    assert_eq!(store.remaining(0, &tpm(0)).await, 10_000);
}

pub async fn polling_does_not_starve_a_bucket(store: Fixture) {
    for (owner, rate, poll, polls, grants) in [("a", 60, 400_000, 50, 20), ("b", 6, SECOND, 60, 6)] {
        let ask = |amount| of(Scope::Customer, owner, per_minute(LimitName::Rpm, rate, amount));
        assert_eq!(store.outcome(0, ask(rate)).await, Outcome::Fits);
        let mut granted = 0;
        for i in 1..=polls {
            granted += u32::from(store.outcome(i * poll, ask(1)).await == Outcome::Fits);
        }
        assert_eq!(granted, grants, "{rate} per minute, polled {polls} times");
    }
}

pub async fn a_full_bucket_earns_no_hidden_credit(store: Fixture) {
    assert_eq!(store.outcome(0, tpm(1)).await, Outcome::Fits);
    assert_eq!(store.outcome(10 * MINUTE, tpm(10_000)).await, Outcome::Fits);
    assert_eq!(store.outcome(10 * MINUTE + 100_000, tpm(10_000)).await, Outcome::Refused(MINUTE - 100_000));
}

pub async fn a_bucket_refills_no_earlier_than_its_rate(store: Fixture) {
    let ask = |amount| bucket(LimitName::Rpm, 3, 1, 15 * SECOND, amount);
    assert_eq!(store.outcome(0, ask(3)).await, Outcome::Fits);
    assert_eq!(store.outcome(20 * SECOND, ask(1)).await, Outcome::Fits);
    assert_eq!(store.outcome(20 * SECOND, ask(1)).await, Outcome::Refused(10 * SECOND));
}

pub async fn waits_are_the_exact_instant(store: Fixture) {
    store.ask(0, vec![rpm(60), tpm(10_000)]).await;
    assert_eq!(store.outcome(200_000, rpm(1)).await, Outcome::Refused(800_000), "0.2 requests are there");
    let asked = store.ask(0, vec![rpm(1), tpm(1_000)]).await;
    let outcomes: Vec<_> = asked.decision.verdicts.iter().map(|v| v.outcome).collect();
    assert_eq!(outcomes, [Outcome::Refused(SECOND), Outcome::Refused(6 * SECOND)]);
    let refusal = Refusal::worst(&asked.admission.claims, &asked.decision).expect("refused");
    assert_eq!(refusal.remedy, Remedy::Wait(6 * SECOND), "the longest wait");
    assert_eq!(store.outcome(6 * SECOND - 1, tpm(1_000)).await, Outcome::Refused(1));
    let asked = store.ask(6 * SECOND, vec![rpm(1), tpm(1_000)]).await;
    assert!(asked.decision.admitted, "who waits exactly that long passes");
}

pub async fn a_refund_never_passes_capacity(store: Fixture) {
    let asked = store.ask(0, vec![tpm(9_000)]).await;
    store.settle(70 * SECOND, &asked, &[10]).await;
    assert_eq!(store.remaining(70 * SECOND, &tpm(0)).await, 10_000);
}

pub async fn an_overrun_is_debt_down_to_one_capacity(store: Fixture) {
    store.ask(0, vec![tpm(8_000)]).await; // 2,000 are left
    let asked = store.ask(0, vec![tpm(1_000)]).await;
    store.settle(0, &asked, &[9_000]).await; // -7,000
    let next = store.ask(0, vec![tpm(1_000)]).await;
    assert_eq!(next.decision.verdicts[0].outcome, Outcome::Refused(48 * SECOND));
    assert_eq!((next.decision.verdicts[0].remaining, next.decision.verdicts[0].used), (0, 17_000));
    let asked = store.ask(60 * SECOND, vec![tpm(3_000)]).await;
    store.settle(60 * SECOND, &asked, &[1_000_000]).await;
    assert_eq!(store.outcome(60 * SECOND, tpm(1_000)).await, Outcome::Refused(66 * SECOND), "the debt ends at 10,000");
}

pub async fn the_ceiling_forgives_no_debt(store: Fixture) {
    let bucket = Bucket::with_headroom(10_000, 10_000, MINUTE, 970_000).expect("exact");
    let ask = |amount| Claim {
        rule: Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: false },
        ..of(Scope::Pool, "mini", tpm(amount))
    };
    let asked = store.ask(0, vec![ask(10_000)]).await;
    store.settle(0, &asked, &[97_000]).await; // 87,000 below empty
    assert_eq!(store.outcome(0, ask(10_000)).await, Outcome::Refused(10 * MINUTE), "9,700 a minute");
}

pub async fn a_debt_that_is_deeper_already_is_neither_deepened_nor_forgiven(store: Fixture) {
    let asked = store.ask(0, vec![tpm(5_000)]).await;
    store.settle(0, &asked, &[15_000]).await; // -5,000
    let small = |amount| per_minute(LimitName::Tpm, 1_000, amount);
    let nothing = store.ask(0, vec![small(0)]).await;
    assert_eq!(nothing.decision.verdicts[0].outcome, Outcome::Refused(5 * MINUTE), "the plan was lowered");
    let message = Claim { amount: 1, ..small(0) };
    let unknown = Asked { admission: store.admission(vec![message]), decision: nothing.decision };
    store.settle(0, &unknown, &[100_000]).await;
    assert_eq!(store.outcome(0, small(1_000)).await, Outcome::Refused(6 * MINUTE));
}

pub async fn time_that_runs_back_neither_earns_nor_locks_out(store: Fixture) {
    assert_eq!(store.outcome(HOUR, rpm(55)).await, Outcome::Fits);
    assert_eq!(store.outcome(10, rpm(5)).await, Outcome::Fits, "an hour back: served from what is there");
    assert_eq!(store.outcome(10, rpm(1)).await, Outcome::Refused(SECOND), "the stored time is repaired");
    assert_eq!(store.outcome(10 + SECOND, rpm(1)).await, Outcome::Fits);
    assert_eq!(
        store.outcome(5 + SECOND, rpm(1)).await,
        Outcome::Refused(SECOND + 5),
        "a little back earns nothing, and the promise is as late"
    );
    assert_eq!(store.outcome(10 + 2 * SECOND, rpm(1)).await, Outcome::Fits, "and nothing is earned twice");
    assert_eq!(store.outcome(10 + 2 * SECOND, rpm(1)).await, Outcome::Refused(SECOND));
    for (owner, back, outcome) in [("a", SECOND, Outcome::Refused(SECOND)), ("b", SECOND + 1, Outcome::Fits)] {
        let ask = |amount| of(Scope::Customer, owner, rpm(amount));
        assert_eq!(store.outcome(HOUR, ask(60)).await, Outcome::Fits);
        assert_eq!(store.outcome(HOUR - back, ask(0)).await, Outcome::Fits);
        assert_eq!(store.outcome(HOUR, ask(1)).await, outcome, "{back} back: jitter up to a second, repaired beyond");
    }
}

pub async fn odd_rates_are_exact(store: Fixture) {
    let ask = |amount| bucket(LimitName::Rpm, 10, 7, 10 * SECOND, amount); // 0.7 a second
    assert_eq!(store.outcome(0, ask(10)).await, Outcome::Fits);
    assert_eq!(store.outcome(0, ask(1)).await, Outcome::Refused(1_428_572), "1/0.7 s, rounded up");
    let mut granted = 0;
    for i in 1..=1_000 {
        granted += u64::from(store.outcome(i * 100_000, ask(1)).await == Outcome::Fits);
    }
    assert_eq!(granted, 70, "100 s at 0.7 a second, polled every 0.1 s");
}

pub async fn a_changed_limit_converts_the_level(store: Fixture) {
    assert_eq!(store.outcome(0, tpm(1_000)).await, Outcome::Fits); // 9,000 are left
    let lowered = per_minute(LimitName::Tpm, 1_000, 500);
    assert_eq!(store.remaining(0, &lowered).await, 1_000);
    assert_eq!(store.outcome(0, lowered).await, Outcome::Fits);
    let raised = per_minute(LimitName::Tpm, 100_000, 0);
    assert_eq!(store.remaining(0, &raised).await, 500, "no instant 100,000");
    assert_eq!(store.remaining(6 * SECOND, &raised).await, 10_500);
    let slower = bucket(LimitName::Tpm, 100_000, 1, SECOND, 0);
    assert_eq!(store.remaining(6 * SECOND, &slower).await, 10_500, "another rate, the same tokens");
}

pub async fn silly_limits_do_no_harm(store: Fixture) {
    let none = per_minute(LimitName::Rpm, 0, 1);
    let asked = store.ask(0, vec![none]).await;
    assert_eq!((asked.decision.admitted, asked.decision.verdicts[0].outcome), (false, Outcome::Never));
    let one = of(Scope::Customer, "one", per_minute(LimitName::Rpm, 1, 1));
    assert_eq!(store.outcome(0, one.clone()).await, Outcome::Fits);
    assert_eq!(store.outcome(0, one).await, Outcome::Refused(MINUTE));
    let huge = of(Scope::Customer, "huge", per_minute(LimitName::Tpm, 1_000_000_000_000, 1_000_000_000_000));
    let asked = store.ask(0, vec![huge.clone()]).await;
    assert_eq!((asked.decision.admitted, asked.decision.verdicts[0].reset_in), (true, MINUTE));
    assert_eq!(store.outcome(0, huge).await, Outcome::Refused(MINUTE));
    let dry = of(Scope::Customer, "dry", bucket(LimitName::Rpm, 2, 0, MINUTE, 2));
    assert_eq!(store.outcome(0, dry.clone()).await, Outcome::Fits);
    assert_eq!(store.outcome(HOUR, dry).await, Outcome::Never, "never refilled");
}
