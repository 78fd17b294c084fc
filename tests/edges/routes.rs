//! Which paths there are. What is not listed is 404 and reaches nobody; a path cannot be spelled past the meter.

use crate::kit::{Answer, Before, MESSAGES, bed, chat, messages_left};
use crate::raw::Raw;

/// A raw request of customer `t`, so that no library tidies the path.
async fn raw(bed: &crate::bed::Bed, method: &str, path: &str, body: &str) -> crate::raw::RawReply {
    let mut raw = Raw::connect(bed).await;
    let length = body.len();
    raw.send(format!(
        "{method} {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer sk-test\r\ncontent-type: \
         application/json\r\nx-customer-id: r\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
    .await;
    raw.reply().await
}

#[tokio::test]
async fn a_path_is_metered_like_the_plain_one_or_not_a_path() {
    let bed = bed("").await;
    let mut metered = 0;
    for (path, status) in [
        ("/v1/chat/completions", 200),
        ("/v1/chat/completions?x=1", 200),
        ("//v1/chat/completions", 404),
        ("/v1//chat/completions", 404),
        ("/v1/chat/completions/", 404),
        ("/./v1/chat/completions", 404),
        ("/v1/./chat/completions", 404),
        ("/v1/chat/../chat/completions", 404),
        ("/v1/%63hat/completions", 404),
        ("/v1/chat%2fcompletions", 404),
        ("/V1/chat/completions", 404),
        ("/chat/completions", 404),
        ("/v1/chat/completions;x=1", 404),
        ("/v1/chat/completions%00", 404),
        ("/v1\\chat\\completions", 404),
        ("http://elsewhere/v1/chat/completions", 200),
    ] {
        let reply = raw(&bed, "POST", path, &chat("m-small", "")).await;
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        metered += u64::from(status == 200);
        assert_eq!(bed.provider.seen(), metered, "{path}: the provider's calls are the metered ones");
    }
    assert_eq!(messages_left(&bed, "r").await, MESSAGES - metered - 1, "and so are the bucket's");
    let queries: Vec<_> = bed.provider.log().into_iter().map(|seen| seen.path).collect();
    assert_eq!(queries[1], "/v1/chat/completions?x=1", "a query passes");
    bed.assert_books(&["r"]).await;
}

#[tokio::test]
async fn a_models_id_cannot_climb_out_of_its_route() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["r"]).await;
    for id in [
        "..",
        "../files",
        "x/../../files",
        "./../files",
        "%2e%2e/files",
        "%2E%2e/files",
        ".%2e/files",
        "x/%2e%2e/%2e%2e/files",
        "..\\files",
        "x\\..\\..\\files",
        "%2e",
        "..%2ffiles",
        "..%5cfiles",
        "org%2Fmodel",
        "x/.",
    ] {
        let reply = raw(&bed, "GET", &format!("/v1/models/{id}"), "").await;
        assert_eq!(reply.status, 404, "{id}: {reply:?}");
        let seen: Vec<_> = bed.provider.log().into_iter().map(|seen| seen.path).collect();
        assert_eq!(seen, Vec::<String>::new(), "{id}: the provider sees nothing");
    }
    before.assert_no_effect(&bed, "climbing ids").await;
    for id in ["gpt-4o", "org/model", "a..b", "...", "a%20b", "ft:gpt-4o:org::id"] {
        let reply = raw(&bed, "GET", &format!("/v1/models/{id}"), "").await;
        let last = bed.provider.log().pop().expect("forwarded");
        assert_eq!((last.status, last.path), (reply.status, format!("/v1/models/{id}")), "an honest id goes as it came");
    }
    assert_eq!(messages_left(&bed, "r").await, MESSAGES - 7, "a model costs a message");
    bed.assert_books(&["r"]).await;
}

