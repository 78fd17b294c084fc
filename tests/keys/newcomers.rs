//! The cap on customers that an application names for the first time within an hour.

use crate::bed::{Bed, CONFIG};
use crate::mortal_redis::MortalRedis;
use crate::rig::{FIXED, Hand, IDENTITY, chat, config, embedded, make, ok, on_redis, operator, provider, refused};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::Outage;
use tollgate::config::{Env, Policy};
use tollgate::domain::Clock;
use tollgate::store::Stores;
use tollgate::store::outage::Guarded;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

const HOUR: u64 = 3_600;

/// A cap for every application, for the rig's configuration.
fn capped(cap: u64) -> String {
    format!("{IDENTITY}new_customers_per_hour = {cap}\n")
}

fn too_many() -> (u16, String) {
    refused(429, "too_many_new_customers")
}

/// Names 500 customers at once, half of them at each of two gateways with a cap of 100; `None` when the clock's hour ended meanwhile.
async fn flood() -> Option<()> {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, &capped(100)).await, on_redis(&server, &provider, &capped(100)).await);
    let hour = SystemClock.now().secs() / HOUR;
    let ids: Vec<String> = (0..500).map(|n| format!("c-{n}")).collect();
    let asking = ids.iter().enumerate().map(|(n, id)| chat(if n % 2 == 0 { &a } else { &b }, FIXED, id, "m-small"));
    let told = join_all(asking).await;
    // While it is full: whoever was let in is served at both gateways, configured ones, and one of whom something was said elsewhere.
    let admitted: Vec<&String> = ids.iter().zip(&told).filter(|(_, told)| **told == ok()).map(|(id, _)| id).collect();
    let mut later = Vec::new();
    for id in admitted.iter().take(10) {
        later.push(chat(&a, FIXED, id, "m-small").await);
        later.push(chat(&b, FIXED, id, "m-small").await);
    }
    later.push(chat(&a, FIXED, "t", "m-small").await);
    let set = json!({ "set": { "plan": "case" }, "by": "ann" });
    let (status, _) = operator(&a, Method::PUT, "/admin/customers/vip/override", Some(set)).await;
    assert_eq!(status, 200);
    later.push(chat(&b, FIXED, "vip", "m-small").await);
    let refusal = chat(&b, FIXED, "c-late", "m-small").await;
    if SystemClock.now().secs() / HOUR != hour {
        return None;
    }
    assert_eq!((admitted.len(), told.iter().filter(|told| **told == too_many()).count()), (100, 400));
    assert_eq!(later, vec![ok(); 22]);
    assert_eq!(refusal, too_many());
    assert_eq!(provider.log().len(), 122, "nothing of what was refused");
    b.quiet().await;
    let mut everybody: Vec<&str> = ids.iter().map(String::as_str).collect();
    everybody.extend(["t", "vip", "c-late"]);
    a.assert_books(&everybody).await;
    let mut with_balances = 0;
    for id in &everybody {
        with_balances += usize::from(!a.balances(id).await.is_empty());
    }
    assert_eq!(with_balances, 102, "nothing is claimed for those who are refused");
    let metrics = [&a, &b].map(|bed| bed.gateway.metrics.render()).concat();
    let count = |result: &str| -> u64 {
        let name = format!("tollgate_new_customers_total{{result=\"{result}\"}} ");
        metrics.lines().filter_map(|line| line.strip_prefix(&name)).map(|count| count.parse::<u64>().expect("a count")).sum()
    };
    assert_eq!((count("admitted"), count("refused"), count("unavailable")), (100, 401, 0));
    Some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_new_customers_at_two_gateways_are_a_hundred() {
    // Twice at most: an hour does not end during both.
    if flood().await.is_none() {
        flood().await.expect("within an hour");
    }
}

