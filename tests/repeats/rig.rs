//! Gateways in keys mode that share a provider, a ledger and documents, and what a client sees of them.

use crate::bed::{Bed, config_and};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tollgate::config::{Env, Policy, hash_key};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::Timestamp;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::documents::{Collection, Document, Documents, Listed, Page, Write, Written};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Ledger, StoreError, Stores};
use tollgate::telemetry::SystemClock;

/// The keys of the two applications, and the provider's.
pub const SHOP: &str = "tg-shop-0123456789abcdef";
pub const BATCH: &str = "tg-batch-0123456789abcdef";
pub const PROVIDERS: &str = "sk-provider-0123456789";

const PATIENCE: Duration = Duration::from_secs(20);

/// The configuration of keys mode with these lines behind it. The provider's key lies in `directory`.
pub fn config(directory: &tempfile::TempDir, more: &str) -> String {
    let file = directory.path().join("key");
    std::fs::write(&file, format!("{PROVIDERS}\n")).expect("a key file");
    let hash = |key: &str| blake3::Hash::from_bytes(hash_key(key)).to_hex();
    let keys = format!(
        "[auth]\nmode = \"keys\"\n[keys.shop]\nhash = \"blake3:{}\"\n[keys.batch]\nhash = \"blake3:{}\"\n",
        hash(SHOP),
        hash(BATCH)
    );
    let upstreams = format!("base_url = \"{{provider}}\"\napi_key = {{ file = {:?} }}\n", file.to_str().expect("a plain path"));
    let config = config_and(more).replace("base_url = \"{provider}\"\n", &upstreams);
    format!("{config}\n{keys}")
}

/// What several gateways share.
pub struct Rig {
    pub provider: Arc<Provider>,
    pub documents: Arc<Spy>,
    ledger: Arc<dyn Ledger>,
    config: String,
    _directory: tempfile::TempDir,
}

impl Rig {
    pub async fn new(more: &str) -> Self {
        Self::with(more, ProviderOptions::default()).await
    }

    pub async fn with(more: &str, options: ProviderOptions) -> Self {
        let clock = Arc::new(SystemClock);
        let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
        Self::over(more, options, Stores { ledger, documents: Arc::new(MemoryDocuments::new(clock)) }).await
    }

    pub async fn over(more: &str, options: ProviderOptions, stores: Stores) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = config(&directory, more);
        let provider = Arc::new(Provider::start(options).await.expect("a loopback port"));
        let Stores { ledger, documents } = stores;
        let documents = Arc::new(Spy { inner: documents, away: AtomicBool::new(false), written: Mutex::default() });
        Self { provider, documents, ledger, config, _directory: directory }
    }

    /// The configuration of its gateways.
    pub fn policy(&self) -> (Policy, Vec<tollgate::config::Warning>) {
        let config = self.config.replace("{provider}", &self.provider.base_url());
        Policy::parse(&config, "rig.toml", &Env::default()).expect("it is sound")
    }

    /// Another gateway.
    pub async fn gateway(&self) -> Bed {
        let stores = Stores { ledger: self.ledger.clone(), documents: self.documents.clone() };
        Bed::over(&self.config, self.provider.clone(), stores, Arc::new(SystemClock)).await
    }
}

/// Documents that may be away, and remember all that was written.
pub struct Spy {
    inner: Arc<dyn Documents>,
    pub away: AtomicBool,
    pub written: Mutex<Vec<Write>>,
}

impl Spy {
    fn check(&self) -> Result<(), StoreError> {
        if self.away.load(Ordering::SeqCst) { Err(StoreError::Unreachable("away".to_owned())) } else { Ok(()) }
    }
}

impl Documents for Spy {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.get(collection, id, now).await
        })
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.written.lock().push(write.clone());
            self.inner.put(write, now).await
        })
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.put_all(writes, now)
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.list(collection, page, now).await
        })
    }
}

/// An answer, all of it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub async fn to(request: reqwest::RequestBuilder) -> Self {
        let reply = request.send().await.expect("an answer");
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        Self { status, headers, body: reply.bytes().await.expect("a whole body") }
    }

    /// A header; empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// `code` of the error, in either format; empty when there is none.
    pub fn code(&self) -> String {
        let json = self.json();
        let code = json["error"]["code"].as_str().or_else(|| json["error"]["details"]["error_code"].as_str());
        code.unwrap_or_default().to_owned()
    }
}

pub fn chat_body(model: &str, more: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]{more}}}"#)
}

/// A POST by an application for a customer.
pub fn post(bed: &Bed, app: &str, customer: &str, path: &str, body: &str) -> reqwest::RequestBuilder {
    let request = bed.client.post(bed.url(path)).header("authorization", format!("Bearer {app}"));
    request.header("content-type", "application/json").header("x-customer-id", customer).body(body.to_owned())
}

/// A chat of the shop's with a key.
pub fn keyed(bed: &Bed, customer: &str, key: &str, body: &str) -> reqwest::RequestBuilder {
    post(bed, SHOP, customer, "/v1/chat/completions", body).header("idempotency-key", key)
}

/// A chat of the shop's for later.
pub fn later(bed: &Bed, customer: &str, body: &str) -> reqwest::RequestBuilder {
    post(bed, SHOP, customer, "/v1/chat/completions", body).header("prefer", "respond-async")
}

/// What the shop sees of a job.
pub async fn look(bed: &Bed, customer: &str, url: &str) -> Answer {
    let request = bed.client.get(bed.url(url)).header("authorization", format!("Bearer {SHOP}"));
    Answer::to(request.header("x-customer-id", customer)).await
}

/// Asks for it to be taken in; gives its URL.
pub async fn take_in(bed: &Bed, customer: &str, body: &str) -> String {
    let answer = Answer::to(later(bed, customer, body)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.header("location").to_owned()
}

/// Polls until a job's status is one of these.
pub async fn until_status(bed: &Bed, customer: &str, url: &str, wanted: &[&str]) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = look(bed, customer, url).await.json();
        if wanted.iter().any(|wanted| status["status"] == *wanted) {
            return status;
        }
        assert!(Instant::now() < deadline, "never {wanted:?}: {status}");
        tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
    }
}

/// Polls until this holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}
