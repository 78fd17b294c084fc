//! `kill -9` of a gateway with requests in flight, beside another one that lives.

use crate::mortal_redis::MortalRedis;
use crate::process::Process;
use crate::scene::{RECOVERY, held};
use std::time::Duration;
use tokio::time::Instant;
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::CustomerId;
use tollgate::limit::{Scope, ScopeKey};
use tollgate::store::Ledger;
use tollgate::store::redis::RedisLedger;

/// What 1,000 tokens in and 200 out cost, nano-dollars.
const HELD_REPLY: u64 = 1_000 * 150 + 200 * 600;

/// Spent and held today.
async fn stands(ledger: &RedisLedger, customer: &str) -> (u64, u64) {
    let scope = ScopeKey { scope: Scope::Customer, owner: CustomerId::from_trusted(customer).key().as_ref().into() };
    let balances = ledger.read(&scope).await.expect("it answers");
    assert_eq!(balances.len(), 1, "{balances:?}");
    (balances[0].spent, balances[0].held)
}

/// Waits until the provider has seen so many requests.
async fn seen(provider: &Provider, count: usize) {
    let waiting = provider.wait_until(|seen| seen.len() == count);
    tokio::time::timeout(RECOVERY, waiting).await.unwrap_or_else(|_| panic!("not {count} but {:?}", provider.log()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holds_of_a_killed_gateway_are_booked_after_the_lease_and_those_of_another_stand() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for lost_hold in ["charge", "release"] {
        let redis = MortalRedis::awake();
        let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
        // Of 600,000 nano-dollars the first answer of "tight" takes all but what less than one token costs.
        let config = format!(
            "[concurrency]\nslots = 8\n[store]\nkind = \"redis\"\nurls = [\"{}\"]\ndeadline = \"2s\"\nlease = \"1s\"\n\
             lost_hold = \"{lost_hold}\"\n[upstreams.openai]\nbase_url = \"{}\"\n[identity]\ndefault_plan = \"open\"\n\
             [models.m-small]\nprice = {{ input = 0.15, output = 0.60 }}\n\
             [plans.open]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = {{ day = 1000.0 }}\n\
             on_spend = []\non_provider = []\n\
             [plans.tight]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = {{ day = 0.0006 }}\n\
             max_output_tokens = 1_000\non_spend = []\non_provider = []\n[customers.tight]\nplan = \"tight\"\n",
            redis.url(),
            provider.base_url()
        );
        let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let killed = Process::start(directories[0].path(), &config).await;
        let alive = Process::start(directories[1].path(), &config).await;
        let ledger = RedisLedger::connect(&[&redis.url()], Duration::from_secs(2)).expect("well-formed");

        let never = Gate::new();
        let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
        for (i, customer) in ["tight", "idle"].into_iter().enumerate() {
            provider.script(Script::sse().send(chunk).until(&never));
            let request = killed.request(customer, r#","stream":true"#);
            drop(tokio::spawn(async move {
                let reply = request.send().await.expect("an answer");
                assert_eq!(reply.status(), 200);
                drop(reply.bytes().await); // it breaks off when the gateway dies
            }));
            seen(&provider, i + 1).await;
        }
        let gate = Gate::new();
        provider.script(held(&gate));
        let survivor = tokio::spawn(alive.ask_as("survivor", ""));
        seen(&provider, 3).await;

        let (_, tight) = stands(&ledger, "tight").await;
        let (_, idle) = stands(&ledger, "idle").await;
        let (_, surviving) = stands(&ledger, "survivor").await;
        assert!((599_400..=600_000).contains(&tight) && idle > 0 && surviving > HELD_REPLY, "{tight} {idle} {surviving}");
        assert_eq!(alive.ask_as("tight", "").await, 429, "its rest is in flight");

        killed.signal("-KILL");
        let deadline = Instant::now() + 2 * RECOVERY;
        while stands(&ledger, "tight").await.1 + stands(&ledger, "idle").await.1 > 0 {
            assert!(Instant::now() < deadline, "still held");
            tokio::time::sleep(Duration::from_millis(20)).await; // polling with a deadline
        }
        let charged = |hold: u64| if lost_hold == "charge" { hold } else { 0 };
        assert_eq!(ledger.sweep(None).await.expect("it answers"), 0, "nothing is left to book");
        assert_eq!(stands(&ledger, "tight").await, (charged(tight), 0), "{lost_hold}");
        assert_eq!(stands(&ledger, "idle").await, (charged(idle), 0), "{lost_hold}: nobody came back");
        assert_eq!(stands(&ledger, "survivor").await, (0, surviving), "renewed for longer than a lease");

        gate.open();
        assert_eq!(survivor.await.expect("no panic"), 200);
        provider.script(held(&gate));
        let status = alive.ask_as("tight", "").await;
        assert_eq!(status, if lost_hold == "charge" { 402 } else { 200 }, "{lost_hold}: nothing is in flight any more");
        let right = if lost_hold == "charge" { tight } else { HELD_REPLY };
        for (customer, spent) in [("survivor", HELD_REPLY), ("tight", right), ("idle", charged(idle))] {
            while stands(&ledger, customer).await.1 > 0 {
                assert!(Instant::now() < deadline, "{customer} is not settled");
                tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
            }
            assert_eq!(stands(&ledger, customer).await, (spent, 0), "{lost_hold} {customer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_stream_is_charged_what_was_metered_and_as_much_again() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redis = MortalRedis::awake();
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let config = format!(
        "[concurrency]\nslots = 8\n[store]\nkind = \"redis\"\nurls = [\"{}\"]\ndeadline = \"2s\"\nlease = \"1s\"\n\
         [upstreams.openai]\nbase_url = \"{}\"\n[identity]\ndefault_plan = \"open\"\n\
         [models.m-small]\nprice = {{ input = 0.15, output = 0.60 }}\n\
         [plans.open]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = {{ day = 1000.0 }}\n\
         on_spend = []\non_provider = []\n",
        redis.url(),
        provider.base_url()
    );
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = Process::start(directory.path(), &config).await;
    let ledger = RedisLedger::connect(&[&redis.url()], Duration::from_secs(2)).expect("well-formed");
    let word = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hello\"}}]}\n\n";
    // Longer than the test takes.
    let stream = (0..600).fold(Script::sse(), |stream, _| stream.send(word).wait(Duration::from_millis(50)));
    provider.script(stream);
    let request = gateway.request("streaming", r#","stream":true"#);
    let reading = tokio::spawn(async move {
        let reply = request.send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
        drop(reply.bytes().await); // it breaks off when the gateway dies
    });
    seen(&provider, 1).await;
    let (_, hold) = stands(&ledger, "streaming").await;

    // `<deadline> <metered>|...`
    let key = format!("tg1:{{c:{}}}:holds", CustomerId::from_trusted("streaming").key());
    let metered = || {
        let records: Vec<String> = redis::cmd("HVALS").arg(&key).query(&mut redis.connection()).expect("HVALS");
        assert_eq!(records.len(), 1, "{records:?}");
        let head = records[0].split('|').next().expect("a deadline");
        head.split(' ').nth(1).map(|metered| metered.parse::<u64>().expect("a number"))
    };
    let deadline = Instant::now() + RECOVERY;
    while metered().is_none() {
        assert!(Instant::now() < deadline, "it was never told");
        tokio::time::sleep(Duration::from_millis(20)).await; // polling with a deadline
    }
    gateway.signal("-KILL");
    reading.await.expect("no panic");
    let metered = metered().expect("a renewal takes nothing back");
    // A prompt of a few tokens, and a word every 50 ms for a second or more: one token each, at 600.
    assert!((10 * 600..600 * 600).contains(&metered), "{metered}");
    while stands(&ledger, "streaming").await.1 > 0 {
        assert!(Instant::now() < deadline, "still held");
        ledger.sweep(None).await.expect("it answers");
        tokio::time::sleep(Duration::from_millis(20)).await; // polling with a deadline
    }
    assert!(2 * metered < hold, "{metered} of {hold}");
    assert_eq!(stands(&ledger, "streaming").await, (2 * metered, 0));
}
