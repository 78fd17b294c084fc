//! Gateways in keys mode, an operator, and applications.

use crate::bed::{Bed, CONFIG};
use crate::mortal_redis::MortalRedis;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::config::hash_key;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::store::Stores;
use tollgate::store::embedded::LostHold;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

/// The key of the configuration's application `fixed`.
pub const FIXED: &str = "tg-fixed-0123456789abcdef";
/// The table of the bed's configuration, to which further lines may be added.
pub const IDENTITY: &str = "[identity]\n";

/// The system's time, and what a test adds to it.
#[derive(Debug, Default)]
pub struct Hand(AtomicU64);

impl Hand {
    pub fn pass(&self, duration: Duration) {
        self.0.fetch_add(u64::try_from(duration.as_micros()).expect("short"), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.0.load(Ordering::SeqCst))
    }
}

pub async fn provider() -> Arc<Provider> {
    Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"))
}

/// The configuration of all gateways here, with these lines behind it; those of [`IDENTITY`] in their table.
pub fn config(more: &str) -> String {
    let key = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(key.path(), "sk-provider-0123456789\n").expect("written");
    let (_, path) = key.keep().expect("kept");
    let upstreams = format!("base_url = \"{{provider}}\"\napi_key = {{ file = {path:?} }}\n");
    let hash = blake3::Hash::from_bytes(hash_key(FIXED)).to_hex();
    let (identity, more) = if more.starts_with(IDENTITY) { (more, "") } else { (IDENTITY, more) };
    format!(
        "{}\n[auth]\nmode = \"keys\"\n[keys.fixed]\nhash = \"blake3:{hash}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [pools.big]\nupstream = \"openai\"\nmodels = [\"m-big\"]\n{more}",
        CONFIG.replace("base_url = \"{provider}\"\n", &upstreams).replace(IDENTITY, identity)
    )
}

/// A gateway on this Redis.
pub async fn on_redis(server: &MortalRedis, provider: &Arc<Provider>, more: &str) -> Bed {
    let (url, patience) = (server.url(), Duration::from_secs(10));
    let ledger = Arc::new(RedisLedger::connect(&[&url], patience).expect("well-formed"));
    let documents = Arc::new(RedisDocuments::connect(&[&url], patience).expect("well-formed"));
    Bed::over(&config(more), provider.clone(), Stores { ledger, documents }, Arc::new(SystemClock)).await
}

/// A gateway on an embedded store in this directory, once whoever had it before has let go of it.
pub async fn embedded(directory: &std::path::Path, provider: &Arc<Provider>, clock: &Arc<Hand>, more: &str) -> Bed {
    loop {
        match Stores::embedded(directory, clock.clone(), LostHold::Charge) {
            Ok(stores) => return Bed::over(&config(more), provider.clone(), stores, clock.clone()).await,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// What an operator asks of a gateway, and what it says.
pub async fn operator(bed: &Bed, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let url = format!("http://{}{path}", bed.admin.expect("an admin listener"));
    let mut request = bed.client.request(method, url);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let reply = request.send().await.expect("an answer");
    let status = reply.status().as_u16();
    (status, serde_json::from_slice(&reply.bytes().await.expect("whole")).expect("JSON"))
}

pub async fn post(bed: &Bed, path: &str, body: Value) -> (u16, Value) {
    operator(bed, reqwest::Method::POST, path, Some(body)).await
}

/// Makes a key that may do this, and gives its secret.
pub async fn make(bed: &Bed, name: &str, set: Value) -> String {
    let (status, issued) = post(bed, "/admin/keys", json!({ "name": name, "set": set, "by": "ann" })).await;
    assert_eq!(status, 201, "{issued}");
    issued["secret"].as_str().expect("shown once").to_owned()
}

/// What an application is told: the status, and the code of a refusal.
pub async fn told(request: reqwest::RequestBuilder, key: &str) -> (u16, String) {
    let (client, request) = request.build_split();
    let mut request = request.expect("sound");
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().expect("a header"));
    let reply = client.execute(request).await.expect("an answer");
    let status = reply.status().as_u16();
    let body: Value = serde_json::from_slice(&reply.bytes().await.expect("whole")).expect("JSON");
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

/// A chat of a customer by an application.
pub async fn chat(bed: &Bed, key: &str, customer: &str, model: &str) -> (u16, String) {
    told(bed.chat(customer, model, ""), key).await
}

pub fn ok() -> (u16, String) {
    (200, String::new())
}

pub fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
