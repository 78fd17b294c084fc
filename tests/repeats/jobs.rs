//! Asynchronous requests: taken in, run, fetched, cancelled, and only by those whose they are.

use crate::rig::{Answer, BATCH, PROVIDERS, Rig, SHOP, chat_body, keyed, later, look, post, take_in, until, until_status};
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::{Gate, Script};

const MESSAGES: &str = r#"{"model":"c-big","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn a_job_gives_the_answer_its_route_would_have_given() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    for (index, (path, body)) in [
        ("/v1/chat/completions", chat_body("m-big", "")),
        ("/v1/chat/completions", chat_body("m-big", r#","stream":true"#)),
        ("/v1/responses", r#"{"model":"m-big","input":"hi"}"#.to_owned()),
        ("/v1/completions", r#"{"model":"m-small","prompt":"hi"}"#.to_owned()),
        ("/v1/embeddings", r#"{"model":"emb","input":"hi"}"#.to_owned()),
        ("/v1/messages", MESSAGES.to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let kind = if path == "/v1/messages" { "type" } else { "object" };
        let taken = post(&bed, SHOP, "t", path, &body).header("prefer", "wait=5, respond-async").header("cookie", "secret=1");
        let taken = Answer::to(taken.header("x-goog-api-key", "goog-secret")).await;
        assert_eq!((taken.status, taken.header("preference-applied"), taken.header("vary")), (202, "respond-async", "Prefer"));
        let (url, json) = (taken.header("location").to_owned(), taken.json());
        assert_eq!(
            (&json["status"], &json[kind], &json["url"]),
            (&"queued".into(), &"job".into(), &url.as_str().into()),
            "{path}"
        );
        assert_eq!(json["result_url"], serde_json::Value::Null);
        let status = until_status(&bed, "t", &url, &["done", "failed"]).await;
        assert_eq!(
            (&status["status"], &status["attempts"], &status["reason"]),
            (&"done".into(), &1.into(), &serde_json::Value::Null)
        );
        assert!(status["started_at"].as_u64() >= status["created_at"].as_u64(), "{status}");
        let result = look(&bed, "t", status["result_url"].as_str().expect("a url")).await;
        // The stand-in gives equal requests equal answers, but for ids and times.
        let direct = Answer::to(post(&bed, SHOP, "t", path, &body)).await;
        assert_eq!((result.status, result.header("content-type")), (200, direct.header("content-type")), "{path}");
        if body.contains("stream") {
            assert!(result.body.ends_with(b"data: [DONE]\n\n"), "{path}");
            assert_eq!(
                result.body.windows(6).filter(|w| w == b"data: ").count(),
                direct.body.windows(6).filter(|w| w == b"data: ").count()
            );
        } else {
            assert_eq!(result.json()["usage"], direct.json()["usage"], "{path}");
        }
        assert_eq!(result.header("x-tollgate-replayed"), "true");
        assert!(result.header("x-tollgate-original-request-id").starts_with("tg_"));
        let seen = rig.provider.log();
        assert_eq!(seen.len(), 2 * (index + 1), "{path}: the job is one call");
        let called = &seen[seen.len() - 2];
        let key = if path == "/v1/messages" { called.header("x-api-key") } else { called.header("authorization") };
        assert!(key.ends_with(PROVIDERS), "{path}: the provider's own key");
        assert_eq!((called.header("cookie"), called.header("prefer"), called.header("x-goog-api-key")), ("", "", ""));
        assert_eq!(called.header("idempotency-key").len(), 64, "one of ours, the same for each run");
        bed.assert_books(&["t"]).await;
    }
    for written in rig.documents.written.lock().iter().filter_map(|write| write.value.clone()) {
        for secret in [SHOP, PROVIDERS, "secret=1", "goog-secret"] {
            assert!(!written.windows(secret.len()).any(|w| w == secret.as_bytes()), "{secret} was stored: {written:?}");
        }
    }
    assert!(bed.gateway.metrics.render().contains("tollgate_jobs_ended_total{state=\"done\"} 6\n"));
}

#[tokio::test]
async fn a_job_is_nobody_elses() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    let url = take_in(&bed, "t", &chat_body("m-small", "")).await;
    until_status(&bed, "t", &url, &["done"]).await;
    let ask = |method: http::Method, app: &str, customer: &str, url: &str| {
        let request = bed.client.request(method, bed.url(url)).header("authorization", format!("Bearer {app}"));
        Answer::to(request.header("x-customer-id", customer))
    };
    let result = format!("{url}/result");
    let unknown = format!("/v1/jobs/job_{:032x}", 1);
    for (app, customer, url) in [
        (SHOP, "u", url.as_str()),
        (BATCH, "t", &url),
        (SHOP, "u", &result),
        (SHOP, "t", &unknown),
        (SHOP, "t", "/v1/jobs/x"),
        (SHOP, "t", "/v1/jobs/job_..%2f"),
    ] {
        let answer = ask(http::Method::GET, app, customer, url).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "job_not_found"), "{url}");
        if !url.ends_with("/result") {
            assert_eq!(ask(http::Method::DELETE, app, customer, url).await.status, 404, "{url}");
        }
    }
    assert_eq!(ask(http::Method::GET, "no-such-key", "t", &url).await.status, 401);
    assert_eq!(ask(http::Method::POST, SHOP, "t", &url).await.status, 405);
    let anthropic = bed.client.get(bed.url(&unknown)).header("x-api-key", SHOP).header("anthropic-version", "2023-06-01");
    assert_eq!(Answer::to(anthropic.header("x-customer-id", "t")).await.json()["type"], "error");
    assert_eq!(look(&bed, "t", &url).await.status, 200, "it is still there for its owner");
    assert_eq!(ask(http::Method::DELETE, SHOP, "t", &url).await.status, 204);
    for url in [&url, &result] {
        assert_eq!(look(&bed, "t", url).await.status, 404, "{url}: forgotten");
    }
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_job_that_runs_is_cancelled_and_its_books_are_right() {
    for stream in [true, false] {
        let gate = Gate::new();
        let rig = Rig::with("", ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
        let bed = rig.gateway().await;
        let url = take_in(&bed, "t", &chat_body("m-big", if stream { r#","stream":true"# } else { "" })).await;
        rig.provider.wait_until(|seen| seen.len() == 1).await;
        let result = look(&bed, "t", &format!("{url}/result")).await;
        assert_eq!((result.status, result.json()["status"].as_str()), (202, Some("running")), "no result yet");
        let delete = bed.client.delete(bed.url(&url)).header("authorization", format!("Bearer {SHOP}"));
        assert_eq!(Answer::to(delete.header("x-customer-id", "t")).await.status, 204);
        if stream {
            let seen = rig.provider.wait_until(|seen| seen[0].client_left()).await;
            assert_eq!(seen.len(), 1, "the stream is cut");
        }
        gate.open();
        bed.quiet().await;
        assert_eq!(look(&bed, "t", &url).await.status, 404);
        assert_eq!(rig.provider.seen(), 1, "and does not run again");
        assert!(bed.gateway.metrics.render().contains("tollgate_jobs_ended_total{state=\"cancelled\"} 1\n"));
        if !stream {
            bed.assert_books(&["t"]).await; // read to its end and charged, as any call whose client left
        }
        assert!(bed.spent("t").await.get() > 0, "the prompt of a stream that was cut is charged");
    }
}

#[tokio::test]
async fn there_are_only_so_many() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let rig = Rig::with("[repeats]\njobs = 3\njobs_per_customer = 2\nmax_request = \"1KiB\"\n", options).await;
    let bed = rig.gateway().await;
    let sent: Vec<_> = (0..10).map(|_| tokio::spawn(Answer::to(later(&bed, "t", &chat_body("m-small", ""))))).collect();
    let (mut taken, mut urls) = (0, Vec::new());
    for answer in sent {
        let answer = answer.await.expect("it ended");
        if answer.status == 202 {
            taken += 1;
            urls.push(answer.header("location").to_owned());
            continue;
        }
        assert_eq!((answer.status, answer.code().as_str()), (429, "too_many_jobs"), "{answer:?}");
        assert_eq!(answer.header("retry-after"), "10");
    }
    assert_eq!(taken, 2, "also at once");
    urls.push(take_in(&bed, "u", &chat_body("m-small", "")).await);
    let full = Answer::to(later(&bed, "u", &chat_body("m-small", ""))).await;
    assert_eq!((full.status, full.code().as_str()), (503, "overloaded"));
    let long = chat_body("m-small", &" ".repeat(1_100));
    let long = Answer::to(later(&bed, "u", &long)).await;
    assert_eq!((long.status, long.code().as_str()), (413, "request_too_large"));
    let wrong = Answer::to(later(&bed, "u", r#"{"model":"m-small"}"#)).await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "missing_required_parameter"), "wrong now, not later");
    let metrics = Answer::to(bed.client.get(bed.url("/metrics"))).await;
    let metrics = String::from_utf8(metrics.body.to_vec()).expect("text");
    let count = |state: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("tollgate_jobs{{state=\"{state}\"}} ")));
        line.expect("a sample").parse().expect("a number")
    };
    assert_eq!(count("queued") + count("running"), 3);
    gate.open();
    for (url, customer) in urls.iter().zip(["t", "t", "u"]) {
        until_status(&bed, customer, url, &["done"]).await;
    }
    assert_eq!(take_in(&bed, "t", &chat_body("m-small", "")).await.len(), "/v1/jobs/job_".len() + 32, "there is room again");
    until("it ran", async || rig.provider.seen() == 4).await;
    bed.assert_books(&["t", "u"]).await;
}

#[tokio::test]
async fn a_key_makes_one_job() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    let request = || keyed(&bed, "t", "k", &chat_body("m-small", "")).header("prefer", "respond-async");
    let first = Answer::to(request()).await;
    let again = Answer::to(request()).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!((again.header("x-tollgate-replayed"), again.header("location")), ("true", first.header("location")));
    until_status(&bed, "t", first.header("location"), &["done"]).await;
    assert_eq!(rig.provider.seen(), 1);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn an_error_about_the_request_is_its_result_and_another_is_tried_again() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    let error = r#"{"error":{"message":"no","type":"t","param":null,"code":"c"}}"#;
    rig.provider.script(Script::json(400, error));
    let url = take_in(&bed, "t", &chat_body("m-small", "")).await;
    let status = until_status(&bed, "t", &url, &["done", "failed"]).await;
    assert_eq!(
        (&status["status"], &status["reason"], &status["attempts"]),
        (&"failed".into(), &"upstream_error".into(), &1.into())
    );
    let result = look(&bed, "t", &format!("{url}/result")).await;
    assert_eq!((result.status, &result.body[..]), (400, error.as_bytes()));

    rig.provider.script(Script::json(500, error));
    let url = take_in(&bed, "t", &chat_body("m-small", "")).await;
    let status = until_status(&bed, "t", &url, &["done", "failed"]).await;
    assert_eq!((&status["status"], &status["attempts"]), (&"done".into(), &2.into()), "{status}");
    assert_eq!(rig.provider.seen(), 3);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn in_passthrough_mode_the_preference_is_ignored() {
    let bed = crate::bed::Bed::new().await;
    let answer = Answer::to(bed.chat("t", "m-small", "").header("prefer", "respond-async")).await;
    assert_eq!((answer.status, answer.header("preference-applied")), (200, ""));
    let url = format!("/v1/jobs/job_{:032x}", 1);
    let look = bed.client.get(bed.url(&url)).header("authorization", "Bearer sk-test").header("x-customer-id", "t");
    assert_eq!(Answer::to(look).await.code(), "job_not_found");
    bed.assert_books(&["t"]).await;
}
