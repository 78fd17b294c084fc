//! Holds whose gateway has died: booked once, after their lease, by anybody; and corrected should the settlement come after all.

use crate::fixture::*;
use crate::redis_only::stored;
use crate::redis_server::RedisServer;
use redis::Commands;
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::LostHold;
use tollgate::domain::{Period, Timestamp, Zone};
use tollgate::limit::{Claim, LimitName, Measure, Rule, Scope, ScopeKey};
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Ledger, Renewal};

/// The lease of the fixture's admissions.
const LEASE: u64 = 10 * MINUTE;

/// A store that is swept in this way, and its server.
fn swept(lost_hold: LostHold) -> (RedisServer, Fixture) {
    let server = RedisServer::start();
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
    let store = Fixture::over(Arc::new(ledger.with_lost_hold(lost_hold)));
    (server, store)
}

fn cents(amount: u64) -> Claim {
    dollars(1_000 * DOLLAR, amount)
}

fn quota(amount: u64) -> Claim {
    let boundaries = Zone::default().boundaries(Period::Day, NOON);
    let rule = Rule::Budget { cap: 1_000_000, boundaries };
    Claim { limit: LimitName::TokenQuota(Period::Day), rule, measure: Measure::Tokens, ..cents(amount) }
}

async fn sweep(store: &Fixture, micros: u64) -> usize {
    store.ledger.sweep(Some(NOON.plus(micros))).await.expect("the store answers")
}

async fn renew(store: &Fixture, micros: u64, asked: &[&Asked], metered: u64) {
    let renewal = |asked: &&Asked| Renewal {
        reservation: asked.admission.reservation,
        customer: asked.admission.customer.clone(),
        lease: LEASE,
        metered,
    };
    let batch: Vec<_> = asked.iter().map(renewal).collect();
    store.ledger.renew(&batch, Some(NOON.plus(micros))).await.expect("the store answers");
}

/// Spent and held of the only balance of a scope.
async fn stands(store: &Fixture, scope: &ScopeKey) -> (u64, u64) {
    let balance = store.balance(scope).await;
    (balance.spent, balance.held)
}

#[tokio::test]
async fn a_hold_is_booked_once_when_its_lease_is_over_in_every_scope() {
    for (lost_hold, spent) in [(LostHold::Charge, 500), (LostHold::Release, 0)] {
        let (_server, store) = swept(lost_hold);
        let scopes = [customer(), key(Scope::User, "c/u"), key(Scope::App, "shop"), key(Scope::Gateway, "")];
        let mut claims: Vec<_> = scopes.iter().map(|scope| Claim { scope: scope.clone(), ..cents(500) }).collect();
        claims.push(bucket(LimitName::Rpm, 10, 1, HOUR, 4));
        assert!(store.ask(0, claims).await.decision.admitted);
        assert_eq!(sweep(&store, LEASE - 1).await, 0, "it may still be alive");
        for scope in &scopes {
            assert_eq!(stands(&store, scope).await, (0, 500), "{scope:?}");
        }
        for (micros, booked) in [(LEASE, 1), (LEASE, 0), (LEASE + MINUTE, 0), (30 * HOUR, 0)] {
            assert_eq!(sweep(&store, micros).await, booked, "{lost_hold:?} at {micros}");
            for scope in &scopes {
                assert_eq!(stands(&store, scope).await, (spent, 0), "{lost_hold:?} {scope:?} at {micros}");
            }
        }
        let left = store.remaining(LEASE, &bucket(LimitName::Rpm, 10, 1, HOUR, 0)).await;
        assert_eq!(left, 6, "a bucket refills by itself");
    }
}

#[tokio::test]
async fn one_call_books_sixteen_and_none_is_left() {
    let (server, store) = swept(LostHold::Charge);
    for i in 0..40 {
        store.ask(i, vec![cents(10)]).await;
    }
    let calls = || {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("INFO");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).expect("called");
        line.split(',').next().expect("a count").parse::<u64>().expect("a number")
    };
    let before = calls();
    assert_eq!(sweep(&store, LEASE + 29).await, 30, "the first thirty");
    assert_eq!(calls() - before, 2, "16 and 14");
    assert_eq!(stands(&store, &customer()).await, (300, 100));
    assert_eq!(sweep(&store, LEASE + 39).await, 10);
    assert_eq!(stands(&store, &customer()).await, (400, 0));
}

