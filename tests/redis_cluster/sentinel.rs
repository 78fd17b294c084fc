//! Sentinels name the master: at the start, after it died, and after it was told to step down.

use crate::fixture::*;
use crate::killed::{Load, settled};
use crate::redis_sentinel::Sentinels;
use crate::scene::{DEADLINE, Scene, app, stands, until};
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::{RedisServers, Secret};
use tollgate::limit::Scope;
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Ledger, StoreError};

fn ledger(sentinels: &Sentinels, deadline: Duration) -> RedisLedger {
    let urls = sentinels.urls().iter().map(|url| Secret::new(url)).collect();
    let servers = RedisServers::Sentinel { master: String::from("mymaster"), sentinels: urls, login: None };
    RedisLedger::open(&servers, deadline).expect("well-formed addresses")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_is_found_and_found_again_when_another_one_steps_in() {
    let mut sentinels = Sentinels::start();
    let gateways = [ledger(&sentinels, DEADLINE), ledger(&sentinels, DEADLINE)];
    let store = Fixture::over(Arc::new(gateways[0].clone()));
    let claims = |amount| vec![dollars(DOLLAR, amount), app(dollars(DOLLAR, amount))];
    let mut admitted = Vec::new();
    for _ in 0..5 {
        admitted.push(store.ask(0, claims(DOLLAR / 10)).await);
    }
    assert!(admitted.iter().all(|asked| asked.decision.admitted));
    // Told to step down: it lives on as a replica, answers READONLY, and keeps what it was asked.
    let old = sentinels.master();
    sentinels.wait_in_step();
    sentinels.fail_over();
    until("another one has stepped in", async || sentinels.master() != old).await;
    sentinels.wait_agreed(); // until then the old one does not know that it is none, and takes what it is told
    until(
        "it decides",
        async || matches!(gateways[1].admit(&store.admission(claims(0)), Some(NOON)).await, Ok(decision) if decision.admitted),
    )
    .await;
    for (i, fits) in [(5, true), (6, true), (7, true), (8, true), (9, true), (10, false)] {
        let admission = store.admission(claims(DOLLAR / 10));
        let decision = gateways[i % 2].admit(&admission, Some(NOON)).await;
        let decision = match decision {
            Ok(decision) => decision,
            // The other gateway's first call after the change.
            Err(_) => {
                until("it decides here too", async || gateways[i % 2].ping().await.is_ok()).await;
                gateways[i % 2].admit(&admission, Some(NOON)).await.expect("the store answers")
            }
        };
        assert_eq!(decision.admitted, fits, "{i}: the five holds from before count");
        if decision.admitted {
            admitted.push(Asked { admission, decision });
        }
    }
    for asked in &admitted {
        store.settle(0, asked, &[7, 7]).await;
    }
    for scope in [customer(), key(Scope::App, "shop")] {
        assert_eq!(stands(&gateways[1], &scope).await, (70, 0), "{scope:?}");
    }
    // A sentinel that is gone or frozen is passed over.
    sentinels.freeze(0);
    sentinels.kill(1);
    let late = ledger(&sentinels, DEADLINE);
    until("the third one names the master", async || late.ping().await.is_ok()).await;
    assert_eq!(stands(&late, &customer()).await, (70, 0));
    sentinels.thaw(0);
    let wrong = RedisServers::Sentinel {
        master: String::from("another"),
        sentinels: vec![Secret::new(&sentinels.urls()[2])],
        login: None,
    };
    let wrong = RedisLedger::open(&wrong, Duration::from_secs(2)).expect("well-formed addresses");
    let error = wrong.ping().await.expect_err("no such master");
    assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("No such master")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gateways_get_over_a_master_of_sentinels_killed_under_load() {
    let mut sentinels = Sentinels::start();
    let provider = Scene::provider().await;
    let deadline = Duration::from_millis(500);
    let scenes = [
        Arc::new(Scene::on(ledger(&sentinels, deadline), provider.clone()).await),
        Arc::new(Scene::on(ledger(&sentinels, deadline), provider.clone()).await),
    ];
    let customers: Vec<String> = (0..6).map(|n| format!("customer-{n}")).collect();
    let load = Load::start(&scenes, &customers);
    load.answered(60).await;
    let old = sentinels.master();
    sentinels.kill_master();
    until("the replica has taken over", async || sentinels.master() != old).await;
    for scene in &scenes {
        scene.back().await;
    }
    load.answered(60).await;
    load.stop().await;
    settled(&scenes, &customers).await;
}
