//! Gateways that share their books, time that passes when a test says so, and a receiver of webhooks.

use crate::bed::{Bed, CONFIG};
use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tollgate::alert::{Alert, Kind};
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::store::Stores;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::documents::{Collection, Documents, Page};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::alerts::KindLabels;
use tollgate::wire::Usage;

/// The admin listener on a free port of loopback, where no token is asked for.
pub const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";
/// What [`answer`] costs with `m-small`: 8 tokens in at $0.15 and 200 out at $0.60 per million, in nano-dollars. A little less than is held
/// for it.
pub const COST: u64 = 121_200;

/// 2027-01-15T08:00:00Z until a test says otherwise.
#[derive(Debug)]
pub struct Hand(AtomicU64);

impl Hand {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_800_000_000_000_000)))
    }

    pub fn pass(&self, secs: u64) {
        self.0.fetch_add(secs * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A customer `acme` with this cap a day, and whatever else.
pub fn config(cap: &str, more: &str) -> String {
    format!(
        "{CONFIG}\n{ADMIN}[concurrency]\nslots = 400\n[plans.capped]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\n\
         max_output_tokens = 200\nspend = {{ {cap} }}\non_spend = []\non_provider = []\n[customers.acme]\nplan = \"capped\"\n{more}"
    )
}

/// One or more gateways on one store.
pub struct World {
    pub beds: Vec<Bed>,
    pub clock: Arc<Hand>,
    pub documents: Arc<dyn Documents>,
}

impl World {
    pub async fn of(gateways: usize, config: &str) -> Self {
        let clock = Hand::new();
        let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
        let documents: Arc<dyn Documents> = Arc::new(MemoryDocuments::new(clock.clone()));
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let mut beds = Vec::new();
        for _ in 0..gateways {
            let stores = Stores { ledger: ledger.clone(), documents: documents.clone() };
            beds.push(Bed::over(config, provider.clone(), stores, clock.clone()).await);
        }
        Self { beds, clock, documents }
    }

    pub fn bed(&self) -> &Bed {
        &self.beds[0]
    }

    pub fn raised(&self, kind: Kind) -> u64 {
        raised(&self.beds, kind)
    }

    /// Asks once and waits until it is booked; the status.
    pub async fn ask(&self, gateway: usize, customer: &str) -> u16 {
        let bed = &self.beds[gateway];
        bed.provider.script(answer());
        let reply = bed.chat(customer, "m-small", "").send().await.expect("an answer");
        let status = reply.status().as_u16();
        reply.bytes().await.expect("a body");
        bed.quiet().await;
        status
    }

    /// Waits until so many alerts of a kind were raised, and gives all alerts that are kept, oldest first.
    pub async fn until(&self, kind: Kind, count: u64) -> Vec<Alert> {
        wait(&format!("{count} of {kind:?}"), || self.raised(kind) >= count).await;
        settled(&self.beds, &self.documents).await;
        assert_eq!(self.raised(kind), count, "{kind:?}");
        kept(&self.documents).await
    }
}

/// How many alerts of a kind these gateways raised together.
pub fn raised(beds: &[Bed], kind: Kind) -> u64 {
    let of = |bed: &Bed| bed.gateway.metrics.alerts.raised.get_or_create(&KindLabels { kind: kind.as_str() }).get();
    beds.iter().map(of).sum()
}

/// All alerts raised by these.
pub fn all_raised(beds: &[Bed]) -> u64 {
    Kind::ALL.into_iter().map(|kind| raised(beds, kind)).sum()
}

/// Waits until everything that was raised is kept.
pub async fn settled(beds: &[Bed], documents: &Arc<dyn Documents>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while u64::try_from(kept(documents).await.len()).expect("few") < all_raised(beds) {
        assert!(Instant::now() < deadline, "never kept");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

/// The one of this kind in which this percentage is passed.
pub fn percent(alerts: &[Alert], percent: u64) -> &Alert {
    let found = alerts.iter().find(|alert| alert.kind == Kind::SpendCap && alert.facts["percent"] == percent);
    found.unwrap_or_else(|| panic!("no {percent} % in {alerts:#?}"))
}

/// The one alert of this kind.
pub fn only(alerts: &[Alert], kind: Kind) -> &Alert {
    let found: Vec<_> = alerts.iter().filter(|alert| alert.kind == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?} in {alerts:#?}");
    found[0]
}

/// What is kept, oldest first; of one instant in any order.
pub async fn kept(documents: &Arc<dyn Documents>) -> Vec<Alert> {
    let page = Page { limit: 1_000, ..Page::default() };
    // The first question to a store that came back may find an old connection.
    let listed = match documents.list(Collection::Alerts, &page, None).await {
        Ok(listed) => listed,
        Err(_) => documents.list(Collection::Alerts, &page, None).await.unwrap_or_default(),
    };
    listed.iter().rev().map(|one| serde_json::from_slice(&one.document.value).expect("an alert")).collect()
}

/// Polls with a deadline.
pub async fn wait(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

/// An answer of 8 tokens in and 200 out.
pub fn answer() -> Script {
    answer_of(200)
}

/// An answer of 8 tokens in and so many out.
pub fn answer_of(output: u64) -> Script {
    let body = serde_json::json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m-small",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "hello" } }],
        "usage": { "prompt_tokens": 8, "completion_tokens": output, "total_tokens": 8 + output },
    });
    Script::json(200, body.to_string()).used(Usage { uncached_input: 8, output, ..Usage::default() })
}

/// What the admin listener says to a GET.
pub async fn look(bed: &Bed, path: &str) -> (u16, Value) {
    let url = format!("http://{}{path}", bed.admin.expect("an admin listener"));
    let reply = bed.client.get(url).send().await.expect("an answer");
    let status = reply.status().as_u16();
    (status, serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON"))
}

/// One post, as it came.
#[derive(Clone, Debug)]
pub struct Posted {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Posted {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("ASCII")
    }

    /// What it says, having proved that it was signed with this key.
    pub fn verified(&self, key: &[u8]) -> Value {
        let head = format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp"));
        let signed = [head.as_bytes(), &self.body].concat();
        let signature = STANDARD.decode(&self.header("webhook-signature")["v1,".len()..]).expect("base64");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        ring::hmac::verify(&key, &signed, &signature).expect("the signature fits");
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A receiver of webhooks. The first posts get these statuses, all others 200.
pub struct Receiver {
    pub address: SocketAddr,
    posts: Arc<Mutex<Vec<Posted>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Receiver {
    pub async fn start(statuses: &[u16]) -> Self {
        let posts = Arc::<Mutex<Vec<Posted>>>::default();
        let (seen, statuses) = (posts.clone(), statuses.to_vec());
        let take = move |request: Request| {
            let (seen, statuses) = (seen.clone(), statuses.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes().to_vec();
                let mut seen = seen.lock();
                let status = statuses.get(seen.len()).copied().unwrap_or(200);
                seen.push(Posted { path: head.uri.path().to_owned(), headers: head.headers, body });
                StatusCode::from_u16(status).expect("a status")
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let app = Router::new().route("/{*any}", post(take));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
        Self { address, posts, serving }
    }

    /// Everything so far, once there are so many.
    pub async fn posts(&self, count: usize) -> Vec<Posted> {
        wait(&format!("{count} posts"), || self.posts.lock().len() >= count).await;
        self.posts.lock().clone()
    }

    /// Everything so far.
    pub fn so_far(&self) -> Vec<Posted> {
        self.posts.lock().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
