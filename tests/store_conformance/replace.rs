//! Other claims in the place of a reservation: both at once, or nothing.

use crate::fixture::*;
use std::sync::Arc;
use tollgate::limit::{Admission, Claim, Elastic, LimitName, Outcome, Scope};

fn tpm(amount: u64) -> Claim {
    per_minute(LimitName::Tpm, 10_000, amount)
}

/// Asks to replace what was asked before, which has used this much.
async fn replace(store: &Fixture, micros: u64, old: &Asked, used: &[u64], admission: Admission) -> Asked {
    let old = settlement(old, used);
    let decision = store.ledger.replace(&old, &admission, Some(NOON.plus(micros))).await.expect("the store answers");
    Asked { admission, decision }
}

/// Spent and held of the customer's day.
async fn stands(store: &Fixture) -> (u64, u64) {
    let balance = store.balance(&customer()).await;
    (balance.spent, balance.held)
}

pub async fn what_would_not_fit_beside_it_fits_in_its_place(store: Fixture) {
    let first = store.ask(0, vec![dollars(1_000, 900), tpm(9_000)]).await;
    assert_eq!(store.outcome(0, dollars(1_000, 950)).await, Outcome::InFlight);
    let second = replace(&store, 0, &first, &[20, 400], store.admission(vec![dollars(1_000, 950), tpm(9_500)])).await;
    let verdicts = &second.decision.verdicts;
    assert!(second.decision.admitted);
    assert_eq!((verdicts[0].used, verdicts[0].held, verdicts[0].remaining), (20, 950, 30), "the failed attempts are paid");
    assert_eq!(verdicts[1].remaining, 100, "9,600 back, 9,500 taken");
    assert_eq!(stands(&store).await, (20, 950));
    store.settle(0, &second, &[500, 9_500]).await;
    assert_eq!(stands(&store).await, (520, 0));
}

pub async fn what_does_not_fit_changes_nothing(store: Fixture) {
    let first = store.ask(0, vec![dollars(1_000, 900), tpm(9_000)]).await;
    let message = || per_minute(LimitName::Messages, 10, 1);
    for (claims, outcome) in [
        (vec![dollars(1_000, 981), message(), tpm(100)], Outcome::Exhausted),
        (vec![tpm(10_000), message(), dollars(1_000, 100)], Outcome::Refused(2_400_000)),
    ] {
        let asked = replace(&store, 0, &first, &[20, 400], store.admission(claims)).await;
        assert!(!asked.decision.admitted);
        assert_eq!(asked.decision.verdicts[0].outcome, outcome);
        assert_eq!(stands(&store).await, (0, 900), "the old one stands");
        assert_eq!(store.remaining(0, &tpm(0)).await, 1_000);
        assert_eq!(store.remaining(0, &message()).await, 10, "not even the message");
    }
    store.settle(0, &first, &[30, 500]).await;
    assert_eq!(stands(&store).await, (30, 0), "and is settled by its owner");
    assert_eq!(store.remaining(0, &tpm(0)).await, 9_500);
}

pub async fn an_answer_that_is_lost_does_no_harm(store: Fixture) {
    let first = store.ask(0, vec![dollars(1_000, 900), tpm(9_000)]).await;
    let second = replace(&store, 0, &first, &[20, 400], store.admission(vec![dollars(1_000, 300), tpm(100)])).await;
    // Its owner did not hear it, and settles the old one: at whatever it believes.
    for actual in [[20, 400], [900, 9_000]] {
        store.settle(0, &first, &actual).await;
        assert_eq!(stands(&store).await, (20, 300));
        assert_eq!(store.remaining(0, &tpm(0)).await, 9_500);
    }
    store.settle(0, &second, &[0, 0]).await;
    assert_eq!(stands(&store).await, (20, 0));
    assert_eq!(store.remaining(0, &tpm(0)).await, 9_600);
}

pub async fn what_has_ended_is_not_booked_again_by_a_replacement(store: Fixture) {
    let first = store.ask(0, vec![dollars(1_000, 900), tpm(9_000)]).await;
    store.settle(0, &first, &[40, 400]).await;
    let second = replace(&store, 0, &first, &[700, 0], store.admission(vec![dollars(1_000, 960), tpm(1)])).await;
    assert!(second.decision.admitted);
    assert_eq!(stands(&store).await, (40, 960));
    assert_eq!(store.remaining(0, &tpm(0)).await, 9_599);
    let third = replace(&store, 0, &first, &[0, 0], store.admission(vec![dollars(1_000, 1)])).await;
    assert_eq!(third.decision.verdicts[0].outcome, Outcome::InFlight, "decided alone");
}

