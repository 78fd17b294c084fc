//! The provider fails in mid-stream: the client sees a break, never a clean end, and pays for what was delivered.

use crate::bodies::{DONE, HI, IN, OUT, ROUTES, Route, STREAM, delta, three};
use crate::rig::{Outcome, Rig, complete, read};
use std::time::Duration;
use tollgate::demo::provider::{Script, Step};
use tollgate::domain::NanoUsd;
use tollgate::wire::{Api, Usage};

/// What [`Route::half`] costs: the prompt (by our count, or where `message_start` states it by that) and three tokens.
fn half(rig: &Rig, route: &Route) -> Outcome {
    let outcome = |tokens, cost| complete(tokens, cost).estimated().ending("upstream_broke").cause("upstream_failed");
    match route.path {
        "/v1/messages" => {
            let output = rig.bed.gateway.estimator.count_text("c-big", Api::Messages, " this this this");
            let price = rig.bed.gateway.policy.load().prices.get("c-big").expect("a price");
            let cost: NanoUsd = price.cost(&Usage { uncached_input: 25, output, ..Usage::default() }, None);
            outcome(25 + output, cost.get())
        }
        // "hi" as the input of a response is a message like that of a chat.
        _ => outcome(HI + 3, HI * IN + 3 * OUT),
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_seen_to_be_cut_and_its_half_is_charged() {
    let rig = Rig::new().await;
    let h2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().expect("a client");
    for route in &ROUTES {
        let sent = route.half();
        let raw = |framing: &str, body: &str| {
            Script::raw().send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing}\r\n\r\n{body}"))
        };
        let chunked = format!("{:x}\r\n{sent}\r\n", sent.len());
        for (how, script) in [
            ("RST", Script::sse().send(sent.clone()).reset()),
            ("no last chunk", Script::sse().send(sent.clone()).close()),
            ("no last chunk, spelled out", raw("transfer-encoding: chunked", &chunked).close()),
            ("a content-length too long", raw(&format!("content-length: {}", sent.len() + 100), &sent).close()),
            ("a clean end in the middle", Script::sse().send(sent.clone())),
        ] {
            for over_h2 in [false, true] {
                rig.bed.provider.script(script.clone());
                let request = rig.post(route.path, route.request).build().expect("a request");
                let client = if over_h2 { &h2 } else { &rig.bed.client };
                let mut reply = client.execute(request).await.expect("an answer");
                assert_eq!(reply.status(), 200);
                let case = format!("{} {how}, h2: {over_h2}", route.path);
                let (text, clean) = read(&mut reply).await;
                assert!(!clean, "{case}: a break, not an end");
                let added = text.strip_prefix(&sent).unwrap_or_else(|| panic!("{case}: {text}"));
                assert!(added.starts_with(route.our_error) && added.contains("upstream_broke"), "{case}: {added}");
                assert!(added.ends_with("\n\n") && !text.contains("[DONE]") && !text.contains("message_stop"), "{case}");
                assert_eq!(rig.outcome().await, half(&rig, route), "{case}");
            }
        }
    }
    assert_eq!(rig.metric("tollgate_requests_total", "upstream_failed"), rig.bed.provider.seen());
    assert_eq!(rig.metric("tollgate_estimated_usage_total", ""), rig.bed.provider.seen());
}

#[tokio::test]
async fn an_error_event_passes_unchanged_and_what_came_before_is_charged() {
    let rig = Rig::new().await;
    for route in &ROUTES {
        let stream = format!("{}{}", route.half(), route.their_error);
        rig.bed.provider.script(Script::sse().send(stream.clone()));
        let mut reply = rig.post(route.path, route.request).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream, true), "{}", route.path);
        assert_eq!(rig.outcome().await, half(&rig, route).ending("complete"), "{}", route.path);
    }
    // Nothing was delivered, nothing is charged.
    for route in &ROUTES[..2] {
        rig.bed.provider.script(Script::sse().send(route.their_error));
        let mut reply = rig.post(route.path, route.request).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (route.their_error.into(), true), "{}", route.path);
        assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_failed"), "{}", route.path);
    }
    assert_eq!(rig.bed.provider.seen(), 5, "no second call");
}

