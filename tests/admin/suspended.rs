//! Customers suspended by an operator: closed whatever else is set, until that is lifted, and nothing of the rest is lost by it.

use crate::bed::{Bed, config_and};
use crate::mortal_redis::MortalRedis;
use crate::rig::{ADMIN, Desk, chat, embedded, limit, pair};
use serde_json::{Value, json};
use tollgate::demo::ProviderOptions;

const OVERRIDE: &str = "/admin/customers/t/override";
const SUSPENDED: &str = "This customer is suspended by its operator: nothing is served meanwhile.";
const FREE: &str = "[models.m-free]\nprice = { input = 0, output = 0 }\n";

/// The status and the body of a request of the customer `t`.
async fn asked(bed: &Bed, path: &str, body: Value) -> (u16, Value) {
    let request = bed.client.post(bed.url(path)).header("authorization", "Bearer k").header("x-customer-id", "t");
    let reply = request
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .expect("an answer");
    (reply.status().as_u16(), serde_json::from_slice(&reply.bytes().await.expect("whole")).expect("JSON"))
}

/// Credits before and after, and a cap of zero or the key: closed, and open again once it is lifted.
async fn no_credit_opens_it(told: &Bed, served: &Bed) {
    let (here, there) = (Desk(told), Desk(served));
    let credit = r#"{"period":"day","dollars":5,"by":"ann"}"#;
    for set in [r#"{"spend":{"day":0}}"#, r#"{"suspended":true}"#] {
        assert_eq!(chat(served, "t").await, 200);
        here.change("POST", "/admin/customers/t/credits", credit).await;
        here.change("PUT", OVERRIDE, &format!(r#"{{"set":{set},"by":"ann"}}"#)).await;
        assert_eq!(chat(served, "t").await, 402, "{set}: a credit before");
        here.change("POST", "/admin/customers/t/credits", credit).await;
        assert_eq!(chat(served, "t").await, 402, "{set}: a credit after");
        let view = there.get("/admin/customers/t").await;
        assert_eq!((&view["suspended"], &view["refusing"]), (&json!(true), &json!(["spend_day"])), "{view}");
        assert_eq!((&limit(&view, "spend_day")["max"], &limit(&view, "spend_day")["room"]), (&json!(0), &json!("closed")));
        assert_eq!(there.get("/admin/customers?prefix=t").await["customers"][0]["suspended"], true);
        let lifted = here.change("PATCH", OVERRIDE, r#"{"set":{"spend":null,"suspended":null},"by":"ann"}"#).await;
        assert_eq!(lifted["override"]["set"], json!({}), "{lifted}");
        assert_eq!(chat(served, "t").await, 200, "{set}: lifted");
        let view = there.get("/admin/customers/t").await;
        assert_eq!((&view["suspended"], &limit(&view, "spend_day")["max"]), (&json!(false), &json!(11_000_000_000_u64)));
        here.change("DELETE", "/admin/customers/t/override?by=ann", "").await;
    }
    served.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credit_is_no_way_round_a_suspension_on_two_gateways() {
    let server = MortalRedis::awake();
    let (a, b) = pair(&server, "").await;
    no_credit_opens_it(&a, &b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credit_is_no_way_round_a_suspension_on_an_embedded_gateway() {
    let directory = tempfile::tempdir().expect("a directory");
    let bed = embedded(directory.path(), "").await;
    no_credit_opens_it(&bed, &bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspension_closes_what_costs_nothing_and_says_who_did_it() {
    let bed = Bed::with(&config_and(&format!("{ADMIN}{FREE}")), ProviderOptions::default()).await;
    let desk = Desk(&bed);
    let message = json!([{ "role": "user", "content": "hi" }]);
    let requests = [
        ("/v1/chat/completions", json!({ "model": "m-free", "messages": message, "max_tokens": 5 })),
        ("/v1/chat/completions", json!({ "model": "m-big", "messages": message, "max_tokens": 5 })),
        ("/v1/messages/count_tokens", json!({ "model": "c-big", "messages": message })),
    ];
    desk.change("PUT", "/admin/plans/case", r#"{"set":{"spend":{"day":0}},"by":"ann"}"#).await;
    assert_eq!(asked(&bed, requests[0].0, requests[0].1.clone()).await.0, 200, "a plan without money is no suspension");
    let (status, said) = asked(&bed, requests[1].0, requests[1].1.clone()).await;
    assert!(status == 402 && said["error"]["message"] != SUSPENDED, "{said}");
    assert_eq!(desk.get("/admin/customers/t").await["suspended"], false);
    desk.change("DELETE", "/admin/plans/case?by=ann", "").await;
    for set in [r#"{"spend":{"week":0}}"#, r#"{"suspended":true}"#] {
        desk.change("PUT", OVERRIDE, &format!(r#"{{"set":{set},"by":"ann"}}"#)).await;
        for (path, body) in &requests {
            let (status, said) = asked(&bed, path, body.clone()).await;
            assert_eq!((status, &said["error"]["message"]), (402, &json!(SUSPENDED)), "{set} {path}: {said}");
            assert_eq!(said["error"]["limit"]["limit"], 0.0, "{said}");
        }
        let (_, said) = asked(&bed, requests[0].0, requests[0].1.clone()).await;
        assert_eq!(said["error"]["code"], "spend_cap_exceeded", "{said}");
        desk.change("DELETE", "/admin/customers/t/override?by=ann", "").await;
        for (path, body) in &requests {
            assert_eq!(asked(&bed, path, body.clone()).await.0, 200, "{path}");
        }
    }
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_suspension_has_an_end_of_its_own_and_leaves_the_rest_as_it_is() {
    let bed = Bed::plus(ADMIN).await;
    let desk = Desk(&bed);
    let set = r#"{"set":{"rpm":50,"spend":{"day":100}},"for":"30days","by":"ann"}"#;
    let before = desk.change("PUT", OVERRIDE, set).await["override"].clone();
    let suspended = desk.change("PATCH", OVERRIDE, r#"{"set":{"suspended":true},"by":"ann"}"#).await["override"].clone();
    assert_eq!(suspended["set"], json!({ "rpm": 50, "spend": { "day": 100 }, "suspended": true }));
    assert_eq!((&suspended["until"], &suspended["suspended_until"]), (&before["until"], &Value::Null));
    let timed = desk.change("PATCH", OVERRIDE, r#"{"set":{"suspended":true},"for":"1h","by":"ann"}"#).await["override"].clone();
    assert!(timed["until"] == before["until"] && timed["suspended_until"].is_string(), "{timed}");
    assert_eq!(chat(&bed, "t").await, 402);
    let draft = desk.change("POST", "/admin/customers/t/override/preview", r#"{"set":{"rpm":7}}"#).await;
    let caps =
        |plan: &Value| plan["limits"].as_array().and_then(|all| all.iter().find(|one| one["limit"] == "spend_day")).cloned();
    assert_eq!(caps(&draft["before"]).map(|cap| cap["max"].clone()), Some(json!(0)), "{draft}");
    let lifted = desk.change("PATCH", OVERRIDE, r#"{"set":{"suspended":false},"by":"ann"}"#).await["override"].clone();
    assert_eq!((&lifted["set"], &lifted["until"]), (&before["set"], &before["until"]));
    assert_eq!(limit(&desk.get("/admin/customers/t").await, "spend_day")["max"], 100_000_000_000_u64, "the cap is back");
    assert_eq!(chat(&bed, "t").await, 200);
    let wrong = r#"{"set":{"suspended":"yes"},"by":"ann"}"#;
    assert_eq!(desk.refused("PATCH", OVERRIDE, wrong).await, (400, "invalid_request".to_owned()));
    bed.assert_books(&["t"]).await;
}

/// Nearly at the cap: nothing would refuse the smallest request, and what is said is how near the end is.
#[tokio::test]
async fn how_near_the_limits_are_is_said_where_none_would_refuse() {
    let bed = Bed::plus(ADMIN).await;
    let desk = Desk(&bed);
    assert_eq!(chat(&bed, "t").await, 200);
    bed.quiet().await;
    let used = limit(&desk.get("/admin/customers/t").await, "spend_day")["used"].as_u64().expect("a number");
    let nearly = used + used / 400;
    let cap = format!("{}.{:09}", nearly / 1_000_000_000, nearly % 1_000_000_000);
    desk.change("PUT", OVERRIDE, &format!(r#"{{"set":{{"spend":{{"day":{cap}}}}},"by":"ann"}}"#)).await;
    assert_eq!(chat(&bed, "t").await, 402);
    let view = desk.get("/admin/customers/t").await;
    assert_eq!(view["refusing"], json!([]), "{view}");
    assert_eq!((&view["fullest"]["limit"], &view["fullest"]["scope"]), (&json!("spend_day"), &json!("customer")));
    assert!(view["fullest"]["permille"].as_u64().is_some_and(|part| (990..1_000).contains(&part)), "{view}");
    bed.assert_books(&["t"]).await;
}
