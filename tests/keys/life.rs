//! The life of a key: made, used within its scopes, changed, rotated, revoked; on another gateway with the next request.

use crate::bed::Bed;
use crate::mortal_redis::MortalRedis;
use crate::rig::{FIXED, Hand, chat, embedded, make, ok, on_redis, operator, post, provider, refused, told};
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// What both stores have in common: `writer` is where the operator asks, `reader` where the application calls.
async fn lives(writer: &Bed, reader: &Bed) {
    assert_eq!(chat(reader, FIXED, "acme", "m-big").await, ok(), "a key of the configuration");
    assert_eq!(chat(reader, "tg-nobody", "acme", "m-big").await, refused(401, "invalid_api_key"));
    let key =
        make(writer, "shop", json!({ "models": ["m-*"], "customers": ["ac*"], "routes": ["/v1/chat*"], "pools": ["big"] })).await;
    assert!(key.starts_with("tg-") && key.len() == 67, "{key}");
    assert_eq!(chat(reader, &key, "acme", "m-big").await, ok(), "the next request");

    assert_eq!(chat(reader, &key, "other", "m-big").await, refused(403, "customer_not_allowed"));
    assert_eq!(chat(reader, &key, "acme", "m-small").await, refused(403, "model_not_allowed"), "of no pool");
    let embed = r#"{"model":"m-big","input":"hi"}"#;
    assert_eq!(told(reader.post("/v1/embeddings", "acme", embed), &key).await, refused(403, "route_not_allowed"));
    let planned = reader.chat("acme", "m-big", "").header("x-customer-plan", "open");
    assert_eq!(told(planned, &key).await, refused(403, "plan_not_allowed"));

    // Wider, and the next request on the other gateway may; narrower, and it may not.
    let edit = |set| json!({ "set": set, "by": "ann" });
    let (status, shown) = operator(writer, Method::PUT, "/admin/keys/shop", Some(edit(json!({ "plans": ["open"] })))).await;
    assert_eq!((status, &shown["set"]), (200, &json!({ "plans": ["open"] })));
    assert_eq!(chat(reader, &key, "acme", "m-small").await, ok());
    let planned = reader.chat("other", "m-big", "").header("x-customer-plan", "open");
    assert_eq!(told(planned, &key).await, ok());
    operator(writer, Method::PUT, "/admin/keys/shop", Some(edit(json!({ "customers": ["acme"] })))).await;
    assert_eq!(chat(reader, &key, "other", "m-big").await, refused(403, "customer_not_allowed"));
    assert_eq!(chat(reader, &key, "acme", "m-small").await, ok());
    operator(writer, Method::PUT, "/admin/keys/shop", Some(edit(json!({ "models": ["m-big"] })))).await;
    assert_eq!(chat(reader, &key, "acme", "m-small").await, refused(403, "model_not_allowed"));
    operator(writer, Method::PUT, "/admin/keys/shop", Some(edit(json!({ "models": ["m-*"] })))).await;
    assert_eq!(chat(reader, &key, "acme", "m-small").await, ok());

    // Rotated: both open; rotated without an overlap: only the last.
    let (status, issued) = post(writer, "/admin/keys/shop/rotate", json!({ "by": "ann" })).await;
    let second = issued["secret"].as_str().expect("shown once").to_owned();
    assert_eq!((status, issued["key"]["secrets"].as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(chat(reader, &key, "acme", "m-big").await, ok());
    assert_eq!(chat(reader, &second, "acme", "m-big").await, ok());
    let (_, issued) = post(writer, "/admin/keys/shop/rotate", json!({ "overlap": "0s", "by": "ann" })).await;
    let third = issued["secret"].as_str().expect("shown once").to_owned();
    assert_eq!(chat(reader, &second, "acme", "m-big").await, refused(401, "api_key_expired"));
    assert_eq!(chat(reader, &key, "acme", "m-big").await, refused(401, "api_key_expired"), "both before it");
    assert_eq!(chat(reader, &third, "acme", "m-big").await, ok());

    // Revoked: in every format, on every route, and for good.
    let (status, shown) = operator(writer, Method::DELETE, "/admin/keys/shop?by=ben", None).await;
    assert_eq!((status, shown["state"].as_str(), shown["revoked_by"].as_str()), (200, Some("revoked"), Some("ben")));
    assert_eq!(chat(reader, &third, "acme", "m-big").await, refused(401, "api_key_revoked"));
    let ask = r#"{"model":"c-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let reply = reader.post("/v1/messages", "acme", ask).header("x-api-key", &third).header("authorization", "");
    let body: serde_json::Value = {
        let mut request = reply.build().expect("sound");
        request.headers_mut().remove("authorization");
        let reply = reader.client.execute(request).await.expect("an answer");
        assert_eq!((reply.status().as_u16(), reply.headers()["www-authenticate"].to_str().ok()), (401, Some("Bearer")));
        serde_json::from_slice(&reply.bytes().await.expect("whole")).expect("JSON")
    };
    assert_eq!((body["type"].as_str(), body["error"]["type"].as_str()), (Some("error"), Some("authentication_error")), "{body}");
    let (status, why) = post(writer, "/admin/keys/shop/rotate", json!({ "by": "ann" })).await;
    assert_eq!((status, why["error"]["code"].as_str()), (409, Some("key_refused")));
    assert_eq!(chat(reader, FIXED, "acme", "m-big").await, ok(), "keys of the configuration are as they were");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_made_on_one_gateway_lives_and_ends_on_another_with_the_next_request() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    lives(&a, &b).await;
    b.quiet().await;
    a.assert_books(&["acme", "other"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_gateway_keeps_its_keys_over_a_restart() {
    let (directory, provider, clock) = (tempfile::tempdir().expect("a directory"), provider().await, Arc::new(Hand::default()));
    let bed = embedded(directory.path(), &provider, &clock, "").await;
    lives(&bed, &bed).await;
    let key = make(&bed, "kept", json!({})).await;
    bed.assert_books(&["acme", "other"]).await;
    bed.stop().await;
    let bed = embedded(directory.path(), &provider, &clock, "").await;
    assert_eq!(chat(&bed, &key, "acme", "m-big").await, ok());
    bed.assert_books(&["acme", "other"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_and_an_overlap_end_at_their_time() {
    let (directory, provider, clock) = (tempfile::tempdir().expect("a directory"), provider().await, Arc::new(Hand::default()));
    let bed = embedded(directory.path(), &provider, &clock, "").await;
    let (_, issued) = post(&bed, "/admin/keys", json!({ "name": "week", "for": "7days", "by": "ann" })).await;
    let first = issued["secret"].as_str().expect("shown once").to_owned();
    let (_, issued) = post(&bed, "/admin/keys/week/rotate", json!({ "overlap": "2h", "by": "ann" })).await;
    let second = issued["secret"].as_str().expect("shown once").to_owned();
    clock.pass(Duration::from_secs(2 * 3_600 - 60));
    assert_eq!(chat(&bed, &first, "acme", "m-big").await, ok(), "within the overlap");
    clock.pass(Duration::from_secs(60));
    assert_eq!(chat(&bed, &first, "acme", "m-big").await, refused(401, "api_key_expired"));
    assert_eq!(chat(&bed, &second, "acme", "m-big").await, ok());
    clock.pass(Duration::from_secs(7 * 86_400));
    assert_eq!(chat(&bed, &second, "acme", "m-big").await, refused(401, "api_key_expired"));
    let (_, shown) = operator(&bed, Method::GET, "/admin/keys/week", None).await;
    assert_eq!(shown["state"], "expired");
    let (status, _) = operator(&bed, Method::PUT, "/admin/keys/week", Some(json!({ "for": "never", "by": "ann" }))).await;
    assert_eq!((status, chat(&bed, &second, "acme", "m-big").await), (200, ok()), "prolonged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_shows_everything_but_keys_and_when_they_were_used() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    let (used, unused) = (make(&a, "used", json!({ "rpm": 60 })).await, make(&a, "unused", json!({})).await);
    assert_eq!(chat(&b, &used, "acme", "m-big").await, ok());
    b.gateway.directory.write_uses().await.expect("written");
    let (status, list) = operator(&a, Method::GET, "/admin/keys", None).await;
    let keys = list["keys"].as_array().expect("keys");
    let brief: Vec<_> =
        keys.iter().map(|key| (key["name"].as_str(), key["source"].as_str(), key["last_used"].is_string())).collect();
    let right = [("fixed", "config", false), ("unused", "stored", false), ("used", "stored", true)];
    assert_eq!((status, brief), (200, right.map(|(name, source, used)| (Some(name), Some(source), used)).to_vec()));
    assert_eq!(keys[2]["secrets"][0]["prefix"].as_str(), Some(&used[..11]));
    assert_eq!((&keys[2]["set"], &keys[2]["created_by"]), (&json!({ "rpm": 60 }), &json!("ann")));
    let text = list.to_string();
    for secret in [&used, &unused] {
        assert!(!text.contains(&**secret) && !text.contains(blake3::hash(secret.as_bytes()).to_hex().as_str()), "{text}");
    }
    a.quiet().await;
    b.assert_books(&["acme"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_and_says_why() {
    let (directory, provider, clock) = (tempfile::tempdir().expect("a directory"), provider().await, Arc::new(Hand::default()));
    let bed = embedded(directory.path(), &provider, &clock, "").await;
    make(&bed, "there", json!({})).await;
    for (body, right) in [
        (
            json!({ "name": "x", "set": { "modles": [] }, "by": "ann" }),
            (400, "keys.x.modles: is not a setting; did you mean `models`?"),
        ),
        (
            json!({ "name": "x", "set": { "plans": ["opne"] }, "by": "ann" }),
            (400, "there is no plan \"opne\"; did you mean `open`?"),
        ),
        (json!({ "name": "x", "set": { "pools": ["bg"] }, "by": "ann" }), (400, "there is no pool \"bg\"")),
        (json!({ "name": "x", "set": { "routes": ["v1"] }, "by": "ann" }), (400, "which no path begins with")),
        (
            json!({ "name": "x", "set": { "hash": format!("blake3:{}", "0".repeat(64)) }, "by": "ann" }),
            (400, "the gateway makes the key"),
        ),
        (json!({ "name": "a b", "by": "ann" }), (400, "1 to 64 letters")),
        (json!({ "name": "x", "for": "0s", "by": "ann" }), (400, "`for` is a duration")),
        (json!({ "name": "x" }), (400, "missing field `by`")),
        (json!({ "name": "there", "by": "ann" }), (409, "There is a key of this name already.")),
        (json!({ "name": "fixed", "by": "ann" }), (409, "There is a key of this name already.")),
    ] {
        let (status, why) = post(&bed, "/admin/keys", body.clone()).await;
        let message = why["error"]["message"].as_str().unwrap_or_default();
        assert!(status == right.0 && message.contains(right.1), "{body}: {status} {message}");
    }
    for _ in 0..3 {
        assert_eq!(post(&bed, "/admin/keys/there/rotate", json!({ "by": "ann" })).await.0, 200);
    }
    let (status, why) = post(&bed, "/admin/keys/there/rotate", json!({ "by": "ann" })).await;
    assert!(status == 409 && why["error"]["message"].as_str().is_some_and(|text| text.contains("4 secrets")), "{why}");
    for (method, path, right) in [
        (Method::GET, "/admin/keys/nobody", (404, "key_not_found")),
        (Method::DELETE, "/admin/keys/nobody?by=ann", (404, "key_not_found")),
        (Method::DELETE, "/admin/keys/fixed?by=ann", (404, "key_not_found")),
        (Method::DELETE, "/admin/keys/there", (400, "invalid_request")),
    ] {
        let (status, why) = operator(&bed, method, path, None).await;
        assert_eq!((status, why["error"]["code"].as_str()), (right.0, Some(right.1)), "{path}");
    }
    let stale = operator(&bed, Method::PUT, "/admin/keys/there", Some(json!({ "set": {}, "version": 1, "by": "ann" }))).await;
    assert_eq!((stale.0, stale.1["error"]["code"].as_str()), (409, Some("changed_meanwhile")));
}
