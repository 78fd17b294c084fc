//! The store goes away: each gateway says so, at once and without it; what else is news waits.

use crate::bed::Bed;
use crate::kit::{Hand, Receiver, config, kept, look, raised, wait};
use crate::mortal_redis::MortalRedis;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tollgate::alert::Kind;
use tollgate::config::policy::Outage;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::Stores;
use tollgate::store::documents::Documents;
use tollgate::store::outage::Guarded;
use tollgate::store::redis::{RedisDocuments, RedisLedger};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_redis_is_told_by_each_gateway_and_so_is_its_return() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let mut redis = MortalRedis::awake();
    let (url, clock, receiver) = (redis.url(), Hand::new(), Receiver::start(&[]).await);
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let documents: Arc<dyn Documents> = Arc::new(RedisDocuments::connect(&[&url], DEADLINE).expect("a client"));
    let config = config("day = 1.0", &format!("[alerts.webhooks.ops]\nurl = \"http://{}/ops\"\n", receiver.address));
    let journals = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let mut beds = Vec::new();
    for journal in &journals {
        let remote = Arc::new(RedisLedger::connect(&[&url], DEADLINE).expect("a client"));
        let settings = Outage { journal: journal.path().to_owned(), ..Outage::default() };
        let guarded = Guarded::new(remote, settings, clock.clone()).expect("it opens");
        let own: Arc<dyn Documents> = Arc::new(RedisDocuments::connect(&[&url], DEADLINE).expect("a client"));
        let stores = Stores { ledger: Arc::new(guarded), documents: own };
        beds.push(Bed::over(&config, provider.clone(), stores, clock.clone()).await);
    }
    for bed in &beds {
        assert_eq!(bed.chat("acme", "m-small", "").send().await.expect("an answer").status(), 200);
        bed.quiet().await;
    }

    redis.kill();
    wait("both say that it is away", || raised(&beds, Kind::StoreOutage) == 2).await;
    let posts = receiver.posts(2).await;
    for post in &posts[..2] {
        let said: serde_json::Value = serde_json::from_slice(&post.body).expect("JSON");
        assert_eq!((&said["type"], &said["data"]["facts"]["away"]), (&json!("alert.store_outage"), &json!(true)));
        let text = said["text"].as_str().expect("a text");
        assert!(
            text.starts_with("The store does not answer this gateway since 2027-01-15T08:00:00Z. Until 2027-01-15T08:05:00Z"),
            "{text}"
        );
    }
    // Its own alert is shown without the store, and said to be only its own.
    let (status, listing) = look(&beds[0], "/admin/alerts").await;
    assert_eq!((status, &listing["complete"], listing["alerts"].as_array().map(Vec::len)), (200, &json!(false), Some(1)));
    // What has to be told once waits until somebody can be asked who told it.
    for bed in &beds {
        assert_eq!(bed.chat("acme", "unheard-of", "").send().await.expect("an answer").status(), 400);
    }

    clock.pass(30);
    redis.wake();
    wait("what waited is told once", || raised(&beds, Kind::UnpricedModel) == 1).await;
    let away = |bed: &Bed| bed.gateway.ledger.standing().is_some_and(|status| status.away);
    wait("it is back", || !beds.iter().any(away)).await;
    // The alerts' own look at it, four times a second, has to see it first.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while raised(&beds, Kind::StoreOutage) < 4 {
        assert!(tokio::time::Instant::now() < deadline, "never told that it is back");
        clock.pass(11);
        tokio::time::sleep(Duration::from_millis(300)).await; // polling with a deadline
    }
    assert_eq!((raised(&beds, Kind::StoreOutage), raised(&beds, Kind::UnpricedModel)), (4, 1));
    let told = |documents: &Arc<dyn Documents>| {
        let documents = documents.clone();
        async move { kept(&documents).await }
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while told(&documents).await.len() < 5 {
        assert!(tokio::time::Instant::now() < deadline, "never kept");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
    let alerts = told(&documents).await;
    let back: Vec<_> = alerts.iter().filter(|alert| alert.kind == Kind::StoreOutage && alert.good).collect();
    assert_eq!((alerts.len(), back.len()), (5, 2), "{alerts:#?}");
    for alert in back {
        assert_eq!((&alert.facts["away"], &alert.facts["waiting"]), (&json!(false), &json!(0)));
        assert!(alert.facts["seconds"].as_u64() >= Some(30) && alert.text.contains("requests were admitted alone"), "{alert:#?}");
        assert_eq!(alert.since.map(|since| since.secs()), Some(1_800_000_000));
    }
    beds[1].quiet().await;
    beds[0].assert_books(&["acme"]).await;
}
