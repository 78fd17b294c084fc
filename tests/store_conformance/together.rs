//! Requests that share a call of a script: each must be decided and booked as if it had had a call of its own, one after the other.

use crate::fixture::*;
use crate::redis_server::RedisServer;
use crate::reference::Reference;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tollgate::domain::{Period, Zone};
use tollgate::limit::{Admission, Bucket, Claim, Decision, LimitName, Measure, Outcome, Rule, Scope, Settlement};
use tollgate::store::redis::RedisLedger;

/// A server, and a ledger that has its scripts.
async fn server() -> (RedisServer, Fixture) {
    let server = RedisServer::start();
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
    let store = Fixture::over(Arc::new(ledger));
    store.ask(0, vec![of(Scope::Customer, "first", per_minute(LimitName::Rpm, 60, 1))]).await;
    (server, store)
}

/// The decisions on eighteen admissions that all ask before any is answered: two go alone, and then sixteen in one call.
async fn together(server: &RedisServer, store: &Fixture, micros: u64, admissions: &[Admission]) -> Vec<Decision> {
    server.freeze();
    let mut asking = Vec::new();
    for admission in admissions {
        let mut decision = store.ledger.admit(admission, Some(NOON.plus(micros)));
        assert!(futures_util::poll!(&mut decision).is_pending());
        asking.push(decision);
    }
    server.thaw();
    join_all(asking).await.into_iter().map(|decision| decision.expect("the store answers")).collect()
}