/// A clock at the tenth minute of an hour, far from midnight, when budgets end.
fn early() -> Arc<Hand> {
    let clock = Arc::new(Hand::default());
    clock.pass(Duration::from_secs(24 * HOUR - clock.now().secs() % (24 * HOUR) + 10 * HOUR + 600));
    clock
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_application_has_its_own_count_which_survives_a_restart_and_ends_with_the_hour() {
    let (directory, provider, clock) = (tempfile::tempdir().expect("a directory"), provider().await, early());
    let bed = embedded(directory.path(), &provider, &clock, &capped(2)).await;
    let (wide, open) = (
        make(&bed, "wide", json!({ "new_customers_per_hour": 3 })).await,
        make(&bed, "open", json!({ "new_customers_per_hour": "unlimited" })).await,
    );
    for id in ["a", "b", "a"] {
        assert_eq!(chat(&bed, FIXED, id, "m-small").await, ok(), "{id}");
    }
    assert_eq!(chat(&bed, FIXED, "c", "m-small").await, too_many());
    assert_eq!(chat(&bed, FIXED, "t", "m-small").await, ok(), "it is configured");
    for id in ["d", "e", "f", "a"] {
        assert_eq!(chat(&bed, &wide, id, "m-small").await, ok(), "{id}");
    }
    assert_eq!(chat(&bed, &wide, "g", "m-small").await, too_many());
    assert_eq!(chat(&bed, FIXED, "d", "m-small").await, ok(), "named by another application before");
    for id in ["h", "i", "j", "k"] {
        assert_eq!(chat(&bed, &open, id, "m-small").await, ok(), "{id}");
    }
    bed.quiet().await;
    bed.stop().await;

    let bed = embedded(directory.path(), &provider, &clock, &capped(2)).await;
    assert_eq!(chat(&bed, FIXED, "c", "m-small").await, too_many());
    assert_eq!(chat(&bed, &wide, "g", "m-small").await, too_many());
    for id in ["a", "b", "h"] {
        assert_eq!(chat(&bed, FIXED, id, "m-small").await, ok(), "{id}: it was named, or has balances");
    }
    clock.pass(Duration::from_secs(HOUR));
    for id in ["c", "g"] {
        assert_eq!(chat(&bed, FIXED, id, "m-small").await, ok(), "{id}: the next hour");
    }
    assert_eq!(chat(&bed, FIXED, "l", "m-small").await, too_many());
    bed.assert_books(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_refusal_says_when_in_the_format_of_the_route_and_a_reload_changes_the_cap() {
    let (directory, provider, clock) = (tempfile::tempdir().expect("a directory"), provider().await, early());
    let bed = embedded(directory.path(), &provider, &clock, "").await;
    assert_eq!(chat(&bed, FIXED, "before", "m-small").await, ok());
    let with = |lines: &str| {
        let text = config(lines).replace("{provider}", &bed.provider.base_url());
        let (policy, _) = Policy::parse(&text, "bed.toml", &Env::default()).expect("sound");
        bed.gateway.adopt(policy).expect("adopted");
    };
    with(&capped(0));
    assert_eq!(chat(&bed, FIXED, "before", "m-small").await, ok(), "it was active before there was a cap");
    let ask = r#"{"model":"c-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for (path, body, pointer) in [
        ("/v1/messages", ask, "/error/details/error_code"),
        ("/v1/responses", r#"{"model":"m-small","input":"hi"}"#, "/error/code"),
        ("/v1/embeddings", r#"{"model":"emb","input":"hi"}"#, "/error/code"),
    ] {
        let (client, request) = bed.post(path, "new", body).build_split();
        let mut request = request.expect("sound");
        request.headers_mut().insert("authorization", format!("Bearer {FIXED}").parse().expect("a header"));
        let reply = client.execute(request).await.expect("an answer");
        let header = |name: &str| reply.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let (wait, retry) = (header("retry-after").parse::<u64>().expect("seconds"), header("x-should-retry"));
        assert!((2_900..=3_000).contains(&wait), "{wait} s to the next hour");
        assert_eq!((reply.status().as_u16(), retry.as_str()), (429, "false"), "{path}");
        let body: Value = serde_json::from_slice(&reply.bytes().await.expect("whole")).expect("JSON");
        assert_eq!(body.pointer(pointer).and_then(Value::as_str), Some("too_many_new_customers"), "{body}");
        assert_eq!(body["error"]["customer_id"], "new");
    }
    with(&capped(1));
    assert_eq!(chat(&bed, FIXED, "new", "m-small").await, ok());
    assert_eq!(chat(&bed, FIXED, "more", "m-small").await, too_many());
    with("");
    assert_eq!(chat(&bed, FIXED, "more", "m-small").await, ok());
    bed.assert_books(&["before", "new", "more"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_known_customers_go_on_and_others_are_503() {
    let (mut server, provider) = (MortalRedis::awake(), provider().await);
    let (url, patience) = (server.url(), Duration::from_millis(300));
    let journal = tempfile::tempdir().expect("a directory");
    let redis = Arc::new(RedisLedger::connect(&[&url], patience).expect("well-formed"));
    let settings = Outage { journal: journal.path().to_owned(), ..Outage::default() };
    let guarded = Arc::new(Guarded::new(redis, settings, Arc::new(SystemClock)).expect("it opens"));
    let documents = Arc::new(RedisDocuments::connect(&[&url], patience).expect("well-formed"));
    let stores = Stores { ledger: guarded.clone(), documents };
    let lines = CONFIG.replace("[identity]\n", "[identity]\nnew_customers_per_hour = 100\n");
    let bed = Bed::over(&lines, provider, stores, Arc::new(SystemClock)).await;
    let ask = async |id: &str| {
        let reply = bed.chat(id, "m-small", "").send().await.expect("an answer");
        let status = reply.status().as_u16();
        let body: Value = serde_json::from_slice(&reply.bytes().await.expect("whole")).expect("JSON");
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("a").await, ok());
    bed.quiet().await;
    server.kill();
    assert_eq!(ask("new").await, refused(503, "limits_unavailable"));
    assert_eq!(ask("a").await, ok(), "by the outage rules");
    assert_eq!(ask("new").await, refused(503, "limits_unavailable"));
    server.wake();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(15);
    while guarded.status().away || guarded.status().waiting > 0 {
        assert!(tokio::time::Instant::now() < deadline, "not back: {:?}", guarded.status());
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
    while ask("new").await != ok() {
        assert!(tokio::time::Instant::now() < deadline, "new ones are served again");
    }
    bed.assert_books(&["a", "new"]).await;
}
