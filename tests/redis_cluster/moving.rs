//! Slots that move to another node while they are used.

use crate::fixture::*;
use crate::redis_cluster::RedisCluster;
use crate::scene::{DEADLINE, app, key_of, ledger, slot_of, stands, store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tollgate::limit::{LimitName, Scope};
use tollgate::store::Ledger;

/// Customers whose slots move.
const CUSTOMERS: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slots_that_move_under_load_cost_no_error_and_no_cent() {
    let cluster = Arc::new(RedisCluster::without_replicas(3));
    let store = Arc::new(store(&cluster));
    let moving = Arc::new(AtomicBool::new(true));
    let next = Arc::new(AtomicU64::new(1_000));
    let loads: Vec<_> = (0..8_u64)
        .map(|n| {
            let (store, moving, next) = (store.clone(), moving.clone(), next.clone());
            let ledger = ledger(&cluster, DEADLINE);
            tokio::spawn(async move {
                let owner = format!("mover_{}", n % CUSTOMERS);
                let (mut done, mut spent) = (0_u64, 0);
                while moving.load(Ordering::Relaxed) || done < 20 {
                    let amount = 1_000 + next.fetch_add(1, Ordering::Relaxed);
                    let mine = |claim| of(Scope::Customer, &owner, claim);
                    let claims = vec![
                        mine(bucket(LimitName::Rpm, 1_000_000, 1, SECOND, 1)),
                        mine(dollars(1_000 * DOLLAR, amount)),
                        app(dollars(1_000 * DOLLAR, amount)),
                    ];
                    let admission = store.admission(claims);
                    let decision = ledger.admit(&admission, None).await.unwrap_or_else(|error| panic!("{owner}: {error}"));
                    assert!(decision.admitted);
                    let asked = Asked { admission, decision };
                    let batch = [settlement(&asked, &[1, amount - 1, amount - 1])];
                    ledger.settle(&batch, None).await.unwrap_or_else(|error| panic!("{owner}: {error}"));
                    (done, spent) = (done + 1, spent + amount - 1);
                }
                (owner, done, spent)
            })
        })
        .collect();
    let mover = cluster.clone();
    let moved = tokio::task::spawn_blocking(move || {
        let mut slots = vec![slot_of(&mover, "{shared}")];
        slots.extend((0..CUSTOMERS).map(|n| slot_of(&mover, &key_of(&mover, &format!("mover_{n}"), "holds"))));
        for round in 0..2 {
            for slot in &slots {
                let to = (mover.master_of(*slot) + 1 + round) % 3;
                mover.move_slot(*slot, to);
                assert_eq!(mover.master_of(*slot), to);
            }
        }
        slots.len() * 2
    });
    let moved = moved.await.expect("every slot has moved");
    moving.store(false, Ordering::Relaxed);
    let mut spent_by = std::collections::BTreeMap::new();
    let (mut requests, mut total) = (0, 0);
    for load in loads {
        let (owner, done, spent) = load.await.expect("no error");
        *spent_by.entry(owner).or_insert(0) += spent;
        (requests, total) = (requests + done, total + spent);
    }
    for (owner, spent) in spent_by {
        assert_eq!(stands(&*store.ledger, &key(Scope::Customer, &owner)).await, (spent, 0), "{owner} after {requests} requests");
    }
    assert_eq!(stands(&*store.ledger, &key(Scope::App, "shop")).await, (total, 0), "after {moved} moves and {requests} requests");
    let redirected: u64 = (0..3)
        .map(|node| {
            let errors: String = redis::cmd("INFO").arg("errorstats").query(&mut cluster.connection(node)).expect("INFO");
            u64::from(errors.contains("errorstat_MOVED"))
                + u64::from(errors.contains("errorstat_TRYAGAIN") || errors.contains("errorstat_ASK"))
        })
        .sum();
    assert!(redirected >= 2, "the load did meet moving slots");
}
