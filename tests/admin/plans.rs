//! Plans: read, thought through, changed.

use crate::bed::Bed;
use crate::mortal_redis::MortalRedis;
use crate::rig::{Desk, chat, embedded, limit, pair, written};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_tells_what_would_change_for_whom_and_changes_nothing() {
    let server = MortalRedis::awake();
    let (a, b) = pair(&server, "[customers.own]\nplan = 'case'\nrpm = 33\n").await;
    assert_eq!([chat(&a, "one").await, chat(&a, "two").await, chat(&a, "t").await], [200; 3]);
    written(&a).await;
    let desk = Desk(&b);
    desk.change("PUT", "/admin/customers/two/override", r#"{"set":{"plan":"case"},"by":"ann"}"#).await;
    let preview = desk.change("POST", "/admin/plans/case/preview", r#"{"set":{"rpm":30}}"#).await;
    assert_eq!(preview["changes"].as_array().map(Vec::len), Some(1), "{preview}");
    let change = &preview["changes"][0];
    assert_eq!((&change["scope"], &change["limit"]), (&json!("customer"), &json!("rpm")));
    assert_eq!((&change["before"]["max"], &change["after"]["max"]), (&json!(60), &json!(30)));
    let affected = json!({ "count": 2, "looked_at": 4, "complete": true, "customers": ["t", "two"] });
    assert_eq!(preview["affected"], affected, "not who has an RPM of its own, nor who has another plan");
    let preview = desk.change("POST", "/admin/plans/case/preview", r#"{"set":{"tpm":500}}"#).await;
    assert_eq!(preview["affected"]["customers"], json!(["own", "t", "two"]));
    let fresh = desk.change("POST", "/admin/plans/fresh/preview", r#"{"set":{"rpm":5}}"#).await;
    assert_eq!(
        (&fresh["before"], &fresh["after"]["name"], &fresh["affected"]["count"]),
        (&Value::Null, &json!("fresh"), &json!(0))
    );
    assert_eq!(desk.refused("POST", "/admin/plans/case/preview", r#"{"set":{"rmp":5}}"#).await.0, 400);
    let case = desk.get("/admin/plans/case").await;
    assert_eq!((&case["set"], &case["is_default"]), (&Value::Null, &json!(false)), "nothing was changed");
    assert_eq!(chat(&a, "t").await, 200);

    desk.change("PUT", "/admin/plans/case", r#"{"set":{"rpm":0},"by":"ann"}"#).await;
    assert_eq!(chat(&a, "t").await, 429, "now it is");
    let undo = desk.change("POST", "/admin/plans/case/preview", r#"{"set":null}"#).await;
    assert_eq!((&undo["before"]["limits"][0]["max"], &undo["affected"]["count"]), (&json!(0), &json!(2)));
    let back = desk.change("DELETE", "/admin/plans/case?by=bob", "").await;
    assert_eq!((&back["set"], &back["in_force"]["name"]), (&Value::Null, &json!("case")));
    assert_eq!(chat(&a, "t").await, 200);
    let trail = desk.get("/admin/audit?kind=plan&name=case").await;
    let told: Vec<_> =
        trail["changes"].as_array().expect("a list").iter().map(|c| (&c["by"], &c["before"], &c["after"])).collect();
    let set = json!({ "rpm": 0 });
    assert_eq!(told, [(&json!("bob"), &set, &Value::Null), (&json!("ann"), &Value::Null, &set)]);
    a.assert_books(&["one", "two", "t"]).await;
}

/// A plan that overrides name is taken away only by force, and what else they say holds afterwards, a suspension above all.
async fn a_plan_in_use_is_kept(told: &Bed, served: &Bed) {
    let (here, there) = (Desk(told), Desk(served));
    here.change("PUT", "/admin/plans/gold", r#"{"set":{"rpm":600,"spend":{"day":10}},"by":"ann"}"#).await;
    here.change("PUT", "/admin/customers/a/override", r#"{"set":{"plan":"gold","rpm":44},"by":"ann"}"#).await;
    here.change("PUT", "/admin/customers/b/override", r#"{"set":{"plan":"gold","spend":{"day":0}},"by":"ann"}"#).await;
    assert_eq!([chat(served, "a").await, chat(served, "b").await], [200, 402]);
    let (status, said) = here.ask("DELETE", "/admin/plans/gold?by=ann", "").await;
    assert_eq!((status, &said["error"]["code"]), (409, &json!("plan_in_use")), "{said}");
    assert_eq!(said["error"]["customers"], json!(["a", "b"]));
    assert_eq!(here.refused("DELETE", "/admin/plans/gold?by=ann&force=perhaps", "").await.0, 400);
    assert_eq!(there.get("/admin/customers/b").await["plan_gone"], Value::Null);

    here.change("DELETE", "/admin/plans/gold?by=ann&force=true", "").await;
    assert_eq!([chat(served, "a").await, chat(served, "b").await], [200, 402], "suspended as before");
    for customer in ["a", "b"] {
        let view = there.get(&format!("/admin/customers/{customer}")).await;
        assert_eq!((&view["plan_gone"], &view["assigned"]), (&json!("gold"), &json!("default")), "{view}");
        assert_eq!(view["suspended"], customer == "b");
    }
    assert_eq!(limit(&there.get("/admin/customers/a").await, "rpm")["max"], 44, "the other keys hold");
    let patched = here.change("PATCH", "/admin/customers/a/override", r#"{"set":{"suspended":true},"by":"ann"}"#).await;
    assert!(patched["warnings"][0].as_str().is_some_and(|words| words.contains("no plan \"gold\" any more")), "{patched}");
    assert_eq!(chat(served, "a").await, 402, "who names it can be suspended");
    assert_eq!(here.refused("PUT", "/admin/customers/c/override", r#"{"set":{"plan":"gold"},"by":"ann"}"#).await.0, 400);
    here.change("PATCH", "/admin/customers/a/override", r#"{"set":{"plan":null},"by":"ann"}"#).await;
    assert_eq!(there.get("/admin/customers/a").await["plan_gone"], Value::Null);
    served.assert_books(&["a", "b"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_overrides_name_is_taken_away_only_by_force() {
    let server = MortalRedis::awake();
    let (a, b) = pair(&server, "").await;
    a_plan_in_use_is_kept(&a, &b).await;
    let directory = tempfile::tempdir().expect("a directory");
    let bed = embedded(directory.path(), "").await;
    a_plan_in_use_is_kept(&bed, &bed).await;
}
