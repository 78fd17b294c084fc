//! What only the Redis store can get wrong: its scripts, its keys, its connection.

use crate::fixture::*;
use crate::redis_server::{RedisServer, free_port};
use redis::Commands;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::domain::{Period, ReservationId, Timestamp};
use tollgate::limit::{Admission, Bucket, Claim, LimitName, Outcome, Rule, Scope};
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Ledger, StoreError};

const PATIENCE: Duration = Duration::from_secs(10);

fn gateway(server: &RedisServer) -> RedisLedger {
    RedisLedger::connect(&[&server.url()], PATIENCE).expect("a well-formed address")
}

async fn on(server: &RedisServer) -> Fixture {
    let ledger = Arc::new(gateway(server));
    ledger.ping().await.expect("a running server");
    Fixture::over(ledger)
}

fn rpm(amount: u64) -> Claim {
    per_minute(LimitName::Rpm, 60, amount)
}

/// Every kind of state of every kind of owner.
fn everything() -> Vec<Claim> {
    let window = Claim { rule: Rule::Window { limit: 9, max_wait: 0 }, ..rpm(1) };
    vec![
        per_minute(LimitName::Messages, 9, 1),
        rpm(1),
        dollars(DOLLAR, 100),
        of(Scope::User, "c/u", window),
        of(Scope::User, "c/u", dollars(DOLLAR, 100)),
        of(Scope::App, "shop", dollars(DOLLAR, 100)),
        of(Scope::Pool, "mini", per_minute(LimitName::Tpm, 9_000, 100)),
        of(Scope::Gateway, "", dollars(DOLLAR, 100)),
    ]
}

/// How often the server ran a command.
fn calls(connection: &mut redis::Connection, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(connection).expect("INFO");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().expect("a count").parse().expect("a number"))
}

#[tokio::test]
async fn flushed_scripts_come_back_without_a_failure_or_a_stampede() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let ledger = Arc::clone(&store.ledger);
    for round in 0..3 {
        let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).expect("SCRIPT FLUSH");
        let loads = calls(&mut connection, "script|load");
        let mut tasks = Vec::new();
        for _ in 0..100 {
            let (ledger, admission) = (Arc::clone(&ledger), store.admission(vec![per_minute(LimitName::Rpm, 300, 1)]));
            tasks.push(tokio::spawn(async move { ledger.admit(&admission, Some(NOON)).await }));
        }
        for task in tasks {
            assert!(task.await.expect("no panic").expect("the store answers").admitted, "round {round}");
        }
        assert_eq!(calls(&mut connection, "script|load") - loads, 11, "each script once");
    }
    assert_eq!(store.remaining(0, &per_minute(LimitName::Rpm, 300, 0)).await, 0, "one consumption each");
    let asked = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).expect("SCRIPT FLUSH");
    store.settle(0, &asked, &[300]).await;
    assert_eq!(store.balance(&customer()).await.spent, 300, "before a settlement too");
}

#[tokio::test]
async fn an_admission_and_a_batch_of_settlements_cost_one_round_trip_each() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let asked = store.ask(0, everything()).await;
    assert!(asked.decision.admitted);
    assert_eq!(calls(&mut connection, "evalsha"), 1);
    store.settle(0, &asked, &[1, 1, 50, 1, 50, 50, 90, 50]).await;
    assert_eq!(calls(&mut connection, "evalsha"), 2);
    assert_eq!(calls(&mut connection, "eval"), 0, "no source on the wire");
}

