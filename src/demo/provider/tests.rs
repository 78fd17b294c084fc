use std::{io, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{AccountLimits, End, Gate, Provider, ProviderOptions, Script};
use crate::wire::Usage;

/// Opens a connection and sends one request, without reading the reply.
async fn send(provider: &Provider, path: &str, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let length = body.len();
    let request =
        format!("POST /v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The whole reply, as it came over the wire, and the error it ended with.
async fn receive(mut stream: TcpStream) -> (String, Option<io::ErrorKind>) {
    let mut reply = Vec::new();
    let end = stream.read_to_end(&mut reply).await.err().map(|error| error.kind());
    (String::from_utf8_lossy(&reply).into_owned(), end)
}

async fn ask(provider: &Provider, path: &str, body: &str) -> (String, Option<io::ErrorKind>) {
    receive(send(provider, path, "authorization: Bearer k\r\n", body).await).await
}

async fn start() -> Provider {
    Provider::start(ProviderOptions { count: Arc::new(|_, _| 11), ..ProviderOptions::default() }).await.unwrap()
}

fn chat(model: &str, rest: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi [20 tokens]"}}]{rest}}}"#)
}

fn json(reply: &str) -> Value {
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn without_a_key_there_is_no_answer() {
    let provider = start().await;
    for (head, status) in [
        ("", "401"),
        ("authorization: Bearer \r\n", "401"),
        ("authorization: Bearer sk-invalid\r\n", "401"),
        ("authorization: Bearer k\r\n", "200"),
        ("x-api-key: k\r\n", "200"),
    ] {
        let (reply, _) = receive(send(&provider, "chat/completions", head, &chat("gpt-4o", "")).await).await;
        assert_eq!(&reply[9..12], status, "{head}");
    }
}

#[tokio::test]
async fn every_route_reports_what_it_books() {
    let provider = start().await;
    let asks = [
        ("chat/completions", chat("m", ""), "/usage/completion_tokens", 20),
        ("chat/completions", chat("m", r#","max_tokens":7"#), "/usage/completion_tokens", 7),
        ("chat/completions", chat("m", r#","n":3"#), "/usage/completion_tokens", 60),
        ("completions", r#"{"model":"m","prompt":"x [20 tokens]"}"#.to_owned(), "/usage/completion_tokens", 16),
        ("responses", r#"{"model":"m","input":"x [20 tokens]"}"#.to_owned(), "/usage/output_tokens", 20),
        ("messages", chat("m", r#","max_tokens":9"#), "/usage/output_tokens", 9),
        ("embeddings", r#"{"model":"m","input":"x","dimensions":2}"#.to_owned(), "/usage/prompt_tokens", 11),
    ];
    let mut output = 0;
    for (at, (path, body, member, value)) in asks.iter().enumerate() {
        let (reply, _) = ask(&provider, path, body).await;
        assert_eq!(json(&reply).pointer(member), Some(&Value::from(*value)), "{path} {reply}");
        output += if *path == "embeddings" { 0 } else { *value };
        let seen = provider.wait_until(|log| log.len() == at + 1 && log[at].end == End::Complete).await;
        assert_eq!(seen[at].body, body.as_bytes());
    }
    let totals = &provider.totals()["m"];
    assert_eq!((totals.requests, totals.usage.input(), totals.usage.output), (7, 77, output));
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_and_only_what_it_got_is_booked() {
    let provider = start().await;
    let gate = Gate::new();
    let usage = Usage { uncached_input: 11, output: 20, ..Usage::default() };
    let three = super::Step::Send { bytes: "data: {}\n\n".into(), tokens: 3 };
    provider.script(Script::sse().step(three).until(&gate).used(usage));
    let mut stream = send(&provider, "chat/completions", "", &chat("m", "")).await;
    stream.read_u8().await.unwrap();
    provider.wait_until(|log| log[0].delivered == 3).await;
    assert_eq!(provider.log()[0].end, End::Open);
    drop(stream);
    provider.wait_until(|log| log[0].client_left()).await;
    assert_eq!(provider.totals()["m"].usage.output, 3);
}

#[tokio::test]
async fn streams_break_on_the_wire_in_the_way_the_model_is_named_for() {
    let provider = start().await;
    let table = [
        ("fault-cut", End::Broken, None, "Thank|you|for"),
        ("fault-reset", End::Broken, Some(io::ErrorKind::ConnectionReset), "Thank|you|for"),
        ("fault-no-done", End::Complete, None, "stop"),
        ("fault-error-event", End::Complete, None, "server_error"),
        ("gpt-4o", End::Complete, None, "[DONE]\n\n\r\n0\r\n\r\n"),
    ];
    for (at, (model, end, error, holds)) in table.into_iter().enumerate() {
        let (reply, ended) = ask(&provider, "chat/completions", &chat(model, r#","stream":true"#)).await;
        assert_eq!(ended, error, "{model}");
        assert!(holds.split('|').all(|part| reply.contains(part)), "{model}: {reply}");
        assert_eq!(reply.contains("[DONE]"), model == "gpt-4o", "{model}");
        assert_eq!(reply.ends_with("\r\n0\r\n\r\n"), end == End::Complete, "{model}: only a whole reply has a last chunk");
        let seen = provider.wait_until(|log| log[at].end != End::Open).await;
        assert_eq!(seen[at].end, end, "{model}");
    }
    assert_eq!(provider.totals()["fault-cut"].usage.output, 3);
}

#[tokio::test]
async fn the_connection_closes_before_headers_when_asked_to() {
    let provider = start().await;
    let (reply, _) = ask(&provider, "messages", &chat("fault-close", r#","max_tokens":9"#)).await;
    assert_eq!(reply, "");
    assert_eq!(provider.log()[0].end, End::Broken);
}

#[tokio::test]
async fn include_usage_adds_the_chunk_and_faults_take_it_away() {
    let provider = start().await;
    let asked = r#","stream":true,"stream_options":{"include_usage":true}"#;
    for (model, rest, times) in [
        ("m", r#","stream":true"#, 0),
        ("m", asked, 1),
        ("fault-no-usage", asked, 0),
        ("fault-usage-every-chunk", r#","stream":true"#, 22),
    ] {
        let (reply, _) = ask(&provider, "chat/completions", &chat(model, rest)).await;
        assert_eq!(reply.matches("\"prompt_tokens\":11").count(), times, "{model} {rest}");
    }
}

#[tokio::test]
async fn stream_options_are_refused_where_they_do_not_belong() {
    let provider = start().await;
    let options = r#","stream_options":{"include_usage":true}"#;
    for (path, model, rest, status) in [
        ("chat/completions", "m", options.to_owned(), "400"),
        ("chat/completions", "m", format!(r#","stream":true{options}"#), "200"),
        ("chat/completions", "fault-reject-stream-options", format!(r#","stream":true{options}"#), "400"),
        ("chat/completions", "fault-reject-stream-options", r#","stream":true"#.to_owned(), "200"),
        ("messages", "m", format!(r#","max_tokens":5,"stream":true{options}"#), "400"),
    ] {
        let (reply, _) = ask(&provider, path, &chat(model, &rest)).await;
        assert_eq!(&reply[9..12], status, "{path} {model} {rest}");
    }
}

#[tokio::test]
async fn scripts_play_once_and_in_order_down_to_the_bytes() {
    let provider = start().await;
    provider.script(Script::raw().send("HTTP/1.1 99 Odd\r\nx-note: caf\u{e9}\r\ncontent-length: 9\r\n\r\nshort"));
    provider.script(Script::json(429, "{}").header("retry-after", "7").header("x-note", b"caf\xe9"));
    provider.script(Script::sse().send_bytewise("\u{5317}").close());
    assert_eq!(
        ask(&provider, "responses", "not json").await.0,
        "HTTP/1.1 99 Odd\r\nx-note: caf\u{e9}\r\ncontent-length: 9\r\n\r\nshort"
    );
    let (reply, _) = ask(&provider, "responses", "{}").await;
    assert!(
        reply.starts_with("HTTP/1.1 429 ") && reply.contains("retry-after: 7\r\n") && reply.contains("content-length: 2\r\n")
    );
    let mut bytes = Vec::new();
    send(&provider, "responses", "", "{}").await.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.ends_with(b"\r\n\r\n1\r\n\xe5\r\n1\r\n\x8c\r\n1\r\n\x97\r\n"), "three chunks and no end");
    assert_eq!(provider.scripts_left(), 0);
    assert!(ask(&provider, "responses", r#"{"model":"m","input":"x"}"#).await.0.starts_with("HTTP/1.1 200"), "back to normal");
}

#[tokio::test]
async fn a_gate_gets_many_requests_in_flight_at_once() {
    let gate = Gate::new();
    let provider = Provider::start(ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(send(&provider, "chat/completions", "x-api-key: k\r\n", &chat("m", "")).await);
    }
    let seen = provider.wait_until(|log| log.len() == 20).await;
    assert!(seen.iter().all(|seen| seen.end == End::Open));
    gate.open();
    for stream in streams {
        assert!(receive(stream).await.0.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn the_log_forgets_the_oldest_and_keeps_the_sums() {
    let provider = Provider::start(ProviderOptions { keep: 2, ..ProviderOptions::default() }).await.unwrap();
    for _ in 0..5 {
        ask(&provider, "chat/completions", &chat("m", "")).await;
    }
    assert_eq!((provider.log().len(), provider.seen()), (2, 5));
    assert_eq!(provider.totals()["m"].requests, 5);
}

#[tokio::test]
async fn account_limits_are_enforced_with_a_retry_after() {
    let limits = AccountLimits { rpm: Some(1), ..AccountLimits::default() };
    let provider = Provider::start(ProviderOptions { limits: Some(limits), ..ProviderOptions::default() }).await.unwrap();
    assert!(ask(&provider, "chat/completions", &chat("m", "")).await.0.starts_with("HTTP/1.1 200"));
    let (reply, _) = ask(&provider, "chat/completions", &chat("m", "")).await;
    assert!(reply.starts_with("HTTP/1.1 429") && reply.contains("x-ratelimit-remaining-requests: 0\r\n"), "{reply}");
    let wait = reply.split("retry-after: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
    assert!((58..=60).contains(&wait.parse::<u64>().unwrap()), "{wait}");
}

#[tokio::test]
async fn dropping_the_provider_frees_its_port() {
    let provider = start().await;
    let address = provider.address();
    let open = send(&provider, "chat/completions", "x-api-key: k\r\n", &chat("fault-hang", "")).await;
    provider.wait_until(|log| log.len() == 1 && !log[0].body.is_empty()).await;
    drop(provider);
    let (reply, _) = tokio::time::timeout(Duration::from_secs(10), receive(open)).await.unwrap();
    assert_eq!(reply, "", "the connection is cut");
    assert!(TcpStream::connect(address).await.is_err());
}
