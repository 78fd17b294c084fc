//! Customers: why one was refused in one call, on both stores; who there is, page by page.

use crate::bed::{Bed, config_and};
use crate::mortal_redis::MortalRedis;
use crate::rig::{ADMIN, Desk, chat, embedded, ids, limit, on_redis, pair, provider, written};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;

const MORE: &str = "
[customers.poor]
spend = { day = 0.0 }
[customers.narrow]
plan = 'case'
messages = { rate = '2/m', burst = 2 }
";

/// What one call tells of customers that were refused for different reasons; `asked` is the gateway that is asked.
async fn one_call_tells_why(served: &Bed, asked: &Bed) {
    let desk = Desk(asked);
    assert_eq!(chat(served, "poor").await, 402);
    assert_eq!([chat(served, "narrow").await, chat(served, "narrow").await, chat(served, "narrow").await], [200, 200, 429]);
    assert_eq!(chat(served, "plain").await, 200);
    written(served).await;

    let poor = desk.get("/admin/customers/poor").await;
    assert_eq!((&poor["assigned"], &poor["plan"]["name"], &poor["known"]), (&json!("config"), &json!("open"), &json!(true)));
    assert_eq!(poor["refusing"], json!(["spend_day"]));
    let day = limit(&poor, "spend_day");
    assert_eq!((&day["room"], &day["max"], &day["used"], &day["held"]), (&json!("closed"), &json!(0), &json!(0), &json!(0)));
    let [refusal] = &poor["refusals"].as_array().expect("a list")[..] else { panic!("one was refused: {poor}") };
    for (key, right) in [
        ("outcome", json!("refused")),
        ("status", json!(402)),
        ("code", json!("spend_cap_exceeded")),
        ("scope", json!("customer")),
        ("limit", json!("spend_day")),
        ("model", json!("m-big")),
        ("plan", json!("open")),
    ] {
        assert_eq!(refusal[key], right, "{key} of {refusal}");
    }
    let record = desk.get(&format!("/admin/requests/{}", refusal["request_id"].as_str().expect("text"))).await;
    assert_eq!((&record["customer"], &record["time"]), (&json!("poor"), &refusal["time"]), "its record is found by the id");

    let narrow = desk.get("/admin/customers/narrow").await;
    assert_eq!((&narrow["plan"]["name"], &narrow["refusing"]), (&json!("case"), &json!(["messages"])));
    let rpm = limit(&narrow, "messages");
    assert_eq!((&rpm["room"], &rpm["max"], &rpm["used"], &rpm["remaining"]), (&json!("full"), &json!(2), &json!(2), &json!(0)));
    assert!(rpm["retry_in_ms"].as_u64().is_some_and(|ms| ms > 0 && ms <= 30_000), "one in 30 s: {rpm}");
    let spent = served.provider_cost().get() - asked_spent(&desk, "plain").await;
    let day = limit(&narrow, "spend_day");
    assert_eq!((&day["unit"], &day["max"]), (&json!("nano_usd"), &json!(1_000_000_000)));
    assert_eq!((day["used"].as_u64(), day["remaining"].as_u64()), (Some(spent), Some(1_000_000_000 - spent)));
    assert_eq!(narrow["in_flight"], json!({ "here": 0, "max": 4 }));
    assert_eq!((&narrow["holds"], &narrow["more_holds"]), (&json!([]), &json!(0)));
    assert_eq!(narrow["refusals"].as_array().map(Vec::len), Some(1));

    let plain = desk.get("/admin/customers/plain").await;
    assert_eq!((&plain["assigned"], &plain["refusing"], &plain["refusals"]), (&json!("default"), &json!([]), &json!([])));
    assert!(plain["seen_at"].is_string() && plain["seen_plan"] == "open", "{plain}");
    let nobody = desk.get("/admin/customers/nobody").await;
    assert_eq!((&nobody["known"], &nobody["seen_at"], &nobody["plan"]["name"]), (&json!(false), &Value::Null, &json!("open")));

    let refused = desk.get("/admin/requests?customer=narrow&outcome=refused").await;
    assert_eq!(refused["requests"], narrow["refusals"]);
    assert_eq!(desk.get("/admin/requests?customer=narrow&outcome=degraded").await["requests"], json!([]));
    served.assert_books(&["poor", "narrow", "plain"]).await;
}

