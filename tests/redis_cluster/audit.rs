//! The audit of the books in Redis: clean while gateways work, and every difference that is planted is named.

use crate::fixture::*;
use crate::redis_cluster::RedisCluster;
use crate::redis_server::{RedisServer, free_port};
use crate::scene::{DEADLINE, app, confirmed, key_of, ledger, slot_of, store};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tollgate::domain::{Period, Timestamp};
use tollgate::limit::{Claim, LimitName, Scope};
use tollgate::store::Ledger;
use tollgate::store::redis::RedisLedger;
use tollgate::store::redis::audit::{Audit, Difference, UNSWEPT_AFTER};

const DAY: LimitName = LimitName::Spend(Period::Day);
/// The day of every case.
const MIDNIGHT: u64 = 1_795_996_800;
/// The lease of the fixture's admissions.
const DUE: u64 = NOON.0 + 10 * MINUTE;

fn claims(owner: &str, amount: u64) -> Vec<Claim> {
    let day = |amount| dollars(DOLLAR, amount);
    vec![
        of(Scope::Customer, owner, per_minute(LimitName::Rpm, 1_000_000, 1)),
        of(Scope::User, &format!("{owner}/u"), day(amount)),
        of(Scope::Customer, owner, day(amount)),
        app(dollars(1_000 * DOLLAR, amount)),
    ]
}

/// Three customers, of whom `c` has two requests in flight, `d` one, and `e` none any more.
async fn some_books(store: &Fixture) {
    let mut last = None;
    for (owner, amount) in [("c", 300), ("c", 50), ("d", 7), ("e", 9)] {
        let asked = store.ask(0, claims(owner, amount)).await;
        assert!(asked.decision.admitted);
        last = Some(asked);
    }
    store.settle(0, &last.expect("four"), &[1, 4, 4, 4]).await;
}

fn held(key: &str, stored: Option<u64>, holds: u64) -> Difference {
    Difference::Held { key: key.into(), limit: DAY, period: MIDNIGHT, stored, holds }
}

fn unreadable(key: &str, field: &str) -> Difference {
    Difference::Unreadable { key: key.into(), field: field.into() }
}

/// A command.
type Words = Vec<Vec<u8>>;

/// What is stored of a customer whose only budget is one of dollars a day: start, spent and held of its two periods, and the generation.
fn stored_day(numbers: [i64; 7]) -> Vec<u8> {
    const SPEND_DAY: u8 = 8;
    let mut stored = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, SPEND_DAY, b'm'];
    stored.extend(numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()));
    stored
}

