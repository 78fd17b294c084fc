//! Masters that die.

use crate::fixture::*;
use crate::redis_cluster::RedisCluster;
use crate::scene::{DEADLINE, PATIENCE, Scene, app, key_of, ledger, slot_of, stands, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tollgate::domain::CustomerId;
use tollgate::limit::{Scope, ScopeKey};
use tollgate::store::Ledger;

/// After this much silence a node is taken for dead: short, but not so short that a busy machine is.
const SILENCE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replica_knows_survives_its_master_and_the_cap_holds() {
    let mut cluster = RedisCluster::with_replicas(3, SILENCE);
    let gateways = [ledger(&cluster, DEADLINE), ledger(&cluster, DEADLINE)];
    let store = Fixture::over(Arc::new(gateways[0].clone()));
    let cap = DOLLAR;
    let claims = |amount| vec![dollars(cap, amount), app(dollars(cap, amount))];
    let mut admitted = Vec::new();
    for _ in 0..30 {
        admitted.push(store.ask(0, claims(cap / 50)).await);
    }
    crate::scene::confirmed(&cluster, "c").await;
    // First the master of the customer, then that of what all share.
    for key in [key_of(&cluster, "c", "holds"), String::from("{shared}")] {
        let slot = slot_of(&cluster, &key);
        let master = cluster.master_of(slot);
        if master < 3 {
            cluster.wait_in_step(master + 3);
        }
        cluster.kill(master);
        // They recover by themselves; until then calls fail, and nothing is let through.
        for gateway in &gateways {
            until("the replica has taken over", async || {
                let asked = gateway.admit(&store.admission(claims(1)), Some(NOON)).await;
                asked.is_ok_and(|decision| decision.admitted)
            })
            .await;
        }
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                let (ledger, admission) = (gateways[i % 2].clone(), store.admission(claims(cap / 50)));
                tokio::spawn(async move {
                    let decision = ledger.admit(&admission, Some(NOON)).await.expect("the store answers again");
                    Asked { admission, decision }
                })
            })
            .collect();
        for task in tasks {
            let asked = task.await.expect("no panic");
            if asked.decision.admitted {
                admitted.push(asked);
            }
        }
        assert_eq!(admitted.len(), 49, "the 30 holds from before count, and beside the look of a nano-dollar 19 more fit");
        cluster.wake(master);
        cluster.wait_sound();
    }
    for asked in &admitted {
        store.settle(0, asked, &[7, 7]).await;
    }
    // The looks were held and never settled: they end with their leases.
    store.ledger.sweep(Some(NOON.plus(HOUR))).await.expect("the store answers");
    let (spent, held) = stands(&gateways[1], &customer()).await;
    assert_eq!(held, 0);
    let looks = spent - 49 * 7;
    assert!((1..=10).contains(&looks), "{looks}");
    assert_eq!(stands(&gateways[1], &key(Scope::App, "shop")).await.1, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gateways_get_over_a_master_killed_under_load_by_themselves() {
    let mut cluster = RedisCluster::with_replicas(3, SILENCE);
    let provider = Scene::provider().await;
    let deadline = Duration::from_millis(500);
    let scenes = [
        Arc::new(Scene::on(ledger(&cluster, deadline), provider.clone()).await),
        Arc::new(Scene::on(ledger(&cluster, deadline), provider.clone()).await),
    ];
    let owner = |customer: &str| -> std::sync::Arc<str> { CustomerId::from_trusted(customer).key().as_ref().into() };
    let customers: Vec<String> = (0..6).map(|n| format!("customer-{n}")).collect();
    let load = Load::start(&scenes, &customers);
    load.answered(60).await;
    let dead = cluster.master_of(slot_of(&cluster, &key_of(&cluster, &owner(&customers[0]), "holds")));
    cluster.kill(dead);
    let slot = slot_of(&cluster, &key_of(&cluster, &owner(&customers[0]), "holds"));
    let successor = cluster.master_of(slot);
    assert_ne!(successor, dead);
    load.answered(60).await;
    for scene in &scenes {
        scene.back().await;
    }
    load.answered(30).await;
    load.stop().await;
    settled(&scenes, &customers).await;
}

/// Nothing is held in the end, and what is asked from then on is booked to the nano-dollar.
pub async fn settled(scenes: &[Arc<Scene>; 2], customers: &[String]) {
    for scene in scenes {
        scene.back().await;
        scene.bed.quiet().await;
    }
    let held = async |customer: &str| scenes[0].bed.balances(customer).await.iter().map(|balance| balance.held).sum::<u64>();
    for customer in customers {
        until("lost holds are booked", async || held(customer).await == 0).await;
    }
    // What all share is read past the bed, which knows customers only.
    let gateway = ScopeKey { scope: Scope::Gateway, owner: "".into() };
    let all = async || stands(&*scenes[1].guarded, &gateway).await;
    until("also those of what all share", async || all().await.1 == 0).await;
    let spent = async || {
        let mut sum = 0;
        for customer in customers {
            sum += scenes[0].bed.spent(customer).await.get();
        }
        sum
    };
    let before = spent().await;
    assert!(before > 0, "most of it was booked");
    for (n, customer) in customers.iter().enumerate() {
        assert_eq!(scenes[n % 2].ask(customer).await, (200, String::new()), "{customer}");
    }
    for scene in scenes {
        scene.bed.quiet().await;
    }
    // The provider's log forgets the oldest; every request here is the same.
    let log = scenes[0].bed.provider.log();
    let last = log.last().expect("the provider was asked");
    let policy = scenes[0].bed.gateway.policy.load();
    let cost = policy.prices.get(&last.model).expect("priced").cost(last.usage.as_ref().expect("used"), None).get();
    assert_eq!(spent().await - before, cost * customers.len() as u64, "BOOKS");
}

/// Requests of many customers through two gateways until it is stopped. Every answer is one of the model, or says that limits cannot be
/// had at the moment.
pub struct Load {
    going: Arc<AtomicBool>,
    answers: Arc<std::sync::atomic::AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    pub fn start(scenes: &[Arc<Scene>; 2], customers: &[String]) -> Self {
        let (going, answers) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let task = |(n, customer): (usize, &String)| {
            let (scene, customer) = (scenes[n % 2].clone(), customer.clone());
            let (going, answers) = (Arc::clone(&going), Arc::<std::sync::atomic::AtomicUsize>::clone(&answers));
            tokio::spawn(async move {
                while going.load(Ordering::Relaxed) {
                    match scene.ask(&customer).await {
                        (200, _) => drop(answers.fetch_add(1, Ordering::Relaxed)),
                        (503, code) => assert_eq!(code, "limits_unavailable"),
                        other => panic!("{customer}: {other:?}"),
                    }
                }
            })
        };
        let tasks = customers.iter().enumerate().map(task).collect();
        Self { going, answers, tasks }
    }

    /// Waits until the model has answered this many more.
    pub async fn answered(&self, more: usize) {
        let from = self.answers.load(Ordering::Relaxed);
        until("the model answers", async || self.answers.load(Ordering::Relaxed) >= from + more).await;
    }

    pub async fn stop(self) {
        self.going.store(false, Ordering::Relaxed);
        for task in self.tasks {
            tokio::time::timeout(PATIENCE, task).await.expect("in time").expect("no panic");
        }
    }
}