async fn asked_spent(desk: &Desk<'_>, customer: &str) -> u64 {
    let view = desk.get(&format!("/admin/customers/{customer}")).await;
    limit(&view, "spend_day")["used"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_tells_why_a_customer_is_refused_on_another_gateway_of_the_same_redis() {
    let server = MortalRedis::awake();
    let (a, b) = pair(&server, MORE).await;
    one_call_tells_why(&a, &b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_tells_why_a_customer_is_refused_on_the_embedded_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let bed = embedded(directory.path(), MORE).await;
    one_call_tells_why(&bed, &bed).await;
}

/// What is held for a request while the provider is still at it.
async fn a_request_in_flight_is_shown(bed: &Bed, gate: &Gate, elsewhere: Option<&Bed>) {
    let asked = tokio::spawn(bed.chat("t", "m-big", "").send());
    let deadline = Instant::now() + Duration::from_secs(10);
    let view = loop {
        let view = Desk(bed).get("/admin/customers/t").await;
        // It is in the store a moment before its gateway knows.
        if view["holds"][0]["model"] != Value::Null {
            break view;
        }
        assert!(Instant::now() < deadline, "nothing is in flight: {view}");
    };
    let [hold] = &view["holds"].as_array().expect("a list")[..] else { panic!("one is in flight: {view}") };
    assert_eq!((&hold["model"], &hold["here"]), (&json!("m-big"), &json!(true)));
    let held = hold["nano_usd"].as_u64().expect("a number");
    assert!(held > 0 && hold["since"].is_string(), "{hold}");
    assert_eq!((limit(&view, "spend_day")["held"].as_u64(), &view["in_flight"]["here"]), (Some(held), &json!(1)));
    if let Some(other) = elsewhere {
        let seen = Desk(other).get("/admin/customers/t").await;
        let there = &seen["holds"][0];
        assert_eq!((&there["reservation"], &there["nano_usd"]), (&hold["reservation"], &hold["nano_usd"]));
        assert_eq!((&there["here"], &there["model"], &seen["in_flight"]["here"]), (&json!(false), &Value::Null, &json!(0)));
        assert!(there["deadline"].is_string(), "{there}");
    }
    gate.open();
    let reply = asked.await.expect("it ends").expect("an answer");
    assert_eq!(reply.headers()["x-tollgate-request-id"].to_str().ok(), hold["request_id"].as_str(), "it was this one");
    drop(reply.bytes().await.expect("whole"));
    bed.quiet().await;
    let view = Desk(bed).get("/admin/customers/t").await;
    assert_eq!((&view["holds"], &limit(&view, "spend_day")["held"]), (&json!([]), &json!(0)));
    bed.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_requests_in_flight_hold_is_shown_also_on_another_gateway() {
    let server = MortalRedis::awake();
    let gate = Gate::new();
    let provider = provider(ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    a_request_in_flight_is_shown(&a, &gate, Some(&b)).await;
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let bed = Bed::with(&config_and(ADMIN), options).await;
    a_request_in_flight_is_shown(&bed, &gate, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_are_listed_by_id_whatever_is_known_of_them() {
    let server = MortalRedis::awake();
    let (a, b) = pair(&server, "[customers.c-configured]\nplan = 'case'\n").await;
    for customer in ["c-3", "c-1", "c", "d-1"] {
        assert_eq!(chat(&a, customer).await, 200, "{customer}");
    }
    written(&a).await;
    let desk = Desk(&b);
    desk.change("PUT", "/admin/customers/c-2/override", r#"{"set":{"spend":{"day":0}},"by":"ann"}"#).await;
    let page = desk.get("/admin/customers?prefix=c").await;
    assert_eq!(ids(&page), ["c", "c-1", "c-2", "c-3", "c-configured"]);
    assert_eq!(page["next"], Value::Null);
    let mut seen = Vec::new();
    let mut path = "/admin/customers?prefix=c&limit=2".to_owned();
    loop {
        let page = desk.get(&path).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/admin/customers?prefix=c&limit=2&after={next}");
    }
    assert_eq!(seen, ["c", "c-1", "c-2", "c-3", "c-configured"], "page by page the same");
    assert_eq!(ids(&desk.get("/admin/customers?prefix=c-1").await), ["c-1"]);
    assert_eq!(ids(&desk.get("/admin/customers").await), ["c", "c-1", "c-2", "c-3", "c-configured", "d-1", "t"]);

    let page = desk.get("/admin/customers?prefix=c-&limit=4").await;
    let [one, two, _, configured] = &page["customers"].as_array().expect("a list")[..] else { panic!("{page}") };
    let spent = asked_spent(&desk, "c-1").await;
    assert!(spent > 0);
    assert_eq!(one["spend"], json!([{ "period": "day", "spent": spent, "held": 0, "cap": 1_000_000_000_000_u64 }]));
    assert_eq!((&one["suspended"], &one["overridden"], &one["assigned"]), (&json!(false), &json!(false), &json!("default")));
    assert_eq!((&two["suspended"], &two["overridden"], &two["seen_at"]), (&json!(true), &json!(true), &Value::Null));
    assert_eq!((&configured["plan"], &configured["assigned"]), (&json!("case"), &json!("config")));
    a.assert_books(&["c", "c-1", "c-3", "d-1"]).await;
}

#[tokio::test]
async fn what_was_handed_off_degraded_or_failed_is_remembered_with_the_customer() {
    let more = "[plans.helped]\nspend = { day = 0.000001 }\non_spend = ['handoff']\n[customers.h]\nplan = 'helped'\n";
    let bed = Bed::with(&config_and(&format!("{ADMIN}{more}")), ProviderOptions::default()).await;
    assert_eq!(chat(&bed, "h").await, 200, "a person takes over");
    for _ in 0..40 {
        assert_eq!(bed.chat("u", "no-such-model", "").send().await.expect("an answer").status(), 400);
    }
    written(&bed).await;
    let handed = Desk(&bed).get("/admin/requests?customer=h").await;
    let [one] = &handed["requests"].as_array().expect("a list")[..] else { panic!("{handed}") };
    assert_eq!((&one["outcome"], &one["status"], &one["degraded"]), (&json!("handed_off"), &json!(200), &json!("handoff")));
    assert!(one["ticket"].as_str().is_some_and(|ticket| ticket.starts_with("tt_")), "{one}");
    let many = Desk(&bed).get("/admin/requests?customer=u").await;
    assert_eq!(many["requests"].as_array().map(Vec::len), Some(30), "the latest only");
    assert_eq!(Desk(&bed).get("/admin/requests?customer=nobody").await["requests"], json!([]));
    bed.assert_books(&["h", "u"]).await;
}
