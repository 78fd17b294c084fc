//! Compare-and-set by many at once, through two gateways.

use crate::fixture::{Fixture, both, expecting, saying};
use futures_util::future::join_all;
use std::sync::Arc;
use tollgate::store::documents::{Document, Documents, Expected, Write, Written};

/// All of them at once on real threads; gives what became of each.
async fn race(store: &Fixture, writes: Vec<Write>) -> Vec<Written> {
    let start = Arc::new(tokio::sync::Barrier::new(writes.len()));
    let tasks = writes.into_iter().enumerate().map(|(n, write)| {
        let documents = Arc::clone(if n % 2 == 0 { &store.documents } else { &store.peer });
        let start = Arc::clone(&start);
        tokio::spawn(async move {
            start.wait().await;
            documents.put(&write, None).await.expect("the store answers")
        })
    });
    join_all(tasks).await.into_iter().map(|written| written.expect("no panic")).collect()
}

async fn one_wins(store: &Fixture, write: &Write, expected: Expected) {
    let writes: Vec<Write> = (0..64).map(|n| saying(&expecting(write, expected), &n.to_string())).collect();
    let outcomes = race(store, writes).await;
    let winners: Vec<usize> = (0..64).filter(|n| matches!(outcomes[*n], Written::Done(_))).collect();
    let [winner] = winners[..] else { panic!("{winners:?} won") };
    let Written::Done(version) = outcomes[winner] else { unreachable!("it won") };
    let stands = Document { version, value: winner.to_string().into() };
    assert_eq!(store.get(0, write).await, Some(stands.clone()));
    for (n, outcome) in outcomes.into_iter().enumerate().filter(|(n, _)| *n != winner) {
        assert_eq!(outcome, Written::Found(Some(stands.clone())), "{n} is told who won");
    }
}

pub async fn one_of_64_who_expect_nothing_wins(store: Fixture) {
    for write in both("a") {
        one_wins(&store, &write, Expected::Nothing).await;
    }
}

pub async fn one_of_64_who_expect_a_version_wins(store: Fixture) {
    for write in both("a") {
        let version = store.done(&write).await;
        one_wins(&store, &write, Expected::Version(version)).await;
    }
}

/// Adds one, however often somebody else was faster.
async fn step(documents: &dyn Documents, write: &Write) {
    let mut found = documents.get(write.collection, &write.id, None).await.expect("it answers");
    loop {
        let (expected, n) = match &found {
            Some(found) => {
                (Expected::Version(found.version), std::str::from_utf8(&found.value).expect("digits").parse().expect("digits"))
            }
            None => (Expected::Nothing, 0_u32),
        };
        let next = saying(&expecting(write, expected), &(n + 1).to_string());
        match documents.put(&next, None).await.expect("it answers") {
            Written::Done(_) => return,
            Written::Found(other) => found = other,
        }
    }
}

pub async fn no_step_of_a_counter_is_lost(store: Fixture) {
    for write in both("counter") {
        let tasks = (0..8).map(|n| {
            let (documents, write) = (Arc::clone(if n % 2 == 0 { &store.documents } else { &store.peer }), write.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    step(&*documents, &write).await;
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(|task| task.expect("no panic"));
        assert_eq!(store.value(0, &write).await, Some("160".into()));
    }
}