#[tokio::test]
async fn who_renews_keeps_the_hold_and_who_does_not_loses_it() {
    let (_server, store) = swept(LostHold::Charge);
    let (alive, _dead) = (store.ask(0, vec![cents(7)]).await, store.ask(0, vec![cents(500)]).await);
    for minute in [3, 6, 9] {
        renew(&store, minute * MINUTE, &[&alive], 0).await;
    }
    assert_eq!(sweep(&store, LEASE).await, 1);
    assert_eq!(stands(&store, &customer()).await, (500, 7));
    renew(&store, 8 * MINUTE, &[&alive], 0).await; // late on the wire: never shortens
    assert_eq!(sweep(&store, 9 * MINUTE + LEASE - 1).await, 0);
    renew(&store, 9 * MINUTE + LEASE + 5, &[&alive], 0).await;
    assert_eq!(sweep(&store, 9 * MINUTE + LEASE + 5).await, 0, "over, but nobody had noticed");
    store.settle(20 * MINUTE, &alive, &[3]).await;
    renew(&store, 20 * MINUTE, &[&alive], 0).await;
    assert_eq!(sweep(&store, HOUR).await, 0, "what is settled does not come back");
    assert_eq!(stands(&store, &customer()).await, (503, 0));
}

#[tokio::test]
async fn of_a_metered_request_twice_of_what_was_metered_is_charged() {
    for (lost_hold, renewals, spent) in [
        (LostHold::Charge, &[0][..], 500),
        (LostHold::Charge, &[0, 100], 200),
        (LostHold::Charge, &[100, 120, 0, 40], 240),
        (LostHold::Charge, &[300], 500),
        (LostHold::Release, &[300], 0),
    ] {
        let (_server, store) = swept(lost_hold);
        let asked = store.ask(0, vec![cents(500), of(Scope::App, "shop", quota(90))]).await;
        for metered in renewals {
            renew(&store, 0, &[&asked], *metered).await;
        }
        // More claimed for the same reservation keeps what was metered.
        let more = vec![of(Scope::Gateway, "", cents(1_000))];
        store.ask_this(1, tollgate::limit::Admission { claims: more, ..asked.admission.clone() }).await;
        assert_eq!(sweep(&store, LEASE + 1).await, 1);
        let what = format!("{lost_hold:?} {renewals:?}");
        assert_eq!(stands(&store, &customer()).await, (spent, 0), "{what}");
        let charged = lost_hold == LostHold::Charge;
        assert_eq!(stands(&store, &key(Scope::App, "shop")).await, (if charged { 90 } else { 0 }, 0), "{what}: tokens");
        let metered = renewals.iter().max().filter(|metered| **metered > 0);
        let larger = if charged { metered.map_or(1_000, |metered| 2 * metered) } else { 0 };
        assert_eq!(stands(&store, &key(Scope::Gateway, "")).await, (larger, 0), "{what}");
    }
}

#[tokio::test]
async fn a_late_settlement_corrects_what_was_booked_exactly_and_once() {
    for lost_hold in [LostHold::Charge, LostHold::Release] {
        for actual in [0, 300, 500, 700] {
            for late in [0, 3 * HOUR, 11 * HOUR] {
                let (server, store) = swept(lost_hold);
                let lost = store.ask(0, vec![cents(500), of(Scope::App, "shop", cents(500))]).await;
                let other = store.ask(0, vec![cents(1_000)]).await;
                store.settle(0, &other, &[1_000]).await;
                assert_eq!(sweep(&store, LEASE).await, 1);
                let running = store.ask(LEASE, vec![cents(20)]).await;
                for again in 0..3 {
                    store.settle(LEASE + late + again, &lost, &[actual, actual]).await;
                    let what = format!("{lost_hold:?} {actual} after {late}, {again}");
                    assert_eq!(stands(&store, &customer()).await, (1_000 + actual, 20), "{what}");
                    assert_eq!(stands(&store, &key(Scope::App, "shop")).await, (actual, 0), "{what}");
                }
                store.settle(LEASE + late, &running, &[20]).await;
                assert_eq!(sweep(&store, late + 3 * LEASE).await, 0);
                assert_eq!(stands(&store, &customer()).await, (1_020 + actual, 0));
                let tombstones: u64 = server.connection().hlen("tg1:{c:c}:lost").expect("HLEN");
                assert_eq!(tombstones, 0, "it is an end like any other now");
            }
        }
    }
}

