//! A gateway whose time and whose store obey the test.

use crate::bed::{Bed, CONFIG};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, CustomerId, NanoUsd, Priority, RequestId, Timestamp};
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::documents::{Collection, Document, Documents, Listed, Page, Write, Written};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{StoreError, Stores};
use tollgate::telemetry::triage::{EventLabels, ReasonLabels};
use tollgate::triage::{Attempt, NewTicket};

/// The admin listener on a free port of loopback, where no token is asked for.
pub const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";

/// Time that passes when a test says so.
#[derive(Debug)]
pub struct Hand(AtomicU64);

impl Hand {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_800_000_000_000_000)))
    }

    pub fn pass(&self, duration: Duration) {
        self.0.fetch_add(u64::try_from(duration.as_micros()).expect("short"), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// How the store behaves.
pub const FINE: u8 = 0;
pub const FAILS: u8 = 1;
pub const HANGS: u8 = 2;

/// Documents that fail or hang when a test says so.
pub struct Moody {
    inner: MemoryDocuments,
    mood: AtomicU8,
}

impl Moody {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { inner: MemoryDocuments::new(clock), mood: AtomicU8::new(FINE) })
    }

    pub fn be(&self, mood: u8) {
        self.mood.store(mood, Ordering::SeqCst);
    }

    async fn ask<T>(&self, answer: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
        tokio::task::yield_now().await; // as a store across a network would, so that others come in between
        match self.mood.load(Ordering::SeqCst) {
            FINE => answer.await,
            FAILS => Err(StoreError::Unreachable("the test says so".into())),
            _ => std::future::pending().await,
        }
    }
}

impl Documents for Moody {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(async move { self.ask(self.inner.get(collection, id, now)).await })
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        // Not before the mood is known: the reference writes when it is called.
        Box::pin(async move { self.ask(Box::pin(async move { self.inner.put(write, now).await })).await })
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.ask(Box::pin(async move { self.inner.put_all(writes, now).await })).await })
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        Box::pin(async move { self.ask(Box::pin(async move { self.inner.list(collection, page, now).await })).await })
    }
}

/// One or more gateways on one store.
pub struct World {
    pub beds: Vec<Bed>,
    pub clock: Arc<Hand>,
    pub documents: Arc<Moody>,
}

impl World {
    /// One gateway with these lines behind the cases' configuration.
    pub async fn new(more: &str) -> Self {
        Self::of(1, &format!("{CONFIG}\n{ADMIN}\n{more}")).await
    }

    /// So many gateways with this configuration.
    pub async fn of(gateways: usize, config: &str) -> Self {
        let clock = Hand::new();
        let documents = Moody::new(clock.clone());
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
        let mut beds = Vec::new();
        for _ in 0..gateways {
            let stores = Stores { ledger: ledger.clone(), documents: documents.clone() };
            beds.push(Bed::over(config, provider.clone(), stores, clock.clone()).await);
        }
        Self { beds, clock, documents }
    }

    /// The first gateway.
    pub fn bed(&self) -> &Bed {
        &self.beds[0]
    }

    /// Hands off at the first gateway and waits until it is written; the ticket's id.
    pub async fn hand_off(&self, new: NewTicket) -> String {
        let ticket = self.bed().gateway.triage.hand_off(new).await;
        assert_eq!(ticket.url, format!("/v1/triage/{}", ticket.id));
        self.written().await;
        ticket.id.to_string()
    }

    /// Waits until every hand-off is written or given up.
    pub async fn written(&self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        for bed in &self.beds {
            while bed.gateway.triage.unwritten() > 0 {
                assert!(tokio::time::Instant::now() < deadline, "never written");
                tokio::time::sleep(Duration::from_millis(2)).await; // polling with a deadline
            }
        }
    }

    /// What the admin listener of a gateway says to a GET.
    pub async fn look(&self, gateway: usize, path: &str) -> (u16, Value) {
        let bed = &self.beds[gateway];
        let url = format!("http://{}{path}", bed.admin.expect("an admin listener"));
        answer(bed.client.get(url).send().await).await
    }

    /// What it says to a POST of this JSON.
    pub async fn act(&self, gateway: usize, path: &str, body: Value) -> (u16, Value) {
        let bed = &self.beds[gateway];
        let url = format!("http://{}{path}", bed.admin.expect("an admin listener"));
        let request = bed.client.post(url).header("content-type", "application/json");
        answer(request.body(body.to_string()).send().await).await
    }

    /// The ids of a listing.
    pub async fn ids(&self, query: &str) -> Vec<String> {
        let (status, listing) = self.look(0, &format!("/admin/triage?{query}")).await;
        assert_eq!(status, 200, "{listing}");
        let tickets = listing["tickets"].as_array().expect("a list");
        tickets.iter().map(|ticket| ticket["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// What the app is told of a ticket.
    pub async fn poll(&self, customer: &str, id: &str) -> (u16, Value) {
        let url = self.bed().url(&format!("/v1/triage/{id}"));
        let request = self.bed().client.get(url).header("authorization", "Bearer sk-test").header("x-customer-id", customer);
        answer(request.send().await).await
    }

    pub fn events(&self, event: &'static str) -> u64 {
        let of = |bed: &Bed| bed.gateway.metrics.triage.events.get_or_create(&EventLabels { event }).get();
        self.beds.iter().map(of).sum()
    }

    pub fn dropped(&self, reason: &'static str) -> u64 {
        let of = |bed: &Bed| bed.gateway.metrics.triage.dropped.get_or_create(&ReasonLabels { reason }).get();
        self.beds.iter().map(of).sum()
    }

    /// Nothing of all this is a request to a provider or a claim on a limit.
    pub async fn assert_books(&self, customers: &[&str]) {
        for bed in &self.beds {
            bed.assert_books(customers).await;
        }
        assert_eq!(self.bed().provider.seen(), 0);
    }
}

async fn answer(sent: Result<reqwest::Response, reqwest::Error>) -> (u16, Value) {
    let reply = sent.expect("an answer");
    let status = reply.status().as_u16();
    assert_eq!(reply.headers()["content-type"], "application/json", "{status}");
    let bytes: Bytes = reply.bytes().await.expect("a body");
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

/// A hand-off of this customer.
pub fn new(customer: &str) -> NewTicket {
    NewTicket {
        customer: CustomerId::from_trusted(customer),
        user: None,
        app: "passthrough".into(),
        plan: "case".into(),
        class: None,
        priority: Priority::Live,
        conversation: None,
        cause: "overloaded",
        attempts: vec![Attempt { model: "m-big".into(), outcome: "rate_limited".into() }],
        cost: NanoUsd::new(1_000),
        model: "m-big".into(),
        request: RequestId::new(fastrand::u128(..)),
        text: None,
        again: None,
    }
}

/// A hand-off of a conversation.
pub fn of(customer: &str, conversation: &str) -> NewTicket {
    NewTicket { conversation: Some(conversation.into()), ..new(customer) }
}

/// The body of most actions.
pub fn by(agent: &str) -> Value {
    json!({ "agent": agent })
}
