//! What passes between client and provider in headers, and what never does.

use crate::kit::{Answer, Before, MESSAGES, bed, chat, h2c, messages_left};
use crate::raw::{Raw, head};
use tollgate::demo::provider::Script;

/// Everything a client might send that is nobody else's business.
const PRIVATE: [(&str, &str); 14] = [
    ("cookie", "s=1"),
    ("proxy-authorization", "Basic x"),
    ("x-forwarded-for", "1.2.3.4"),
    ("x-forwarded-host", "inside"),
    ("forwarded", "for=1.2.3.4"),
    ("x-real-ip", "1.2.3.4"),
    ("cf-connecting-ip", "1.2.3.4"),
    ("true-client-ip", "1.2.3.4"),
    ("via", "1.1 inside"),
    ("x-user-id", "ann"),
    ("x-priority", "live"),
    ("x-request-class", "general"),
    ("x-tollgate-anything", "1"),
    ("openai-organization", "org-other"),
];

#[tokio::test]
async fn a_clients_secrets_and_our_own_headers_stay_here() {
    let bed = bed("").await;
    for (path, body) in [
        ("/v1/chat/completions", chat("m-big", "")),
        ("/v1/messages", r#"{"model":"c-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#.to_owned()),
    ] {
        let request = PRIVATE.iter().fold(bed.post(path, "h", body), |request, (name, value)| request.header(*name, *value));
        let pass =
            [("anthropic-version", "2023-06-01"), ("anthropic-beta", "a"), ("openai-beta", "b"), ("x-stainless-lang", "python")];
        let request = pass.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request
            .header("x-api-key", "other")
            .header("api-key", "third")
            .header("idempotency-key", format!("key {path}").replace(' ', "-"));
        let answer = Answer::to(request).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let seen = bed.provider.log().pop().expect("forwarded");
        for (name, _) in PRIVATE.into_iter().chain([("x-customer-id", "")]) {
            assert!(!seen.headers.contains_key(name), "{path}: {name} reached the provider");
        }
        for (name, value) in pass {
            assert_eq!(seen.header(name), value, "{path}");
        }
        let credentials = ["authorization", "x-api-key", "api-key"].map(|name| seen.headers.get_all(name).iter().count());
        assert_eq!(credentials, [1, 0, 0], "{path}: the caller's own, once, in the header it came in");
        let key = seen.header("idempotency-key");
        assert!(key.len() == 64 && !key.contains("key-"), "{path}: one of this customer's: {key}");
        assert_eq!(seen.header("host"), bed.provider.address().to_string(), "{path}");
    }
    bed.assert_books(&["h"]).await;
}

#[tokio::test]
async fn a_client_cannot_strip_what_we_need_by_nominating_it() {
    let bed = bed("").await;
    for (nominated, left) in
        [("close, X-Customer-Id, Authorization, Content-Type, OpenAI-Beta, Content-Length", 1), ("x-foo, keep-alive", 2)]
    {
        let mut raw = Raw::connect(&bed).await;
        let body = chat("m-big", "");
        raw.send(format!(
            "{}connection: {nominated}\r\nx-foo: 1\r\nkeep-alive: timeout=5\r\nte: trailers\r\ncontent-length: {}\r\n\r\n{body}",
            head("h").replace("json\r\n", "json; charset=utf-8\r\nopenai-beta: b\r\n"),
            body.len()
        ))
        .await;
        let reply = raw.reply().await;
        assert_eq!(reply.status, 200, "{nominated}: {reply:?}");
        assert!(reply.head.contains(&format!("ratelimit-remaining: {}\r\n", MESSAGES - left)), "metered as h: {}", reply.head);
        let seen = bed.provider.log().pop().expect("forwarded");
        assert_eq!(seen.headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer sk-test"], "{nominated}");
        let needed = ["content-type", "openai-beta"].map(|name| seen.header(name));
        assert_eq!(needed, ["application/json; charset=utf-8", "b"], "{nominated}");
        let hop = ["connection", "keep-alive", "te", "transfer-encoding", "upgrade"];
        assert_eq!(hop.map(|name| seen.header(name)), [""; 5], "{nominated}: one hop's headers end here");
    }
    assert_eq!(bed.provider.log()[0].header("x-foo"), "1", "not nominated the first time");
    assert_eq!(bed.provider.log()[1].header("x-foo"), "");
    bed.assert_books(&["h"]).await;
}

#[tokio::test]
async fn a_providers_hop_site_and_account_stay_there() {
    let bed = bed("").await;
    let (gone, pass) = (
        [
            ("connection", "close, X-Foo"),
            ("x-foo", "1"),
            ("keep-alive", "timeout=5"),
            ("trailer", "X"),
            ("upgrade", "h2c"),
            ("proxy-authenticate", "Basic"),
            ("set-cookie", "__cf_bm=1"),
            ("server", "cloudflare"),
            ("via", "1.1 inside"),
            ("location", "http://inside.internal/"),
            ("openai-organization", "org-1"),
            ("anthropic-organization-id", "org-2"),
            ("strict-transport-security", "max-age=1"),
            ("alt-svc", "h3=\":443\""),
            ("cf-ray", "1"),
            ("x-ratelimit-limit-requests", "777"),
            ("x-ratelimit-remaining-tokens", "777"),
            ("anthropic-ratelimit-tokens-limit", "777"),
            ("ratelimit-remaining", "777"),
            ("x-tollgate-notice", "777"),
        ],
        [
            ("openai-processing-ms", "12"),
            ("x-request-id", "req_1"),
            ("request-id", "req_2"),
            ("retry-after", "7"),
            ("openai-version", "1"),
        ],
    );
    for (client, version) in [(bed.client.clone(), "HTTP/1.1"), (h2c(), "HTTP/2")] {
        for stream in [false, true] {
            let body = if stream { "data: [DONE]\n\n" } else { r#"{"choices":[]}"# };
            let script = if stream { Script::sse() } else { Script::http(200).header("content-type", "application/json") };
            let script = gone.iter().chain(&pass).fold(script, |script, (name, value)| script.header(name, value));
            bed.provider.script(script.send(body));
            let request = client.post(bed.url("/v1/chat/completions")).bearer_auth("sk-test").header("x-customer-id", "h");
            let answer = Answer::to(request.body(chat("m-big", &format!(r#","stream":{stream}"#)))).await;
            assert_eq!((answer.status, &answer.body[..]), (200, body.as_bytes()), "{version} {stream}");
            for (name, value) in gone {
                let values: Vec<_> = answer.headers.get_all(name).iter().filter(|seen| *seen == value).collect();
                assert!(values.is_empty(), "{version}: {name} reached the client: {values:?}");
            }
            for (name, value) in pass {
                assert_eq!(answer.header(name), value, "{version}");
            }
            let framings = ["content-length", "transfer-encoding"].map(|name| answer.headers.get_all(name).iter().count());
            assert!(framings.iter().sum::<usize>() <= 1, "{version}: one framing, not {framings:?}");
            if version == "HTTP/2" {
                assert_eq!(framings[1], 0, "HTTP/2 has its own");
            }
        }
    }
    bed.quiet().await;
}

#[tokio::test]
async fn heads_beyond_all_measure_are_refused_and_the_next_request_is_served() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["h"]).await;
    let many: String = (0..101).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (extra, what) in [(many, "101 headers"), (format!("x-long: {}\r\n", "x".repeat(500_000)), "half a megabyte")] {
        let mut raw = Raw::connect(&bed).await;
        // The gateway may answer before it has all of it.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.stream, format!("{}{extra}\r\n", head("h")).as_bytes()).await;
        assert_eq!(raw.reply().await.status, 431, "{what}");
        assert!(raw.is_closed().await, "{what}");
    }
    let client = h2c();
    let post = |long: usize| {
        let request = client.post(bed.url("/v1/chat/completions")).bearer_auth("sk-test").header("x-customer-id", "h");
        request.header("x-long", "x".repeat(long)).body(chat("m-small", "")).send()
    };
    match post(20_000).await {
        Ok(reply) => assert_eq!(reply.status(), 431, "20 KB over HTTP/2"),
        Err(error) => assert!(error.is_request(), "refused by a reset: {error:?}"),
    }
    before.assert_no_effect(&bed, "huge heads").await;
    assert_eq!(post(100).await.expect("the same connection").status(), 200);
    assert_eq!(messages_left(&bed, "h").await, MESSAGES - 2);
    bed.assert_books(&["h"]).await;
}