const MINE: &str = "tg1:{c:c}:limits";
const USER: &str = "tg1:{c:c}:user:u:limits";
const SHOP: &str = "tg1:{shared}:app:shop:limits";
const HOLDS: &str = "tg1:{c:c}:holds";
const LEASES: &str = "tg1:{shared}:leases";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_that_is_planted_is_named() {
    let server = RedisServer::start();
    let unindexed = |looks| Difference::Unindexed { key: HOLDS.into(), due: DUE, looks };
    let unswept = |customer: &str, due| Difference::Unswept { key: LEASES.into(), customer: customer.into(), due };
    let long_ago = NOON.0 - UNSWEPT_AFTER.as_micros() as u64;
    let state = |key: &str, held: i64| {
        let day = i64::try_from(MIDNIGHT).expect("fits");
        vec![b"SET".to_vec(), key.into(), stored_day([day, 0, held, 0, 0, 0, 0])]
    };
    let words = |text: &str| text.split('!').map(Into::into).collect::<Vec<Vec<u8>>>();
    let record = |amount: i64| format!("{DUE}|{MINE} spend_day {MIDNIGHT} {amount}");
    let cases: Vec<(Vec<Words>, Vec<Difference>)> = vec![
        (vec![], vec![]),
        (vec![state(MINE, 351)], vec![held(MINE, Some(351), 350)]),
        (vec![state(USER, 0)], vec![held(USER, Some(0), 350)]),
        (vec![state(SHOP, 358)], vec![held(SHOP, Some(358), 357)]),
        (vec![words(&format!("DEL!{SHOP}"))], vec![held(SHOP, None, 357)]),
        (vec![state(MINE, -350)], vec![held(MINE, None, 350), unreadable(MINE, "spend_day")]),
        (vec![words(&format!("SET!{MINE}!mine"))], vec![held(MINE, None, 350), unreadable(MINE, "all of it")]),
        (vec![words(&format!("HSET!{HOLDS}!extra!{}", record(5)))], vec![held(MINE, Some(350), 355)]),
        (vec![words(&format!("HSET!{HOLDS}!extra!{}", record(-5)))], vec![unreadable(HOLDS, "extra")]),
        (
            vec![words(&format!("DEL!{HOLDS}"))],
            vec![held(MINE, Some(350), 0), held(USER, Some(350), 0), held(SHOP, Some(357), 7)],
        ),
        (vec![words(&format!("ZREM!{LEASES}!c"))], vec![unindexed(None)]),
        (vec![words(&format!("ZADD!{LEASES}!{}!c", DUE + 1))], vec![unindexed(Some(DUE + 1))]),
        (vec![words(&format!("ZADD!{LEASES}!{}!c", DUE - 1))], vec![]),
        (
            vec![words(&format!("ZADD!{LEASES}!{long_ago}!e")), words(&format!("ZADD!{LEASES}!{}!x", long_ago + 1))],
            vec![unswept("e", long_ago)],
        ),
        (vec![words(&format!("ZADD!{LEASES}!{long_ago}!nobody"))], vec![unswept("nobody", long_ago)]),
    ];
    for (planted, right) in cases {
        let mut connection = server.connection();
        let _: () = redis::cmd("FLUSHALL").query(&mut connection).expect("FLUSHALL");
        let ledger = RedisLedger::connect(&[&server.url()], DEADLINE).expect("an address");
        some_books(&Fixture::over(Arc::new(ledger.clone()))).await;
        for command in &planted {
            let (name, arguments) = command.split_first().expect("a command");
            let mut command = redis::cmd(std::str::from_utf8(name).expect("a word"));
            let _: redis::Value = command.arg(arguments).query(&mut connection).expect("it is planted");
        }
        let found = ledger.audit(Some(NOON)).await.expect("the store answers");
        let mut told = found.differences.clone();
        told.sort();
        assert_eq!(
            told,
            {
                let mut right = right;
                right.sort();
                right
            },
            "{planted:?}"
        );
        assert_eq!(found.more, 0);
        if planted.is_empty() {
            let right = Audit { balances: 7, holds: 3, customers: 2, ..Audit::default() };
            assert_eq!(found, right, "two balances of each customer, and the app's");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_in_a_period_that_is_over_is_no_difference_until_it_is_lost() {
    let server = RedisServer::start();
    let ledger = RedisLedger::connect(&[&server.url()], DEADLINE).expect("an address");
    let store = Fixture::over(Arc::new(ledger.clone()));
    let day = |amount| dollars_of(Timestamp(NOON.0 + 24 * HOUR), amount);
    assert!(store.ask(0, vec![dollars(DOLLAR, 300)]).await.decision.admitted);
    assert!(store.ask(24 * HOUR, vec![day(20)]).await.decision.admitted);
    assert_eq!(ledger.audit(Some(NOON)).await.expect("the store answers").differences, []);
    let day = i64::try_from(MIDNIGHT).expect("fits");
    let state = stored_day([day + 86_400, 0, 20, day, 0, 299, 0]);
    let _: () = redis::cmd("SET").arg(MINE).arg(state).query(&mut server.connection()).expect("SET");
    assert_eq!(ledger.audit(Some(NOON)).await.expect("the store answers").differences, [held(MINE, Some(299), 300)]);
}

fn dollars_of(day: Timestamp, amount: u64) -> Claim {
    budget(Period::Day, tollgate::domain::Zone::default().boundaries(Period::Day, day), DOLLAR, amount)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traffic_is_no_difference() {
    let server = RedisServer::start();
    let gateway = RedisLedger::connect(&[&server.url()], DEADLINE).expect("an address");
    let store = Arc::new(Fixture::over(Arc::new(gateway.clone())));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            tokio::spawn(async move {
                let (mut done, mut before) = (0_u64, None);
                while !stop.load(Ordering::Relaxed) {
                    let owner = format!("c{}", (n * 7 + done) % 40);
                    let asked = store.ask(0, claims(&owner, 1 + done % 90)).await;
                    assert!(asked.decision.admitted);
                    // One request of each is in flight at any moment.
                    if let Some(before) = before.replace(asked) {
                        store.settle(0, &before, &[1, 1, 1, 1]).await;
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut in_flight = 0;
    for _ in 0..20 {
        let found = gateway.audit(Some(NOON)).await.expect("the store answers");
        assert_eq!((found.differences, found.more), (vec![], 0));
        in_flight += found.holds;
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        assert!(task.await.expect("no panic") > 20, "there was traffic");
    }
    assert!(in_flight > 20, "requests were in flight while it looked: {in_flight}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_masters_of_a_cluster_are_looked_at() {
    let cluster = RedisCluster::without_replicas(3);
    let (store, ledger) = (store(&cluster), ledger(&cluster, DEADLINE));
    for n in 0..30 {
        assert!(store.ask(0, claims(&format!("cust_{n}"), 10)).await.decision.admitted);
        confirmed(&cluster, &format!("cust_{n}")).await;
    }
    let found = ledger.audit(Some(NOON)).await.expect("the store answers");
    assert_eq!(found, Audit { balances: 61, holds: 60, customers: 60, ..Audit::default() }, "each in both halves");

    // One planted at each master, and one in what all share.
    let at = |key: &str| cluster.master_of(slot_of(&cluster, key));
    let mut right = Vec::new();
    for node in 0..3 {
        let owner = (0..30).map(|n| format!("cust_{n}")).find(|owner| at(&key_of(&cluster, owner, "holds")) == node);
        let key = key_of(&cluster, &owner.expect("30 customers at 3 masters"), "limits");
        let state = stored_day([i64::try_from(MIDNIGHT).expect("fits"), 0, 11, 0, 0, 0, 0]);
        let _: () = redis::cmd("SET").arg(&key).arg(state).query(&mut cluster.connection(node)).expect("SET");
        right.push(held(&key, Some(11), 10));
    }
    let shared = "tg1:{shared}:c:cust_4:holds";
    let _: () = redis::cmd("DEL").arg(shared).query(&mut cluster.connection(at(shared))).expect("DEL");
    right.push(held(SHOP, Some(300), 290));
    right.sort();
    assert_eq!(ledger.audit(Some(NOON)).await.expect("the store answers").differences, right);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_says_it_with_its_exit_code() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("tollgate.toml");
    let audit = |url: &str| {
        std::fs::write(&config, format!("[store]\nkind = \"redis\"\nurls = [\"{url}\"]\n")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("audit").arg("--config").arg(&config).current_dir(directory.path());
        let output = command.output().expect("it starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = audit(&server.url());
    assert_eq!((code, out.as_str()), (Some(0), "clean: 0 balances, 0 requests in flight of 0 customers\n"), "{err}");

    // The command asks the server's clock, and so do these.
    let ledger = RedisLedger::connect(&[&server.url()], DEADLINE).expect("an address");
    let admission = Fixture::over(Arc::new(ledger.clone())).admission(vec![dollars(DOLLAR, 300)]);
    assert!(ledger.admit(&admission, None).await.expect("the store answers").admitted);
    let (code, out, err) = audit(&server.url());
    assert_eq!((code, out.as_str()), (Some(0), "clean: 1 balances, 1 requests in flight of 1 customers\n"), "{err}");
    let _: () = redis::cmd("DEL").arg(HOLDS).query(&mut server.connection()).expect("DEL");
    let (code, out, err) = audit(&server.url());
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.starts_with("tg1:{c:c}:limits, spend_day, period "), "{out}");
    assert!(out.contains("  stored as held    $0.0000003\n  sum of its holds  $0.00\n"), "{out}");
    assert!(out.ends_with("1 difference: 1 balances, 0 requests in flight of 0 customers\n"), "{out}");

    let (code, out, err) = audit(&format!("redis://127.0.0.1:{}", free_port()));
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("no audit: ") && err.lines().count() == 1, "{err}");
}
