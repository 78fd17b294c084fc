//! How one request ends and the next begins: framing, pipelining, early answers, and clients that stop half-way.

use crate::bed::Bed;
use crate::kit::{Answer, Before, MESSAGES, SLOTS, bed, chat, h2c, messages_left};
use crate::raw::{Raw, head, whole};
use futures_util::StreamExt;

/// A chat as one HTTP chunk.
fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[tokio::test]
async fn a_message_with_doubtful_framing_is_refused_or_read_as_one_message() {
    let bed = bed("").await;
    let body = chat("m-small", "");
    let smuggled = whole("victim", &chat("m-big", ""));
    let mut passed = 0;
    for (framing, rest, what) in [
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n", chunked(&body), "length, then chunked"),
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", chunked(&body), "chunked, then length"),
        ("content-length: 5\r\ncontent-length: 6\r\n", "12345".to_owned(), "two lengths"),
        ("content-length: 5, 6\r\n", "12345".to_owned(), "two lengths in one"),
        ("content-length: +5\r\n", "12345".to_owned(), "a sign"),
        ("content-length: -5\r\n", "12345".to_owned(), "a negative length"),
        ("content-length: 0x5\r\n", "12345".to_owned(), "a length in hexadecimal"),
        ("content-length: 99999999999999999999\r\n", String::new(), "a length beyond 64 bits"),
        ("transfer-encoding: xchunked\r\n", chunked(&body), "an unknown coding"),
        ("transfer-encoding: chunked, identity\r\n", chunked(&body), "chunked is not the last"),
        ("transfer-encoding : chunked\r\n", chunked(&body), "a blank before the colon"),
        ("transfer-encoding: chunked\r\n", format!("+{}", chunked(&body)), "a chunk size with a sign"),
    ] {
        let mut raw = Raw::connect(&bed).await;
        raw.send(format!("{}{framing}\r\n{rest}{smuggled}", head("f"))).await;
        let reply = raw.reply().await;
        assert!(matches!(reply.status, 200 | 400), "{what}: {reply:?}");
        passed += usize::from(reply.status == 200);
        if reply.status == 400 {
            assert!(raw.is_closed().await, "{what}: nobody knows where the next request begins");
        }
        let seen = bed.provider.log();
        assert_eq!(seen.iter().filter(|seen| seen.model == "m-small").count(), passed, "{what}: at most this one message");
        assert!(seen.iter().all(|seen| seen.header("transfer-encoding").is_empty()), "{what}: one framing header goes up");
    }
    let mut raw = Raw::connect(&bed).await;
    let old = head("f").replace("HTTP/1.1", "HTTP/1.0");
    raw.send(format!("{old}transfer-encoding: chunked\r\n\r\n{}", chunked(&body))).await;
    assert_eq!(raw.reply().await.status, 400, "HTTP/1.0 knows no chunks");
    assert!(raw.is_closed().await);
    assert!(passed <= 2, "only what RFC 9112 lets pass");
    bed.assert_books(&["f", "victim"]).await;
}

