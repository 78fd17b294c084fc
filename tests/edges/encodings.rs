//! Bodies that come compressed, too large, or as some other type.

use crate::kit::{Answer, Before, bed, chat};
use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use tokio::io::AsyncWriteExt;

/// Compresses with the encoding of this name.
async fn encoded(name: &str, plain: &[u8]) -> Vec<u8> {
    macro_rules! with {
        ($encoder:ident) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all(plain).await.expect("into memory");
            encoder.shutdown().await.expect("into memory");
            encoder.into_inner()
        }};
    }
    match name {
        "gzip" => with!(GzipEncoder),
        "deflate" => with!(ZlibEncoder),
        "br" => with!(BrotliEncoder),
        "zstd" => with!(ZstdEncoder),
        _ => plain.to_vec(),
    }
}

#[tokio::test]
async fn a_compressed_body_is_metered_and_forwarded_as_the_plain_one() {
    let bed = bed("").await;
    let body = chat("m-big", r#","max_tokens":50,"user":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa""#);
    let mut customers = Vec::new();
    let mut tokens_left = None;
    for (number, names) in
        ["", "identity", "gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "gzip, gzip", "br, zstd"].iter().enumerate()
    {
        let mut sent = body.clone().into_bytes();
        for name in names.split(", ") {
            sent = encoded(name.to_ascii_lowercase().trim_start_matches("x-"), &sent).await;
        }
        // A customer each, so that all buckets are full and what is left tells the estimate.
        let customer = format!("z{number}");
        let mut request = bed.post("/v1/chat/completions", &customer, sent);
        if !names.is_empty() {
            request = request.header("content-encoding", *names);
        }
        let answer = Answer::to(request).await;
        assert_eq!(answer.status, 200, "{names}: {answer:?}");
        let left = answer.header("x-ratelimit-remaining-tokens").to_owned();
        assert_eq!(*tokens_left.get_or_insert(left.clone()), left, "{names}: the estimate is that of the plain body");
        let seen = bed.provider.log().pop().expect("forwarded");
        assert_eq!(String::from_utf8_lossy(&seen.body), body, "{names}");
        assert_eq!((seen.header("content-encoding"), seen.header("content-length")), ("", &*body.len().to_string()), "{names}");
        customers.push(customer);
    }
    assert!(tokens_left.is_some_and(|left| left.parse::<u64>().is_ok_and(|left| left < 10_000_000)), "something was claimed");
    bed.assert_books(&customers.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn what_does_not_decode_or_is_no_json_in_utf_8_is_refused_without_effect() {
    let bed = bed("[server]\nmax_body = \"1MiB\"\n").await;
    let before = Before::of(&bed, &["t"]).await;
    let body = chat("m-big", "").into_bytes();
    let utf16: Vec<u8> = chat("m-big", "").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cut = encoded("gzip", &body).await[..30].to_vec();
    let bomb = vec![b'a'; 8 << 20];
    for (kind, encoding, body, status, code) in [
        ("application/json", "gzip", b"garbage".to_vec(), 400, "invalid_body"),
        ("application/json", "zstd", body.clone(), 400, "invalid_body"),
        ("application/json", "gzip", cut, 400, "invalid_body"),
        ("application/json", "lzma", body.clone(), 415, "unsupported_content_encoding"),
        ("application/json", "gzip, gzip, gzip", body.clone(), 415, "unsupported_content_encoding"),
        ("application/json", "gzip", encoded("gzip", &bomb).await, 413, "request_too_large"),
        ("application/json", "deflate", encoded("deflate", &bomb).await, 413, "request_too_large"),
        ("application/json", "br", encoded("br", &bomb).await, 413, "request_too_large"),
        ("application/json", "zstd", encoded("zstd", &bomb).await, 413, "request_too_large"),
        ("text/plain", "identity", body.clone(), 415, "unsupported_media_type"),
        ("application/x-www-form-urlencoded", "identity", body.clone(), 415, "unsupported_media_type"),
        ("multipart/form-data; boundary=x", "identity", body.clone(), 415, "unsupported_media_type"),
        ("application/json; charset=utf-16", "identity", utf16.clone(), 415, "unsupported_media_type"),
        ("application/json", "identity", utf16, 400, "invalid_json"),
    ] {
        let request = bed.post("/v1/chat/completions", "t", body).header("content-encoding", encoding);
        let mut request = request.build().expect("a request");
        request.headers_mut().insert("content-type", kind.parse().expect("a header value"));
        let reply = bed.client.execute(request).await.expect("an answer");
        let (status_seen, headers) = (reply.status().as_u16(), reply.headers().clone());
        let answer = Answer { status: status_seen, headers, body: reply.bytes().await.expect("a body") };
        answer.refused(status, code, &format!("{kind} {encoding}"));
    }
    before.assert_no_effect(&bed, "odd encodings").await;
}

#[tokio::test]
async fn a_byte_order_mark_or_a_missing_type_is_metered_like_the_plain_body() {
    let bed = bed("").await;
    for (kind, body) in [
        (None, chat("m-big", r#","max_tokens":9"#)),
        (Some("application/json; charset=UTF-8"), chat("m-big", r#","max_tokens":9"#)),
        (Some("application/json"), format!("\u{feff}{}", chat("m-big", r#","max_tokens":9"#))),
    ] {
        let mut request = bed.post("/v1/chat/completions", "y", body.clone()).build().expect("a request");
        request.headers_mut().remove("content-type");
        if let Some(kind) = kind {
            request.headers_mut().insert("content-type", kind.parse().expect("a header value"));
        }
        let reply = bed.client.execute(request).await.expect("an answer");
        assert_eq!(reply.status(), 200, "{kind:?}");
        reply.bytes().await.expect("a body");
        let seen = bed.provider.log().pop().expect("forwarded");
        assert_eq!(String::from_utf8_lossy(&seen.body).trim_start_matches('\u{feff}'), chat("m-big", r#","max_tokens":9"#));
        assert_eq!(seen.header("content-type"), kind.unwrap_or("application/json"));
        bed.assert_books(&["y"]).await;
    }
}

#[tokio::test]
async fn the_limit_on_bodies_is_the_configured_one_to_the_byte() {
    let bed = bed("[server]\nmax_body = \"3MiB\"\n").await;
    let limit = 3 << 20;
    let image = |size: usize| {
        let (start, end) = (
            r#"{"model":"m-big","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,"#,
            r#""}}]}]}"#,
        );
        format!("{start}{}{end}", "A".repeat(size - start.len() - end.len()))
    };
    for size in [2_010_000, 2_100_000, limit] {
        let answer = Answer::to(bed.post("/v1/chat/completions", "b", image(size))).await;
        assert_eq!(answer.status, 200, "{size} bytes: {answer:?}");
        assert_eq!(bed.provider.log().pop().expect("forwarded").body.len(), size);
    }
    bed.assert_books(&["b"]).await;
    let before = Before::of(&bed, &["b"]).await;
    let announced = bed.post("/v1/chat/completions", "b", image(limit + 1));
    let stream = futures_util::stream::iter([Ok::<_, std::io::Error>(image(limit + 1))]);
    let chunked = bed.post("/v1/chat/completions", "b", reqwest::Body::wrap_stream(stream));
    for (request, what) in [(announced, "announced"), (chunked, "chunked")] {
        let message = Answer::to(request).await.refused(413, "request_too_large", what);
        assert!(message.contains("3145728"), "says the limit: {message}");
    }
    let answer = Answer::to(bed.post("/v1/messages", "b", image(limit + 1))).await;
    answer.refused_anthropic(413, "request_too_large", "request_too_large", "in the route's format");
    before.assert_no_effect(&bed, "one byte too many").await;
    let metrics = bed.client.get(bed.url("/metrics")).send().await.expect("metrics").text().await.expect("text");
    assert!(metrics.contains(r#"tollgate_requests_total{api="chat",status="413",cause="request_too_large"} 2"#), "{metrics}");
}
