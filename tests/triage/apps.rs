//! `GET /v1/triage/{id}`: an app sees its own customer's tickets, at no cost, and cheaply again and again.

use crate::bed::CONFIG;
use crate::kit::{ADMIN, FAILS, FINE, World, by, new, of};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tollgate::config::hash_key;
use tollgate::triage::NewTicket;

/// Asks with these headers: status, headers, body.
async fn ask(world: &World, id: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Value) {
    let mut request = world.bed().client.get(world.bed().url(&format!("/v1/triage/{id}")));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let reply = request.send().await.expect("an answer");
    let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
    let bytes = reply.bytes().await.expect("a body");
    (status, headers, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn only_the_customer_and_the_app_of_a_ticket_see_it() {
    let key = |key: &str| blake3::Hash::from_bytes(hash_key(key)).to_hex().to_string();
    let config = format!(
        "{CONFIG}\n{ADMIN}[auth]\nmode = \"keys\"\n[keys.shop]\nhash = \"blake3:{}\"\n[keys.other]\nhash = \"blake3:{}\"\n",
        key("key-of-the-shop"),
        key("key-of-another"),
    );
    let world = World::of(1, &config).await;
    let id = world.hand_off(NewTicket { app: "shop".into(), ..of("t", "c") }).await;
    let unknown = "tt_0123456789abcdef0123456789abcdef";
    for (id, token, customer, right) in [
        (&*id, Some("Bearer key-of-the-shop"), Some("t"), (200, "")),
        (&id, Some("Bearer key-of-the-shop"), Some("T"), (404, "ticket_not_found")),
        (&id, Some("Bearer key-of-the-shop"), None, (400, "missing_customer_id")),
        (&id, Some("Bearer key-of-another"), Some("t"), (404, "ticket_not_found")),
        (&id, Some("Bearer sk-1"), Some("t"), (401, "invalid_api_key")),
        (&id, None, Some("t"), (401, "invalid_api_key")),
        (unknown, Some("Bearer key-of-the-shop"), Some("t"), (404, "ticket_not_found")),
        ("c%2Ft", Some("Bearer key-of-the-shop"), Some("t"), (404, "ticket_not_found")),
        (&id.to_uppercase(), Some("Bearer key-of-the-shop"), Some("t"), (404, "ticket_not_found")),
    ] {
        let headers: Vec<_> =
            token.map(|token| ("authorization", token)).into_iter().chain(customer.map(|c| ("x-customer-id", c))).collect();
        let (status, headers, body) = ask(&world, id, &headers).await;
        assert_eq!((status, body["error"]["code"].as_str().unwrap_or_default()), right, "{id} {token:?} {customer:?}");
        assert!(headers.contains_key("x-tollgate-request-id"));
    }
    // Refused in the format of whoever asks.
    let anthropic = [("x-api-key", "key-of-the-shop"), ("x-customer-id", "t"), ("anthropic-version", "2023-06-01")];
    let (status, _, body) = ask(&world, unknown, &anthropic).await;
    assert_eq!(
        (status, &body["type"], &body["error"]["details"]["error_code"]),
        (404, &json!("error"), &json!("ticket_not_found"))
    );
    let post = world.bed().client.post(world.bed().url(&format!("/v1/triage/{id}"))).send().await.expect("an answer");
    assert_eq!((post.status().as_u16(), post.headers()["allow"].as_bytes()), (405, &b"GET"[..]));
    world.assert_books(&["t"]).await;
}

#[tokio::test]
async fn looking_costs_no_message_and_what_did_not_change_is_not_sent_again() {
    let plan = "[plans.once]\nmessages = { rate = \"1/h\", burst = 1 }\nspend = { day = 1.0 }\non_spend = []\non_provider = []\n[customers.one]\nplan = \"once\"";
    let world = World::new(plan).await;
    let ahead = world.hand_off(new("t")).await;
    let id = world.hand_off(of("one", "c")).await;
    world.clock.pass(Duration::from_secs(2)); // the order of the queue is known as of so long ago
    let mine = [("authorization", "Bearer sk-test"), ("x-customer-id", "one")];
    let (status, headers, body) = ask(&world, &id, &mine).await;
    let right = json!({
        "id": id, "object": "triage.ticket", "status": "open", "position": body["position"], "answer": null,
        "opened_at": "2027-01-15T08:00:00Z", "expires_at": "2027-01-22T08:00:00Z",
    });
    assert_eq!((status, &body), (200, &right));
    // Both were opened in the same millisecond of this clock; then the ids decide.
    assert_eq!(body["position"], if ahead < id { 2 } else { 1 });
    assert_eq!((headers["retry-after"].as_bytes(), headers["cache-control"].as_bytes()), (&b"10"[..], &b"private, no-cache"[..]));
    let tag = headers["etag"].to_str().expect("ASCII").to_owned();
    for _ in 0..20 {
        let (status, headers, body) = ask(&world, &id, &[&mine[..], &[("if-none-match", &tag)]].concat()).await;
        assert_eq!((status, body, headers["etag"].to_str().expect("ASCII")), (304, Value::Null, &*tag));
        assert_eq!(headers["retry-after"], "10");
    }
    assert_eq!(world.bed().ledger.admits.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing was claimed");

    assert_eq!(world.act(0, &format!("/admin/triage/{id}/answer"), json!({ "agent": "ann", "text": "Yes." })).await.0, 200);
    let (status, headers, body) = ask(&world, &id, &[&mine[..], &[("if-none-match", &tag)]].concat()).await;
    assert_eq!((status, &body["status"], &body["answer"]["text"]), (200, &json!("answered"), &json!("Yes.")));
    assert!(!headers.contains_key("retry-after"), "nothing more will come");

    world.bed().quiet().await;
    let chat = world.bed().chat("one", "m-big", "").send().await.expect("an answer");
    assert_eq!(chat.status(), 200, "the one message is still there");
    chat.bytes().await.expect("a whole body");
    world.bed().assert_books(&["one", "t"]).await;
    assert_eq!(world.bed().seen_paths(), BTreeMap::from([("/v1/chat/completions".to_owned(), 1)]));
}

#[tokio::test]
async fn a_store_that_is_away_is_a_503_for_app_and_agent() {
    let world = World::new("").await;
    let id = world.hand_off(of("t", "c")).await;
    world.documents.be(FAILS);
    let (status, headers, body) = ask(&world, &id, &[("authorization", "Bearer sk-test"), ("x-customer-id", "t")]).await;
    assert_eq!(
        (status, &body["error"]["code"], headers["retry-after"].as_bytes()),
        (503, &json!("triage_unavailable"), &b"1"[..])
    );
    for (status, body) in [
        world.look(0, "/admin/triage").await,
        world.look(0, &format!("/admin/triage/{id}")).await,
        world.act(0, &format!("/admin/triage/{id}/claim"), by("ann")).await,
    ] {
        assert_eq!((status, &body["error"]["code"]), (503, &json!("store_unavailable")));
        assert!(!body.to_string().contains("the test says so"), "what the store says is for the log");
    }
    world.documents.be(FINE);
    assert_eq!(world.act(0, &format!("/admin/triage/{id}/claim"), by("ann")).await.0, 200);
    world.assert_books(&["t"]).await;
}
