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