fn window(limit: LimitName, most: u64, amount: u64) -> Claim {
    Claim { rule: Rule::Window { limit: most, max_wait: 0 }, ..per_minute(limit, 9, amount) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_in_a_call_as_many_pass_as_the_application_has_room_for() {
    let (server, store) = server().await;
    let rpm = |i: usize| of(Scope::Customer, &format!("t{i}"), per_minute(LimitName::Rpm, 60, 1));
    let limits = [
        (per_minute(LimitName::Tpm, 50, 10), Outcome::Refused(12 * SECOND)),
        (window(LimitName::Tpm, 50, 10), Outcome::Refused(61 * SECOND)),
        (dollars(50, 10), Outcome::InFlight),
    ];
    for (limit, refused) in limits {
        let owner = format!("{:?}", limit.rule).split(' ').next().expect("a kind").to_lowercase();
        let shared = of(Scope::App, &owner, limit);
        // Two that go alone, and then sixteen.
        let alone = (0..2).map(|i| store.admission(vec![rpm(i)]));
        let all: Vec<_> = alone.chain((2..18).map(|i| store.admission(vec![rpm(i), shared.clone()]))).collect();
        let calls = calls(&server);
        let decisions = together(&server, &store, 0, &all).await;
        assert_eq!(self::calls(&server) - calls, 3, "{owner}");
        let stand: Vec<_> = decisions[2..].iter().map(|d| (d.admitted, d.verdicts[1].outcome, d.verdicts[1].remaining)).collect();
        let right: Vec<_> = (1..=5).map(|n| (true, Outcome::Fits, 50 - 10 * n)).chain(vec![(false, refused, 0); 11]).collect();
        assert_eq!(stand, right, "{owner}");
        for decision in &decisions[7..] {
            assert_eq!(decision.verdicts[0].outcome, Outcome::Fits, "only the application's limit refuses");
        }
        // Settled to half in one call, the five leave room for two more and a half.
        let pairs: Vec<_> = all.into_iter().zip(decisions).filter(|(_, decision)| decision.admitted).skip(2).collect();
        let ends = pairs.into_iter().map(|(admission, decision)| settlement(&Asked { admission, decision }, &[1, 5]));
        store.ledger.settle(&ends.collect::<Vec<_>>(), Some(NOON)).await.expect("the store answers");
        assert_eq!(store.remaining(0, &shared).await, 25, "{owner}");
    }
}

/// How often the server ran a script.
fn calls(server: &RedisServer) -> u64 {
    ran(server, "evalsha")
}

/// How many calls were decided one request after the other, and not by the sums: only those look into the index of leases.
fn one_by_one(server: &RedisServer) -> u64 {
    ran(server, "zmscore")
}

fn ran(server: &RedisServer, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("INFO");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_whose_sum_fits_exactly_pass_and_of_one_token_less_the_last_does_not() {
    let (server, store) = server().await;
    let own = |i: usize| of(Scope::Customer, &format!("t{i}"), per_minute(LimitName::Rpm, 60, 1));
    let mirror = |room| {
        let bucket = Bucket::new(room, room, MINUTE).expect("exact");
        Claim { rule: Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: true }, ..per_minute(LimitName::Tpm, 9, 10) }
    };
    let limits = |room| [per_minute(LimitName::Tpm, room, 10), mirror(room), dollars(room, 10)];
    for (room, slow) in [(160, 0), (159, 1)] {
        for (n, limit) in limits(room).into_iter().enumerate() {
            let shared = of(Scope::App, &format!("{room}{n}"), limit);
            let alone = (0..2).map(|i| store.admission(vec![own(i)]));
            let all: Vec<_> = alone.chain((2..18).map(|i| store.admission(vec![own(i), shared.clone()]))).collect();
            let before = one_by_one(&server);
            let decisions = together(&server, &store, 0, &all).await;
            assert_eq!(one_by_one(&server) - before, slow, "{shared:?}");
            let stand: Vec<_> = decisions[2..].iter().map(|d| (d.admitted, d.verdicts[1].remaining)).collect();
            let right: Vec<_> =
                (1..=16).map(|i| (10 * i <= room, if 10 * i <= room { room - 10 * i } else { room % 10 })).collect();
            assert_eq!(stand, right, "{shared:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_refused_among_sixteen_takes_its_message_and_the_others_pass() {
    let (server, store) = server().await;
    let model = Reference::default();
    let shared = of(Scope::App, "middle", dollars(1_000, 10));
    let all: Vec<_> = (0..18)
        .map(|i| {
            let own = |limit| of(Scope::Customer, &format!("m{i}"), limit);
            // The tenth asks more than its plan has.
            let tokens = if i == 9 { 61 } else { 60 };
            let messages = own(Claim { measure: Measure::Message, ..per_minute(LimitName::Messages, 5, 1) });
            store.admission(vec![messages, own(per_minute(LimitName::Tpm, 60, tokens)), shared.clone()])
        })
        .collect();
    let before = one_by_one(&server);
    let decisions = together(&server, &store, 0, &all).await;
    assert_eq!(one_by_one(&server) - before, 1);
    let right: Vec<_> = all.iter().map(|admission| model.decide(admission, NOON)).collect();
    assert_eq!(decisions, right);
    assert_eq!((decisions[9].admitted, decisions[9].verdicts[0].remaining), (false, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_there_already_grows_whoever_shares_its_call() {
    let (server, store) = server().await;
    let shared = of(Scope::App, "grows", dollars(10_000, 10));
    let of_customer = |i: usize, amount| of(Scope::Customer, &format!("g{i}"), dollars(1_000, amount));
    let first = store.admission(vec![of_customer(7, 30)]);
    store.ask_this(0, first.clone()).await;
    let mut all: Vec<_> = (0..18).map(|i| store.admission(vec![of_customer(i, 10), shared.clone()])).collect();
    all[9].reservation = first.reservation;
    all[9].customer = first.customer.clone();
    let before = one_by_one(&server);
    let decisions = together(&server, &store, 0, &all).await;
    assert_eq!(one_by_one(&server) - before, 1, "its call is not decided by the sums");
    assert!(decisions.iter().all(|decision| decision.admitted));
    assert_eq!(decisions.iter().map(|d| d.verdicts[1].held).collect::<Vec<_>>(), (1..=18).map(|i| 10 * i).collect::<Vec<_>>());
    // Its end gives back all that it holds, whatever it mentions; so do the others'.
    let ends: Vec<_> =
        all.into_iter().zip(decisions).map(|(admission, decision)| settlement(&Asked { admission, decision }, &[1, 1])).collect();
    store.ledger.settle(&ends, Some(NOON)).await.expect("the store answers");
    let app = store.balance(&key(Scope::App, "grows")).await;
    let grown = store.balance(&key(Scope::Customer, "g7")).await;
    assert_eq!((app.spent, app.held, grown.spent, grown.held), (18, 0, 1, 0));
}

/// What one of a crowd claims: its customer's, the application's, the gateway's and the pool's limits. All are scarce and of all kinds, or
/// all have room and are such as the scripts sum up.
fn claims(chance: &mut fastrand::Rng, hours: u64, roomy: bool) -> Vec<Claim> {
    let customer = format!("c{}", chance.u64(0..5));
    let (tokens, money) = (chance.u64(0..40), chance.u64(0..40));
    let day = Zone::default().boundaries(Period::Day, NOON.plus(hours * HOUR));
    // A plan may change between two requests, and gateways may not agree on it.
    let room = if roomy { 50 } else { 1 };
    let changed = room * if chance.u8(0..if roomy { 255 } else { 40 }) == 0 { 2 } else { 1 };
    let bucket = |limit: LimitName, capacity: u64, amount: u64, mirrors: bool| {
        let bucket = Bucket::new(capacity * changed, capacity, MINUTE).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 5 * SECOND * (capacity % 2), forgive: !mirrors, mirrors };
        Claim { rule, ..per_minute(limit, 9, amount) }
    };
    let spend = |cap: u64, amount: u64| budget(Period::Day, day, cap * changed, amount);
    let mut claims = vec![
        of(Scope::Customer, &customer, bucket(LimitName::Messages, 7, 1, false)),
        of(Scope::Customer, &customer, bucket(LimitName::Rpm, 6, 1, false)),
        of(Scope::Customer, &customer, spend(200, money)),
        of(Scope::App, "shop", bucket(LimitName::Rpm, 11, 1, false)),
        of(
            Scope::App,
            "shop",
            if roomy { bucket(LimitName::Tpm, 90, tokens, false) } else { window(LimitName::Tpm, 300 * changed, tokens) },
        ),
        of(Scope::App, "shop", spend(700, money)),
        of(Scope::Gateway, "", spend(900, money)),
        of(Scope::Pool, "mini", bucket(LimitName::Rpm, 13, 1, false)),
        of(Scope::Pool, "mini", bucket(LimitName::Tpm, 400, tokens, true)),
    ];
    claims.retain(|claim| claim.limit == LimitName::Rpm || chance.u8(0..8) > 0);
    claims
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shares_a_call_is_decided_and_booked_as_one_by_one() {
    let (server, _) = server().await;
    for seed in 0..12 {
        let roomy = seed >= 6;
        let slow = one_by_one(&server);
        let (model, mut chance) = (Reference::default(), fastrand::Rng::with_seed(seed));
        let _: () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
        // A new ledger: what another saw spent would be put back.
        let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
        let mut crowd = Fixture::over(Arc::new(ledger));
        crowd.numbered_from(1_000 * (seed + 1));
        crowd.ledger.ping().await.expect("the store answers");
        let (mut open, mut ended, mut micros): (Vec<Settlement>, Vec<Settlement>, u64) = (Vec::new(), Vec::new(), 0);
        for round in 0..30 {
            let all: Vec<_> = (0..18).map(|_| crowd.admission(claims(&mut chance, micros / HOUR, roomy))).collect();
            let decisions = together(&server, &crowd, micros, &all).await;
            for (admission, decision) in all.into_iter().zip(decisions) {
                let right = model.decide(&admission, NOON.plus(micros));
                assert_eq!(decision, right, "seed {seed}, round {round}, of {admission:?}");
                if decision.admitted {
                    let actual: Vec<_> = admission.claims.iter().map(|claim| claim.amount * chance.u64(0..30) / 20).collect();
                    open.push(settlement(&Asked { admission, decision }, &actual));
                }
            }
            let passed = [0, 1, 700_000, 20 * SECOND, MINUTE, 7 * HOUR][chance.usize(0..6)];
            micros += passed;
            if passed > HOUR {
                ended.clear(); // longer ago than a store remembers
            }
            chance.shuffle(&mut open);
            let mut batch = open.split_off(open.len() / 3);
            // Some are repeated, within a batch and later.
            batch.extend_from_within(..batch.len().min(2));
            batch.extend(ended.iter().rev().take(2).cloned());
            crowd.ledger.settle(&batch, Some(NOON.plus(micros))).await.expect("the store answers");
            batch.iter().for_each(|end| model.book(end, NOON.plus(micros)));
            ended.extend(batch);
            for scope in [key(Scope::App, "shop"), key(Scope::Gateway, ""), key(Scope::Customer, "c1")] {
                let balances = crowd.ledger.read(&scope).await.expect("the store answers");
                let known = |balance: &tollgate::store::Balance| balance.spent + balance.held > 0;
                let right: Vec<_> = model.balances(&scope).into_iter().filter(known).collect();
                assert_eq!(balances.into_iter().filter(known).collect::<Vec<_>>(), right, "seed {seed}, round {round}");
            }
        }
        // Of thirty rounds of three calls, two of one admission and one of sixteen.
        let slow = one_by_one(&server) - slow;
        assert!(if roomy { slow < 15 } else { slow > 30 }, "seed {seed}: {slow} calls were not decided by the sums");
    }
}
