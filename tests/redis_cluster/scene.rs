//! The words in which the cases speak of a cluster and of a gateway on it.

use crate::bed::{Bed, CONFIG};
use crate::fixture::*;
use crate::redis_cluster::RedisCluster;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::config::policy::{LostHold, Outage, RedisServers, Secret};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::limit::{Claim, Scope, ScopeKey};
use tollgate::store::outage::Guarded;
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Balance, Ledger};
use tollgate::telemetry::SystemClock;

/// The deadline of one call; no test is about a slow machine.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long a state is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Which slot a key lies in, as the cluster says.
pub fn slot_of(cluster: &RedisCluster, key: &str) -> u16 {
    redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut cluster.any()).expect("CLUSTER KEYSLOT")
}

/// A gateway's ledger that knows one node and finds the rest.
pub fn ledger(cluster: &RedisCluster, deadline: Duration) -> RedisLedger {
    let servers = RedisServers::Cluster(vec![Secret::new(&cluster.urls()[0])]);
    RedisLedger::open(&servers, deadline).expect("a well-formed address").with_lost_hold(LostHold::Charge)
}

/// A store on a cluster, seen by two gateways.
pub fn store(cluster: &RedisCluster) -> Fixture {
    let mut store = Fixture::over(Arc::new(ledger(cluster, DEADLINE)));
    store.peer = Arc::new(ledger(cluster, DEADLINE));
    store
}

/// The key under which a customer's books lie in their own group.
pub fn key_of(cluster: &RedisCluster, owner: &str, shelf: &str) -> String {
    // Their part is the low byte of the slot their id would have, before it is cut to the number of slots.
    let part = slot_of(cluster, owner) % 256;
    format!("tg1:{{g{part:02x}}}:c:{owner}:{shelf}")
}

/// The same of a key that all share.
pub fn app(claim: Claim) -> Claim {
    of(Scope::App, "shop", claim)
}

/// Spent and held of the only balance of a scope; zero where there is none yet.
pub async fn stands(ledger: &dyn Ledger, scope: &ScopeKey) -> (u64, u64) {
    let balances = ledger.read(scope).await.expect("the store answers");
    assert!(balances.len() < 2, "{balances:?}");
    balances.first().map_or((0, 0), |Balance { spent, held, .. }| (*spent, *held))
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

/// Waits until every hold of a customer in their own group is confirmed.
pub async fn confirmed(cluster: &RedisCluster, owner: &str) {
    let key = key_of(cluster, owner, "holds");
    let slot = slot_of(cluster, &key);
    until("holds are confirmed", async || {
        let mut connection = cluster.connection(cluster.master_of(slot));
        let holds: Vec<String> = redis::cmd("HVALS").arg(&key).query(&mut connection).expect("HVALS");
        holds.iter().all(|hold| !hold.contains(" p|"))
    })
    .await;
}

/// A gateway on a guarded ledger.
pub struct Scene {
    pub bed: Bed,
    pub guarded: Arc<Guarded>,
    _journal: tempfile::TempDir,
}

impl Scene {
    pub async fn on(ledger: RedisLedger, provider: Arc<Provider>) -> Self {
        let journal = tempfile::tempdir().expect("a directory");
        let settings = Outage { journal: journal.path().to_owned(), ..Outage::default() };
        let guarded = Arc::new(Guarded::new(Arc::new(ledger), settings, Arc::new(SystemClock)).expect("it opens"));
        // What the gateway itself needs of its store's settings; the ledger is the one given.
        let store = "[store]\nkind = \"redis\"\nurls = [\"redis://127.0.0.1:1\"]\nlease = \"3s\"\n";
        let bed = Bed::on(&format!("{CONFIG}\n{store}[gateway]\nspend = {{ day = 900.0 }}\n"), provider, guarded.clone()).await;
        Self { bed, guarded, _journal: journal }
    }

    pub async fn provider() -> Arc<Provider> {
        Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"))
    }

    /// Status and `error.code` of a small request.
    pub async fn ask(&self, customer: &str) -> (u16, String) {
        let reply = self.bed.chat(customer, "m-small", "").timeout(PATIENCE).send().await.expect("an answer");
        let status = reply.status().as_u16();
        let body = reply.text().await.expect("a whole body");
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the store decides again and nothing waits for it.
    pub async fn back(&self) {
        until("the outage is over", async || {
            let status = self.guarded.status();
            !status.away && !status.breaker_open && status.waiting == 0
        })
        .await;
    }
}
