//! The document is served, and only to who may.

use crate::bed::Bed;
use crate::rig::{ADMIN, Desk};

#[tokio::test]
async fn the_document_is_served_and_describes_what_it_is_asked_for() {
    let bed = Bed::plus(ADMIN).await;
    let document = Desk(&bed).get("/admin/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    for path in ["/admin/customers/{id}", "/admin/audit", "/admin/history/models", "/admin/alerts", "/admin/openapi.json"] {
        assert!(document["paths"][path]["get"].is_object(), "{path}");
    }
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "0123456789abcdef0123456789abcdef").expect("written");
    let bed = Bed::plus(&format!("{ADMIN}token = {{ file = {:?} }}\n", token.path())).await;
    assert_eq!(Desk(&bed).refused("GET", "/admin/openapi.json", "").await, (401, "unauthorized".to_owned()));
    for path in ["/admin/customers", "/admin/health", "/admin/audit", "/admin/plans"] {
        assert_eq!(Desk(&bed).refused("GET", path, "").await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn what_the_document_forbids_is_refused_and_not_taken_for_a_failure_of_the_store() {
    let bed = Bed::plus(ADMIN).await;
    let desk = Desk(&bed);
    let (fits, long) = ("p".repeat(512), "p".repeat(513));
    let taken_back = desk.change("DELETE", &format!("/admin/plans/{fits}?by=ann"), "").await;
    assert_eq!((&taken_back["set"], &taken_back["in_force"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    for (method, path, body) in [
        ("DELETE", format!("/admin/plans/{long}?by=ann"), ""),
        ("PUT", format!("/admin/plans/{long}"), r#"{"set":{"rpm":5},"by":"ann"}"#),
        ("POST", format!("/admin/plans/{long}/preview"), r#"{"set":null}"#),
        ("GET", "/admin/history/customers?skip=1000001".to_owned(), ""),
        ("GET", "/admin/history/customers?limit=0".to_owned(), ""),
        ("GET", "/admin/history/customers?limit=1001".to_owned(), ""),
    ] {
        assert_eq!(desk.refused(method, &path, body).await, (400, "invalid_request".to_owned()), "{method} {path}");
    }
    desk.get("/admin/history/customers?skip=1000000&limit=1000").await;
    assert_eq!(desk.refused("GET", "/admin/levels/history?pool=none", "").await, (404, "pool_not_found".to_owned()));
    let document = desk.get("/admin/openapi.json").await;
    assert!(document["paths"]["/admin/levels/history"]["get"]["responses"]["404"].is_object());
}
