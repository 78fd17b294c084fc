//! Gateways that die between the steps of an admission, and holds that are swept in two groups.
//!
//! A gateway dies with its runtime: what it left for later is then never done.

use crate::fixture::*;
use crate::redis_cluster::RedisCluster;
use crate::scene::{DEADLINE, app, confirmed, key_of, ledger, slot_of, stands, store};
use tollgate::limit::{Admission, Claim, Decision, LimitName, Scope, Settlement};
use tollgate::store::outage::Remote;
use tollgate::store::{Ledger, StoreError};

/// The lease of the fixture's admissions.
const LEASE: u64 = 10 * MINUTE;

fn claims() -> Vec<Claim> {
    let user = |claim| of(Scope::User, "c/u", claim);
    let pool = of(Scope::Pool, "mini", per_minute(LimitName::Tpm, 10_000, 700));
    vec![per_minute(LimitName::Rpm, 60, 1), dollars(DOLLAR, 500), user(dollars(DOLLAR, 500)), app(dollars(DOLLAR, 500)), pool]
}

fn scopes() -> [tollgate::limit::ScopeKey; 3] {
    [customer(), key(Scope::User, "c/u"), key(Scope::App, "shop")]
}

/// A gateway that dies as soon as it has the answer.
fn died(cluster: &RedisCluster, admission: &Admission) -> (Result<Decision, StoreError>, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // A deadline that makes the provisional lease, which is some deadlines long, shorter than the real one.
    let gateway = ledger(cluster, DEADLINE / 10);
    let provisional = gateway.provisional().expect("two steps");
    let answer = runtime.block_on(gateway.admit(admission, Some(NOON)));
    drop(runtime);
    (answer, u64::try_from(provisional.as_micros()).expect("some seconds"))
}

fn maxmemory(cluster: &RedisCluster, node: usize, bytes: u64) {
    let mut command = redis::cmd("CONFIG");
    let _: () = command.arg("SET").arg("maxmemory").arg(bytes).query(&mut cluster.connection(node)).expect("CONFIG SET");
}

#[test]
fn who_dies_between_the_calls_has_sent_nothing_and_holds_nothing_for_long() {
    let cluster = RedisCluster::without_replicas(3);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(async { store(&cluster) });
    let admission = store.admission(claims());
    // The second call is refused by a full node, which is not the customer's.
    let shared = cluster.master_of(slot_of(&cluster, "{shared}"));
    assert_ne!(shared, cluster.master_of(slot_of(&cluster, &key_of(&cluster, "c", "holds"))));
    maxmemory(&cluster, shared, 1);
    let (answer, provisional) = died(&cluster, &admission);
    assert!(matches!(&answer, Err(StoreError::Failed(text)) if text.contains("OOM")), "{answer:?}");
    maxmemory(&cluster, shared, 0);
    assert!(provisional < LEASE);
    runtime.block_on(async {
        let sweep = async |micros| store.ledger.sweep(Some(NOON.plus(micros))).await.expect("the store answers");
        for (scope, held) in scopes().iter().zip([500, 500, 0]) {
            assert_eq!(stands(&*store.ledger, scope).await, (0, held), "{scope:?}: half an admission");
        }
        assert_eq!(sweep(provisional - 1).await, 0, "it may still be alive");
        assert_eq!(sweep(provisional).await, 1);
        for scope in &scopes() {
            assert_eq!(stands(&*store.ledger, scope).await, (0, 0), "{scope:?}: given back, though lost holds are charged");
        }
        assert_eq!(sweep(HOUR).await, 0);
    });

    // One that lives gives it back at once.
    maxmemory(&cluster, shared, 1);
    let admission = store.admission(claims());
    let answer = runtime.block_on(store.ledger.admit(&admission, Some(NOON)));
    assert!(matches!(answer, Err(StoreError::Failed(_))), "{answer:?}");
    runtime.block_on(async {
        crate::scene::until("it is given back", async || stands(&*store.ledger, &customer()).await == (0, 0)).await;
    });
    maxmemory(&cluster, shared, 0);
    runtime.block_on(async {
        let left = store.remaining(0, &per_minute(LimitName::Rpm, 60, 0)).await;
        assert_eq!(left, 59, "the rate of the one that died is not given back, that of the living is");
        // Whoever went on without the store settles it: there is no hold, and no end that would have it dropped.
        let mut lines = admission.lines(&store.ask(0, claims()).await.decision);
        lines.iter_mut().for_each(|line| line.actual = 300);
        let batch = [Settlement { reservation: admission.reservation, customer: customer(), lines }];
        for _ in 0..2 {
            store.ledger.settle(&batch, Some(NOON)).await.expect("the store answers");
        }
        for scope in &scopes() {
            assert_eq!(stands(&*store.ledger, scope).await, (300, 500), "{scope:?}: booked once beside the other's hold");
        }
    });
}