#[tokio::test]
async fn everything_expires_and_is_tagged() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let slow = of(Scope::Customer, "slow", bucket(LimitName::Rpm, 10, 1, HOUR, 10));
    store.ask(0, vec![slow.clone()]).await;
    store.ask(0, vec![Claim { limit: LimitName::Tpm, ..of(Scope::Customer, "slow", rpm(1)) }]).await;
    for i in 0..100 {
        let mut claims = everything();
        claims.push(of(Scope::Customer, &format!("c{i}"), rpm(2)));
        let asked = store.ask(0, claims).await;
        // Most are refused; what ends otherwise than it was claimed is written all the same.
        store.settle(0, &asked, &[1, 1, 50, 1, 50, 50, 90, 50, 1]).await;
    }
    let keys: Vec<String> = connection.keys("*").expect("KEYS");
    assert!(keys.len() >= 100, "{}", keys.len());
    let only_rates = |key: &str| key.strip_prefix("tg1:{c:c").is_some_and(|rest| !rest.starts_with('}'));
    for key in &keys {
        let millis: i64 = connection.pttl(key).expect("PTTL");
        let hours = u64::try_from(millis).expect("a time to live") * 1_000 / HOUR;
        let right = match key.rsplit(':').next().expect("a shelf") {
            "limits" if key.contains("slow") => 10..11,
            "limits" if key.contains(":pool:") || only_rates(key) => 1..2,
            "limits" => 60..61, // midnight and two days
            "holds" | "leases" => 48..49,
            _ => 1..2, // the ends of a moment
        };
        assert!(right.contains(&hours), "{key} lives {hours} h");
        assert!(key.starts_with("tg1:{c:") || key.starts_with("tg1:{shared}:"), "{key}");
    }
    for key in &keys {
        let _: bool = connection.pexpire(key, 1).expect("PEXPIRE");
    }
    let patience = Instant::now() + PATIENCE;
    while redis::cmd("DBSIZE").query::<u64>(&mut connection).expect("DBSIZE") > 0 {
        assert!(Instant::now() < patience);
        let _: Vec<String> = connection.keys("*").expect("KEYS"); // looking at a key is what ends it
    }
}

/// The state of a limit, by its number, under the key of the customer `c`: its kind and its numbers. See `lua/states.lua`.
pub fn stored(connection: &mut redis::Connection, limit: u8) -> (u8, Vec<u64>) {
    let stored: Vec<u8> = connection.get("tg1:{c:c}:limits").expect("a string");
    assert_eq!(stored[0], 1, "{stored:?}");
    let mut rest = &stored[9..];
    while let [number, kind, behind @ ..] = rest {
        let (numbers, behind) = behind.split_at(8 * if *kind == b'b' { 4 } else { 7 });
        if *number == limit {
            let (numbers, _) = numbers.as_chunks::<8>();
            let numbers = numbers.iter().map(|number| f64::from_le_bytes(*number)).inspect(|n| assert_eq!(n.fract(), 0.0));
            return (*kind, numbers.map(|number| number as u64).collect());
        }
        rest = behind;
    }
    panic!("no limit {limit} in {stored:?}")
}

#[tokio::test]
async fn stored_numbers_are_exact() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let cap = 9_000_000 * DOLLAR;
    for i in 0..10 {
        store.ask(i * 317, vec![rpm(1), dollars(cap, cap / 11)]).await;
    }
    let mut connection = server.connection();
    let bucket = stored(&mut connection, 2);
    assert_eq!(bucket, (b'b', vec![50 * 1_000_000 + 9 * 317, NOON.0 + 9 * 317, 1_000_000, 0]));
    let today = NOON.secs() - 43_200;
    assert_eq!(stored(&mut connection, 8), (b'm', vec![today, 0, cap / 11 * 10, 0, 0, 0, 0]));
    let holds: Vec<String> = connection.hvals("tg1:{c:c}:holds").expect("holds");
    let deadline = NOON.0 + 10 * MINUTE;
    assert!(holds.contains(&format!("{deadline}|tg1:{{c:c}}:limits spend_day {today} {}", cap / 11)), "{holds:?}");
}

