//! Series by themselves.

use crate::mortal_redis::MortalRedis;
use crate::redis_cluster::RedisCluster;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::{RedisServers, Secret};
use tollgate::store::documents::Documents;
use tollgate::store::documents::embedded::EmbeddedDocuments;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::redis::RedisDocuments;
use tollgate::store::series::{Addition, Batch, Kind, Peak, Ranking, Row, RowKey, Series};
use tollgate::telemetry::SystemClock;

/// 30 November 2026.
const TODAY: u32 = 20_787;

/// A fresh store, seen by two gateways.
pub struct Store {
    one: Arc<dyn Documents>,
    other: Arc<dyn Documents>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl Store {
    fn of(documents: Arc<dyn Documents>, kept: Box<dyn Any + Send + Sync>) -> Self {
        Self { one: documents.clone(), other: documents, _kept: kept }
    }

    fn one(&self) -> &dyn Series {
        self.one.series()
    }

    fn other(&self) -> &dyn Series {
        self.other.series()
    }

    async fn row(&self, key: &RowKey) -> Row {
        self.other().rows(std::slice::from_ref(key)).await.expect("the store answers").remove(0)
    }
}

pub fn memory() -> Store {
    Store::of(Arc::new(MemoryDocuments::new(Arc::new(SystemClock))), Box::new(()))
}

pub fn embedded() -> Store {
    let directory = tempfile::tempdir().expect("a directory");
    let documents = EmbeddedDocuments::open(directory.path(), Arc::new(SystemClock)).expect("a fresh database");
    Store::of(Arc::new(documents), Box::new(directory))
}

pub fn redis() -> Store {
    let server = MortalRedis::awake();
    let connect = || -> Arc<dyn Documents> {
        Arc::new(RedisDocuments::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address"))
    };
    Store { one: connect(), other: connect(), _kept: Box::new(server) }
}

/// The cluster without anything in it, seen by two gateways that know a node each.
pub fn clustered(cluster: &RedisCluster) -> Store {
    for node in 0..cluster.len() {
        redis::cmd("FLUSHALL").exec(&mut cluster.connection(node)).expect("FLUSHALL");
    }
    let gateway = |url: &String| -> Arc<dyn Documents> {
        let servers = RedisServers::Cluster(vec![Secret::new(url)]);
        Arc::new(RedisDocuments::open(&servers, Duration::from_secs(30)).expect("a well-formed address"))
    };
    let urls = cluster.urls();
    Store { one: gateway(&urls[0]), other: gateway(&urls[1]), _kept: Box::new(()) }
}

fn key(id: &str) -> RowKey {
    RowKey { kind: Kind::CustomerDay, day: TODAY, id: id.into() }
}

fn addition(id: &str, sums: &[(&'static str, u64)]) -> Addition {
    let sums = sums.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
    Addition { key: key(id), sums, peaks: Vec::new(), keep: 30 }
}

fn batch(gateway: u64, number: u64, additions: Vec<Addition>) -> Batch {
    Batch { gateway, number, today: TODAY, additions }
}

fn row(counters: &[(&str, u64)]) -> Row {
    counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
}

async fn add(series: &dyn Series, batch: &Batch) {
    series.add(batch).await.expect("the store takes it");
}

pub async fn what_gateways_add_adds_up(store: &Store) {
    assert_eq!(store.row(&key("a")).await, Row::new());
    for n in 1..=3 {
        let additions = || vec![addition("a", &[("cost", 10), ("req", n)]), addition("b", &[("x:customer.tpm", 1)])];
        let (one, other) = (batch(1, n, additions()), batch(2, n, additions()));
        tokio::join!(add(store.one(), &one), add(store.other(), &other));
    }
    assert_eq!(store.row(&key("a")).await, row(&[("cost", 60), ("req", 12)]));
    assert_eq!(store.row(&key("b")).await, row(&[("x:customer.tpm", 6)]));
    for other in [
        RowKey { day: TODAY - 1, ..key("a") },
        RowKey { kind: Kind::CustomerHours, ..key("a") },
        RowKey { kind: Kind::TotalDay, ..key("") },
    ] {
        assert_eq!(store.row(&other).await, Row::new(), "{other:?} is another row");
    }
    let both = store.one().rows(&[key("b"), key("nobody"), key("a")]).await.expect("the store answers");
    let costs: Vec<_> = both.iter().map(|row| row.get("cost").copied()).collect();
    assert_eq!(costs, [None, None, Some(60)], "in the order of the keys");
}

pub async fn a_batch_that_is_sent_again_is_not_added_again(store: &Store) {
    let first = batch(1, 7, vec![addition("a", &[("cost", 10)])]);
    for _ in 0..3 {
        add(store.one(), &first).await;
    }
    add(store.one(), &batch(1, 8, vec![addition("a", &[("cost", 5)])])).await;
    add(store.one(), &first).await;
    add(store.other(), &batch(2, 7, vec![addition("a", &[("cost", 100)])])).await;
    assert_eq!(store.row(&key("a")).await, row(&[("cost", 115)]));
    let top = store.one().ranked(Kind::CustomerDay, TODAY, &Ranking { limit: 5, ..Ranking::default() }).await;
    assert_eq!(top, Ok(vec![("a".to_owned(), row(&[("cost", 115)]))]));
}

/// More rows than one call of a script takes, in every shard.
pub async fn a_large_batch_is_added_whole_and_once(store: &Store) {
    let ids: Vec<_> = (0..5_000).map(|n| format!("c{n}")).collect();
    let all = batch(1, 1, ids.iter().map(|id| addition(id, &[("cost", 3), ("req", 1)])).collect());
    add(store.one(), &all).await;
    add(store.one(), &all).await;
    let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
    let rows = store.other().rows(&keys).await.expect("the store answers");
    let wrong: Vec<_> = ids.iter().zip(&rows).filter(|(_, found)| **found != row(&[("cost", 3), ("req", 1)])).collect();
    assert!(wrong.is_empty(), "{} of 5,000, such as {:?}", wrong.len(), wrong.first());
}

pub async fn a_peak_is_the_largest_sum_of_a_minute(store: &Store) {
    let peak = |minute, amount| Addition { peaks: vec![Peak { name: "pr".into(), minute, amount }], ..addition("a", &[]) };
    let minute = u64::from(TODAY) * 1_440;
    for (gateway, number, at, amount, most) in [
        (1, 1, minute, 5, 5),
        (2, 1, minute + 1, 3, 5),
        (1, 2, minute + 1, 4, 7), // two gateways, one minute
        (2, 2, minute, 1, 7),     // late, of the first minute
        (2, 3, minute + 2, 6, 7), // a smaller one
        (1, 3, minute, 2, 8),     // the first minute once more
        (1, 3, minute, 2, 8),     // sent again
    ] {
        let series = if gateway == 1 { store.one() } else { store.other() };
        add(series, &batch(gateway, number, vec![peak(at, amount)])).await;
        assert_eq!(store.row(&key("a")).await, row(&[("pr", most)]), "{gateway} {number}");
    }
}

pub async fn customers_come_by_what_they_spent_and_then_by_id(store: &Store) {
    let mut additions: Vec<_> = (0..1_500).map(|n| addition(&format!("tie{n:04}"), &[("cost", 5)])).collect();
    additions.push(addition("rich", &[("cost", 900)]));
    additions.push(addition("poor", &[("cost", 1)]));
    additions.push(addition("refused", &[("req", 1)]));
    add(store.one(), &batch(1, 1, additions)).await;
    let page = async |prefix: &str, skip, limit| {
        let ranking = Ranking { prefix: prefix.to_owned(), skip, limit };
        let rows = store.other().ranked(Kind::CustomerDay, TODAY, &ranking).await.expect("the store answers");
        rows.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(page("", 0, 3).await, ["rich", "tie0000", "tie0001"]);
    assert_eq!(page("", 1_000, 2).await, ["tie0999", "tie1000"], "behind a thousand of the same");
    assert_eq!(page("", 1_500, 10).await, ["tie1499", "poor", "refused"]);
    assert_eq!(page("tie1", 499, 5).await, ["tie1499"]);
    assert_eq!(page("r", 0, 5).await, ["rich", "refused"]);
    assert_eq!(page("Tie", 0, 5).await, [""; 0]);
    assert_eq!(page("", 0, 0).await, [""; 0]);
    assert_eq!(page("", 0, 9_999).await.len(), 1_000, "no page is longer");
    add(store.other(), &batch(2, 1, vec![addition("poor", &[("cost", 5_000)])])).await;
    assert_eq!(page("", 0, 2).await, ["poor", "rich"]);
}

pub async fn a_scan_gives_every_row_once(store: &Store) {
    let ids: BTreeSet<_> = (0..2_500).map(|n| format!("c{n}")).collect();
    let additions = ids.iter().map(|id| addition(id, &[("cost", id.len() as u64), ("req", 2)])).collect();
    add(store.one(), &batch(1, 1, additions)).await;
    let elsewhere = Addition { key: RowKey { day: TODAY + 1, ..key("tomorrow") }, ..addition("", &[("cost", 1)]) };
    add(store.one(), &batch(1, 2, vec![elsewhere])).await;
    let (mut found, mut after, mut pages) = (BTreeSet::new(), None::<String>, 0);
    loop {
        let (rows, next) = store.other().scan(Kind::CustomerDay, TODAY, after.as_deref()).await.expect("the store answers");
        for (id, counters) in rows {
            assert_eq!(counters, row(&[("cost", id.len() as u64), ("req", 2)]));
            assert!(found.insert(id.clone()), "{id} came twice");
        }
        pages += 1;
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found == ids, pages), (true, 3));
}

pub async fn rows_end_so_many_days_after_their_own(store: &Store) {
    let day = |day, keep| Addition { key: RowKey { day, ..key("a") }, keep, ..addition("", &[("cost", 1)]) };
    add(store.one(), &batch(1, 1, vec![day(TODAY, 2), day(TODAY - 2, 2)])).await;
    assert_eq!(store.row(&key("a")).await, row(&[("cost", 1)]));
    assert_eq!(store.row(&RowKey { day: TODAY - 2, ..key("a") }).await, row(&[("cost", 1)]), "its last day");
    if let Some(ends) = redis_ends(store, TODAY - 2).await {
        assert_eq!((ends, redis_ends(store, TODAY).await), (1, Some(3)), "days that the server keeps them");
        return;
    }
    let later = |number, today, about| Batch { today, ..batch(1, number, vec![day(about, 2)]) };
    add(store.one(), &later(2, TODAY + 2, TODAY + 2)).await;
    assert_eq!(store.row(&RowKey { day: TODAY - 2, ..key("a") }).await, Row::new());
    assert_eq!(store.row(&key("a")).await, row(&[("cost", 1)]));
    add(store.one(), &later(3, TODAY + 3, TODAY + 3)).await;
    assert_eq!(store.row(&key("a")).await, Row::new());
}

/// Days from now at which Redis forgets the row, rounded up; `None` on other stores.
async fn redis_ends(store: &Store, day: u32) -> Option<i64> {
    let server = store._kept.downcast_ref::<MortalRedis>()?;
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("it answers");
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("*{{h:{day}:*cd:a")).query_async(&mut connection).await.expect("keys");
    let ttl: i64 = redis::cmd("TTL").arg(&keys[0]).query_async(&mut connection).await.expect("a time");
    let endless: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.expect("keys");
    for key in endless {
        let ttl: i64 = redis::cmd("TTL").arg(&key).query_async(&mut connection).await.expect("a time");
        assert!(ttl > 0, "{key} never ends");
    }
    Some((ttl + 86_399) / 86_400)
}

pub async fn large_numbers_keep_every_digit(store: &Store) {
    let large = (1_u64 << 60) + 1;
    add(store.one(), &batch(1, 1, vec![addition("a", &[("cost", large)])])).await;
    add(store.one(), &batch(1, 2, vec![addition("a", &[("cost", 2)])])).await;
    assert_eq!(store.row(&key("a")).await, row(&[("cost", large + 2)]));
}
