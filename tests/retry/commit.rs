//! What commits an answer: before it a failure is tried again and the client sees nothing of it; after it, the failure is the client's.

use crate::bodies::{DONE, FINISH, HI, IN, OUT, ROUTES, STREAM, USAGE, USAGE_COST, delta, three};
use crate::pace::paced;
use crate::rig::{complete, read};
use crate::statuses::{JSON, answer};
use tollgate::demo::provider::{Gate, Script, Seen};
use tollgate::wire::Api;

fn whole() -> String {
    format!("{}{FINISH}{USAGE}{DONE}", three())
}

#[tokio::test]
async fn a_stream_that_fails_before_its_first_content_is_tried_again_and_nothing_of_it_is_seen() {
    let (rig, _waits) = paced("idle_timeout = \"300ms\"", "", "").await;
    for route in &ROUTES {
        let second = format!("{}{}", route.begin, route.piece);
        for (how, script) in [
            ("an error event", Script::sse().send(route.begin).send(route.their_error)),
            ("an error event and silence", Script::sse().send(format!("{}{}", route.begin, route.their_error)).silence()),
            ("RST", Script::sse().send(route.begin).reset()),
            ("no last chunk", Script::sse().send(route.begin).close()),
            ("a clean end", Script::sse().send(route.begin)),
            ("nothing", Script::sse()),
            ("silence", Script::sse().send(route.begin).silence()),
            ("silence from the start", Script::sse().silence()),
        ] {
            let before = rig.bed.provider.seen();
            let case = format!("{} {how}", route.path);
            rig.bed.provider.script(script);
            rig.bed.provider.script(Script::sse().send(second.clone()).reset());
            let mut reply = rig.post(route.path, route.request).send().await.expect("an answer");
            let (text, clean) = read(&mut reply).await;
            assert!(text.starts_with(&second) && !clean, "{case}: {text}");
            assert_eq!(text.matches(route.begin.trim()).count(), 1, "{case}: {text}");
            assert_eq!(rig.bed.provider.seen() - before, 2, "{case}: a failure after content is final");
            let outcome = rig.outcome().await;
            // What Anthropic stated at the start of the attempt that failed was charged by it: 25 tokens of input.
            let stated = if ["nothing", "silence from the start"].contains(&how) { 25 } else { 2 * 25 };
            let tokens = match route.path {
                "/v1/messages" => stated + rig.bed.gateway.estimator.count_text("c-big", Api::Messages, " this"),
                _ => HI + 1,
            };
            assert_eq!((outcome.requests, outcome.tokens), (1, tokens), "{case}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn content_a_comment_or_the_bound_commits() {
    let (rig, _waits) = paced("", "", "").await;
    let error = ROUTES[0].their_error;
    let filler = format!("data: {{\"choices\":[],\"pad\":\"{}\"}}\n\n", "x".repeat(17 * 1024));
    let tool = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\"}}]}}]}\n\n";
    let reasoning = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
    for begin in [&delta(" this"), tool, reasoning, ": processing\n\n", &filler] {
        let before = rig.bed.provider.seen();
        let stream = format!("{begin}{error}");
        let gate = Gate::new();
        rig.bed.provider.script(Script::sse().send(begin.to_owned()).until(&gate).send(error));
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        gate.open();
        assert!(read(&mut reply).await == (stream, true), "{begin:.40}");
        assert_eq!(rig.bed.provider.seen() - before, 1, "{}", &begin[..20.min(begin.len())]);
        assert_eq!(rig.outcome().await.cause, "upstream_failed");
    }
}

#[tokio::test]
async fn bytes_after_the_commit_are_the_providers_own_however_they_are_split() {
    let (rig, _waits) = paced("", "", "").await;
    let stream = format!("{}{}", ROUTES[0].begin, whole());
    for script in [
        Script::sse().send(stream.clone()),
        Script::sse().send_bytewise(stream.clone()),
        Script::sse().send(ROUTES[0].begin).send(whole()),
    ] {
        rig.bed.provider.script(script);
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream.clone(), true));
        assert_eq!(rig.outcome().await, complete(109, USAGE_COST));
    }
}

#[tokio::test]
async fn a_whole_reply_that_is_no_answer_is_tried_again() {
    let (rig, _waits) = paced("", "", "").await;
    let error = r#"{"error":{"message":"m","code":502}}"#;
    let raw = |body: &str| Script::raw().send(format!("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{body}")).close();
    for (how, script) in [
        ("an error object", Script::json(200, error)),
        ("cut before its first byte", raw("")),
        ("cut in its chunks", Script::http(200).header("content-type", "application/json").close()),
    ] {
        rig.bed.provider.script(script);
        rig.bed.provider.script(answer());
        let mut reply = rig.chat("").send().await.expect("an answer");
        assert_eq!(reply.headers()["content-length"], JSON.len().to_string(), "{how}");
        assert_eq!(read(&mut reply).await, (JSON.into(), true), "{how}");
        assert_eq!(rig.outcome().await, complete(109, USAGE_COST), "{how}");
    }
    // What the provider sent half of it has made: it is charged, at four bytes a token, beside what follows.
    let half = r#"{"choices":[{"message":{"content":"one tw"#;
    rig.bed.provider.script(raw(half));
    rig.bed.provider.script(answer());
    assert_eq!(rig.chat("").send().await.expect("an answer").status(), 200);
    let tokens = half.len() as u64 / 4;
    assert_eq!(rig.outcome().await, complete(109 + HI + tokens, USAGE_COST + HI * IN + tokens * OUT).estimated());
    assert_eq!(rig.bed.provider.seen(), 8);
}

#[tokio::test]
async fn an_error_under_a_success_passes_when_trying_again_did_not_help_or_cannot() {
    let (rig, _waits) = paced("", "", "").await;
    let theirs = r#"{"error":{"message":"m","type":"server_error"}}"#;
    let callers = r#"{"error":{"message":"m","type":"invalid_request_error","code":"invalid_prompt"}}"#;
    for (body, calls) in [(theirs, 3), (callers, 1)] {
        let before = rig.bed.provider.seen();
        for _ in 0..calls {
            rig.bed.provider.script(Script::json(200, body));
        }
        let mut reply = rig.chat("").send().await.expect("an answer");
        assert_eq!((reply.status().as_u16(), read(&mut reply).await), (200, (body.into(), true)));
        assert_eq!(rig.bed.provider.seen() - before, calls, "{body}");
        assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_failed"), "{body}");
    }
}

#[tokio::test]
async fn half_a_reply_is_no_answer_even_when_nothing_helped() {
    let (rig, _waits) = paced("", "max = 1", "").await;
    for script in [Script::http(200).close(), Script::http(200).close()] {
        rig.bed.provider.script(script);
    }
    let reply = rig.chat("").send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), &reply.headers()["x-should-retry"]), (502, &"false".parse().expect("a value")));
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_broken"));
}

#[tokio::test]
async fn a_client_that_leaves_before_the_commit_pays_the_prompt_and_cancels() {
    let (rig, _waits) = paced("", "", "").await;
    let gate = Gate::new();
    rig.bed.provider.script(Script::sse().send(ROUTES[0].begin).until(&gate).send(whole()));
    let call = tokio::spawn(rig.chat(STREAM).send());
    rig.provider_saw("the call", |seen| seen.len() == 1 && seen[0].status == 200).await;
    call.abort();
    rig.provider_saw("the call cancelled", |seen| seen.iter().all(Seen::client_left)).await;
    assert_eq!(rig.outcome().await, complete(HI, HI * IN).estimated().ending("client_gone"));
    gate.open();
}
