//! Several limits at once: all or nothing, start times, the reservation.

use crate::fixture::*;
use tollgate::domain::{Period, Zone};
use tollgate::limit::{Claim, LimitName, Measure, Outcome, Scope};

fn rpm(amount: u64) -> Claim {
    per_minute(LimitName::Rpm, 60, amount)
}

fn tpm(amount: u64) -> Claim {
    per_minute(LimitName::Tpm, 10_000, amount)
}

fn outcomes(asked: &Asked) -> Vec<Outcome> {
    asked.decision.verdicts.iter().map(|verdict| verdict.outcome).collect()
}

pub async fn a_refused_request_takes_nothing(store: Fixture) {
    store.ask(0, vec![tpm(8_000)]).await;
    for _ in 0..5 {
        assert_eq!(store.outcome(0, tpm(5_000)).await, Outcome::Refused(18 * SECOND));
    }
    let asked = store.ask(0, vec![tpm(1_500)]).await;
    assert_eq!((asked.decision.admitted, asked.decision.verdicts[0].remaining), (true, 500));
}

pub async fn a_refusal_by_tokens_keeps_the_requests(store: Fixture) {
    store.ask(0, vec![tpm(9_900)]).await;
    for _ in 0..50 {
        let asked = store.ask(0, vec![rpm(1), tpm(5_000)]).await;
        assert_eq!((asked.decision.admitted, asked.decision.verdicts[0].remaining), (false, 60));
    }
    let asked = store.ask(0, vec![rpm(1), tpm(50)]).await;
    assert_eq!((asked.decision.admitted, asked.decision.verdicts[0].remaining), (true, 59));
}

pub async fn a_refusal_by_the_budget_keeps_the_rest_as_it_was(store: Fixture) {
    store.ask(0, vec![rpm(55)]).await;
    let asked = store.ask(0, vec![rpm(1), dollars(DOLLAR, 2 * DOLLAR)]).await;
    assert_eq!(outcomes(&asked), [Outcome::Fits, Outcome::Exhausted]);
    let mut passed = 0;
    for _ in 0..60 {
        passed += u32::from(store.outcome(0, rpm(1)).await == Outcome::Fits);
    }
    assert_eq!(passed, 5, "one refusal is no reset");
}

pub async fn the_message_is_spent_whatever_else_refuses(store: Fixture) {
    let message = || per_minute(LimitName::Messages, 3, 1);
    for left in [2, 1, 0] {
        let asked = store.ask(0, vec![message(), rpm(1), tpm(20_000)]).await;
        assert_eq!(outcomes(&asked), [Outcome::Fits, Outcome::Fits, Outcome::Never]);
        let remaining: Vec<_> = asked.decision.verdicts.iter().map(|v| v.remaining).collect();
        assert_eq!((asked.decision.admitted, remaining), (false, vec![left, 60, 10_000]));
    }
    let asked = store.ask(0, vec![message(), rpm(1)]).await;
    assert_eq!(outcomes(&asked), [Outcome::Refused(20 * SECOND), Outcome::Fits], "a flood of doomed requests runs dry");
    assert_eq!(store.remaining(0, &rpm(0)).await, 60);
}

pub async fn what_is_given_back_leaves_no_trace(store: Fixture) {
    for i in 0..1_000_u64 {
        let big = per_minute(LimitName::Rpm, 2_000, 1);
        let asked = store.ask(0, vec![big, tpm(if i % 2 == 0 { 500 } else { 0 }), dollars(DOLLAR, 1_000)]).await;
        store.settle(0, &asked, &[1, 0, 0]).await;
    }
    assert_eq!(store.remaining(0, &tpm(0)).await, 10_000, "not one less per request");
    assert_eq!(store.remaining(0, &per_minute(LimitName::Rpm, 2_000, 0)).await, 1_000, "each counted once");
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (0, 0));
}