#[test]
fn who_dies_before_the_confirmation_is_charged_where_the_hold_was_sure() {
    let cluster = RedisCluster::without_replicas(3);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(async { store(&cluster) });
    let admission = store.admission(claims());
    let (answer, provisional) = died(&cluster, &admission);
    let decision = answer.expect("the store answers");
    assert!(decision.admitted);
    runtime.block_on(async {
        let sweep = async |micros| store.ledger.sweep(Some(NOON.plus(micros))).await.expect("the store answers");
        let all = async || {
            let [a, b, c] = scopes();
            [stands(&*store.ledger, &a).await, stands(&*store.ledger, &b).await, stands(&*store.ledger, &c).await]
        };
        assert_eq!(all().await, [(0, 500); 3]);
        assert_eq!(sweep(provisional).await, 1);
        assert_eq!(all().await, [(0, 0), (0, 0), (0, 500)]);
        assert_eq!((sweep(LEASE - 1).await, sweep(LEASE).await, sweep(LEASE).await), (0, 1, 0));
        assert_eq!(all().await, [(0, 0), (0, 0), (500, 0)], "charged where nothing better is known");
        // It had not died after all: what was used is booked in both groups, once each.
        let asked = Asked { admission, decision };
        let known = ledger(&cluster, DEADLINE).known_lines(&settlement(&asked, &[1, 20, 20, 20, 9])).await;
        assert_eq!(known.expect("the store answers").len(), 5, "both groups remember what they booked for lost");
        for _ in 0..2 {
            store.settle(LEASE, &asked, &[1, 20, 20, 20, 9]).await;
        }
        assert_eq!(all().await, [(20, 0); 3]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_booked_once_in_both_groups_when_its_lease_is_over() {
    let cluster = RedisCluster::without_replicas(3);
    let store = store(&cluster);
    // Many customers in many parts, who never come back; the hashes of users and apps are not known to the sweeper.
    let owners: Vec<_> = (0..40).map(|n| format!("cust_{n}")).collect();
    for (n, owner) in owners.iter().enumerate() {
        let mine = of(Scope::Customer, owner, dollars(DOLLAR, 500));
        let users = (0..3).map(|u| of(Scope::User, &format!("{owner}/{u}"), dollars(DOLLAR, 500)));
        let apps = (0..2).map(|a| of(Scope::App, &format!("app{}", (n + a) % 5), dollars(DOLLAR, 500)));
        let claims = [mine].into_iter().chain(users).chain(apps).collect();
        assert!(store.ask(0, claims).await.decision.admitted);
    }
    for owner in &owners {
        confirmed(&cluster, owner).await;
    }
    let sweep = async |ledger: &dyn Ledger, micros| ledger.sweep(Some(NOON.plus(micros))).await.expect("the store answers");
    assert_eq!(sweep(&*store.ledger, LEASE - 1).await, 0, "confirmed: it may still be alive");
    // Two sweepers at once book each hold once.
    let (a, b) = tokio::join!(sweep(&*store.ledger, LEASE), sweep(&*store.peer, LEASE));
    assert_eq!(a + b, 80, "40 customers in two groups");
    for owner in &owners {
        assert_eq!(stands(&*store.ledger, &key(Scope::Customer, owner)).await, (500, 0), "{owner}");
        for user in 0..3 {
            assert_eq!(stands(&*store.ledger, &key(Scope::User, &format!("{owner}/{user}"))).await, (500, 0), "{owner}/{user}");
        }
    }
    for n in 0..5 {
        assert_eq!(stands(&*store.ledger, &key(Scope::App, &format!("app{n}"))).await, (16 * 500, 0), "app{n}");
    }
    assert_eq!(sweep(&*store.peer, LEASE).await, 0);
    let due: u64 = cluster.keys().iter().filter(|(_, key)| key.ends_with(":leases")).map(|_| 1).sum();
    assert_eq!(due, 0, "nobody is to be looked at any more");
}
