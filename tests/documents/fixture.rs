//! A fresh store of documents per test, and the words in which the cases ask it.

use crate::mortal_redis::MortalRedis;
use crate::redis_cluster::RedisCluster;
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::{RedisServers, Secret};
use tollgate::domain::{Clock, Timestamp};
use tollgate::store::documents::embedded::EmbeddedDocuments;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::documents::{Collection, Document, Documents, Expected, Listed, Page, Write, Written};
use tollgate::store::redis::RedisDocuments;

/// Noon of Monday, 30 November 2026, UTC: the time zero of every case.
pub const NOON: Timestamp = Timestamp(1_796_040_000_000_000);
pub const SECOND: u64 = 1_000_000;

/// The time is passed in, so clocks stand.
pub struct Stands;

impl Clock for Stands {
    fn now(&self) -> Timestamp {
        NOON
    }
}

/// A fresh store, seen by two gateways.
pub struct Fixture {
    pub documents: Arc<dyn Documents>,
    /// The same documents through another instance, where there can be one.
    pub peer: Arc<dyn Documents>,
    _store: Box<dyn Any + Send + Sync>,
}

pub async fn memory() -> Fixture {
    Fixture::over(Arc::new(MemoryDocuments::new(Arc::new(Stands))), Box::new(()))
}

pub async fn embedded() -> Fixture {
    let directory = tempfile::tempdir().expect("a directory");
    let documents = EmbeddedDocuments::open(directory.path(), Arc::new(Stands)).expect("a fresh database");
    Fixture::over(Arc::new(documents), Box::new(directory))
}

pub async fn redis() -> Fixture {
    let server = MortalRedis::awake();
    let (documents, peer) = (connect(&server), connect(&server));
    Fixture { documents, peer, _store: Box::new(server) }
}

/// The cluster without anything in it, seen by two gateways that know a node each.
pub fn clustered(cluster: &RedisCluster) -> Fixture {
    for node in 0..cluster.len() {
        redis::cmd("FLUSHALL").exec(&mut cluster.connection(node)).expect("FLUSHALL");
    }
    let gateway = |url: &String| -> Arc<dyn Documents> {
        let servers = RedisServers::Cluster(vec![Secret::new(url)]);
        Arc::new(RedisDocuments::open(&servers, Duration::from_secs(30)).expect("a well-formed address"))
    };
    let urls = cluster.urls();
    Fixture { documents: gateway(&urls[0]), peer: gateway(&urls[1]), _store: Box::new(()) }
}

/// A gateway's view of this server, with more patience than production has: the machine may be busy.
pub fn connect(server: &MortalRedis) -> Arc<RedisDocuments> {
    Arc::new(RedisDocuments::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address"))
}

impl Fixture {
    pub fn over(documents: Arc<dyn Documents>, store: Box<dyn Any + Send + Sync>) -> Self {
        Self { peer: Arc::clone(&documents), documents, _store: store }
    }

    /// Writes at noon plus `micros`.
    pub async fn put(&self, micros: u64, write: &Write) -> Written {
        self.documents.put(write, Some(NOON.plus(micros))).await.expect("the store answers")
    }

    /// Writes at noon, and gives the version.
    pub async fn done(&self, write: &Write) -> u64 {
        match self.put(0, write).await {
            Written::Done(version) => version,
            Written::Found(found) => panic!("{found:?} was in the way of {write:?}"),
        }
    }

    pub async fn get(&self, micros: u64, write: &Write) -> Option<Document> {
        self.documents.get(write.collection, &write.id, Some(NOON.plus(micros))).await.expect("the store answers")
    }

    /// The value of what is there.
    pub async fn value(&self, micros: u64, write: &Write) -> Option<Bytes> {
        self.get(micros, write).await.map(|document| document.value)
    }

    pub async fn list(&self, micros: u64, page: &Page) -> Vec<Listed> {
        self.documents.list(Collection::Tickets, page, Some(NOON.plus(micros))).await.expect("the store answers")
    }

    /// The ids of a page of tickets.
    pub async fn ids(&self, micros: u64, page: &Page) -> Vec<String> {
        self.list(micros, page).await.into_iter().map(|one| one.id).collect()
    }
}

/// A page from the beginning.
pub fn first(limit: usize) -> Page {
    Page { limit, ..Page::default() }
}

/// A ticket (a listed document) that never ends and says its own id.
pub fn ticket(id: &str, rank: u64) -> Write {
    let value = Some(Bytes::copy_from_slice(id.as_bytes()));
    Write { collection: Collection::Tickets, id: id.into(), expected: Expected::Anything, value, keep: None, rank }
}

/// A stored reply (a document that is not listed).
pub fn reply(id: &str) -> Write {
    Write { collection: Collection::Replies, ..ticket(id, 0) }
}

/// One of each kind: what holds of the one must hold of the other.
pub fn both(id: &str) -> [Write; 2] {
    [ticket(id, 5), reply(id)]
}

/// The same write of another value.
pub fn saying(write: &Write, value: &str) -> Write {
    Write { value: Some(Bytes::copy_from_slice(value.as_bytes())), ..write.clone() }
}

/// The same write, expecting this.
pub fn expecting(write: &Write, expected: Expected) -> Write {
    Write { expected, ..write.clone() }
}

/// The same write, kept for so many seconds.
pub fn kept(write: &Write, seconds: u64) -> Write {
    Write { keep: Some(Duration::from_secs(seconds)), ..write.clone() }
}

/// The removal of what a write wrote.
pub fn removal(write: &Write) -> Write {
    Write { value: None, ..write.clone() }
}