#[tokio::test]
async fn what_nobody_priced_is_not_a_route() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["r"]).await;
    for path in [
        "/",
        "/v1",
        "/v1/batches",
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/fine_tuning/jobs",
        "/v1/files",
        "/v1/uploads",
        "/v1/videos",
        "/v1/assistants",
        "/v1/threads",
        "/v1/vector_stores",
        "/v1/moderations",
        "/v1/realtime",
        "/v1/realtime/sessions",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/organization/admin_api_keys",
        "/v1/models/",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let request = bed.client.request(method.parse().unwrap(), bed.url(path)).bearer_auth("sk-test");
            let answer = Answer::to(request.header("x-customer-id", "r").body(chat("m-big", ""))).await;
            answer.refused(404, "route_not_found", &format!("{method} {path}"));
        }
    }
    for path in ["/v1/messages/batches", "/v1/messages/msg_1"] {
        let answer = Answer::to(bed.post(path, "r", "{}")).await;
        answer.refused_anthropic(404, "not_found_error", "route_not_found", path);
    }
    let answer = Answer::to(bed.post("/v1/complete", "r", "{}").header("anthropic-version", "2023-06-01")).await;
    answer.refused_anthropic(404, "not_found_error", "route_not_found", "an Anthropic client is answered in its format");
    let mut socket = Raw::connect(&bed).await;
    socket
        .send(
            "GET /v1/realtime?model=m-big HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer sk-test\r\nx-customer-id: \
             r\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: \
             dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await;
    assert_eq!(socket.reply().await.status, 404, "nothing is upgraded");
    before.assert_no_effect(&bed, "unknown routes").await;
}

#[tokio::test]
async fn a_known_route_with_another_method_says_which_it_takes() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["r"]).await;
    for (method, path, allow) in [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/responses", "POST"),
        ("DELETE", "/v1/embeddings", "POST"),
        ("OPTIONS", "/v1/completions", "POST"),
        ("HEAD", "/v1/chat/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/ft:m-big", "GET"),
    ] {
        let request = bed.client.request(method.parse().unwrap(), bed.url(path)).bearer_auth("sk-test");
        let answer = Answer::to(request.header("x-customer-id", "r")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, allow), "{method} {path}: {answer:?}");
        if method != "HEAD" {
            answer.refused(405, "method_not_allowed", path);
        }
    }
    let answer = Answer::to(bed.client.get(bed.url("/v1/messages"))).await;
    answer.refused_anthropic(405, "invalid_request_error", "method_not_allowed", "in the route's format");
    before.assert_no_effect(&bed, "other methods").await;
}

#[tokio::test]
async fn lists_of_models_and_counting_cost_a_message_and_no_money() {
    let bed = bed("").await;
    let count = r#"{"model":"c-big","messages":[{"role":"user","content":"hi"}]}"#;
    for (request, left) in [
        (bed.client.get(bed.url("/v1/models")), MESSAGES - 1),
        (bed.client.get(bed.url("/v1/models/gpt-4o")), MESSAGES - 2),
        (bed.client.get(bed.url("/v1/models")).header("anthropic-version", "2023-06-01"), MESSAGES - 3),
        (bed.client.post(bed.url("/v1/messages/count_tokens")).body(count), MESSAGES - 4),
    ] {
        let answer = Answer::to(request.header("x-api-key", "sk-test").header("x-customer-id", "r")).await;
        assert_eq!((answer.status, answer.messages_left()), (200, left), "{answer:?}");
    }
    assert_eq!(bed.spent("r").await.get(), 0);
    assert_eq!(bed.seen_paths().values().sum::<usize>(), 4);
    bed.quiet().await;
}

#[tokio::test]
async fn a_format_that_no_upstream_speaks_is_said_to_be_that() {
    // The model of the other provider's pool, and the other way round.
    let bed = bed("[pools.m]\nupstream = \"openai\"\nmodels = [\"m-big\"]\n").await;
    let before = Before::of(&bed, &["r"]).await;
    let body = r#"{"model":"m-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = Answer::to(bed.post("/v1/messages", "r", body)).await;
    answer.refused_anthropic(404, "not_found_error", "upstream_not_configured", "not \"no such route\"");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("No upstream that speaks Anthropic's format is configured for this model"), "{text}");
    before.assert_no_effect(&bed, "no upstream").await;
}