#[tokio::test]
async fn foreign_and_broken_states_count_as_never_seen() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let state = |limit: u8, kind: u8, numbers: &[f64]| {
        let head = [&[1][..], &f64::MAX.to_le_bytes(), &[limit, kind]].concat();
        [head, numbers.iter().flat_map(|number| number.to_le_bytes()).collect()].concat()
    };
    let (nan, much) = (f64::NAN, 1e300);
    let garbage: [Vec<u8>; 20] = [
        b"".to_vec(),
        b"x".to_vec(),
        b"\x01".to_vec(),
        b"a text that somebody else wrote".to_vec(),
        b"\x01 a text that begins as ours do".to_vec(),
        b"\0\r\n".to_vec(),
        state(2, b'b', &[1.0, 2.0, 3.0]),
        state(2, b'b', &[1.0, 2.0, 0.0, 0.0]),
        state(2, b'b', &[nan, 2.0, 3.0, 0.0]),
        state(2, b'b', &[-much, 2.0, 3.0, 0.0]),
        state(2, b'b', &[1.0, 2.0, 3.0, -1.0]),
        state(2, b'x', &[1.0, 2.0, 3.0, 0.0]),
        state(3, b'w', &[much, 5.0, 4.0, 1.0]),
        state(3, b'w', &[2.0, 5.0, 5.0, 1.0, 4.0, 1.0]),
        state(3, b'w', &[1.0, nan, 4.0, 1.0]),
        state(3, b'w', &[1.0, 5.0, 4.0, -1.0]),
        state(8, b'm', &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        state(8, b'm', &[1.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        state(8, b'm', &[much; 7]),
        state(0, b'm', &[1.0; 7]),
    ];
    for (i, text) in garbage.into_iter().enumerate() {
        let owner = format!("g{i}");
        let customers = |claim| of(Scope::Customer, &owner, claim);
        let _: () = connection.set(format!("tg1:{{c:{owner}}}:limits"), &text).expect("SET");
        let window = Claim { rule: Rule::Window { limit: 9, max_wait: 0 }, limit: LimitName::Tpm, ..rpm(1) };
        let claims: Vec<_> = [rpm(1), window, dollars(DOLLAR, 5)].map(customers).to_vec();
        store.ledger.read(&key(Scope::Customer, &owner)).await.expect("no failure");
        for left in [59, 58] {
            let asked = store.ask(0, claims.clone()).await;
            let remaining: Vec<_> = asked.decision.verdicts.iter().map(|v| v.remaining).collect();
            assert_eq!(remaining, [left, left - 51, DOLLAR - 5 * (60 - left)], "{text:?}");
            store.settle(0, &asked, &[1, 1, 5]).await;
        }
    }
}

#[tokio::test]
async fn keys_of_another_type_hurt_one_customer_once() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let _: () = connection.hset("tg1:{c:c}:limits", "rpm", "x").expect("HSET");
    for key in ["tg1:{c:c}:holds", "tg1:{c:c}:lost", ENDS] {
        let _: () = connection.set(key, "x").expect("SET");
    }
    let refused = store.ask(0, vec![rpm(61)]).await;
    assert_eq!(refused.decision.verdicts[0].outcome, Outcome::Never, "a refusal repairs nothing and does not fail");
    let asked = store.ask(0, vec![rpm(1), dollars(DOLLAR, 5)]).await;
    assert!(asked.decision.admitted);
    assert_eq!(asked.decision.verdicts[0].remaining, 59);
    store.settle(0, &asked, &[1, 3]).await;
    store.settle(0, &asked, &[1, 3]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (3, 0));
    assert_eq!(store.remaining(0, &rpm(0)).await, 59);
}

#[tokio::test]
async fn a_debt_beyond_exact_numbers_stays_a_debt() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let ask = |capacity, refill, amount| {
        let bucket = Bucket::new(capacity, refill, MINUTE).expect("exact");
        Claim { rule: Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: false }, limit: LimitName::Tpm, ..rpm(amount) }
    };
    let asked = store.ask(0, vec![ask(1_000_000_000_000, 1_000_000_000_000, 1)]).await;
    store.settle(0, &asked, &[u64::MAX]).await;
    let asked = store.ask(0, vec![ask(7, 7, 1)]).await; // another unit: the debt would pass 2^53
    assert!(matches!(asked.decision.verdicts[0].outcome, Outcome::Refused(_)), "{:?}", asked.decision);
    assert_eq!(asked.decision.verdicts[0].remaining, 0);
}