#[tokio::test]
async fn a_lost_hold_of_a_period_that_is_over_is_booked_there() {
    let (server, store) = swept(LostHold::Charge);
    let lost = store.ask(0, vec![cents(500)]).await;
    let today = lost.decision.verdicts[0].booked;
    let next = store.ask(24 * HOUR, vec![cents(20)]).await;
    let tomorrow = next.decision.verdicts[0].booked;
    renew(&store, 24 * HOUR, &[&next], 0).await;
    let stored = || stored(&mut server.connection(), 8).1;
    assert_eq!(sweep(&store, 24 * HOUR).await, 1);
    assert_eq!(stored(), [tomorrow, 0, 20, today, 500, 0, 0]);
    store.settle(25 * HOUR, &lost, &[300]).await;
    assert_eq!(stored(), [tomorrow, 0, 20, today, 300, 0, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_and_settlements_at_once_book_every_reservation_once() {
    for lost_hold in [LostHold::Charge, LostHold::Release] {
        let (server, store) = swept(lost_hold);
        let peer = RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
        let peer = Arc::new(peer.with_lost_hold(lost_hold));
        let mut late = Vec::new();
        for i in 0..200_u64 {
            late.push((settlement(&store.ask(0, vec![cents(500)]).await, &[i * 3]), i * 3));
        }
        let right: u64 = late.iter().map(|(_, actual)| actual).sum();
        let now: Option<Timestamp> = Some(NOON.plus(LEASE));
        let mut tasks = Vec::new();
        for (i, (settlement, _)) in late.into_iter().enumerate() {
            let (ledger, peer) = (Arc::clone(&store.ledger), Arc::clone(&peer));
            tasks.push(tokio::spawn(async move {
                if i % 10 == 0 {
                    return ledger.sweep(now).await.expect("the store answers") + {
                        ledger.settle(&[settlement], now).await.expect("the store answers");
                        0
                    };
                }
                for ledger in [&*ledger, &*peer as &dyn Ledger] {
                    ledger.settle(std::slice::from_ref(&settlement), now).await.expect("the store answers");
                }
                peer.sweep(now).await.expect("the store answers")
            }));
        }
        let mut swept = 0;
        for task in tasks {
            swept += task.await.expect("no panic");
        }
        assert!(swept > 0, "some were booked for lost first");
        assert_eq!(stands(&store, &customer()).await, (right, 0), "{lost_hold:?}");
    }
}

#[tokio::test]
async fn customers_who_never_come_back_are_swept_and_nothing_stays_for_ever() {
    let (server, store) = swept(LostHold::Charge);
    let mut connection = server.connection();
    let mut settled = Vec::new();
    for i in 0..100 {
        let scope = key(Scope::Customer, &format!("c{i}"));
        let claims = vec![Claim { scope: scope.clone(), ..cents(500) }];
        let admission = tollgate::limit::Admission { customer: scope, ..store.admission(claims) };
        let asked = store.ask_this(0, admission).await;
        if i % 4 == 0 {
            store.settle(0, &asked, &[3]).await;
            settled.push(i);
        }
    }
    assert_eq!(sweep(&store, LEASE).await, 75);
    for i in 0..100 {
        let right = if settled.contains(&i) { (3, 0) } else { (500, 0) };
        assert_eq!(stands(&store, &key(Scope::Customer, &format!("c{i}"))).await, right, "c{i}");
    }
    assert!(!connection.exists::<_, bool>("tg1:{shared}:leases").expect("EXISTS"), "nobody is due any more");
    store.ask(LEASE, vec![cents(5)]).await;
    for key in connection.keys::<_, Vec<String>>("*").expect("KEYS") {
        let hours = connection.pttl::<_, i64>(&key).expect("PTTL") / 3_600_000;
        let right = match key.rsplit(':').next().expect("a shelf") {
            "lost" => 168..169,
            "holds" | "leases" => 48..49,
            "limits" => 59..61,
            _ => 1..2,
        };
        assert!(right.contains(&hours), "{key} lives {hours} h");
    }
}

#[tokio::test]
async fn keys_of_others_and_a_lost_index_do_no_harm() {
    let (server, store) = swept(LostHold::Charge);
    let mut connection = server.connection();
    for name in ["{shared}:leases", "{c:c}:lost"] {
        let _: () = connection.set(format!("tg1:{name}"), "x").expect("SET");
    }
    let lost = store.ask(0, vec![cents(500)]).await;
    let _: () = connection.del("tg1:{shared}:leases").expect("DEL");
    assert_eq!(sweep(&store, LEASE).await, 0, "nobody knows of it");
    renew(&store, 0, &[&lost], 0).await;
    let _: () = connection.hset("tg1:{c:c}:holds", "odd", "not ours").expect("HSET");
    assert_eq!(sweep(&store, LEASE).await, 1, "whoever renews makes it known again");
    assert_eq!(stands(&store, &customer()).await, (500, 0));
    store.settle(LEASE, &lost, &[100]).await;
    assert_eq!(stands(&store, &customer()).await, (100, 0));
}
