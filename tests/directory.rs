//! Plans and overrides set at run time: checked as the configuration is, in force for the next request on every gateway, and the normal
//! path stays one call of the store.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/bed.rs"]
mod bed;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/mortal_redis.rs"]
mod mortal_redis;

use bed::{Bed, CONFIG};
use mortal_redis::MortalRedis;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::directory::DirectoryError;
use tollgate::domain::{Clock, NanoUsd, Period};
use tollgate::store::Stores;
use tollgate::store::documents::Expected;
use tollgate::store::embedded::LostHold;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

/// What differs, as a caller would say it.
fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

async fn provider() -> Arc<Provider> {
    Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"))
}

/// A gateway on this Redis.
async fn on_redis(server: &MortalRedis, provider: &Arc<Provider>, more: &str) -> Bed {
    let (url, patience) = (server.url(), Duration::from_secs(10));
    let ledger = Arc::new(RedisLedger::connect(&[&url], patience).expect("well-formed"));
    let documents = Arc::new(RedisDocuments::connect(&[&url], patience).expect("well-formed"));
    Bed::over(&format!("{CONFIG}\n{more}"), provider.clone(), Stores { ledger, documents }, Arc::new(SystemClock)).await
}

/// A gateway on an embedded store in this directory.
async fn embedded(directory: &std::path::Path, provider: &Arc<Provider>) -> Bed {
    let clock = Arc::new(SystemClock);
    let stores = Stores::embedded(directory, clock.clone(), LostHold::Charge).expect("it opens");
    Bed::over(CONFIG, provider.clone(), stores, clock).await
}

/// The status of a chat request of a customer.
async fn status(bed: &Bed, customer: &str) -> u16 {
    let reply = bed.chat(customer, "m-big", "").send().await.expect("an answer");
    let status = reply.status().as_u16();
    drop(reply.bytes().await.expect("whole"));
    status
}

/// How many calls of the store the admission of a request takes; it has to be served.
async fn calls(bed: &Bed, customer: &str) -> usize {
    let before = bed.ledger.admits.load(Ordering::SeqCst);
    assert_eq!(status(bed, customer).await, 200, "{customer}");
    bed.ledger.admits.load(Ordering::SeqCst) - before
}

