//! A whole gateway process that ends while its store is away.

use crate::mortal_redis::MortalRedis;
use crate::scene::{RECOVERY, held};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::time::Instant;
use tollgate::demo::provider::Gate;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{CustomerId, NanoUsd};
use tollgate::limit::{Scope, ScopeKey};
use tollgate::store::Ledger;
use tollgate::store::redis::RedisLedger;

/// A running gateway, ended when it is dropped.
pub struct Process {
    child: Child,
    url: String,
    client: reqwest::Client,
}

impl Process {
    /// One that is ready.
    pub async fn start(directory: &Path, config: &str) -> Self {
        Self::start_and_say(directory, config, "ready\n").await
    }

    /// One whose readiness says this.
    pub async fn start_and_say(directory: &Path, config: &str, readiness: &str) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let file = directory.join("tollgate.toml");
        std::fs::write(&file, config).expect("writable");
        let child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .arg("serve")
            .arg("--config")
            .arg(file)
            .arg("--log-file")
            .arg(directory.join("log"))
            .env("TOLLGATE_SERVER__LISTEN", format!("127.0.0.1:{port}"))
            .current_dir(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let process = Self { child, url: format!("http://127.0.0.1:{port}"), client };
        process.until("/readyz", readiness).await;
        process
    }

    pub async fn until(&self, path: &str, text: &str) {
        let deadline = Instant::now() + 2 * RECOVERY;
        loop {
            let reply = self.client.get(format!("{}{path}", self.url)).send().await;
            // An error names the address, and with it the path.
            let (answered, body) = match reply {
                Ok(reply) => (true, reply.text().await.unwrap_or_default()),
                Err(error) => (false, error.to_string()),
            };
            if answered && body.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{path} never said {text:?}, but\n{body}");
            tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
        }
    }

    /// A chat of this customer; `more` are further members, with a leading comma.
    pub fn request(&self, customer: &str, more: &str) -> reqwest::RequestBuilder {
        let body = format!(r#"{{"model":"m-small","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        let request = self.client.post(format!("{}/v1/chat/completions", self.url)).body(body);
        let request = request.header("authorization", "Bearer sk-test").header("content-type", "application/json");
        request.header("x-customer-id", customer)
    }

    pub fn ask(&self) -> impl Future<Output = u16> + Send + 'static {
        self.ask_as("a", "")
    }

    /// The status of such a chat, once all of it has come.
    pub fn ask_as(&self, customer: &str, more: &str) -> impl Future<Output = u16> + Send + 'static + use<> {
        let request = self.request(customer, more);
        async move {
            let reply = request.send().await.expect("an answer");
            let status = reply.status().as_u16();
            reply.bytes().await.expect("a whole body");
            status
        }
    }

    /// `kill` with this signal.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }

    /// Waits for its end: how it ended, and after how long.
    pub async fn ended(mut self) -> (ExitStatus, Duration) {
        let ended = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let status = self.child.wait().expect("ours");
            (status, began.elapsed())
        });
        ended.await.expect("it ended")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway on this Redis in front of this provider, whose customers may spend what they like.
pub fn config(redis: &MortalRedis, provider: &Provider, grace: &str) -> String {
    format!(
        "[server]\ngrace = \"{grace}\"\n[concurrency]\nslots = 8\n[store]\nkind = \"redis\"\nurls = [\"{}\"]\ndeadline = \"300ms\"\n\
         [upstreams.openai]\nbase_url = \"{}\"\n[identity]\ndefault_plan = \"open\"\n\
         [models.m-small]\nprice = {{ input = 0.15, output = 0.60 }}\n\
         [plans.open]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = {{ day = 1000.0 }}\n\
         on_spend = []\non_provider = []\n",
        redis.url(),
        provider.base_url()
    )
}