#[tokio::test]
async fn after_two_framings_in_one_message_the_connection_is_closed() {
    let bed = bed("").await;
    for framing in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-LENGTH:5\r\n",
    ] {
        let mut raw = Raw::connect(&bed).await;
        raw.send(format!("{}{framing}\r\n{}{}", head("f"), chunked(&chat("m-small", "")), whole("victim", &chat("m-big", ""))))
            .await;
        let reply = raw.reply().await;
        assert!(matches!(reply.status, 200 | 400), "{framing}: {reply:?}");
        assert!(raw.is_closed().await, "{framing}: what a proxy before us took for another request is not one");
    }
    assert_eq!(bed.spent("victim").await.get(), 0);
    bed.assert_books(&["f"]).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_and_do_not_mix() {
    let bed = bed("[customers.empty]\nplan = \"edge\"\nmessages = { rate = \"1/h\", burst = 1 }\n").await;
    messages_left(&bed, "empty").await;
    let mut raw = Raw::connect(&bed).await;
    let refused = whole("empty", &chat("m-big", r#","user":"first""#));
    // The first refusal comes from the ledger, the second from the local map, before the body is read.
    raw.send(format!("{refused}{refused}{}", whole("good", &chat("m-small", r#","user":"last""#)))).await;
    let statuses = [raw.reply().await, raw.reply().await, raw.reply().await];
    assert_eq!(statuses.each_ref().map(|reply| reply.status), [429, 429, 200], "{statuses:?}");
    for reply in &statuses[..2] {
        let json: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
        assert_eq!(json["error"]["customer_id"], "empty");
    }
    let log = bed.provider.log();
    assert_eq!(log.len(), 2);
    assert!(log[1].body.ends_with(br#""user":"last","max_tokens":1000}"#) || log[1].body.windows(4).any(|w| w == b"last"));
    bed.assert_books(&["empty", "good"]).await;
}

/// The head of a request that waits for leave to send so many bytes.
fn expecting(customer: &str, length: usize) -> String {
    format!("{}expect: 100-continue\r\ncontent-length: {length}\r\n\r\n", head(customer))
}

#[tokio::test]
async fn who_waits_for_leave_is_refused_before_the_body() {
    let bed =
        bed("[server]\nmax_body = \"32MiB\"\n[customers.empty]\nplan = \"edge\"\nmessages = { rate = \"1/h\", burst = 1 }\n")
            .await;
    messages_left(&bed, "empty").await;
    let spent = Answer::to(bed.chat("empty", "m-big", "")).await;
    assert_eq!(spent.status, 429, "now known to be empty");
    let calls = bed.provider.seen();
    for (customer, length, status) in [("empty", 20 << 20, 429), ("t", 64 << 20, 413), ("no such id", 20 << 20, 400)] {
        let mut raw = Raw::connect(&bed).await;
        raw.send(expecting(customer, length)).await;
        assert_eq!(raw.reply().await.status, status, "{customer}: no 100 before it");
        // The body was never asked for. Whatever comes now is no request.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.stream, whole("smuggler", &chat("m-big", "")).as_bytes()).await;
        assert!(raw.is_closed().await, "{customer}: the connection ends with the refusal");
    }
    assert_eq!(bed.provider.seen(), calls);
    let mut raw = Raw::connect(&bed).await;
    let body = chat("m-small", "");
    raw.send(expecting("good", body.len())).await;
    assert_eq!(raw.reply().await.status, 100, "a welcome request gets its leave");
    raw.send(&body).await;
    assert_eq!(raw.reply().await.status, 200);
    assert_eq!(bed.provider.log().pop().expect("forwarded").header("expect"), "", "the provider is not asked for leave");
    bed.assert_books(&["empty", "good", "smuggler"]).await;
}

#[tokio::test]
async fn who_sends_a_large_body_sees_the_refusal_and_keeps_the_connection() {
    let bed =
        bed("[server]\nmax_body = \"8MiB\"\n[customers.empty]\nplan = \"edge\"\nmessages = { rate = \"1/h\", burst = 1 }\n")
            .await;
    messages_left(&bed, "empty").await;
    assert_eq!(Answer::to(bed.chat("empty", "m-big", "")).await.status, 429, "now known to be empty");
    let length = 6 << 20;
    let heads =
        [(head("empty"), 429), (head("no such id"), 400), (head("good").replace("/v1/chat/completions", "/v1/files"), 404)];
    for (head, status) in heads {
        let mut raw = Raw::connect(&bed).await;
        raw.send(format!("{head}content-length: {length}\r\n\r\n")).await;
        raw.send(vec![b' '; length]).await;
        let reply = raw.reply().await;
        assert_eq!((reply.status, reply.head.contains("connection: close")), (status, false));
        raw.send(whole("good", &chat("m-small", ""))).await;
        assert_eq!(raw.reply().await.status, 200, "after {status}");
    }
    // What is more than any request may have is not read, and the client is told that the connection ends.
    let mut raw = Raw::connect(&bed).await;
    raw.send(format!("{}content-length: {}\r\n\r\n", head("empty"), 64 << 20)).await;
    let reply = raw.reply().await;
    assert_eq!((reply.status, reply.head.contains("connection: close")), (429, true));
    assert!(raw.is_closed().await);
    bed.assert_books(&["empty", "good"]).await;
}

#[tokio::test]
async fn a_body_that_stops_half_way_has_no_effect() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t"]).await;
    let body = chat("m-big", "");
    for round in 0..100 {
        let mut raw = Raw::connect(&bed).await;
        let (framing, part) = match round % 4 {
            0 => (format!("content-length: {}\r\n\r\n", body.len() + 1), body.clone()),
            1 => ("content-length: 1000\r\n\r\n".to_owned(), body[..10].to_owned()),
            2 => ("transfer-encoding: chunked\r\n\r\n".to_owned(), format!("{:x}\r\n{body}\r\n", body.len())),
            _ => ("content-length: 1000\r\n\r\n".to_owned(), String::new()),
        };
        raw.send(format!("{}{framing}{part}", head("t"))).await;
    }
    let client = h2c();
    for round in 0..100 {
        // Half of the body, then an error: in HTTP/2 that is a reset of the stream.
        let half = futures_util::stream::iter([Ok(bytes::Bytes::from(body[..10].to_owned()))]);
        let broken = half.chain(futures_util::stream::once(async { Err(std::io::Error::other("the client gives up")) }));
        let request = client.post(bed.url("/v1/chat/completions")).bearer_auth("sk-test").header("x-customer-id", "t");
        let reply = request.body(reqwest::Body::wrap_stream(broken)).send().await;
        assert!(reply.is_err(), "round {round}: {reply:?}");
    }
    before.assert_no_effect(&bed, "half bodies").await;
    good_request_follows(&bed).await;
}

/// The gateway is well: all slots and limits are as they were.
async fn good_request_follows(bed: &Bed) {
    assert_eq!(messages_left(bed, "good").await, MESSAGES - 1);
    assert_eq!(bed.gateway.slots.load().free, SLOTS);
    bed.assert_books(&["good"]).await;
}