pub async fn every_scope_changes_or_none(store: Fixture) {
    let scopes = [(Scope::User, "c/u"), (Scope::App, "shop"), (Scope::Gateway, "")];
    let everywhere = |amount| {
        let own = scopes.map(|(scope, owner)| of(scope, owner, dollars(1_000, amount)));
        own.into_iter().chain([dollars(1_000, amount)]).collect::<Vec<_>>()
    };
    let first = store.ask(0, everywhere(600)).await;
    let other = store.ask(0, vec![of(Scope::Gateway, "", dollars(1_000, 300))]).await;
    assert!(first.decision.admitted && other.decision.admitted);
    let refused = replace(&store, 0, &first, &[10; 4], store.admission(everywhere(700))).await;
    assert_eq!(
        refused.decision.verdicts.iter().map(|v| v.outcome).collect::<Vec<_>>(),
        [Outcome::Fits, Outcome::Fits, Outcome::InFlight, Outcome::Fits]
    );
    assert_eq!(stands(&store).await, (0, 600));
    let admitted = replace(&store, 0, &first, &[10; 4], store.admission(everywhere(690))).await;
    assert!(admitted.decision.admitted);
    for (scope, owner) in scopes.into_iter().chain([(Scope::Customer, "c")]) {
        let balance = store.balance(&key(scope, owner)).await;
        let others = if scope == Scope::Gateway { 300 } else { 0 };
        assert_eq!((balance.spent, balance.held), (10, 690 + others), "{scope:?}");
    }
}

pub async fn the_next_model_gets_the_output_cap_that_is_left(store: Fixture) {
    let first = store.ask(0, vec![dollars(1_000, 900)]).await;
    let elastic = Elastic::new(100_000, 1_000, 2_000, 16).expect("exact");
    let asked = Admission { elastic: Some(elastic), ..store.admission(vec![dollars(1_000, 2_100)]) };
    let second = replace(&store, 0, &first, &[50], asked).await;
    assert_eq!((second.decision.admitted, second.decision.granted), (true, Some(850)), "1,000 less 50 spent and 100 of input");
    assert_eq!(stands(&store).await, (50, 950));
    store.settle(0, &second, &[950]).await;
    assert_eq!(stands(&store).await, (1_000, 0));
}

pub async fn a_reservation_is_replaced_again_and_again(store: Fixture) {
    let mut last = store.ask(0, vec![dollars(1_000, 990), tpm(10_000)]).await;
    for n in 1..=5 {
        let asked = store.admission(vec![dollars(1_000, 990), tpm(10_000)]);
        last = replace(&store, 0, &last, &[2, 0], asked).await;
        assert!(last.decision.admitted);
        assert_eq!(stands(&store).await, (2 * n, 990));
    }
    let refused = replace(&store, 0, &last, &[2, 0], store.admission(vec![dollars(1_000, 989)])).await;
    assert!(!refused.decision.admitted, "12 and 989 are more than 1,000");
    store.settle(0, &last, &[990, 10_000]).await;
    assert_eq!(stands(&store).await, (1_000, 0));
}

pub async fn many_at_once_never_pass_the_cap(store: Fixture) {
    let mut olds = Vec::new();
    for _ in 0..20 {
        olds.push(store.ask(0, vec![dollars(1_050, 50)]).await);
    }
    // Each needs ten more than it has, and there is room for five of them.
    let asking = olds.into_iter().enumerate().map(|(n, old)| {
        let ledger = Arc::clone(if n % 2 == 0 { &store.ledger } else { &store.peer });
        let admission = store.admission(vec![dollars(1_050, 60)]);
        tokio::spawn(async move {
            let settlement = settlement(&old, &[0]);
            let decision = ledger.replace(&settlement, &admission, Some(NOON)).await.expect("the store answers");
            (old, Asked { admission, decision })
        })
    });
    let mut standing = Vec::new();
    for task in asking.collect::<Vec<_>>() {
        let (old, new) = task.await.expect("no panic");
        standing.push(if new.decision.admitted { new } else { old });
    }
    assert_eq!(standing.iter().filter(|asked| asked.admission.claims[0].amount == 60).count(), 5);
    assert_eq!(stands(&store).await, (0, 1_050));
    for asked in &standing {
        store.settle(0, asked, &[1]).await;
    }
    assert_eq!(stands(&store).await, (20, 0));
}