/// Suspends a customer, lifts that, and changes its plan: what both stores have in common.
async fn changes_hold_for_the_next_request(writer: &Bed, reader: &Bed) {
    let directory = &writer.gateway.directory;
    assert_eq!(status(reader, "acme").await, 200);
    let suspended = fields(json!({ "spend": { "day": 0 }, "on_spend": [] }));
    let set = directory.set_override("ann", "acme", &suspended, None, Expected::Nothing).await.expect("set");
    assert!(set.version > 0 && set.warnings[0].to_string().contains("is 0"), "{set:?}");
    assert_eq!(status(reader, "acme").await, 402, "the next request");
    assert_eq!(status(writer, "acme").await, 402);
    let stale = directory.set_override("ann", "acme", &Map::new(), None, Expected::Nothing).await;
    assert_eq!(stale, Err(DirectoryError::Conflict(Some(set.version))));
    directory.clear_override("ann", "acme", Expected::Version(set.version)).await.expect("cleared");
    assert_eq!(status(reader, "acme").await, 200);
    assert_eq!(directory.override_of("acme").await, Ok(None));

    directory
        .set_plan("ann", "closed", &fields(json!({ "rpm": 0, "spend": { "day": 10 } })), Expected::Nothing)
        .await
        .expect("set");
    directory.assign_plan("ann", "acme", "closed").await.expect("assigned");
    let reply = reader.chat("acme", "m-big", "").send().await.expect("an answer");
    assert_eq!(reply.status(), 429, "no request fits");
    assert!(reply.text().await.expect("text").contains(r#""plan":"closed""#));
    let opened = directory
        .set_plan("ann", "closed", &fields(json!({ "rpm": 600, "spend": { "day": 10 } })), Expected::Anything)
        .await
        .expect("set");
    assert_eq!(status(reader, "acme").await, 200, "a plan that changed, for a customer that did not");
    directory.clear_plan("ann", "closed", Expected::Version(opened.version)).await.expect("cleared");
    assert_eq!(status(reader, "acme").await, 200, "a plan that is gone is as good as none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_on_one_gateway_holds_for_the_next_request_on_another() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    changes_hold_for_the_next_request(&a, &b).await;
    b.quiet().await;
    a.assert_books(&["acme"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_gateway_knows_what_was_changed_also_after_a_restart() {
    let (directory, provider) = (tempfile::tempdir().expect("a directory"), provider().await);
    let bed = embedded(directory.path(), &provider).await;
    changes_hold_for_the_next_request(&bed, &bed).await;
    let suspended = fields(json!({ "spend": { "day": 0 }, "on_spend": [] }));
    bed.gateway.directory.set_override("ann", "acme", &suspended, None, Expected::Anything).await.expect("set");
    bed.assert_books(&["acme"]).await;
    bed.stop().await;
    let bed = loop {
        // The last connection may still be ending, and with it the old gateway.
        let clock = Arc::new(SystemClock);
        match Stores::embedded(directory.path(), clock.clone(), LostHold::Charge) {
            Ok(stores) => break Bed::over(CONFIG, provider.clone(), stores, clock).await,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(status(&bed, "acme").await, 402);
    assert_eq!(status(&bed, "other").await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admission_takes_one_call_more_only_right_after_a_change() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    for _ in 0..3 {
        assert_eq!(calls(&b, "plain").await, 1, "of whom nothing was ever said");
    }
    a.gateway.directory.set_override("ann", "acme", &fields(json!({ "rpm": 60 })), None, Expected::Anything).await.expect("set");
    assert_eq!(calls(&b, "acme").await, 2, "asked, found stale, asked again");
    for _ in 0..3 {
        assert_eq!(calls(&b, "acme").await, 1, "known");
    }
    assert_eq!(calls(&b, "plain").await, 1, "nobody else");
    a.gateway.directory.set_plan("ann", "case", &fields(json!({ "rpm": 61 })), Expected::Anything).await.expect("set");
    assert_eq!((calls(&b, "plain").await, calls(&b, "plain").await), (2, 1), "plans are everybody's");
    b.quiet().await;
    a.assert_books(&["acme", "plain"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_spent_stays_when_a_budget_is_raised_lowered_or_credited() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    let directory = &a.gateway.directory;
    assert_eq!(status(&b, "acme").await, 200);
    let spent = b.spent("acme").await;
    assert!(spent > NanoUsd::ZERO);
    let cap = |cap: NanoUsd| fields(json!({ "spend": { "day": cap.get() as f64 / 1e9 }, "on_spend": [] }));
    directory.set_override("ann", "acme", &cap(spent), None, Expected::Anything).await.expect("set");
    assert_eq!(status(&b, "acme").await, 402, "lowered to what is spent");
    directory.add_credit("ann", "acme", Period::Day, NanoUsd::new(600_000_000)).await.expect("credited");
    directory.add_credit("ann", "acme", Period::Day, NanoUsd::new(400_000_000)).await.expect("credited");
    let said = directory.override_of("acme").await.expect("it answers").expect("said");
    assert_eq!((said.credits.len(), said.credits[0].nano_usd), (1, 1_000_000_000), "they add up");
    assert_eq!(said.fields, cap(spent), "beside what is said");
    assert_eq!(status(&b, "acme").await, 200, "on top of the cap");
    assert!(b.spent("acme").await > spent, "nothing was forgotten");
    a.assert_books(&["acme"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_ends_at_its_time() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let bed = on_redis(&server, &provider, "").await;
    let suspended = fields(json!({ "spend": { "day": 0 }, "on_spend": [] }));
    let until = SystemClock.now().plus(700_000);
    bed.gateway.directory.set_override("ann", "acme", &suspended, Some(until), Expected::Anything).await.expect("set");
    assert_eq!(status(&bed, "acme").await, 402);
    while SystemClock.now() < until {
        tokio::task::yield_now().await; // its end is a moment of the wall clock
    }
    assert_eq!(status(&bed, "acme").await, 200);
    assert_eq!(bed.gateway.directory.override_of("acme").await, Ok(None));
    bed.assert_books(&["acme"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_in_the_words_of_the_configuration() {
    let bed = Bed::new().await;
    let directory = &bed.gateway.directory;
    for (said, right) in [
        (json!({ "rpm": -5 }), "store: customers.acme.rpm: -5 is negative"),
        (json!({ "rmp": 1 }), "store: customers.acme.rmp: is not a setting; did you mean `rpm`?"),
        (json!({ "plan": "opne" }), "store: customers.acme.plan: there is no plan \"opne\"; did you mean `open`?"),
        (json!({ "spend": { "day": 9_000_001 } }), "store: customers.acme.spend.day: 9000001 is too large"),
        (json!({ "rpm": "many" }), "store: customers.acme.rpm"),
    ] {
        let refused = directory.set_override("ann", "acme", &fields(said), None, Expected::Anything).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.starts_with(right), "{text}");
    }
    let text = directory.set_plan("ann", "case", &fields(json!({ "tpm": 1.5 })), Expected::Anything).await;
    assert!(text.expect_err("refused").to_string().starts_with("store: plans.case.tpm: 1.5 is not a whole number"));
    let text = directory.set_override("ann", "a b", &Map::new(), None, Expected::Anything).await;
    assert!(text.expect_err("refused").to_string().contains("visible ASCII"));
    assert_eq!(directory.override_of("acme").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_change_one_customer_at_once_lose_nothing() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    let done = AtomicUsize::new(0);
    let credits = (0..8).map(|n| {
        let (directory, done) =
            (if n % 2 == 0 { &a } else { &b }.gateway.directory.add_credit("ann", "acme", Period::Day, NanoUsd::new(5)), &done);
        async move {
            directory.await.expect("credited");
            done.fetch_add(1, Ordering::SeqCst)
        }
    });
    futures_util::future::join_all(credits).await;
    let said = b.gateway.directory.override_of("acme").await.expect("it answers").expect("said");
    assert_eq!((done.into_inner(), said.credits[0].nano_usd), (8, 40));
}

#[tokio::test]
async fn operators_set_and_take_back_over_http() {
    let bed = Bed::plus("[admin]\nlisten = \"127.0.0.1:0\"\n").await;
    let admin = format!("http://{}", bed.admin.expect("it listens"));
    let ask = async |method: &str, path: &str, body: &str| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let request = bed.client.request(method, format!("{admin}{path}")).header("content-type", "application/json");
        let reply = request.body(body.to_owned()).send().await.expect("an answer");
        let status = reply.status().as_u16();
        (status, serde_json::from_slice::<serde_json::Value>(&reply.bytes().await.expect("a body")).expect("JSON"))
    };
    let chat = async |who: &str| {
        let reply = bed.chat(who, "m-small", "").send().await.expect("an answer");
        let status = reply.status().as_u16();
        reply.bytes().await.expect("a whole body");
        status
    };
    let path = "/admin/customers/c/override";
    let (got, body) = ask("PUT", path, r#"{"set":{"spend":{"day":0}},"for":"7days","by":"ada"}"#).await;
    assert_eq!((got, &body["override"]["set"]["spend"]["day"]), (200, &0.into()), "{body}");
    assert_eq!(chat("c").await, 402, "suspended");
    for (method, path, body, status, code) in [
        ("PUT", path, r#"{"set":{"rpn":1},"by":"ada"}"#, 400, "invalid_request"),
        ("PUT", path, r#"{"set":{"rpm":1},"for":"a while","by":"ada"}"#, 400, "invalid_request"),
        ("PUT", path, r#"{"set":{"rpm":1},"version":0,"by":"ada"}"#, 409, "changed_meanwhile"),
        ("DELETE", path, "", 400, "invalid_request"),
        ("GET", "/admin/plans/none", "", 404, "plan_not_found"),
        ("PUT", "/admin/customers/a%20b/override", r#"{"set":{},"by":"ada"}"#, 400, "invalid_request"),
        ("POST", "/admin/customers/c/credits", r#"{"period":"day","dollars":-1,"by":"ada"}"#, 400, "invalid_request"),
        ("POST", "/admin/customers/c/credits", r#"{"period":"year","dollars":1,"by":"ada"}"#, 400, "invalid_request"),
    ] {
        let (got, answer) = ask(method, path, body).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &code.into()), "{method} {path} {body}: {answer}");
    }
    let (_, shown) = ask("GET", path, "").await;
    assert_eq!(shown["override"]["set"]["spend"]["day"], 0, "what was refused changed nothing: {shown}");
    assert_eq!(ask("DELETE", "/admin/customers/c/override?by=ada", "").await.0, 200);
    assert_eq!(chat("c").await, 200);
    let (got, given) = ask("POST", "/admin/customers/c/credits", r#"{"period":"day","dollars":20,"by":"ada"}"#).await;
    assert_eq!((got, &given["override"]["credits"][0]["nano_usd"]), (200, &20_000_000_000_u64.into()), "{given}");
    let (got, plan) = ask("PUT", "/admin/plans/open", r#"{"set":{"spend":{"day":0}},"by":"ada"}"#).await;
    assert_eq!((got, &plan["set"]["set"]["spend"]["day"]), (200, &0.into()), "{plan}");
    assert_eq!(chat("d").await, 402);
    assert_eq!(ask("DELETE", "/admin/plans/open?by=ada", "").await.0, 200);
    let (_, plans) = ask("GET", "/admin/plans", "").await;
    assert!(
        plans["plans"].as_array().expect("a list").iter().any(|plan| plan["plan"] == "open" && plan["set"].is_null()),
        "{plans}"
    );
    assert_eq!(chat("d").await, 200);
    bed.assert_books(&["c", "d"]).await;
}
