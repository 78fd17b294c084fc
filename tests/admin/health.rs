//! Health, levels and the desk: what is shown, and that changes there are in the trail too.

use crate::bed::Bed;
use crate::mortal_redis::MortalRedis;
use crate::rig::{ADMIN, Desk, pair};
use serde_json::{Value, json};

const POOL: &str = "[pools.big]\nupstream = 'openai'\nmodels = ['m-big']\nceiling = { rpm = 500 }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_tells_of_store_slots_pools_and_upstreams_also_while_the_store_is_away() {
    let server = MortalRedis::awake();
    let (a, _b) = pair(&server, POOL).await;
    let desk = Desk(&a);
    let health = desk.get("/admin/health").await;
    assert_eq!((&health["well"], &health["store"]["answers"]), (&json!(true), &json!(true)), "{health}");
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&health["slots"]["all"], &health["slots"]["free"]), (&json!(32), &json!(32)));
    let pool =
        json!({ "pool": "big", "level": 0, "gauge_level": 0, "ceiling_used_percent": 0, "pinned": null, "upstream": "openai" });
    assert_eq!(health["pools"], json!([pool]));
    let upstreams = json!([{ "upstream": "anthropic", "breaker": "closed" }, { "upstream": "openai", "breaker": "closed" }]);
    assert_eq!(health["upstreams"], upstreams);
    drop(server);
    let health = desk.get("/admin/health").await;
    assert_eq!((&health["well"], &health["store"]["answers"]), (&json!(false), &json!(false)), "{health}");
    assert_eq!(desk.refused("GET", "/admin/customers/t", "").await, (503, "store_unavailable".to_owned()));
}

#[tokio::test]
async fn a_pinned_level_is_in_the_trail() {
    let bed = Bed::plus(&format!("{ADMIN}{POOL}")).await;
    let desk = Desk(&bed);
    desk.change("PUT", "/admin/levels/big", r#"{"level":2,"for":"30m","by":"ann"}"#).await;
    assert_eq!(desk.get("/admin/health").await["pools"][0]["level"], 2);
    desk.change("DELETE", "/admin/levels/big?by=bob", "").await;
    let trail = desk.get("/admin/audit?kind=level&name=big").await;
    let [unpinned, pinned] = &trail["changes"].as_array().expect("a list")[..] else { panic!("{trail}") };
    assert_eq!((&pinned["by"], &pinned["before"], &pinned["after"]["level"]), (&json!("ann"), &Value::Null, &json!(2)));
    assert_eq!((&unpinned["by"], &unpinned["before"]["level"], &unpinned["after"]), (&json!("bob"), &json!(2), &Value::Null));
}

#[tokio::test]
async fn what_is_done_with_a_ticket_is_in_the_trail_without_what_the_customer_was_told() {
    let more = "[plans.helped]\nspend = { day = 0.000001 }\non_spend = ['handoff']\n[customers.h]\nplan = 'helped'\n";
    let bed = Bed::plus(&format!("{ADMIN}{more}")).await;
    let reply = bed.chat("h", "m-big", "").send().await.expect("an answer");
    let ticket = reply.headers()["x-tollgate-ticket"].to_str().expect("text").to_owned();
    drop(reply.bytes().await.expect("whole"));
    assert_eq!(bed.gateway.triage.drain(std::time::Duration::from_secs(10)).await, 0, "tickets are written");
    let desk = Desk(&bed);
    desk.change("POST", &format!("/admin/triage/{ticket}/claim"), r#"{"agent":"ann"}"#).await;
    desk.change("POST", &format!("/admin/triage/{ticket}/answer"), r#"{"agent":"ann","text":"It left today."}"#).await;
    let trail = desk.get(&format!("/admin/audit?name={ticket}")).await;
    let done: Vec<_> = trail["changes"].as_array().expect("a list").iter().map(|change| &change["after"]).collect();
    let right = [json!({ "done": "answer", "status": "answered" }), json!({ "done": "claim", "status": "claimed" })];
    assert_eq!(done, right.iter().collect::<Vec<_>>());
    assert!(!trail.to_string().contains("It left today"), "{trail}");
    bed.assert_books(&["h"]).await;
}