/// Where the ends of reservations are kept that a fixture makes: their ids tell of no time.
const ENDS: &str = "tg1:{shared}:ends:0";

#[tokio::test]
async fn ends_are_remembered_for_an_hour_and_then_forgotten() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let early = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
    for minutes in [59, 61, 118] {
        store.settle(minutes * MINUTE, &early, &[300]).await;
    }
    assert_eq!(store.balance(&customer()).await.spent, 300, "once");
    let mut left = async |before: i64| {
        let _: bool = connection.pexpire(ENDS, before).expect("PEXPIRE");
        let asked = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
        store.settle(0, &asked, &[300]).await;
        connection.pttl::<_, i64>(ENDS).expect("PTTL")
    };
    let minute = 60_000;
    assert!((69 * minute..=70 * minute).contains(&left(50 * minute).await), "each for an hour at least");
    assert!((89 * minute..=90 * minute).contains(&left(90 * minute).await), "and not prolonged by every one");
    assert_eq!(connection.hlen::<_, u64>(ENDS).expect("HLEN"), 3);
    let asked = store.ask(0, vec![rpm(1)]).await;
    let holds: u64 = connection.hlen("tg1:{c:c}:holds").expect("HLEN");
    assert_eq!((asked.decision.admitted, holds), (true, 0), "what claims no budget leaves no hold to sweep");
}

#[tokio::test]
async fn ends_of_one_moment_are_looked_up_and_noted_together() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let mut batch = Vec::new();
    // Four customers in each of two moments.
    for i in 0..8_u64 {
        let scope = key(Scope::Customer, &format!("m{i}"));
        let reservation = ReservationId::at(Timestamp(NOON.0 + i / 4 * 8_192_000), u128::from(i));
        let claims = vec![Claim { scope: scope.clone(), ..dollars(DOLLAR, 500) }];
        let asked = store.ask_this(0, Admission { customer: scope, reservation, ..store.admission(claims) }).await;
        batch.push(settlement(&asked, &[300]));
    }
    let counts = |connection: &mut _| ["hmget", "hset", "hdel"].map(|command| calls(connection, command));
    let before = counts(&mut connection);
    for replay in [false, true] {
        store.ledger.settle(&batch, Some(NOON)).await.expect("the store answers");
        if !replay {
            let took = counts(&mut connection).iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>();
            assert_eq!(took, [2, 2, 8], "looked up and noted once a moment, given back one by one");
        }
    }
    for i in 0..8 {
        let balance = store.balance(&key(Scope::Customer, &format!("m{i}"))).await;
        assert_eq!((balance.spent, balance.held), (300, 0), "m{i}: settled once");
    }
    // One that was settled before is found among others that were not.
    let scope = key(Scope::Customer, "m0");
    let fresh = store.admission(vec![Claim { scope: scope.clone(), ..dollars(DOLLAR, 500) }]);
    let reservation = ReservationId::at(NOON, 99);
    let asked = store.ask_this(0, Admission { customer: scope.clone(), reservation, ..fresh }).await;
    let mixed = [batch[1].clone(), settlement(&asked, &[200])];
    store.ledger.settle(&mixed, Some(NOON)).await.expect("the store answers");
    assert_eq!(store.balance(&scope).await.spent, 500);
    assert_eq!(store.balance(&key(Scope::Customer, "m1")).await.spent, 300);
}

#[tokio::test]
async fn a_late_settlement_is_kept_with_the_period_before() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let late = store.ask(0, vec![dollars(DOLLAR, 500)]).await;
    let next = store.ask(24 * HOUR, vec![dollars(DOLLAR, 20)]).await;
    store.settle(24 * HOUR, &late, &[300]).await;
    let (today, tomorrow) = (late.decision.verdicts[0].booked, next.decision.verdicts[0].booked);
    assert_eq!(stored(&mut server.connection(), 8).1, [tomorrow, 0, 20, today, 300, 0, 0]);
}

