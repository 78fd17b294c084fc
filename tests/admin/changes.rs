//! Overrides, credits and the trail of every change, over HTTP, on two gateways of one Redis and on the embedded store.

use crate::bed::Bed;
use crate::mortal_redis::MortalRedis;
use crate::rig::{ADMIN, Desk, chat, embedded, limit, pair};
use serde_json::{Value, json};

/// A cap raised for a week, a customer suspended and let in again; what is told to one gateway holds on the other.
async fn an_operator_does_the_days_work(told: &Bed, served: &Bed) {
    let (here, there) = (Desk(told), Desk(served));
    let path = "/admin/customers/t/override";
    let set = here.change("PUT", path, r#"{"set":{"spend":{"day":25},"rpm":90},"for":"7days","by":"ann"}"#).await;
    assert_eq!(set["override"]["set"], json!({ "spend": { "day": 25 }, "rpm": 90 }));
    assert!(set["override"]["until"].is_string(), "{set}");
    let view = there.get("/admin/customers/t").await;
    assert_eq!((&view["assigned"], &view["plan"]["name"]), (&json!("config"), &json!("case")), "only what differs is set");
    assert_eq!((&limit(&view, "spend_day")["max"], &limit(&view, "rpm")["max"]), (&json!(25_000_000_000_u64), &json!(90)));
    assert_eq!(limit(&view, "tpm")["max"], 10_000, "the plan's");
    assert_eq!(chat(served, "t").await, 200);

    let until = set["override"]["until"].clone();
    let patched = here.change("PATCH", path, r#"{"set":{"rpm":null,"spend":{"day":0}},"by":"ann"}"#).await;
    assert_eq!((&patched["override"]["set"], &patched["override"]["until"]), (&json!({ "spend": { "day": 0 } }), &until));
    assert_eq!(chat(served, "t").await, 402, "suspended with the next request");
    assert_eq!(there.get("/admin/customers?prefix=t").await["customers"][0]["suspended"], true);
    let forever = here.change("PATCH", path, r#"{"set":{"spend":{"day":null},"plan":"open"},"for":"forever","by":"bob"}"#).await;
    assert_eq!((&forever["override"]["set"], &forever["override"]["until"]), (&json!({ "plan": "open" }), &Value::Null));
    let view = there.get("/admin/customers/t").await;
    assert_eq!((&view["assigned"], &view["plan"]["name"]), (&json!("override"), &json!("open")));
    assert_eq!(chat(served, "t").await, 200);

    here.change("POST", "/admin/customers/t/credits", r#"{"period":"day","dollars":2,"by":"ann"}"#).await;
    let view = there.get("/admin/customers/t").await;
    assert_eq!(limit(&view, "spend_day")["max"], 1_002_000_000_000_u64);
    assert_eq!(view["override"]["credits"][0]["nano_usd"], 2_000_000_000_u64);
    let listed = there.get("/admin/overrides").await;
    assert_eq!((&listed["overrides"][0]["customer"], listed["overrides"].as_array().map(Vec::len)), (&json!("t"), Some(1)));
    let without = here.change("DELETE", "/admin/customers/t/credits?by=ann", "").await;
    assert_eq!((&without["override"]["credits"], &without["override"]["set"]), (&json!([]), &json!({ "plan": "open" })));
    let draft = there.change("POST", "/admin/customers/t/override/preview", r#"{"set":{"rpm":7}}"#).await;
    assert_eq!((&draft["assigned_before"], &draft["assigned_after"]), (&json!("override"), &json!("config")));
    assert_eq!((&draft["before"]["name"], &draft["after"]["name"]), (&json!("open"), &json!("case")));
    here.change("DELETE", "/admin/customers/t/override?by=ann", "").await;
    assert_eq!(there.get(path).await["override"], Value::Null, "and the preview changed nothing");
    assert_eq!(there.get("/admin/overrides").await["overrides"], json!([]));

    let trail = there.get("/admin/audit?kind=override").await;
    let changes = trail["changes"].as_array().expect("a list");
    let by: Vec<_> = changes.iter().map(|change| change["by"].as_str().expect("text")).collect();
    assert_eq!(by, ["ann", "ann", "ann", "bob", "ann", "ann"], "the latest first: {trail}");
    assert!(changes.iter().all(|change| change["name"] == "t" && change["at"].is_string()), "{trail}");
    assert_eq!((&changes[0]["after"], &changes[0]["before"]["fields"]), (&Value::Null, &json!({ "plan": "open" })));
    assert_eq!((&changes[5]["before"], &changes[5]["after"]["fields"]["rpm"]), (&Value::Null, &json!(90)));
    let page = there.get("/admin/audit?limit=4&by=ann").await;
    assert_eq!(page["changes"].as_array().map(Vec::len), Some(4));
    let next = page["next"].as_str().expect("there is one more");
    let rest = there.get(&format!("/admin/audit?limit=4&by=ann&after={next}")).await;
    assert_eq!((rest["changes"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    served.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_to_one_gateway_holds_on_another_of_the_same_redis() {
    let server = MortalRedis::awake();
    let (a, b) = pair(&server, "").await;
    an_operator_does_the_days_work(&a, &b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_to_an_embedded_gateway_holds_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let bed = embedded(directory.path(), "").await;
    an_operator_does_the_days_work(&bed, &bed).await;
}

#[tokio::test]
async fn what_makes_no_sense_changes_nothing_and_is_no_part_of_the_trail() {
    let bed = Bed::plus(ADMIN).await;
    let desk = Desk(&bed);
    for (method, path, body, status, code) in [
        ("PATCH", "/admin/customers/t/override", r#"{"set":{"rpn":1},"by":"ann"}"#, 400, "invalid_request"),
        ("PATCH", "/admin/customers/t/override", r#"{"set":{},"for":"soon","by":"ann"}"#, 400, "invalid_request"),
        ("PATCH", "/admin/customers/t/override", r#"{"set":{"rpm":1},"version":7,"by":"ann"}"#, 409, "changed_meanwhile"),
        ("PUT", "/admin/customers/t/override", r#"{"set":{},"by":""}"#, 400, "invalid_request"),
        ("POST", "/admin/customers/t/credits", r#"{"period":"year","dollars":1,"by":"ann"}"#, 400, "invalid_request"),
        ("DELETE", "/admin/customers/t/credits", "", 400, "invalid_request"),
        ("POST", "/admin/customers/t/override/preview", r#"{"set":{"plan":"none"}}"#, 400, "invalid_request"),
        ("GET", "/admin/customers/a%20b", "", 400, "invalid_request"),
        ("GET", "/admin/customers/%ff", "", 400, "invalid_request"),
        ("GET", "/admin/customers?limit=0", "", 400, "invalid_request"),
        ("GET", "/admin/customers?sort=spend", "", 400, "invalid_request"),
        ("GET", "/admin/requests", "", 400, "invalid_request"),
        ("GET", "/admin/requests?customer=t&outcome=fine", "", 400, "invalid_request"),
        ("GET", "/admin/audit?after=x", "", 400, "invalid_request"),
        ("GET", "/admin/plans/none", "", 404, "plan_not_found"),
        ("POST", "/admin/customers", "{}", 405, "method_not_allowed"),
        ("GET", "/admin/nothing", "", 404, "route_not_found"),
    ] {
        assert_eq!(desk.refused(method, path, body).await, (status, code.to_owned()), "{method} {path} {body}");
    }
    assert_eq!(desk.get("/admin/audit").await["changes"], json!([]));
    assert_eq!(desk.get("/admin/overrides").await["overrides"], json!([]));
}

/// What was passed over in silence: nulls that set nothing, keys said twice, names that are paths, credits that do nothing; and small numbers.
#[tokio::test]
async fn what_would_do_nothing_or_something_else_is_said() {
    let bed = Bed::plus(&format!("{ADMIN}[plans.free]\nrpm = 5\n[customers.f]\nplan = 'free'\n")).await;
    let desk = Desk(&bed);
    for (method, path, body, said) in [
        ("PUT", "/admin/customers/t/override", r#"{"set":{"rpm":null},"by":"ann"}"#, "`rpm` is or holds null"),
        ("PUT", "/admin/customers/t/override", r#"{"set":{"spend":{"day":null}},"by":"ann"}"#, "`spend` is or holds null"),
        ("PUT", "/admin/customers/t/override", r#"{"set":{"rpm":1,"rpm":2},"by":"ann"}"#, "the key `rpm` is given twice"),
        ("PUT", "/admin/customers/t/override", r#"{"set":{"spend":{"day":1,"day":0}},"by":"ann"}"#, "`day` is given twice"),
        ("PUT", "/admin/plans/p", r#"{"set":{"rpm":null},"by":"ann"}"#, "`rpm` is or holds null"),
        ("PUT", "/admin/plans/..%2Fx", r#"{"set":{"rpm":1},"by":"ann"}"#, "The name of a new plan"),
        ("PUT", "/admin/plans/%20x", r#"{"set":{"rpm":1},"by":"ann"}"#, "The name of a new plan"),
        ("POST", "/admin/customers/t/credits", r#"{"period":"week","dollars":1,"by":"ann"}"#, "none of the week"),
        ("POST", "/admin/customers/f/credits", r#"{"period":"day","dollars":1,"by":"ann"}"#, "none of the day"),
        ("POST", "/admin/customers/t/credits", r#"{"period":"day","dollars":9000000,"by":"ann"}"#, "more than $9000000.00"),
    ] {
        let (status, answer) = desk.ask(method, path, body).await;
        let words = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && words.contains(said), "{method} {path} {body}: {answer}");
    }
    assert_eq!(desk.get("/admin/overrides").await["overrides"], json!([]));

    let set = desk.change("PUT", "/admin/customers/t/override", r#"{"set":{"spend":{"day":0.000001}},"by":"ann"}"#).await;
    assert_eq!(limit(&desk.get("/admin/customers/t").await, "spend_day")["max"], 1_000, "{set}");
    let (_, answer) = desk.ask("PUT", "/admin/customers/a.b/override", r#"{"set":{"spend":{"day":-1}},"by":"ann"}"#).await;
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(words.starts_with("spend.day: -1 "), "{words}");
    desk.change("PATCH", "/admin/customers/t/override", r#"{"set":{"suspended":true},"by":"ann"}"#).await;
    desk.change("POST", "/admin/customers/t/credits", r#"{"period":"day","dollars":1,"by":"ann"}"#).await;
    let free = r#"{"set":{"suspended":true},"by":"ann"}"#;
    desk.change("PATCH", "/admin/customers/f/override", free).await;
    let gift = r#"{"period":"day","dollars":1,"by":"ann"}"#;
    assert_eq!(desk.refused("POST", "/admin/customers/f/credits", gift).await.0, 400, "a suspension is no cap");
}
