//! Plans: read, thought through, changed.

use crate::mortal_redis::MortalRedis;
use crate::rig::{Desk, chat, pair, written};
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
