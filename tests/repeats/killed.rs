//! `kill -9` of a whole gateway process with a key's call, a job that runs and a job that waits; the next process ends what it left.

use crate::redis_server::RedisServer;
use crate::rig::{Answer, SHOP, chat_body, config};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::config::policy::LostHold;
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::CustomerId;
use tollgate::limit::{Scope, ScopeKey};
use tollgate::repeats::marker::LEASE;
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Ledger, Stores};
use tollgate::telemetry::SystemClock;

/// How long anything may take that waits for a lease.
const PATIENCE: Duration = Duration::from_secs(30).saturating_add(LEASE);

/// A running gateway, killed when it is dropped.
struct Process {
    child: Child,
    url: String,
    client: reqwest::Client,
}

impl Process {
    async fn start(directory: &Path, config: &str) -> Self {
        let port = crate::redis_server::free_port();
        let file = directory.join("tollgate.toml");
        std::fs::write(&file, config).expect("writable");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("serve").arg("--config").arg(file).current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.env("TOLLGATE_SERVER__LISTEN", format!("127.0.0.1:{port}")).spawn().expect("it starts");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let process = Self { child, url: format!("http://127.0.0.1:{port}"), client };
        let deadline = Instant::now() + PATIENCE;
        while !process.client.get(format!("{}/readyz", process.url)).send().await.is_ok_and(|reply| reply.status() == 200) {
            assert!(Instant::now() < deadline, "it never was ready");
            tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
        }
        process
    }

    fn request(&self, method: http::Method, path: &str) -> reqwest::RequestBuilder {
        let request =
            self.client.request(method, format!("{}{path}", self.url)).header("authorization", format!("Bearer {SHOP}"));
        request.header("content-type", "application/json").header("x-customer-id", "t")
    }

    fn chat(&self, name: &str, value: &str) -> reqwest::RequestBuilder {
        self.request(http::Method::POST, "/v1/chat/completions").header(name, value).body(chat_body("m-small", ""))
    }

    async fn take_in(&self) -> String {
        let answer = Answer::to(self.chat("prefer", "respond-async")).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.header("location").to_owned()
    }

    async fn done(&self, url: &str) -> serde_json::Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = Answer::to(self.request(http::Method::GET, url)).await.json();
            if !["queued", "running"].contains(&status["status"].as_str().expect("a text")) {
                return status;
            }
            assert!(Instant::now() < deadline, "never done: {status}");
            tokio::time::sleep(Duration::from_millis(50)).await; // polling with a deadline
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("ours");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn killed(store: &str, ledger: impl AsyncFnOnce(&Path) -> Arc<dyn Ledger>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (directory, secrets) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let more = format!("[repeats]\njobs_at_once = 1\n[store]\nlost_hold = \"release\"\n{store}");
    let config = config(&secrets, &more).replace("{provider}", &provider.base_url());

    let first = Process::start(directory.path(), &config).await;
    let kept = Answer::to(first.chat("idempotency-key", "kept")).await;
    assert_eq!(kept.status, 200);
    let never = Gate::new();
    for _ in 0..2 {
        provider.script(Script::json(200, "{}").hold(&never)); // one for the job, one for the key
    }
    let running = first.take_in().await;
    provider.wait_until(|seen| seen.len() == 2).await;
    let waiting = first.take_in().await;
    let lost = tokio::spawn(first.chat("idempotency-key", "lost").send());
    provider.wait_until(|seen| seen.len() == 3).await;
    first.kill();
    assert!(lost.await.expect("no panic").is_err(), "its connection broke");
    assert_eq!(provider.seen(), 3, "one job at a time");

    let second = Process::start(directory.path(), &config).await;
    let again = Answer::to(second.chat("idempotency-key", "kept")).await;
    assert_eq!((again.status, &again.body, again.header("x-tollgate-replayed")), (200, &kept.body, "true"));
    let early = Answer::to(second.chat("idempotency-key", "lost")).await;
    assert_eq!((early.status, early.code().as_str()), (409, "idempotency_in_progress"), "its lease goes on");
    let status = second.done(&waiting).await;
    assert_eq!((&status["status"], &status["attempts"]), (&"done".into(), &1.into()), "{status}");
    let status = second.done(&running).await;
    assert_eq!((&status["status"], &status["attempts"]), (&"done".into(), &2.into()), "at least once: {status}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = Answer::to(second.chat("idempotency-key", "lost")).await;
        if answer.status == 200 {
            assert_eq!(answer.header("x-tollgate-replayed"), "", "the key was free again");
            break;
        }
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(Instant::now() < deadline, "the key is never free");
        tokio::time::sleep(Duration::from_millis(50)).await; // polling with a deadline
    }
    assert_eq!(provider.seen(), 6, "the kept, two that were lost, and each of these once more, and the one that waited");
    for url in [&running, &waiting] {
        let result = Answer::to(second.request(http::Method::GET, &format!("{url}/result"))).await;
        assert_eq!(result.json()["object"], "chat.completion", "{result:?}");
    }
    let mut second = second;
    let term = Command::new("kill").args(["-TERM", &second.child.id().to_string()]).status();
    assert!(term.is_ok_and(|status| status.success()));
    let ended = tokio::task::spawn_blocking(move || second.child.wait().expect("ours")).await.expect("it ended");
    assert!(ended.success(), "{ended}");

    // BOOKS: what the provider finished, at its price; the holds of the killed process are given back.
    let price = |tokens: u64, cents: u64| tokens * cents * 10; // nano-dollars: cents per million tokens
    let usage = provider.log().into_iter().filter_map(|seen| seen.usage);
    let cost: u64 = usage.map(|usage| price(usage.uncached_input, 15) + price(usage.output, 60)).sum();
    let ledger = ledger(directory.path()).await;
    let scope = ScopeKey { scope: Scope::Customer, owner: CustomerId::from_trusted("t").key().as_ref().into() };
    let deadline = Instant::now() + PATIENCE;
    let stands = loop {
        ledger.sweep(None).await.expect("it answers");
        let balances = ledger.read(&scope).await.expect("it answers");
        assert_eq!(balances.len(), 1, "{balances:?}");
        if balances[0].held == 0 {
            break balances[0].spent;
        }
        assert!(Instant::now() < deadline, "still held: {balances:?}");
        tokio::time::sleep(Duration::from_millis(50)).await; // polling with a deadline
    };
    assert_eq!(stands, cost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_on_the_embedded_store_is_carried_on() {
    killed("", async |directory| {
        let data = directory.join("tollgate-data");
        Stores::embedded(&data, Arc::new(SystemClock), LostHold::Release).expect("it opens").ledger
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_on_redis_is_carried_on() {
    let redis = RedisServer::start();
    let store = format!("kind = \"redis\"\nurls = [\"{}\"]\ndeadline = \"2s\"\nlease = \"1s\"\n", redis.url());
    killed(&store, async |_| {
        let ledger = RedisLedger::connect(&[&redis.url()], Duration::from_secs(2)).expect("well-formed");
        Arc::new(ledger.with_lost_hold(LostHold::Release)) as Arc<dyn Ledger>
    })
    .await;
}
