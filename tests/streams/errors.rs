//! The provider fails before a reply begins, or answers with an error: the status and the body pass, tokens and dollars go back.

use crate::bodies::{HI, IN, ROUTES};
use crate::rig::{Outcome, Rig, complete, read};
use serde_json::Value;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tollgate::demo::provider::Script;

const USED: &str = r#"{"error":{"message":"m","type":"server_error"},"usage":{"prompt_tokens":1000,"completion_tokens":100}}"#;

fn refunded(cause: &str) -> Outcome {
    complete(0, 0).cause(cause)
}

#[tokio::test]
async fn an_error_passes_unchanged_and_costs_one_request() {
    let rig = Rig::new().await;
    for route in &ROUTES {
        for stream in [true, false] {
            let request = if stream { route.request.to_owned() } else { route.request.replace(",\"stream\":true", "") };
            for status in [400, 401, 403, 404, 408, 409, 422, 429, 500, 503, 529] {
                rig.bed.provider.script(Script::json(status, USED).header("retry-after", "7"));
                let mut reply = rig.post(route.path, request.clone()).send().await.expect("an answer");
                assert_eq!(
                    (reply.status().as_u16(), &reply.headers()["content-type"]),
                    (status, &"application/json".parse().unwrap())
                );
                assert_eq!(reply.headers()["retry-after"], "7");
                assert_eq!(read(&mut reply).await, (USED.into(), true), "{} {status}", route.path);
                assert_eq!(rig.outcome().await, refunded("upstream_error"), "{} {status}", route.path);
            }
        }
    }
    assert_eq!(rig.bed.provider.seen(), 3 * 2 * 11, "one call each");
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "rate_limited"), 6);
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "server_error"), 18);
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "client_error"), 42);
}

#[tokio::test]
async fn a_quota_of_the_account_that_is_used_up_is_not_retried() {
    let rig = Rig::new().await;
    let quota = r#"{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let rate = r#"{"error":{"message":"m","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    for (body, theirs, right) in [(quota, None, Some("false")), (quota, Some("true"), Some("true")), (rate, None, None)] {
        let script = Script::json(429, body);
        rig.bed.provider.script(match theirs {
            Some(value) => script.header("x-should-retry", value),
            None => script,
        });
        let mut reply = rig.post(ROUTES[0].path, ROUTES[0].request).send().await.expect("an answer");
        let advice = reply.headers().get("x-should-retry").map(|value| value.to_str().expect("visible ASCII").to_owned());
        assert_eq!((reply.status().as_u16(), advice.as_deref()), (429, right), "{body} {theirs:?}");
        assert_eq!(read(&mut reply).await, (body.into(), true));
        assert_eq!(rig.outcome().await, refunded("upstream_error"));
    }
}

#[tokio::test]
async fn an_error_as_a_stream_is_an_error() {
    let rig = Rig::new().await;
    let event = "data: {\"error\":{\"message\":\"m\"}}\n\n";
    rig.bed.provider.script(Script::http(500).header("content-type", "text/event-stream").send(event));
    let mut reply = rig.post(ROUTES[0].path, ROUTES[0].request).send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), read(&mut reply).await), (500, (event.into(), true)));
    assert_eq!(rig.outcome().await, refunded("upstream_error"));
}

