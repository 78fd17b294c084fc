//! Answers of the provider that are none, or not what they seem.

use crate::bed::Bed;
use crate::kit::{Answer, SLOTS, bed, config};
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Script;

#[tokio::test]
async fn a_status_that_only_the_provider_knows_reaches_the_client_with_its_body() {
    let bed = bed("").await;
    for (status, body) in [
        (400, r#"{"error":{"message":"bad","type":"invalid_request_error","param":null,"code":null}}"#),
        (401, r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}"#),
        (429, r#"{"error":{"message":"Rate limit","type":"requests","code":"rate_limit_exceeded"}}"#),
        (500, r#"{"error":{"message":"oops","type":"server_error"}}"#),
        (503, r#"{"error":{"message":"busy","type":"server_error"}}"#),
        (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#),
    ] {
        for stream in [true, false] {
            bed.provider.script(Script::json(status, body).header("x-request-id", "req_9"));
            let answer = Answer::to(bed.chat("p", "m-big", &format!(r#","stream":{stream}"#))).await;
            assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()), "stream: {stream}");
            assert_eq!(answer.header("content-type"), "application/json");
            assert_eq!((answer.header("x-request-id"), answer.header("x-tollgate-refused-by")), ("req_9", "provider"));
        }
    }
    assert_eq!(bed.spent("p").await.get(), 0, "errors are free");
}

#[tokio::test]
async fn a_provider_that_closes_without_an_answer_is_a_502_in_the_routes_format() {
    let bed = bed("").await;
    for stream in [true, false] {
        let more = format!(r#","stream":{stream}"#);
        bed.provider.script(Script::raw());
        let message = Answer::to(bed.chat("p", "m-big", &more)).await.refused(502, "upstream_broken", "closed at once");
        assert!(!message.contains("127.0.0.1"), "{message}");
        bed.provider.script(Script::raw().send("HTTP/1.1 200 OK\r\ncontent-ty"));
        Answer::to(bed.chat("p", "m-big", &more)).await.refused(502, "upstream_broken", "closed within the head");
        bed.provider.script(Script::raw().reset());
        let body =
            format!(r#"{{"model":"c-big","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let answer = Answer::to(bed.post("/v1/messages", "p", body)).await;
        answer.refused_anthropic(502, "api_error", "upstream_broken", "reset");
    }
    assert_eq!(bed.spent("p").await.get(), 0);
}

#[tokio::test]
async fn an_unreachable_provider_is_a_502_that_names_no_host_and_gives_everything_back() {
    let port = crate::redis_server::free_port();
    let config = config("").replace("{provider}", &format!("http://127.0.0.1:{port}/v1"));
    let bed = Bed::with(&config, ProviderOptions::default()).await;
    for _ in 0..3 {
        let answer = Answer::to(bed.chat("p", "m-big", r#","stream":true"#)).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        answer.refused(502, "upstream_unreachable", "nobody listens");
        assert!(!text.contains("127.0.0.1") && !text.contains(&port.to_string()) && !text.contains("sk-test"), "{text}");
    }
    assert_eq!(bed.spent("p").await.get(), 0);
}

#[tokio::test]
async fn a_head_that_does_not_parse_is_a_502_and_an_odd_one_passes() {
    let bed = bed("").await;
    let body = r#"{"choices":[]}"#;
    let json = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (head, status, what) in [
        (format!("HTTP/1.1 99 Odd\r\n{json}"), 502, "status 99"),
        (format!("HTTP/1.1 20 OK\r\n{json}"), 502, "two digits"),
        (format!("HTTP/1.1 1000 OK\r\n{json}"), 502, "four digits"),
        (format!("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n{json}"), 502, "an upgrade nobody asked for"),
        (format!("HTTP/3.9 200 OK\r\n{json}"), 502, "an unknown version"),
        ("SSH-2.0-OpenSSH\r\n".to_owned(), 502, "no HTTP"),
        (format!("HTTP/1.1 200 OK\r\n{json}content-length: 1\r\n"), 502, "two lengths"),
        (format!("HTTP/1.1 200 OK\r\n{many}{json}"), 502, "200 headers"),
        (format!("HTTP/1.1 200 OK\r\nx note: 1\r\n{json}"), 502, "a blank in a name"),
        (format!("HTTP/1.1 200 OK\r\n{json}content-length: {}\r\n", body.len()), 200, "the same length twice"),
        (format!("HTTP/1.1 299 Odd\r\n{json}"), 299, "status 299"),
        (format!("HTTP/1.1 599 Odd\r\n{json}"), 599, "status 599"),
        (format!("HTTP/1.1 999 Odd\r\n{json}"), 999, "status 999"),
        (format!("HTTP/1.1 200 {}\r\n{json}", "x".repeat(10_000)), 200, "a long reason"),
        (format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n{json}", "x".repeat(100_000)), 200, "a long header"),
    ] {
        bed.provider.script(Script::raw().send(format!("{head}\r\n{body}")));
        let answer = Answer::to(bed.chat("p", "m-big", "")).await;
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        if status == 502 {
            answer.refused(502, "upstream_broken", what);
        } else {
            assert_eq!(&answer.body[..], body.as_bytes(), "{what}");
        }
    }
    let mut latin = b"HTTP/1.1 200 OK\r\nx-note: caf\xe9\r\nlocation: \xff\r\nx-request-id: \xfe\r\n".to_vec();
    latin.extend_from_slice(format!("{json}\r\n{body}").as_bytes());
    bed.provider.script(Script::raw().send(latin));
    let answer = Answer::to(bed.chat("p", "m-big", "")).await;
    assert_eq!((answer.status, answer.headers["x-note"].as_bytes()), (200, &b"caf\xe9"[..]), "bytes above 127");
    bed.quiet().await;
    assert_eq!(bed.gateway.slots.load().free, SLOTS);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_shows_no_way() {
    let bed = bed("").await;
    let elsewhere = Bed::with(&config(""), ProviderOptions::default()).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}/chat/completions", elsewhere.provider.base_url());
        bed.provider
            .script(Script::json(status, "{}").header("location", &location).header("refresh", format!("0; url={location}")));
        let request = bed.chat("p", "m-big", "").header("x-api-key", "sk-other");
        let answer = Answer::to(request).await;
        assert_eq!((answer.status, &answer.body[..]), (status, &b"{}"[..]));
        let shown = ["location", "refresh", "content-location"].map(|name| answer.header(name));
        assert_eq!(shown, [""; 3], "an SDK that followed would take its key and the prompt along");
    }
    assert_eq!(elsewhere.provider.seen(), 0, "the other host gets no request");
    assert_eq!(bed.spent("p").await.get(), 0);
}
