//! What a request costs in each mode, where keys lie, and that nothing ever crosses slots.

use crate::fixture::*;
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use crate::scene::{DEADLINE, app, confirmed, ledger, stands, store, until};
use std::sync::Arc;
use tollgate::config::policy::{RedisServers, Secret};
use tollgate::limit::{Admission, Claim, Elastic, LimitName, Measure, Outcome, Rule, Scope};
use tollgate::store::documents::{Collection, Documents, Expected, Page, Write};
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::store::{self as tollgate_store, Known, Ledger, Renewal};

fn rpm(amount: u64) -> Claim {
    per_minute(LimitName::Rpm, 60, amount)
}

fn pool(amount: u64) -> Claim {
    of(Scope::Pool, "mini", per_minute(LimitName::Tpm, 10_000, amount))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_claimed_by_plans_or_overrides_that_are_not_in_force() {
    let server = RedisServer::start();
    let cluster = RedisCluster::without_replicas(3);
    let alone = Fixture::over(Arc::new(RedisLedger::connect(&[&server.url()], DEADLINE).expect("an address")));
    for (name, store) in [("one server", alone), ("a cluster", store(&cluster))] {
        let asks = async |known: Known| {
            let admission = store.admission(vec![rpm(1), pool(9)]);
            store.ledger.admit_known(&admission, &known, Some(NOON)).await.expect("it answers")
        };
        let decided =
            |asked: tollgate_store::Asked| matches!(asked, tollgate_store::Asked::Decided(decision) if decision.admitted);
        assert!(store.ledger.tells(), "{name}");
        assert!(decided(asks(Known::default()).await), "{name}: nothing was ever said");
        for (whose, number, right) in [
            (Some(customer()), 7, Known { customer: 7, plans: 0 }),
            (None, (1 << 53) - 1, Known { customer: 7, plans: (1 << 53) - 1 }),
            (Some(customer()), 8, Known { customer: 8, plans: (1 << 53) - 1 }),
        ] {
            store.ledger.tell(whose.as_ref(), number, None).await.expect("it answers");
            for known in [Known::default(), Known { customer: right.customer, plans: 1 }, Known { customer: 1, ..right }] {
                assert_eq!(asks(known).await, tollgate_store::Asked::Stale(right), "{name}: {known:?}");
            }
        }
        assert!(decided(asks(Known { customer: 8, plans: (1 << 53) - 1 }).await), "{name}");
        assert_eq!(store.remaining(0, &rpm(0)).await, 58, "{name}: two were admitted, and what was stale took nothing");
    }
}

/// Scripts run for one request, by step.
async fn cost(store: &Fixture, calls: impl Fn() -> u64, claims: Vec<Claim>, confirms: u64) -> [u64; 3] {
    let before = calls();
    let asked = store.ask(0, claims).await;
    assert!(asked.decision.admitted);
    let admitted = calls();
    until("confirmed", async || calls() > before + confirms).await;
    // Whatever is off the path has run when the count stands as it should; more would show in the next figure.
    let confirmed = calls().max(admitted);
    let actual: Vec<_> = asked.admission.claims.iter().map(|claim| claim.amount).collect();
    store.settle(0, &asked, &actual).await;
    [admitted - before, confirmed - before, calls() - confirmed]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_costs_two_calls_on_its_path_in_a_cluster_and_one_elsewhere() {
    let server = RedisServer::start();
    let alone = RedisLedger::connect(&[&server.url()], DEADLINE).expect("an address");
    let alone = Fixture::over(Arc::new(alone));
    let stats = || {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("INFO");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.map_or(0, |line| line.split(',').next().expect("a count").parse().expect("a number"))
    };
    let everything = || vec![rpm(1), dollars(DOLLAR, 500), app(dollars(DOLLAR, 500)), pool(9)];
    assert_eq!(cost(&alone, stats, everything(), 0).await, [1, 1, 1], "one server");

    let cluster = RedisCluster::without_replicas(3);
    let store = store(&cluster);
    let stats = || cluster.calls("evalsha");
    // The confirmation may have run before the answer is counted, so only the sum of both is exact.
    let [path, with_confirmation, settled] = cost(&store, stats, everything(), 2).await;
    assert!((2..=3).contains(&path), "{path}");
    assert_eq!((with_confirmation, settled), (3, 2), "two on the path, one confirmation behind it, a settlement each");
    assert_eq!(
        cost(&store, stats, vec![rpm(1), dollars(DOLLAR, 500)], 0).await,
        [1, 1, 2],
        "nothing shared; its end is told everywhere"
    );
    assert_eq!(cost(&store, stats, vec![app(dollars(DOLLAR, 500)), pool(9)], 0).await, [1, 1, 2], "nothing of the customer");
    assert_eq!(cost(&store, stats, vec![rpm(1), pool(9)], 1).await, [2, 2, 2], "no budget of the customer: nothing to confirm");
    let before = stats();
    assert!(!store.ask(0, vec![rpm(61), pool(1)]).await.decision.admitted);
    assert_eq!(stats() - before, 2, "refused at once; the second call says how the rest stands");
    let before = stats();
    assert!(!store.ask(0, vec![rpm(1), pool(99_999)]).await.decision.admitted);
    assert_eq!(stats() - before, 3, "refused second; the first is given back");
    assert_eq!(cluster.calls("eval"), 0, "no source on the wire");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_expire_lie_under_few_tags_and_no_call_crosses_slots() {
    let cluster = RedisCluster::without_replicas(3);
    let store = store(&cluster);
    for i in 0..60 {
        let owner = format!("cust_{i}");
        let mine = |claim| of(Scope::Customer, &owner, claim);
        let user = |claim| of(Scope::User, &format!("{owner}/u"), claim);
        let window = Claim { rule: Rule::Window { limit: 9, max_wait: 0 }, ..rpm(1) };
        let claims = vec![
            mine(rpm(1)),
            mine(dollars(DOLLAR, 5)),
            user(window),
            user(dollars(DOLLAR, 5)),
            app(dollars(DOLLAR, 5)),
            pool(1),
        ];
        let asked = store.ask(0, claims).await;
        assert!(asked.decision.admitted);
        let renewal = Renewal {
            reservation: asked.admission.reservation,
            customer: key(Scope::Customer, &owner),
            lease: MINUTE,
            metered: 0,
        };
        store.ledger.renew(&[renewal], Some(NOON)).await.expect("the store answers");
        if i % 2 == 0 {
            store.settle(0, &asked, &[1, 3, 1, 3, 3, 1]).await;
        }
        if i == 30 {
            // A node that forgets its scripts gets them again, and the others are not bothered.
            let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut cluster.connection(1)).expect("SCRIPT FLUSH");
        }
    }
    assert_eq!(store.ledger.sweep(Some(NOON.plus(HOUR))).await.expect("the store answers"), 60, "30 customers, in both groups");
    assert_eq!(stands(&*store.ledger, &key(Scope::App, "shop")).await, (30 * 3 + 30 * 5, 0));
    let keys = cluster.keys();
    for (node, key) in &keys {
        let millis: i64 = redis::cmd("PTTL").arg(key).query(&mut cluster.connection(*node)).expect("PTTL");
        assert!(millis > 0, "{key} never expires");
        let tag = key.strip_prefix("tg1:{").and_then(|key| key.split_once('}')).expect("a tag").0;
        assert!(tag == "shared" || (tag.len() == 3 && tag.starts_with('g')), "{key}");
    }
    for node in 0..3 {
        assert!(keys.iter().any(|(at, _)| *at == node), "node {node} keeps something");
        let errors: String = redis::cmd("INFO").arg("errorstats").query(&mut cluster.connection(node)).expect("INFO");
        assert!(!errors.contains("CROSSSLOT"), "node {node}: {errors}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_second_group_decides_holds_in_the_first() {
    let cluster = RedisCluster::without_replicas(3);
    let store = store(&cluster);
    let message = || per_minute(LimitName::Messages, 3, 1);

    // Refused there: given back here, but for the message.
    for left in [2, 1, 0] {
        let claims = vec![message(), rpm(7), dollars(DOLLAR, 500), app(dollars(499, 500))];
        let asked = store.ask(0, claims).await;
        let verdicts: Vec<_> = asked.decision.verdicts.iter().map(|v| (v.outcome, v.remaining, v.held)).collect();
        let right = [(Outcome::Fits, left, 0), (Outcome::Fits, 60, 0), (Outcome::Fits, DOLLAR, 0), (Outcome::Exhausted, 499, 0)];
        assert_eq!((asked.decision.admitted, verdicts), (false, right.to_vec()));
    }
    assert_eq!(stands(&*store.ledger, &customer()).await, (0, 0));
    assert!(cluster.keys().iter().all(|(_, key)| !key.ends_with(":holds")), "no hold is left");

    // A place in line is given back too.
    let line = |wait| waiting(bucket(LimitName::Tpm, 4, 1, SECOND, 4), wait);
    assert!(store.ask(0, vec![line(0)]).await.decision.admitted);
    for _ in 0..3 {
        let asked = store.ask(0, vec![line(MINUTE), app(dollars(0, 1))]).await;
        assert_eq!(asked.decision.verdicts[0].outcome, Outcome::Starts(4 * SECOND), "each finds the line as short as before");
        assert_eq!((asked.decision.admitted, asked.decision.start_in), (false, 0));
    }

    // Waits: the longest of both, and whoever waits long here leaves the ceiling there for later.
    let soon = |wait| of(Scope::App, "line", waiting(bucket(LimitName::Rpm, 1, 1, SECOND, 1), wait));
    assert!(store.ask(0, vec![soon(0)]).await.decision.admitted);
    let asked = store.ask(0, vec![line(MINUTE), soon(MINUTE), pool(5)]).await;
    let outcomes: Vec<_> = asked.decision.verdicts.iter().map(|v| v.outcome).collect();
    assert_eq!(outcomes, [Outcome::Starts(4 * SECOND), Outcome::Starts(SECOND), Outcome::Deferred]);
    assert_eq!((asked.decision.admitted, asked.decision.start_in), (true, 4 * SECOND));
    assert_eq!(store.remaining(0, &pool(0)).await, 10_000, "no mortgage");

    // A smaller output cap granted there is what is held here, and what is settled.
    let elastic = Elastic::new(2_500_500, 10_000_000, 1_000, 16).expect("exact");
    let wanted = elastic.cost(1_000).get();
    for (own, shared, granted) in
        [(DOLLAR, 1_002_501, Some(100)), (2_002_501, 1_502_501, Some(150)), (502_501, DOLLAR, Some(50)), (DOLLAR, DOLLAR, None)]
    {
        let (mine, apps) = (format!("elastic-{own}-{shared}"), format!("app-{own}-{shared}"));
        let claims = vec![of(Scope::Customer, &mine, dollars(own, wanted)), of(Scope::App, &apps, dollars(shared, wanted))];
        let asked = store.ask_this(0, Admission { elastic: Some(elastic), ..store.admission(claims) }).await;
        let held = elastic.cost(granted.unwrap_or(1_000)).get();
        assert_eq!((asked.decision.admitted, asked.decision.granted), (true, granted), "{own} {shared}");
        for (verdict, cap) in asked.decision.verdicts.iter().zip([own, shared]) {
            assert_eq!((verdict.held, verdict.remaining), (held, cap - held), "{own} {shared}");
        }
        confirmed(&cluster, &mine).await;
        let scopes = [key(Scope::Customer, &mine), key(Scope::App, &apps)];
        for scope in &scopes {
            assert_eq!(stands(&*store.ledger, scope).await, (0, held), "{scope:?}");
        }
        store.settle(0, &asked, &[400_000, 400_000]).await;
        for scope in &scopes {
            assert_eq!(stands(&*store.ledger, scope).await, (400_000, 0), "{scope:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_through_two_gateways_never_pass_either_cap() {
    let cluster = RedisCluster::without_replicas(3);
    let gateways = [ledger(&cluster, DEADLINE), ledger(&cluster, DEADLINE)];
    let store = store(&cluster);
    for (name, own, shared) in
        [("tight", 5 * DOLLAR, 50 * DOLLAR), ("loose", 50 * DOLLAR, 5 * DOLLAR), ("both", 5 * DOLLAR, 5 * DOLLAR)]
    {
        // From half a cent to one and a half, five dollars' worth in all, beside 20 cents that are spent.
        let claims = |amount| {
            vec![
                of(Scope::Customer, name, dollars(own, amount)),
                of(Scope::App, name, dollars(shared, amount)),
                of(Scope::Customer, name, rpm(0)),
            ]
        };
        let spent = store.ask(0, claims(200_000_000)).await;
        store.settle(0, &spent, &[200_000_000, 200_000_000, 0]).await;
        let tasks: Vec<_> = (0..500_u64)
            .map(|i| {
                let (ledger, admission) = (gateways[i as usize % 2].clone(), store.admission(claims(5_000_000 + i * 20_000)));
                tokio::spawn(async move {
                    let decision = ledger.admit(&admission, Some(NOON)).await.expect("the store answers");
                    Asked { admission, decision }
                })
            })
            .collect();
        let mut admitted = Vec::new();
        for task in tasks {
            let asked = task.await.expect("no panic");
            if asked.decision.admitted {
                admitted.push(asked);
            }
        }
        let held: u64 = admitted.iter().map(|asked| asked.admission.claims[0].amount).sum();
        assert!(held <= 4_800_000_000, "{name}: {held} over the cap");
        assert!(held > 4_800_000_000 - 2 * 15_000_000, "{name}: {held}, and more would have fitted");
        let scopes = [key(Scope::Customer, name), key(Scope::App, name)];
        for scope in &scopes {
            assert_eq!(
                stands(&*store.ledger, scope).await,
                (200_000_000, held),
                "{name}: {scope:?}, what was refused is given back"
            );
        }
        for asked in &admitted {
            assert_eq!(asked.admission.claims[0].measure, Measure::Money);
            let amount = asked.admission.claims[0].amount;
            for ledger in &gateways {
                let batch = [settlement(asked, &[amount, amount, 0])];
                ledger.settle(&batch, Some(NOON)).await.expect("the store answers");
            }
        }
        for scope in &scopes {
            assert_eq!(stands(&*store.ledger, scope).await, (200_000_000 + held, 0), "{name}: {scope:?}, each once");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_a_reservations_place_in_two_groups_fits_beside_it_or_is_refused() {
    let cluster = RedisCluster::without_replicas(3);
    let store = store(&cluster);
    let claims = |amount| vec![dollars(1_000, amount), app(dollars(1_000, amount))];
    let all = async || [stands(&*store.ledger, &customer()).await, stands(&*store.ledger, &key(Scope::App, "shop")).await];
    let old = store.ask(0, claims(600)).await;
    let ended = settlement(&old, &[10, 10]);
    let replace = async |amount| {
        let admission = store.admission(claims(amount));
        let decision = store.ledger.replace(&ended, &admission, Some(NOON)).await.expect("the store answers");
        Asked { admission, decision }
    };
    assert!(!replace(401).await.decision.admitted, "in its place it would fit");
    assert_eq!(all().await, [(0, 600); 2], "the old one stands");
    let new = replace(400).await;
    assert!(new.decision.admitted);
    assert_eq!(all().await, [(10, 400); 2], "the old one has ended in both groups");
    store.settle(0, &old, &[600, 600]).await;
    assert_eq!(all().await, [(10, 400); 2], "and is not booked again");
    store.settle(0, &new, &[5, 5]).await;
    assert_eq!(all().await, [(15, 0); 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_spread_over_a_cluster_and_are_found_there() {
    let cluster = RedisCluster::without_replicas(3);
    let servers = RedisServers::Cluster(vec![Secret::new(&cluster.urls()[0])]);
    let documents = RedisDocuments::open(&servers, DEADLINE).expect("a well-formed address");
    let write = |collection, n: u64| Write {
        collection,
        id: format!("id {{{n}}}"),
        expected: Expected::Nothing,
        value: Some(format!("value {n}").into()),
        keep: None,
        rank: n,
    };
    let single: Vec<_> = (0..60).map(|n| write(Collection::Replies, n)).collect();
    let listed: Vec<_> = (0..60).map(|n| write(Collection::Tickets, n)).collect();
    for writes in [&single, &listed] {
        documents.put_all(writes, Some(NOON)).await.expect("the store answers");
        for write in writes {
            let found = documents.get(write.collection, &write.id, Some(NOON)).await.expect("the store answers");
            assert_eq!(found.map(|document| document.value), write.value, "{}", write.id);
        }
    }
    let page = Page { after: None, up_to: None, limit: 100 };
    let list = documents.list(Collection::Tickets, &page, Some(NOON)).await.expect("the store answers");
    assert_eq!(list.iter().map(|listed| listed.rank).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    let keys = cluster.keys();
    assert!((0..3).all(|node| keys.iter().any(|(at, _)| *at == node)), "every node keeps some");
}
