//! Clients that take their time. The timeouts come from the configuration and are short here, so that they are the ones that act.

use crate::kit::{Before, MESSAGES, bed, chat, messages_left};
use crate::raw::{Raw, head};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn an_endless_body_is_cut_at_the_limit() {
    let bed = bed("[server]\nmax_body = \"64KiB\"\n").await;
    let before = Before::of(&bed, &["t"]).await;
    let mut raw = Raw::connect(&bed).await;
    raw.send(format!("{}transfer-encoding: chunked\r\n\r\n", head("t"))).await;
    let chunk = format!("400\r\n{}\r\n", " ".repeat(1_024));
    let mut sent = 0;
    // A gigabyte, were it taken. The socket's buffers take some megabytes beyond what the gateway reads.
    let patience = tokio::time::Instant::now() + Duration::from_secs(10);
    while sent < 1 << 30 {
        match tokio::time::timeout_at(patience, raw.stream.write_all(chunk.as_bytes())).await {
            Ok(Ok(())) => sent += 1_024,
            Ok(Err(_)) => break,
            Err(_) => panic!("neither read nor closed after {sent} bytes"),
        }
    }
    assert!(sent < 64 << 20, "cut, not read on: {sent}");
    let reply = raw.reply().await;
    assert_eq!(reply.status, 413, "{reply:?}");
    before.assert_no_effect(&bed, "an endless body").await;
}

#[tokio::test]
async fn slow_bodies_hold_no_limit_and_time_out() {
    let bed = bed("[server]\nbody_idle_timeout = \"400ms\"\n[customers.slow]\nplan = \"edge\"\nmax_in_flight = 1\n").await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::connect(&bed).await;
        raw.send(format!("{}content-length: 1000\r\n\r\n{{", head("slow"))).await;
        waiting.push(raw);
    }
    assert_eq!(messages_left(&bed, "slow").await, MESSAGES - 1, "served at once beside them");
    assert_eq!(bed.provider.seen(), 1);
    for mut raw in waiting {
        let reply = raw.reply().await;
        let json: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
        assert_eq!((reply.status, &json["error"]["code"]), (408, &"request_timeout".into()), "{reply:?}");
        assert!(raw.is_closed().await);
    }
    assert_eq!(messages_left(&bed, "slow").await, MESSAGES - 2, "only what was whole was counted");
    bed.assert_books(&["slow"]).await;
}

#[tokio::test]
async fn slow_heads_and_idle_connections_are_closed() {
    let bed = bed("[server]\nheader_timeout = \"300ms\"\n").await;
    let before = Before::of(&bed, &["t"]).await;
    for sent in [
        "",
        "P",
        "POST /v1/chat/completions HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nhost: gateway\r\nx-a: 1\r\n",
        "PRI * HTTP/2.0\r\n",
    ] {
        let mut raw = Raw::connect(&bed).await;
        raw.send(sent).await;
        assert!(ends(&mut raw.stream).await, "{sent:?}");
    }
    // One byte at a time gains nothing.
    let mut raw = Raw::connect(&bed).await;
    raw.send("GET /healthz HTTP/1.1\r\nx-drip: ").await;
    let started = tokio::time::Instant::now();
    while raw.stream.write_all(b"x").await.is_ok() {
        assert!(started.elapsed() < Duration::from_secs(10), "still taken");
        tokio::time::sleep(Duration::from_millis(20)).await; // a slow client
    }
    // A connection that was used and is idle.
    let mut raw = Raw::connect(&bed).await;
    raw.send("GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n").await;
    assert_eq!(raw.reply().await.status, 200);
    assert!(raw.is_closed().await, "idle");
    // An HTTP/2 connection that never asks for anything.
    let mut raw = Raw::connect(&bed).await;
    raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    assert!(ends(&mut raw.stream).await, "HTTP/2 without a request");
    before.assert_no_effect(&bed, "slow heads").await;
}

#[tokio::test]
async fn a_slow_body_is_no_slow_head() {
    let bed = bed("[server]\nheader_timeout = \"200ms\"\n").await;
    let mut raw = Raw::connect(&bed).await;
    let body = chat("m-small", "");
    raw.send(format!("{}content-length: {}\r\n\r\n", head("patient"), body.len())).await;
    tokio::time::sleep(Duration::from_millis(500)).await; // a slow client, well past the time for heads
    raw.send(&body).await;
    assert_eq!(raw.reply().await.status, 200);
    bed.assert_books(&["patient"]).await;
}

/// Whether the gateway ends the connection, whatever it says before.
async fn ends(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let end = tokio::io::AsyncReadExt::read_to_end(stream, &mut rest);
    tokio::time::timeout(Duration::from_secs(10), end).await.is_ok()
}