/// Waits until the provider is answering with all that was scripted.
async fn taken(provider: &Provider) {
    let deadline = Instant::now() + RECOVERY;
    while provider.scripts_left() > 0 {
        assert!(Instant::now() < deadline, "the provider never saw the request");
        tokio::time::sleep(Duration::from_millis(1)).await; // polling with a deadline
    }
}

/// BOOKS of the customer `a`; what others ask names its user.
async fn assert_books(redis: &MortalRedis, provider: &Provider) {
    let ledger = RedisLedger::connect(&[&redis.url()], Duration::from_secs(2)).expect("well-formed");
    let scope = ScopeKey { scope: Scope::Customer, owner: CustomerId::from_trusted("a").key().as_ref().into() };
    let balances = ledger.read(&scope).await.expect("it answers");
    let price = |tokens: u64, cents: u64| tokens * cents * 10; // nano-dollars: cents per million tokens
    let own = provider.log().into_iter().filter(|seen| !String::from_utf8_lossy(&seen.body).contains("user\":\"b"));
    let usage = own.filter_map(|seen| seen.usage);
    let cost: u64 = usage.map(|usage| price(usage.uncached_input, 15) + price(usage.output, 60)).sum();
    assert_eq!(balances.len(), 1, "{balances:?}");
    assert_eq!((balances[0].spent_usd(), balances[0].held), (NanoUsd::new(cost), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_while_the_store_is_away_leaves_nothing_unbooked() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for signal in ["-TERM", "-KILL"] {
        let mut redis = MortalRedis::awake();
        let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
        let directory = tempfile::tempdir().expect("a directory");
        let config = config(&redis, &provider, "5s");
        let process = Process::start(directory.path(), &config).await;
        assert_eq!(process.ask().await, 200);
        let gate = Gate::new();
        provider.script(held(&gate));
        let early = tokio::spawn(process.ask());
        taken(&provider).await;
        redis.kill();
        assert_eq!(process.ask().await, 200, "alone");
        gate.open();
        assert_eq!(early.await.expect("it ended"), 200);
        if signal == "-KILL" {
            process.until("/metrics", "tollgate_store_waiting 2").await;
        }
        process.signal(signal);
        let (status, took) = process.ended().await;
        assert_eq!(status.success(), signal == "-TERM", "{signal}: {status}");
        assert!(took < Duration::from_secs(8), "{signal}: within grace, {took:?}");

        redis.wake();
        let process = Process::start(directory.path(), &config).await;
        process.until("/metrics", "tollgate_store_replayed_total 2").await;
        process.until("/metrics", "tollgate_store_waiting 0").await;
        assert_books(&redis, &provider).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_while_the_store_is_frozen_keeps_to_its_grace() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redis = MortalRedis::awake();
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(&redis, &provider, "2s");
    let process = Process::start(directory.path(), &config).await;
    let of_b = r#","user":"b""#;
    assert_eq!((process.ask().await, process.ask_as("b", of_b).await), (200, 200));
    let (gate, never) = (Gate::new(), Gate::new());
    provider.script(held(&gate));
    let early = tokio::spawn(process.ask());
    taken(&provider).await;
    provider.script(held(&never));
    let outlasting = tokio::spawn(process.request("b", of_b).send());
    taken(&provider).await;
    redis.freeze();
    assert_eq!(process.ask().await, 200, "alone");
    process.signal("-TERM");
    let ended = tokio::spawn(process.ended());
    gate.open();
    assert_eq!(early.await.expect("it ended"), 200, "what ends in time is answered");
    let (status, took) = ended.await.expect("no panic");
    assert!(outlasting.await.expect("no panic").is_err(), "what does not is cut");
    assert!(status.success(), "{status}");
    // A second for last words: alerts, history and records wait for the store in vain, but all at the same time.
    assert!(took < Duration::from_millis(3_700), "within its grace of 2 s, {took:?}");

    redis.thaw();
    let process = Process::start(directory.path(), &config).await;
    process.until("/metrics", "tollgate_store_waiting 0").await;
    assert_books(&redis, &provider).await;
}
