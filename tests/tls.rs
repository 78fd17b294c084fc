//! TLS at the listeners: who is let in, what is shown, and certificates that change while connections are open.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/bed.rs"]
mod bed;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "docs/child.rs"]
mod child;

#[path = "tls/certificates.rs"]
mod certificates;
#[path = "tls/clients.rs"]
mod clients;
#[path = "tls/configured.rs"]
mod configured;
#[path = "tls/rotation.rs"]
mod rotation;

use bed::{Bed, CONFIG};
use certificates::Authority;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::store::Stores;
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

/// A gateway with a certificate of this authority in this directory, and these lines in its `[server.tls]`.
async fn bed(directory: &Path, more: &str) -> Bed {
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let stores = Stores::in_memory_beside(Arc::new(EmbeddedLedger::in_memory(clock.clone())), clock.clone());
    Bed::over(&config(directory, more), provider, stores, clock).await
}

fn config(directory: &Path, more: &str) -> String {
    let (cert, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    format!("[server]\nlisten = \"127.0.0.1:0\"\n[server.tls]\ncert = {cert:?}\nkey = {key:?}\n{more}\n{CONFIG}")
}

/// A directory with a certificate for `localhost` and 127.0.0.1.
fn directory(authority: &Authority) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    authority.issue("localhost", 365).write(directory.path());
    directory
}

/// In so many days.
fn in_days(days: u64) -> Timestamp {
    Timestamp::from_secs(SystemClock.now().secs() + days * 86_400)
}

const CHAT: &str = r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}]}"#;

/// A chat of `t` over TLS.
fn chat(client: &reqwest::Client, bed: &Bed, body: &str) -> reqwest::RequestBuilder {
    let request = client.post(format!("https://{}/v1/chat/completions", bed.address));
    request.header("x-customer-id", "t").header("content-type", "application/json").bearer_auth("k").body(body.to_owned())
}

/// Waits until so many handshakes have ended so; they are counted just after the client learns of it.
async fn handshakes(bed: &Bed, listener: &str, result: &str, count: usize) {
    let line = format!("tollgate_tls_handshakes_total{{listener=\"{listener}\",result=\"{result}\"}} {count}");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let metrics = bed.gateway.metrics.render();
        if metrics.lines().any(|metric| metric == line) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{line}: {metrics}");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}
