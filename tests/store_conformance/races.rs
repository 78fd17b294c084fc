//! Many requests at once, through two instances. The sums are exact, whatever the order.

use crate::fixture::*;
use std::sync::Arc;
use tollgate::limit::{Admission, Decision, Elastic, LimitName, Measure};

/// Admits all at once, every other one through the second instance.
async fn at_once(store: &Fixture, admissions: Vec<Admission>) -> Vec<Asked> {
    let tasks: Vec<_> = admissions
        .into_iter()
        .enumerate()
        .map(|(i, admission)| {
            let ledger = Arc::clone(if i % 2 == 0 { &store.ledger } else { &store.peer });
            tokio::spawn(async move {
                let decision: Decision = ledger.admit(&admission, Some(NOON)).await.expect("the store answers");
                Asked { admission, decision }
            })
        })
        .collect();
    let mut asked = Vec::with_capacity(tasks.len());
    for task in tasks {
        asked.push(task.await.expect("no panic"));
    }
    asked
}

async fn spend(store: &Fixture, cap: u64, amount: u64) {
    let asked = store.ask(0, vec![dollars(cap, amount)]).await;
    store.settle(0, &asked, &[amount]).await;
}

pub async fn the_last_cents_go_to_exactly_ten(store: Fixture) {
    spend(&store, DOLLAR, 900_000_000).await;
    let admissions = (0..50).map(|_| store.admission(vec![dollars(DOLLAR, 10_000_000)])).collect();
    let asked = at_once(&store, admissions).await;
    assert_eq!(asked.iter().filter(|asked| asked.decision.admitted).count(), 10);
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (900_000_000, 100_000_000));
}

pub async fn a_bucket_of_sixty_admits_sixty_of_five_hundred(store: Fixture) {
    let admissions = (0..500).map(|_| store.admission(vec![per_minute(LimitName::Rpm, 60, 1)])).collect();
    let asked = at_once(&store, admissions).await;
    assert_eq!(asked.iter().filter(|asked| asked.decision.admitted).count(), 60);
}

pub async fn five_hundred_at_once_never_pass_the_cap(store: Fixture) {
    let cap = 5 * DOLLAR;
    spend(&store, cap, 4_900_000_000).await;
    // From 0.5 to 1.5 cents each.
    let admissions = (0..500_u64).map(|i| store.admission(vec![dollars(cap, 5_000_000 + i * 20_000)])).collect();
    let asked = at_once(&store, admissions).await;
    let admitted: u64 = asked.iter().filter(|a| a.decision.admitted).map(|a| a.admission.claims[0].amount).sum();
    assert!(admitted <= 100_000_000, "{admitted} over $4.90");
    assert!(admitted > 100_000_000 - 15_000_000, "all would have fitted up to the last: {admitted}");
    for refused in asked.iter().filter(|asked| !asked.decision.admitted) {
        let (asked, verdict) = (refused.admission.claims[0].amount, refused.decision.verdicts[0]);
        assert!(asked > verdict.remaining, "{asked} would have fitted {}", verdict.remaining);
    }
    for asked in asked.iter().filter(|asked| asked.decision.admitted) {
        store.settle(0, asked, &[asked.admission.claims[0].amount]).await;
    }
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (4_900_000_000 + admitted, 0));
    let left = cap - balance.spent;
    assert!(store.ask(0, vec![dollars(cap, left)]).await.decision.admitted, "the rest is still there to the nano-dollar");
}

pub async fn elastic_claims_at_once_never_pass_the_cap(store: Fixture) {
    let cap = 5 * DOLLAR;
    spend(&store, cap, 4_900_000_000).await;
    let elastic = Elastic::new(2_500_000, 10_000_000, 20_000, 100).expect("exact"); // wanted: 20 cents
    let admissions = (0..500)
        .map(|_| {
            let mut admission = store.admission(vec![dollars(cap, elastic.cost(20_000).get())]);
            admission.elastic = Some(elastic);
            admission
        })
        .collect();
    let asked = at_once(&store, admissions).await;
    let granted: Vec<_> = asked.iter().filter_map(|asked| asked.decision.granted).collect();
    assert_eq!(granted, [9_999], "the first takes all that is left");
    let balance = store.balance(&customer()).await;
    assert!(balance.spent + balance.held <= cap);
}

pub async fn one_settlement_sent_many_times_at_once_books_once(store: Fixture) {
    let asked = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
    assert_eq!(asked.admission.claims[0].measure, Measure::Money);
    let batch = Arc::new([settlement(&asked, &[300])]);
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let ledger = Arc::clone(if i % 2 == 0 { &store.ledger } else { &store.peer });
            let batch = Arc::clone(&batch);
            tokio::spawn(async move { ledger.settle(&*batch, Some(NOON)).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("the store answers");
    }
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (300, 0));
}