#[tokio::test]
async fn a_cut_stream_is_not_charged_at_its_cap() {
    let rig = Rig::new().await;
    rig.bed.provider.script(Script::sse().send(delta(" this").repeat(52)).reset());
    let mut reply = rig.chat(&format!(r#","max_tokens":500{STREAM}"#)).send().await.expect("an answer");
    assert!(!read(&mut reply).await.1);
    let outcome = complete(HI + 52, HI * IN + 52 * OUT).estimated();
    assert_eq!(rig.outcome().await, outcome.ending("upstream_broke").cause("upstream_failed"));
}

#[tokio::test]
async fn the_terminal_events_of_responses_are_charged_by_their_usage() {
    let rig = Rig::new().await;
    let route = &ROUTES[1];
    let usage = r#"{"input_tokens":10,"output_tokens":99}"#;
    let end = |name: &str, usage: &str| {
        format!("event: response.{name}\ndata: {{\"type\":\"response.{name}\",\"response\":{{\"usage\":{usage}}}}}\n\n")
    };
    let failed = end("failed", usage).replace("\"usage\"", "\"error\":{\"code\":\"server_error\"},\"usage\"");
    let by_usage = complete(109, crate::bodies::USAGE_COST);
    for (name, event, outcome) in [
        ("completed", end("completed", usage), by_usage.clone()),
        ("incomplete", end("incomplete", usage), by_usage.clone()),
        ("cancelled", end("cancelled", usage), by_usage.clone()),
        ("failed", failed, by_usage.cause("upstream_failed")),
        ("incomplete without usage", end("incomplete", "null"), complete(HI + 3, HI * IN + 3 * OUT).estimated()),
        (
            "an error event",
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"m\"}\n\n".into(),
            complete(HI + 3, HI * IN + 3 * OUT).estimated().cause("upstream_failed"),
        ),
    ] {
        let stream = format!("{}{event}", route.half());
        rig.bed.provider.script(Script::sse().send(stream.clone()));
        let mut reply = rig.post(route.path, route.request).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream, true), "{name}");
        assert_eq!(rig.outcome().await, outcome, "{name}");
    }
}

#[tokio::test]
async fn silence_is_cut_and_a_slow_stream_is_not() {
    let rig = Rig::with("idle_timeout = \"1s\"\nfirst_byte_timeout = \"1s\"", "").await;
    for (sent, tokens) in [(String::new(), 0), (three(), 3)] {
        rig.bed.provider.script(Script::sse().send(sent.clone()).silence());
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        let (text, clean) = tokio::time::timeout(crate::rig::SOON, read(&mut reply)).await.expect("a cut");
        assert!(!clean && text.starts_with(&format!("{sent}\n\ndata: {{\"error\":")), "{text}");
        let outcome = complete(HI + tokens, HI * IN + tokens * OUT).estimated();
        assert_eq!(rig.outcome().await, outcome.ending("upstream_broke").cause("upstream_failed"));
    }
    rig.provider_saw("both streams cancelled", |seen| seen.iter().all(tollgate::demo::provider::Seen::client_left)).await;

    // Longer in all than either timeout; comments are signs of life, too.
    let pieces = [delta(" this"), ": processing\n\n".into()].into_iter().cycle().take(8);
    let script = pieces.fold(Script::sse(), |script, piece| script.send(piece).wait(Duration::from_millis(250)));
    rig.bed.provider.script(script.step(Step::send(format!("{}{DONE}", crate::bodies::USAGE))));
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    assert!(read(&mut reply).await.1);
    assert_eq!(rig.outcome().await, complete(109, crate::bodies::USAGE_COST));
}

#[tokio::test]
async fn a_whole_reply_that_is_cut_is_no_answer_and_charged_by_what_came_of_it() {
    let rig = Rig::new().await;
    let half = r#"{"choices":[{"message":{"content":"one tw"#;
    rig.bed.provider.script(Script::raw().send(format!("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{half}")).close());
    let mut reply = rig.chat("").send().await.expect("an answer");
    assert_eq!(reply.status(), 502, "nothing was delivered, so there may be a proper error");
    let (body, whole) = read(&mut reply).await;
    assert!(whole && body.contains("upstream_broken"), "{body}");
    let tokens = half.len() as u64 / 4;
    let outcome = complete(HI + tokens, HI * IN + tokens * OUT).estimated();
    assert_eq!(rig.outcome().await, outcome.cause("upstream_broken"));
}
