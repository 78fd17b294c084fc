//! News to a real receiver: signed, told once each, never to a provider, never to where a redirect points.

use crate::bed::CONFIG;
use crate::kit::{ADMIN, World, of};
use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tollgate::telemetry::triage::ResultLabels;

type Posts = Arc<Mutex<Vec<(String, HeaderMap, Vec<u8>)>>>;

/// Answers `/moved` with a redirect to `/fine`, `/gone` with 410, all else with 204; and remembers what came.
async fn receiver() -> (SocketAddr, Posts, tokio::task::JoinHandle<()>) {
    let posts = Posts::default();
    let seen = posts.clone();
    let take = move |request: Request| {
        let seen = seen.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes().to_vec();
            let path = head.uri.path().to_owned();
            seen.lock().push((path.clone(), head.headers, body));
            match &*path {
                "/moved" => (StatusCode::TEMPORARY_REDIRECT, [("location", "/fine")]),
                "/gone" => (StatusCode::GONE, [("x-a", "b")]),
                _ => (StatusCode::NO_CONTENT, [("x-a", "b")]),
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("bound");
    let app = Router::new().route("/{*any}", post(take));
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
    (address, posts, serving)
}

fn config(receiver: SocketAddr, path: &str, secret: &tempfile::NamedTempFile) -> String {
    let secret = secret.path().display();
    format!(
        "{CONFIG}\n{ADMIN}[triage]\nwebhook = {{ url = \"http://{receiver}{path}\", secret = {{ file = \"{secret}\" }}, attempts = 2 }}\n"
    )
}

async fn wait(posts: &Posts, count: usize) -> Vec<(String, HeaderMap, Vec<u8>)> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let seen = posts.lock().clone();
        if seen.len() >= count {
            return seen;
        }
        assert!(tokio::time::Instant::now() < deadline, "{} posts", seen.len());
        tokio::time::sleep(Duration::from_millis(2)).await; // polling with a deadline
    }
}

#[tokio::test]
async fn opened_and_answered_tickets_are_told_with_a_signature() {
    let (address, posts, serving) = receiver().await;
    let mut secret = tempfile::NamedTempFile::new().expect("a file");
    writeln!(secret, "whsec_{}", STANDARD.encode("twenty-four bytes of key")).expect("written");
    let world = World::of(1, &config(address, "/fine", &secret)).await;
    let id = world.hand_off(of("t", "c")).await;
    wait(&posts, 1).await;
    assert_eq!(world.hand_off(of("t", "c")).await, id, "appended, which is no news");
    let answer = json!({ "agent": "ann", "text": "Done." });
    assert_eq!(world.act(0, &format!("/admin/triage/{id}/answer"), answer).await.0, 200);
    let seen = wait(&posts, 2).await;
    let mut told = Vec::new();
    for (_, headers, body) in &seen {
        let header = |name: &str| headers[name].to_str().expect("ASCII").to_owned();
        let signed = [format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes(), body].concat();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"twenty-four bytes of key");
        let signature = STANDARD.decode(&header("webhook-signature")["v1,".len()..]).expect("base64");
        ring::hmac::verify(&key, &signed, &signature).expect("the signature fits");
        assert_eq!((header("content-type").as_str(), header("webhook-timestamp").as_str()), ("application/json", "1800000000"));
        assert!(!headers.contains_key("authorization"));
        let body: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(
            (&body["timestamp"], &body["data"]["id"], &body["data"]["customer"]),
            (&json!("2027-01-15T08:00:00Z"), &json!(id), &json!("t"))
        );
        told.push((header("webhook-id"), body["type"].clone(), body["data"]["answer"]["text"].clone()));
    }
    let right = [
        (format!("{id}.opened"), json!("triage.opened"), Value::Null),
        (format!("{id}.answered"), json!("triage.answered"), json!("Done.")),
    ];
    assert_eq!(told, right);
    world.assert_books(&["t"]).await;
    serving.abort();
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_refusal_not_repeated() {
    let mut secret = tempfile::NamedTempFile::new().expect("a file");
    writeln!(secret, "a-plain-secret-of-enough-length").expect("written");
    for path in ["/moved", "/gone"] {
        let (address, posts, serving) = receiver().await;
        let world = World::of(1, &config(address, path, &secret)).await;
        world.hand_off(of("t", "c")).await;
        let triage = &world.bed().gateway.metrics.triage;
        let given_up = || triage.webhooks.get_or_create(&ResultLabels { result: "given_up" }).get();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while given_up() == 0 {
            assert!(tokio::time::Instant::now() < deadline, "{path}: never given up");
            tokio::time::sleep(Duration::from_millis(2)).await; // polling with a deadline
        }
        let paths: Vec<_> = posts.lock().iter().map(|(path, ..)| path.clone()).collect();
        assert_eq!(paths, [path]);
        world.assert_books(&["t"]).await;
        serving.abort();
    }
}
