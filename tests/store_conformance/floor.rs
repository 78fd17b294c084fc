//! A Redis that has lost what was spent is put back to what its gateways saw.

use crate::fixture::*;
use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::time::Duration;
use tollgate::domain::{Period, Zone};
use tollgate::limit::{Claim, Scope};
use tollgate::store::Renewal;
use tollgate::store::outage::Remote;
use tollgate::store::redis::RedisLedger;

const DAY: u64 = 24 * HOUR;

struct Scene {
    server: RedisServer,
    gateways: [Arc<RedisLedger>; 2],
    /// The cases' words, spoken through each gateway.
    store: [Fixture; 2],
}

fn scene() -> Scene {
    let server = RedisServer::start();
    let connect = || Arc::new(RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address"));
    let gateways = [connect(), connect()];
    let mut store = gateways.clone().map(|gateway| Fixture::over(gateway));
    store[1].numbered_from(1_000_000);
    Scene { server, gateways, store }
}

impl Scene {
    fn flush(&self) {
        let _: () = redis::cmd("FLUSHALL").query(&mut self.server.connection()).expect("FLUSHALL");
    }

    /// Everything the server knows, as a replica may have it.
    fn copy(&self) -> Vec<(String, Vec<u8>)> {
        let mut connection = self.server.connection();
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("KEYS");
        let dump = |key: String| (key.clone(), redis::cmd("DUMP").arg(&key).query(&mut connection).expect("DUMP"));
        keys.into_iter().map(dump).collect()
    }

    /// What it knew then takes the place of what it knows now.
    fn fail_over_to(&self, copy: &[(String, Vec<u8>)]) {
        self.flush();
        for (key, value) in copy {
            let mut restore = redis::cmd("RESTORE");
            let _: () = restore.arg(key).arg(DAY / 1_000).arg(value).query(&mut self.server.connection()).expect("RESTORE");
        }
    }

    fn repaired(&self) -> [u64; 2] {
        self.gateways.each_ref().map(|gateway| gateway.repaired())
    }
}

fn everywhere(cap: u64, amount: u64) -> Vec<Claim> {
    let scopes = [(Scope::User, "c/u"), (Scope::Customer, "c"), (Scope::App, "shop"), (Scope::Gateway, "")];
    scopes.map(|(scope, owner)| of(scope, owner, dollars(cap, amount))).to_vec()
}

async fn spend(store: &Fixture, micros: u64, cap: u64, amount: u64) {
    let asked = store.ask(micros, everywhere(cap, amount)).await;
    assert!(asked.decision.admitted, "{amount} of {cap}");
    store.settle(micros, &asked, &[amount; 4]).await;
}

/// What every scope has spent of its day.
async fn spent(store: &Fixture, micros: u64) -> Vec<u64> {
    let asked = store.ask(micros, everywhere(1, 0)).await;
    asked.decision.verdicts.iter().map(|verdict| verdict.used).collect()
}

#[tokio::test]
async fn a_flush_in_mid_day_gives_nothing_back_and_is_an_alarm() {
    let scene = scene();
    let [store, _] = &scene.store;
    spend(store, 0, 1_000, 700).await;
    let flying = store.ask(SECOND, everywhere(1_000, 100)).await;
    assert!(flying.decision.admitted);
    assert_eq!(scene.repaired(), [0, 0]);
    scene.flush();
    let refused = store.ask(2 * SECOND, everywhere(1_000, 301)).await;
    assert!(!refused.decision.admitted, "700 of 1,000 are spent, whatever the server knows");
    assert_eq!(scene.repaired(), [4, 0]);
    assert_eq!(spent(store, 2 * SECOND).await, [700; 4], "it is written down although the request was refused");
    // What was in flight has no hold any more, and is booked all the same.
    store.settle(3 * SECOND, &flying, &[60; 4]).await;
    assert_eq!(spent(store, 3 * SECOND).await, [760; 4]);
    assert_eq!(scene.repaired(), [4, 0], "once");
}

#[tokio::test]
async fn a_settlement_after_the_flush_is_booked_on_top_of_what_was_spent() {
    let scene = scene();
    let [store, peer] = &scene.store;
    spend(store, 0, 1_000, 700).await;
    let flying = store.ask(SECOND, everywhere(1_000, 100)).await;
    scene.flush();
    store.settle(2 * SECOND, &flying, &[60; 4]).await;
    assert_eq!(scene.repaired(), [4, 0]);
    assert_eq!(spent(peer, 2 * SECOND).await, [760; 4], "a gateway that saw nothing of it reads it from the server");
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (760, 0));
}