#[tokio::test]
async fn without_a_given_time_the_servers_clock_decides() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let clock = || {
        let time: (u64, u64) = redis::cmd("TIME").query(&mut server.connection()).expect("TIME");
        Timestamp(time.0 * 1_000_000 + time.1)
    };
    let before = clock();
    let admission = store.admission(vec![rpm(1)]);
    let decision = store.ledger.admit(&admission, None).await.expect("the store answers");
    assert!((before..=clock()).contains(&decision.at), "{:?}", decision.at);
    assert_eq!(decision.verdicts[0].remaining, 59);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_come_together_share_calls_and_each_is_decided() {
    let server = RedisServer::start();
    let store = on(&server).await;
    store.ask(0, vec![rpm(1)]).await; // a connection, and the scripts
    let calls = || {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("INFO");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).expect("scripts were called");
        line.split(',').next().and_then(|calls| calls.parse::<u64>().ok()).expect("a number")
    };
    let before = calls();
    // What all share, and what only one of twenty has: fifty of two hundred fit, each customer's ten at most.
    let claims = |i: usize| vec![of(Scope::Customer, &format!("t{}", i % 20), rpm(6)), dollars(50 * DOLLAR, DOLLAR)];
    // All have asked before the first is answered.
    server.freeze();
    let admissions: Vec<_> = (0..200).map(|i| store.admission(claims(i))).collect();
    let mut asking = Vec::new();
    for admission in &admissions {
        let mut decision = store.ledger.admit(admission, Some(NOON));
        assert!(futures_util::poll!(&mut decision).is_pending());
        asking.push(decision);
    }
    server.thaw();
    let (mut admitted, mut left) = (0, Vec::new());
    for decision in futures_util::future::join_all(asking).await {
        let decision = decision.expect("the store answers");
        admitted += usize::from(decision.admitted);
        left.extend(decision.admitted.then_some(decision.verdicts[1].held));
    }
    left.sort_unstable();
    let right: Vec<_> = (1..=50).map(|n| n * DOLLAR).collect();
    assert_eq!((admitted, left), (50, right), "each saw what the ones before it had taken");
    assert_eq!(store.balance(&customer()).await.held, 50 * DOLLAR);
    // Two went alone, the others sixteen at a time.
    assert_eq!(calls() - before, 2 + 198_u64.div_ceil(16));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_costs_a_deadline_and_mixes_nothing_up() {
    let server = RedisServer::start();
    let deadline = Duration::from_millis(200);
    let ledger = RedisLedger::connect(&[&server.url()], deadline).expect("a well-formed address");
    let store = Fixture::over(Arc::new(ledger));
    settle_down(&store).await;
    server.freeze();
    let started = Instant::now();
    let mut tasks = Vec::new();
    for i in 0..100 {
        let ledger = Arc::clone(&store.ledger);
        let admission = store.admission(vec![of(Scope::Customer, &format!("f{}", i % 10), rpm(1))]);
        tasks.push(tokio::spawn(async move { ledger.admit(&admission, Some(NOON)).await }));
    }
    for task in tasks {
        let answer = task.await.expect("no panic");
        assert!(matches!(answer, Err(StoreError::Unreachable(_))), "{answer:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    server.thaw();
    settle_down(&store).await;
    for i in 0..10 {
        // Each customer asks for another amount: an answer that is another's would show.
        let asked = store.ask(MINUTE, vec![of(Scope::Customer, &format!("f{i}"), rpm(i + 1))]).await;
        assert_eq!(asked.decision.verdicts[0].remaining, 60 - (i + 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_later_or_comes_back_is_found() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let ledger = RedisLedger::connect(&[&url], PATIENCE).expect("starting needs no server");
    let store = Fixture::over(Arc::new(ledger));
    let started = Instant::now();
    for _ in 0..20 {
        let answer = store.ledger.admit(&store.admission(vec![rpm(1)]), Some(NOON)).await;
        assert!(matches!(answer, Err(StoreError::Unreachable(_))), "{answer:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(5), "refused connections are known at once: {:?}", started.elapsed());
    for _ in 0..2 {
        let server = RedisServer::start_on(port);
        settle_down(&store).await;
        assert_eq!(store.remaining(0, &rpm(0)).await, 60);
        assert_eq!(store.outcome(0, rpm(10)).await, Outcome::Fits);
        drop(server);
        let answer = store.ledger.ping().await;
        assert!(matches!(answer, Err(StoreError::Unreachable(_))), "{answer:?}");
    }
}

/// Waits until the store answers: its other side is a process that starts or thaws.
async fn settle_down(store: &Fixture) {
    let patience = Instant::now() + PATIENCE;
    while let Err(error) = store.ledger.ping().await {
        assert!(Instant::now() < patience, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn error_replies_are_failures_of_the_store() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut connection = server.connection();
    let set = |connection: &mut redis::Connection, name: &str, value: &str| {
        let _: () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query(connection).expect("CONFIG SET");
    };
    set(&mut connection, "maxmemory", "1");
    let answer = store.ledger.admit(&store.admission(vec![rpm(1)]), Some(NOON)).await;
    assert!(matches!(&answer, Err(StoreError::Failed(text)) if text.contains("OOM")), "{answer:?}");
    set(&mut connection, "maxmemory", "0");
    assert_eq!(store.remaining(0, &rpm(0)).await, 60, "and nothing was taken");
    set(&mut connection, "min-replicas-to-write", "1");
    let answer = store.ledger.admit(&store.admission(vec![rpm(1)]), Some(NOON)).await;
    assert!(matches!(&answer, Err(StoreError::Failed(text)) if text.contains("NOREPLICAS")), "{answer:?}");
    set(&mut connection, "min-replicas-to-write", "0");
    assert!(store.ask(0, vec![rpm(1)]).await.decision.admitted);
}

#[tokio::test]
async fn an_evicting_server_is_noticed() {
    let server = RedisServer::start();
    let good = gateway(&server);
    good.ping().await.expect("a running server");
    assert_eq!(good.may_evict(), Some(false));
    let mut connection = server.connection();
    let _: () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("allkeys-lru").query(&mut connection).expect("CONFIG SET");
    let bad = gateway(&server);
    assert_eq!(bad.may_evict(), None, "not asked yet");
    bad.ping().await.expect("a running server");
    assert_eq!(bad.may_evict(), Some(true));
}

#[tokio::test]
async fn no_error_tells_the_password() {
    let server = RedisServer::start();
    let port = server.port();
    let nobody = free_port();
    for url in [
        format!("redis://:p%40ssw0rd@127.0.0.1:{nobody}/0"),
        format!("redis://user:p%40ssw0rd@127.0.0.1:{port}/0"),
        String::from("redis://:p%40ssw0rd@no-such-host.invalid:1/0"),
        String::from("http://:p%40ssw0rd@127.0.0.1/"),
        String::from("p%40ssw0rd"),
    ] {
        let text = match RedisLedger::connect(&[&url], PATIENCE) {
            Ok(ledger) => ledger.ping().await.expect_err("nobody, or somebody else").to_string(),
            Err(error) => error.to_string(),
        };
        assert!(!text.contains("p%40ss") && !text.contains("p@ss"), "{text}");
        assert!(!text.is_empty());
    }
    assert!(matches!(RedisLedger::connect(&[], PATIENCE), Err(StoreError::Failed(_))), "no address at all");
}

#[tokio::test]
async fn a_vanished_counter_is_never_driven_below_zero() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let asked = store.ask(0, vec![dollars(DOLLAR, 500), rpm(1)]).await;
    let _: () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
    let other = store.ask(0, vec![dollars(DOLLAR, 70)]).await;
    store.settle(0, &asked, &[300, 1]).await;
    store.settle(0, &asked, &[300, 1]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.limit, balance.spent, balance.held), (LimitName::Spend(Period::Day), 300, 70));
    store.settle(0, &other, &[70]).await;
    assert_eq!(store.balance(&customer()).await.held, 0);
}
