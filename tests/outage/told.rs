//! What operators are told by the log and by readiness: once, whatever the number of requests.

use crate::mortal_redis::MortalRedis;
use crate::process::{Process, config};
use serde_json::Value;
use std::path::Path;
use tollgate::demo::{Provider, ProviderOptions};

/// What a gateway warned of, its configuration aside.
fn troubles(directory: &Path) -> Vec<Value> {
    let log = std::fs::read_to_string(directory.join("log")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let warns =
        |line: &Value| matches!(line["level"].as_str(), Some("WARN" | "ERROR")) && line["target"] != "tollgate::cli::serve";
    lines.filter(warns).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_logged_when_it_begins_and_when_it_ends_and_decisions_are_counted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut redis = MortalRedis::awake();
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let directory = tempfile::tempdir().expect("a directory");
    let process = Process::start(directory.path(), &config(&redis, &provider, "5s")).await;
    assert_eq!(process.ask().await, 200);
    let before = troubles(directory.path());
    let mut logged = Vec::new();
    for requests in [5, 50] {
        let began = troubles(directory.path()).len();
        redis.kill();
        for _ in 0..requests {
            assert_eq!((process.ask().await, process.ask_as("stranger", "").await), (200, 503));
        }
        redis.wake();
        process.until("/readyz", "ready\n").await;
        process.until("/metrics", "tollgate_store_away 0").await;
        process.until("/metrics", "tollgate_store_waiting 0").await;
        let new = troubles(directory.path()).split_off(began);
        let said = |what: &str| {
            let of = new.iter().filter(|line| line["message"].as_str().is_some_and(|text| text.starts_with(what)));
            of.cloned().collect::<Vec<_>>()
        };
        let (away, back) = (said("the store is away"), said("the store is back"));
        assert_eq!((away.len(), back.len()), (1, 1), "{new:#?}");
        assert_eq!((&back[0]["alone"], &back[0]["refused"]), (&requests.into(), &requests.into()), "{back:?}");
        logged.push(new.len());
    }
    assert!(before.is_empty(), "{before:#?}");
    // Others that ask the store may say so as well, but not once for each request.
    assert!(logged.iter().all(|lines| *lines < 8), "{logged:?}: {:#?}", troubles(directory.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_may_evict_budgets_is_warned_of_at_the_start_and_in_readiness() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redis = MortalRedis::awake();
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    for (policy, readiness, warns) in [
        ("allkeys-lru", "ready, but the store may throw budgets away", true),
        ("volatile-ttl", "ready, but the store may throw budgets away", true),
        ("noeviction", "ready\n", false),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg(policy).exec(&mut redis.connection());
        set.expect("CONFIG SET");
        let process = Process::start_and_say(directory.path(), &config(&redis, &provider, "5s"), readiness).await;
        assert_eq!(process.ask().await, 200, "{policy}: it serves");
        let said = troubles(directory.path());
        // Once by the books and once by what is kept beside them, which have connections of their own.
        assert!(said.iter().all(|line| line["message"].as_str().is_some_and(|text| text.contains("noeviction"))), "{said:#?}");
        assert_eq!(said.len(), if warns { 2 } else { 0 }, "{policy}: {said:#?}");
    }
}
