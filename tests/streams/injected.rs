//! `stream_options.include_usage`: added where the client did not ask, kept from the client, and taken back where an upstream refuses it.

use crate::bodies::{DONE, FINISH, HI, IN, OUT, STREAM, USAGE, USAGE_COST, three};
use crate::rig::{Rig, complete, read};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate::demo::provider::Script;

const REFUSAL: &str =
    r#"{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error"}}"#;

impl Rig {
    /// `stream_options` as the provider saw them in its last request.
    fn seen_options(&self) -> Option<Value> {
        let body: Value = serde_json::from_slice(&self.last_seen().body).expect("JSON");
        body.get("stream_options").cloned()
    }
}

#[tokio::test]
async fn the_usage_chunk_is_asked_for_and_only_those_who_asked_get_it() {
    let rig = Rig::new().await;
    for (options, sent, shown) in [
        ("", json!({"include_usage": true}), false),
        (r#","stream_options":{"include_usage":false}"#, json!({"include_usage": true}), false),
        (r#","stream_options":null"#, json!({"include_usage": true}), false),
        (r#","stream_options":{"include_usage":true}"#, json!({"include_usage": true}), true),
        (
            r#","stream_options":{"include_obfuscation":false}"#,
            json!({"include_obfuscation": false, "include_usage": true}),
            false,
        ),
    ] {
        for bytewise in [false, true] {
            let stream = format!("{}{FINISH}{USAGE}{DONE}", three());
            let script = if bytewise { Script::sse().send_bytewise(stream) } else { Script::sse().send(stream) };
            rig.bed.provider.script(script);
            let mut reply = rig.chat(&format!(r#","stream":true{options}"#)).send().await.expect("an answer");
            let usage = if shown { USAGE } else { "" };
            assert_eq!(read(&mut reply).await, (format!("{}{FINISH}{usage}{DONE}", three()), true), "{options}");
            assert_eq!(rig.seen_options(), Some(sent.clone()), "{options}");
            assert_eq!(rig.outcome().await, complete(109, USAGE_COST), "{options}");
        }
    }
}

#[tokio::test]
async fn nothing_is_added_where_the_api_has_no_such_field() {
    let rig = Rig::new().await;
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/chat/completions", r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}],"stream":false}"#),
        ("/v1/responses", r#"{"model":"m-big","input":"hi","stream":true}"#),
        ("/v1/messages", r#"{"model":"c-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":true}"#),
    ] {
        let mut reply = rig.post(path, body).send().await.expect("an answer");
        assert_eq!(reply.status(), 200, "{path}");
        assert!(read(&mut reply).await.1, "{path}");
        assert_eq!(rig.seen_options(), None, "{path}: {body}");
        let outcome = rig.outcome().await;
        assert_eq!((outcome.ending.as_str(), outcome.estimated), ("complete", false), "{path}");
    }
    let empty = Rig::with("include_usage = false", "").await;
    let mut reply = empty.chat(r#","stream":true"#).send().await.expect("an answer");
    assert!(read(&mut reply).await.1);
    assert_eq!(empty.seen_options(), None, "switched off for the upstream");
    assert!(empty.outcome().await.estimated);
}

#[tokio::test]
async fn an_upstream_that_refuses_the_added_field_is_asked_once_more_and_remembered() {
    for status in [400, 422] {
        let rig = Rig::new().await;
        let stream = format!("{}{FINISH}{DONE}", three());
        let own_count = || complete(HI + 3, HI * IN + 3 * OUT).estimated();
        rig.bed.provider.script(Script::json(status, REFUSAL));
        for _ in 0..2 {
            rig.bed.provider.script(Script::sse().send(stream.clone()));
        }
        let mut reply = rig.chat(r#","stream":true"#).send().await.expect("an answer");
        assert_eq!((reply.status().as_u16(), read(&mut reply).await), (200, (stream.clone(), true)));
        assert_eq!(rig.bed.provider.seen(), 2);
        assert_eq!(rig.seen_options(), None);
        assert_eq!(rig.outcome().await, own_count(), "the customer pays one request");

        let mut reply = rig.chat(r#","stream":true"#).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream, true));
        assert_eq!(rig.bed.provider.seen(), 3, "the second request is not refused first");
        assert_eq!(rig.outcome().await, own_count());
        assert_eq!(rig.metric("tollgate_upstream_calls_total", "client_error"), 1);
        assert_eq!(rig.metric("tollgate_upstream_calls_total", "result=\"ok\""), 2);
    }
}

#[tokio::test]
async fn a_second_attempt_that_fails_is_one_failed_request_and_proves_nothing_about_the_upstream() {
    let rig = Rig::new().await;
    let failed = |cause| complete(0, 0).cause(cause);
    for (second, status, outcome) in [
        (Script::json(429, r#"{"error":{"message":"slow down"}}"#), 429, failed("upstream_error")),
        (Script::json(400, REFUSAL), 400, failed("upstream_error")), // it is the client's own stream_options that are refused
        (Script::raw().reset(), 502, failed("upstream_broken")),
    ] {
        rig.bed.provider.script(Script::json(400, REFUSAL));
        rig.bed.provider.script(second);
        let mut reply = rig.chat(r#","stream":true,"stream_options":{"include_obfuscation":7}"#).send().await.expect("an answer");
        assert_eq!(reply.status(), status);
        assert!(read(&mut reply).await.1);
        assert_eq!(rig.outcome().await, outcome, "{status}");
        assert_eq!(rig.seen_options(), Some(json!({"include_obfuscation": 7})));
    }
    rig.bed.provider.script(Script::sse().send(format!("{}{FINISH}{USAGE}{DONE}", three())));
    let mut reply = rig.chat(r#","stream":true"#).send().await.expect("an answer");
    assert!(read(&mut reply).await.1);
    assert_eq!(
        rig.seen_options(),
        Some(json!({"include_usage": true})),
        "others' streams are still metered by the provider's numbers"
    );
    assert_eq!(rig.outcome().await, complete(109, USAGE_COST));
}

#[tokio::test]
async fn an_upstream_that_is_gone_for_the_second_attempt_has_seen_the_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}/v1", listener.local_addr().expect("bound"));
    let upstream = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        drop(listener);
        let mut request = Vec::new();
        let whole = |request: &[u8]| {
            let body = request.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
            body > 0 && serde_json::from_slice::<Value>(&request[body..]).is_ok()
        };
        while !whole(&request) {
            assert_ne!(stream.read_buf(&mut request).await.expect("a request"), 0, "a whole request");
        }
        let reply =
            format!("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{REFUSAL}", REFUSAL.len());
        stream.write_all(reply.as_bytes()).await.expect("sent");
    });
    let rig = Rig::on(&crate::rig::config("", "").replace("{provider}", &base)).await;
    let reply = rig.chat(r#","stream":true"#).send().await.expect("an answer");
    assert_eq!(reply.status(), 502);
    upstream.await.expect("it was asked");
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_unreachable"), "the request is not given back");
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "connect"), 1);
}

#[tokio::test]
async fn a_400_about_something_else_passes_whole_however_large() {
    let rig = Rig::new().await;
    for size in [10, 300_000] {
        let body = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(size));
        rig.bed.provider.script(Script::json(400, body.clone()));
        let before = rig.bed.provider.seen();
        let mut reply = rig.chat(r#","stream":true"#).send().await.expect("an answer");
        assert_eq!(reply.status(), 400);
        assert_eq!(reply.headers()["content-type"], "application/json");
        assert_eq!(read(&mut reply).await, (body, true));
        assert_eq!(rig.bed.provider.seen() - before, 1);
        assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error"));
    }
    // A body that breaks off breaks off for the client, too.
    rig.bed.provider.script(Script::http(400).header("content-type", "application/json").send("{\"err").reset());
    let mut reply = rig.chat(STREAM.replace("true}", "false}").as_str()).send().await.expect("an answer");
    assert_eq!(read(&mut reply).await, ("{\"err".into(), false));
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error").ending("upstream_broke"));
}