#[tokio::test]
async fn a_success_that_is_an_error_or_nothing_passes_and_is_booked_by_what_it_says() {
    let rig = Rig::new().await;
    let error = |usage: &str| format!(r#"{{"error":{{"message":"m"}}{usage}}}"#);
    let used = r#","usage":{"prompt_tokens":10,"completion_tokens":99}"#;
    for (body, outcome) in [
        (error(""), refunded("upstream_failed")),
        (error(used), complete(109, crate::bodies::USAGE_COST).cause("upstream_failed")),
        (r#"{"choices":[]}"#.into(), complete(HI, HI * IN).estimated()),
        ("not JSON".into(), complete(HI, HI * IN).estimated()),
        (String::new(), complete(HI, HI * IN).estimated()),
    ] {
        for more in ["", crate::bodies::STREAM] {
            rig.bed.provider.script(Script::json(200, body.clone()));
            let mut reply = rig.chat(more).send().await.expect("an answer");
            assert_eq!((reply.status().as_u16(), read(&mut reply).await), (200, (body.clone(), true)));
            assert_eq!(rig.outcome().await, outcome, "{body}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_breaks_before_its_headers_is_a_502_in_the_routes_form() {
    let rig = Rig::new().await;
    for route in &ROUTES {
        for (how, script) in [
            ("RST", Script::raw().reset()),
            ("FIN", Script::raw().close()),
            ("half a head", Script::raw().send("HTTP/1.1 200 OK\r\ncontent-ty").close()),
            ("no HTTP", Script::raw().send("HTTP/1.1 99 Odd\r\ncontent-length: 0\r\n\r\n")),
        ] {
            rig.bed.provider.script(script);
            let reply = rig.post(route.path, route.request).send().await.expect("an answer");
            assert_eq!(reply.status(), 502, "{how}");
            assert_eq!(reply.headers()["content-type"], "application/json");
            let body: Value = serde_json::from_str(&reply.text().await.expect("a whole body")).expect("JSON");
            let anthropic = route.path == "/v1/messages";
            assert_eq!(body["type"], if anthropic { Value::from("error") } else { Value::Null }, "{how}: {body}");
            assert!(body["error"]["message"].is_string(), "{how}: {body}");
            assert_eq!(rig.outcome().await, refunded("upstream_broken"), "{how} {}", route.path);
        }
    }
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "broken"), rig.bed.provider.seen(), "no call is repeated blindly");
}

#[tokio::test]
async fn who_cannot_be_reached_costs_nothing_at_all() {
    // A port on which nobody listens, and one whose queue of new connections is full.
    let closed = TcpSocket::new_v4().expect("a socket");
    closed.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let gone = closed.local_addr().expect("bound");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let full = socket.listen(1).expect("listens");
    let full_at = full.local_addr().expect("bound");
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(full_at)).await {
        waiting.push(stream);
    }
    for address in [gone, full_at] {
        let config = crate::rig::config("connect_timeout = \"300ms\"", "").replace("{provider}", &format!("http://{address}/v1"));
        let rig = Rig::on(&config).await;
        for route in &ROUTES {
            let reply = rig.post(route.path, route.request).send().await.expect("an answer");
            assert_eq!(reply.status(), 502, "{address}");
            let outcome = Outcome { requests: 0, ..refunded("upstream_unreachable") };
            assert_eq!(rig.outcome().await, outcome, "{address}: not even the request");
        }
        assert_eq!(rig.metric("tollgate_upstream_calls_total", "connect"), 3);
    }
}

#[tokio::test]
async fn a_provider_that_takes_a_request_and_says_nothing_is_a_504() {
    let rig = Rig::with("first_byte_timeout = \"300ms\"", "").await;
    for route in &ROUTES {
        rig.bed.provider.script(Script::raw().silence());
        let reply = rig.post(route.path, route.request).send().await.expect("an answer");
        assert_eq!(reply.status(), 504, "{}", route.path);
        assert_eq!(rig.outcome().await, refunded("upstream_timeout"), "{}", route.path);
    }
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "timeout"), 3);
    rig.provider_saw("all three calls cancelled", |seen| seen.iter().all(tollgate::demo::provider::Seen::client_left)).await;
}

#[tokio::test]
async fn background_mode_is_refused_before_anything_is_spent() {
    let rig = Rig::new().await;
    let reply = rig.post("/v1/responses", r#"{"model":"m-big","input":"hi","background":true}"#).send().await.expect("an answer");
    assert_eq!(reply.status(), 400);
    let body: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    assert_eq!(body["error"]["code"], "background_not_supported");
    rig.bed.quiet().await;
    assert!(rig.ledger.take().is_empty() && rig.bed.provider.seen() == 0, "no effect");
}
