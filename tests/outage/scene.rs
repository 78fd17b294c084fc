//! A bed on a guarded Redis.

use crate::bed::{Bed, CONFIG};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::config::policy::Outage;
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::outage::Guarded;
use tollgate::store::redis::RedisLedger;
use tollgate::telemetry::SystemClock;
use tollgate::wire::Usage;

/// Long enough for a busy machine, short enough to be felt.
pub const DEADLINE: Duration = Duration::from_millis(300);
/// No answer takes longer, whatever the store does.
pub const BOUND: Duration = Duration::from_secs(3);
/// Within this an outage is over after the store is back.
pub const RECOVERY: Duration = Duration::from_secs(15);

pub struct Scene {
    pub bed: Bed,
    pub guarded: Arc<Guarded>,
    _journal: tempfile::TempDir,
}

impl Scene {
    pub async fn on(url: &str) -> Self {
        let journal = tempfile::tempdir().expect("a directory");
        let redis = Arc::new(RedisLedger::connect(&[url], DEADLINE).expect("a well-formed address"));
        let settings = Outage { journal: journal.path().to_owned(), ..Outage::default() };
        let guarded = Arc::new(Guarded::new(redis, settings, Arc::new(SystemClock)).expect("it opens"));
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let bed = Bed::on(CONFIG, provider, guarded.clone()).await;
        Self { bed, guarded, _journal: journal }
    }

    /// Status and `error.code` of a small request, which is answered in time.
    pub async fn ask(&self, customer: &str) -> (u16, String) {
        let began = Instant::now();
        let request = self.bed.chat(customer, "m-small", "").timeout(2 * BOUND);
        let reply = request.send().await.unwrap_or_else(|error| panic!("{customer}: {error:?}, {:?}", self.guarded.status()));
        let status = reply.status().as_u16();
        let body = reply.text().await.expect("a whole body");
        assert!(began.elapsed() < BOUND, "{customer}: {status} after {:?}", began.elapsed());
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Status and text of `/readyz`.
    pub async fn ready(&self) -> (u16, String) {
        let reply = self.bed.client.get(self.bed.url("/readyz")).send().await.expect("an answer");
        (reply.status().as_u16(), reply.text().await.expect("text"))
    }

    /// Waits until an outage has begun and the store is not asked any more.
    pub async fn gone(&self) {
        let deadline = Instant::now() + RECOVERY;
        while !self.guarded.status().breaker_open {
            assert!(Instant::now() < deadline, "no outage: {:?}", self.guarded.status());
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        }
    }

    /// Waits until the outage is over and nothing waits any more.
    pub async fn back(&self) {
        let deadline = Instant::now() + RECOVERY;
        loop {
            let status = self.guarded.status();
            if !status.away && !status.breaker_open && status.waiting == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "not back: {status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        }
    }

    /// A request of this customer that stays in flight until the gate opens.
    pub async fn in_flight(&self, customer: &str) -> (Gate, tokio::task::JoinHandle<u16>) {
        let gate = Gate::new();
        self.bed.provider.script(held(&gate));
        let request = self.bed.chat(customer, "m-small", "");
        let reply = tokio::spawn(async move {
            let reply = request.timeout(2 * RECOVERY).send().await.expect("an answer");
            let status = reply.status().as_u16();
            reply.bytes().await.expect("a whole body");
            status
        });
        let deadline = Instant::now() + RECOVERY;
        // Arrived is not enough: the next request would then be answered from behind the gate.
        while self.bed.provider.scripts_left() > 0 {
            assert!(Instant::now() < deadline, "{customer}: the provider never saw it: {:?}", self.guarded.status());
            tokio::time::sleep(Duration::from_millis(1)).await; // polling with a deadline
        }
        (gate, reply)
    }
}

/// A reply of 1,000 tokens in and 200 out behind a gate.
pub fn held(gate: &Gate) -> Script {
    let body = r#"{"id":"c","object":"chat.completion","created":1,"model":"m-small","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200}}"#;
    let usage = Usage { uncached_input: 1_000, output: 200, ..Usage::default() };
    Script::json(200, body).hold(gate).used(usage)
}
