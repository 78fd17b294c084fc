//! Another configuration while the gateway runs: whole or not at all, and whatever is in flight ends under the rules it began with.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/bed.rs"]
mod bed;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "docs/child.rs"]
mod child;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/mortal_redis.rs"]
mod mortal_redis;

#[path = "reload/in_flight.rs"]
mod in_flight;
#[path = "reload/process.rs"]
mod process;
#[path = "reload/refused.rs"]
mod refused;

use bed::{Bed, CONFIG};
use mortal_redis::MortalRedis;
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::Env;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::reload::{Outcome, Reloader};
use tollgate::store::Stores;
use tollgate::store::embedded::LostHold;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

/// A gateway whose configuration is a file that can be written again.
struct Rig {
    bed: Bed,
    directory: tempfile::TempDir,
    _redis: Option<MortalRedis>,
}

impl Rig {
    /// On an embedded store, or on Redis.
    async fn start(on_redis: bool, config: &str) -> Self {
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let (directory, clock) = (tempfile::tempdir().expect("a directory"), Arc::new(SystemClock));
        let (redis, stores) = if on_redis {
            let (redis, patience) = (MortalRedis::awake(), Duration::from_secs(10));
            let ledger = Arc::new(RedisLedger::connect(&[&redis.url()], patience).expect("well-formed"));
            let documents = Arc::new(RedisDocuments::connect(&[&redis.url()], patience).expect("well-formed"));
            (Some(redis), Stores { ledger, documents })
        } else {
            (None, Stores::embedded(directory.path(), clock.clone(), LostHold::Charge).expect("it opens"))
        };
        let bed = Bed::over(&text(config), provider, stores, clock).await;
        Self { bed, directory, _redis: redis }
    }

    /// Writes the file anew, and has it read.
    async fn reload(&self, config: &str) -> Outcome {
        let path = self.directory.path().join("tollgate.toml");
        let config = text(config).replace("{provider}", &self.bed.provider.base_url());
        std::fs::write(&path, config).expect("written");
        let reloader = Reloader::new(self.bed.gateway.clone(), Some(path), Env::default());
        tokio::task::spawn_blocking(move || reloader.reload()).await.expect("no panic")
    }

    /// The status of a chat request of a customer.
    async fn status(&self, customer: &str, model: &str) -> u16 {
        let reply = self.bed.chat(customer, model, "").send().await.expect("an answer");
        let status = reply.status().as_u16();
        drop(reply.bytes().await.expect("whole"));
        status
    }
}

/// The bed listens where the system says.
fn text(config: &str) -> String {
    format!("[server]\nlisten = \"127.0.0.1:0\"\n{config}")
}

/// The configuration of the cases with these words in place of those, all of which are there.
fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(CONFIG.to_owned(), |config, (old, new)| {
        assert!(config.contains(old), "{old}");
        config.replace(old, new)
    })
}