#[tokio::test]
async fn a_failover_to_an_older_copy_gives_nothing_back_that_a_gateway_saw() {
    let scene = scene();
    let [store, peer] = &scene.store;
    spend(store, 0, 1_000, 300).await;
    let copy = scene.copy();
    spend(store, SECOND, 1_000, 200).await;
    spend(peer, 2 * SECOND, 1_000, 50).await;
    scene.fail_over_to(&copy);
    // The first has seen 500, the second 550: together they know all of it.
    assert_eq!(spent(store, 3 * SECOND).await, [500; 4]);
    assert_eq!(spent(peer, 3 * SECOND).await, [550; 4]);
    assert_eq!(spent(store, 3 * SECOND).await, [550; 4]);
    assert_eq!(scene.repaired(), [4, 4]);
    assert!(!store.ask(4 * SECOND, everywhere(1_000, 451)).await.decision.admitted);
    // Booked in between by whoever saw less, what another one saw later is not added to it: as much may be lost, and no more.
    scene.fail_over_to(&copy);
    spend(peer, 5 * SECOND, 1_000, 10).await;
    assert_eq!(spent(store, 5 * SECOND).await, [560; 4]);
}

#[tokio::test]
async fn a_replacement_repairs_what_it_books_on() {
    let scene = scene();
    let [store, _] = &scene.store;
    spend(store, 0, 1_000, 700).await;
    let old = store.ask(SECOND, everywhere(1_000, 200)).await;
    scene.flush();
    let ended = settlement(&old, &[5; 4]);
    for (amount, admitted) in [(296, false), (295, true)] {
        let next = store.admission(everywhere(1_000, amount));
        let decision = store.ledger.replace(&ended, &next, Some(NOON.plus(SECOND))).await.expect("the store answers");
        assert_eq!(decision.admitted, admitted, "700 and 5 are spent, and {amount} asked");
    }
    assert_eq!(spent(store, SECOND).await, [705; 4]);
    assert_eq!(scene.repaired(), [4, 0], "once, and not by the refusal, which changes nothing");
}

#[tokio::test]
async fn what_is_lowered_on_purpose_is_not_raised_again() {
    let scene = scene();
    let [store, peer] = &scene.store;
    let lost = store.ask(0, vec![dollars(1_000, 500)]).await;
    assert_eq!(store.ledger.sweep(Some(NOON.plus(10 * MINUTE))).await.expect("the store answers"), 1);
    let used = |asked: Asked| asked.decision.verdicts[0].used;
    for gateway in [store, peer] {
        assert_eq!(used(gateway.ask(10 * MINUTE, vec![dollars(1_000, 0)]).await), 500, "booked for lost, and seen by both");
    }
    store.settle(11 * MINUTE, &lost, &[20]).await;
    for gateway in [peer, store, peer] {
        assert_eq!(used(gateway.ask(11 * MINUTE, vec![dollars(1_000, 0)]).await), 20);
    }
    assert_eq!(scene.repaired(), [0, 0]);
    // Nor is the correction lost with the server.
    scene.flush();
    assert_eq!(used(store.ask(12 * MINUTE, vec![dollars(1_000, 0)]).await), 20);
    assert_eq!(scene.repaired(), [1, 0]);
}

#[tokio::test]
async fn a_new_period_begins_with_nothing_spent() {
    let scene = scene();
    let [store, _] = &scene.store;
    spend(store, 0, 1_000, 700).await;
    let tomorrow = Zone::default().boundaries(Period::Day, NOON.plus(DAY));
    let day = |amount| budget(Period::Day, tomorrow, 1_000, amount);
    scene.flush();
    let asked = store.ask(DAY, vec![day(1_000)]).await;
    assert_eq!((asked.decision.admitted, asked.decision.verdicts[0].used), (true, 0));
    assert_eq!(scene.repaired(), [0, 0]);
}

#[tokio::test]
async fn a_renewal_and_a_sweep_leave_the_generation_alone() {
    let scene = scene();
    let [store, peer] = &scene.store;
    spend(store, 0, 1_000, 100).await;
    let asked = store.ask(0, vec![dollars(1_000, 300)]).await;
    let (reservation, customer) = (asked.admission.reservation, asked.admission.customer.clone());
    let renewal = Renewal { reservation, customer, lease: MINUTE, metered: 0 };
    store.ledger.renew(&[renewal], Some(NOON.plus(SECOND))).await.expect("the store answers");
    let copy = scene.copy();
    assert_eq!(store.ledger.sweep(Some(NOON.plus(HOUR))).await.expect("the store answers"), 1);
    assert_eq!(peer.ask(HOUR, vec![dollars(1_000, 0)]).await.decision.verdicts[0].used, 400);
    scene.fail_over_to(&copy);
    assert_eq!(peer.ask(HOUR, vec![dollars(1_000, 0)]).await.decision.verdicts[0].used, 400);
    assert_eq!(scene.repaired(), [0, 1]);
}
