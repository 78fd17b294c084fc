//! Beds with an admin listener, and the words in which the cases ask it.

use crate::bed::{Bed, config_and};
use crate::mortal_redis::MortalRedis;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::Stores;
use tollgate::store::embedded::LostHold;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

pub const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";

/// Where an operator asks.
pub struct Desk<'a>(pub &'a Bed);

impl Desk<'_> {
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.admin.expect("it listens"))
    }

    /// The status and the JSON of an answer.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.0.client.request(method, self.url(path)).header("content-type", "application/json");
        let reply = request.body(body.to_owned()).send().await.expect("an answer");
        let status = reply.status().as_u16();
        (status, serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON"))
    }

    /// What is shown; it has to be there.
    pub async fn get(&self, path: &str) -> Value {
        let (status, shown) = self.ask("GET", path, "").await;
        assert_eq!(status, 200, "{path}: {shown}");
        shown
    }

    /// A change that has to succeed.
    pub async fn change(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, shown) = self.ask(method, path, body).await;
        assert_eq!(status, 200, "{method} {path} {body}: {shown}");
        shown
    }

    /// The status and the code of what has to be refused.
    pub async fn refused(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, shown) = self.ask(method, path, body).await;
        (status, shown["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

/// The status of a chat request of a customer.
pub async fn chat(bed: &Bed, customer: &str) -> u16 {
    let reply = bed.chat(customer, "m-big", "").send().await.expect("an answer");
    let status = reply.status().as_u16();
    drop(reply.bytes().await.expect("whole"));
    status
}

/// Until everything is settled, and what is kept of requests is written.
pub async fn written(bed: &Bed) {
    bed.quiet().await;
    assert!(bed.gateway.records.drain(Duration::from_secs(10)).await, "records are written");
}

pub async fn provider(options: ProviderOptions) -> Arc<Provider> {
    Arc::new(Provider::start(options).await.expect("a loopback port"))
}

/// Two gateways on one Redis.
pub async fn pair(server: &MortalRedis, more: &str) -> (Bed, Bed) {
    let provider = provider(ProviderOptions::default()).await;
    (on_redis(server, &provider, more).await, on_redis(server, &provider, more).await)
}

pub async fn on_redis(server: &MortalRedis, provider: &Arc<Provider>, more: &str) -> Bed {
    let (url, patience) = (server.url(), Duration::from_secs(10));
    let ledger = Arc::new(RedisLedger::connect(&[&url], patience).expect("well-formed"));
    let documents = Arc::new(RedisDocuments::connect(&[&url], patience).expect("well-formed"));
    let stores = Stores { ledger, documents };
    Bed::over(&config_and(&format!("{ADMIN}{more}")), provider.clone(), stores, Arc::new(SystemClock)).await
}

/// One gateway on an embedded store in this directory.
pub async fn embedded(directory: &std::path::Path, more: &str) -> Bed {
    let clock = Arc::new(SystemClock);
    let stores = Stores::embedded(directory, clock.clone(), LostHold::Charge).expect("it opens");
    Bed::over(&config_and(&format!("{ADMIN}{more}")), provider(ProviderOptions::default()).await, stores, clock).await
}

/// The limit of this name in a customer's view.
pub fn limit<'a>(view: &'a Value, name: &str) -> &'a Value {
    let limits = view["limits"].as_array().expect("a list");
    limits.iter().find(|limit| limit["limit"] == name).unwrap_or_else(|| panic!("no {name} in {view}"))
}

/// The ids of a page.
pub fn ids(page: &Value) -> Vec<&str> {
    page["customers"].as_array().expect("a list").iter().map(|line| line["customer"].as_str().expect("text")).collect()
}