pub async fn all_scopes_are_claimed_or_none(store: Fixture) {
    let everywhere = |gateway_cap: u64| {
        vec![
            of(Scope::User, "c/u", rpm(1)),
            rpm(1),
            dollars(DOLLAR, 100),
            of(Scope::App, "shop", dollars(DOLLAR, 100)),
            of(Scope::Share, "mini/background", tpm(700)),
            of(Scope::Pool, "mini", tpm(700)),
            of(Scope::Gateway, "", dollars(gateway_cap, 100)),
        ]
    };
    let refused = store.ask(0, everywhere(99)).await;
    assert!(!refused.decision.admitted);
    let remaining: Vec<_> = refused.decision.verdicts.iter().map(|v| v.remaining).collect();
    assert_eq!(remaining, [60, 60, DOLLAR, DOLLAR, 10_000, 10_000, 99]);
    let admitted = store.ask(0, everywhere(DOLLAR)).await;
    assert!(admitted.decision.admitted);
    let remaining: Vec<_> = admitted.decision.verdicts.iter().map(|v| v.remaining).collect();
    assert_eq!(remaining, [59, 59, DOLLAR - 100, DOLLAR - 100, 9_300, 9_300, DOLLAR - 100]);
    store.settle(0, &admitted, &[1, 1, 40, 40, 600, 800, 40]).await;
    for scope in [customer(), key(Scope::App, "shop"), key(Scope::Gateway, "")] {
        let balance = store.balance(&scope).await;
        assert_eq!((balance.spent, balance.held), (40, 0), "{scope:?}");
    }
    assert_eq!(store.remaining(0, &of(Scope::Share, "mini/background", tpm(0))).await, 9_400);
    assert_eq!(store.remaining(0, &of(Scope::Pool, "mini", tpm(0))).await, 9_200);
}

pub async fn start_times_are_first_come_first_served(store: Fixture) {
    let ask = |amount| waiting(bucket(LimitName::Rpm, 4, 1, SECOND, amount), 4 * SECOND);
    let mut starts = Vec::new();
    for amount in [4, 1, 2, 1, 1] {
        let asked = store.ask(0, vec![ask(amount), tpm(1)]).await;
        starts.push((asked.decision.admitted, asked.decision.start_in));
    }
    assert_eq!(starts, [(true, 0), (true, SECOND), (true, 3 * SECOND), (true, 4 * SECOND), (false, 0)]);
    assert_eq!(store.outcome(0, ask(1)).await, Outcome::Refused(SECOND), "5 s away, 4 s are waited");
    assert_eq!(store.outcome(SECOND, ask(1)).await, Outcome::Starts(4 * SECOND), "behind those in line");
    assert_eq!(store.remaining(0, &tpm(0)).await, 10_000 - 4, "the refused one took no tokens");
}

pub async fn a_long_wait_leaves_the_ceiling_for_later(store: Fixture) {
    let share = |amount| of(Scope::Share, "mini/background", waiting(bucket(LimitName::Rpm, 1, 1, SECOND, amount), MINUTE));
    let ceiling = |amount| of(Scope::Pool, "mini", tpm(amount));
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(store.ask(0, vec![ceiling(3_000), share(1)]).await);
    }
    assert_eq!(outcomes(&asked[0]), [Outcome::Fits, Outcome::Fits]);
    assert_eq!(outcomes(&asked[1]), [Outcome::Fits, Outcome::Starts(SECOND)], "up to a second it is claimed at once");
    assert_eq!(outcomes(&asked[2]), [Outcome::Deferred, Outcome::Starts(2 * SECOND)]);
    assert!(asked[2].decision.admitted && asked[2].decision.deferred());
    assert_eq!(asked[2].decision.start_in, 2 * SECOND);
    assert_eq!(store.remaining(0, &ceiling(0)).await, 4_000, "no mortgage");
    let hopeless = store.ask(0, vec![ceiling(99_000), share(1)]).await;
    assert_eq!(outcomes(&hopeless)[0], Outcome::Deferred, "not even asked");
}

pub async fn a_second_claim_joins_the_reservation(store: Fixture) {
    let day = Zone::default().boundaries(Period::Day, NOON);
    let quota =
        Claim { limit: LimitName::RequestQuota(Period::Day), measure: Measure::Request, ..budget(Period::Day, day, 9, 1) };
    let mut first = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
    let mut second = store.admission(vec![of(Scope::Pool, "mini", tpm(100)), of(Scope::App, "shop", quota)]);
    second.reservation = first.admission.reservation;
    let second = store.ask_this(SECOND, second).await;
    assert!(second.decision.admitted);
    first.admission.claims.extend(second.admission.claims);
    first.decision.verdicts.extend(second.decision.verdicts);
    store.settle(2 * SECOND, &first, &[20, 60, 1]).await;
    store.settle(2 * SECOND, &first, &[20, 60, 1]).await;
    for (scope, spent) in [(customer(), 20), (key(Scope::App, "shop"), 1)] {
        let balance = store.balance(&scope).await;
        assert_eq!((balance.spent, balance.held), (spent, 0), "{scope:?}");
    }
    assert_eq!(store.remaining(2 * SECOND, &of(Scope::Pool, "mini", tpm(0))).await, 10_000);
}
