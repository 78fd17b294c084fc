//! What a hand-off looks like to whoever reads it. The official SDKs read it in `tests/sdk`.

use super::*;
use crate::wire::meter::{Meter, MeterOptions};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::sync::Arc;

const SENTENCE: &str = "One \"moment\",\nplease — 北.";

fn handoff(api: Api, stream: bool, include_usage: bool) -> Handoff<'static> {
    Handoff {
        api,
        stream,
        include_usage,
        message: SENTENCE,
        request_id: RequestId::new(7),
        at: Timestamp::from_secs(1_764_450_000),
        cause: Cause::Provider,
        level: Some(3),
        ticket: "tt_1",
        ticket_url: "/v1/triage/tt_1",
    }
}

async fn read(handoff: &Handoff<'_>) -> (http::HeaderMap, String) {
    let response = hand_off(handoff).expect("a chat route");
    assert_eq!(response.status(), StatusCode::OK);
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.expect("in memory").to_bytes();
    (head.headers, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
}

#[tokio::test]
async fn the_headers_say_what_it_is_and_where_it_goes_on() {
    for (api, id) in [(Api::Chat, "x-request-id"), (Api::Responses, "x-request-id"), (Api::Messages, "request-id")] {
        for (stream, kind) in [(false, "application/json"), (true, "text/event-stream; charset=utf-8")] {
            let (headers, _) = read(&handoff(api, stream, false)).await;
            for (name, right) in [
                ("content-type", kind),
                ("cache-control", "no-store"),
                (id, "tg_00000000000000000000000000000007"),
                ("x-tollgate-degraded", "handoff;cause=provider"),
                ("x-tollgate-model", "human-triage"),
                ("x-tollgate-level", "3"),
                ("x-tollgate-ticket", "tt_1"),
                ("x-tollgate-ticket-url", "/v1/triage/tt_1"),
            ] {
                assert_eq!(headers[name], right, "{api:?} {stream} {name}");
            }
        }
    }
    for api in [Api::Completions, Api::Embeddings, Api::CountTokens, Api::Models, Api::AnthropicModels] {
        assert!(hand_off(&handoff(api, false, false)).is_none(), "{api:?}");
    }
}

/// Our own reader of providers' replies is one judge of the format: it finds the whole sentence, the model, a usage of nothing, and an
/// end where there has to be one.
#[tokio::test]
async fn a_meter_reads_it_as_a_finished_answer_that_used_nothing() {
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        for (stream, kind) in [(false, "application/json"), (true, "text/event-stream")] {
            let (_, body) = read(&handoff(api, stream, true)).await;
            let options = MeterOptions { api, hide_usage_chunk: false, count: Arc::new(|text: &str| text.len() as u64) };
            let mut meter = Meter::for_reply(options, Some(kind));
            let mut passed = VecDeque::new();
            for byte in body.as_bytes() {
                meter.feed(Bytes::copy_from_slice(&[*byte]), &mut passed);
            }
            meter.finish(&mut passed);
            let summary = meter.summary();
            assert_eq!(summary.model.as_deref(), Some(HANDOFF_MODEL), "{api:?} {stream}");
            assert!(summary.complete, "{api:?} {stream}");
            let usage = summary.usage.expect("stated");
            assert_eq!((usage.input(), usage.total_output()), (0, 0), "{api:?} {stream}");
            assert!(summary.error.is_none());
        }
    }
}

#[tokio::test]
async fn the_whole_reply_is_one_message_with_a_normal_end() {
    let json = async |api| serde_json::from_str::<Value>(&read(&handoff(api, false, false)).await.1).expect("JSON");
    let chat = json(Api::Chat).await;
    assert_eq!(chat["choices"][0]["message"]["content"], SENTENCE);
    assert_eq!(chat["choices"].as_array().map(Vec::len), Some(1));
    assert_eq!((&chat["choices"][0]["finish_reason"], &chat["model"]), (&"stop".into(), &"human-triage".into()));
    assert_eq!((&chat["object"], &chat["created"]), (&"chat.completion".into(), &1_764_450_000.into()));
    let response = json(Api::Responses).await;
    assert_eq!(response["output"][0]["content"][0]["text"], SENTENCE);
    assert_eq!((&response["status"], &response["store"]), (&"completed".into(), &false.into()));
    let message = json(Api::Messages).await;
    assert_eq!(message["content"][0]["text"], SENTENCE);
    assert_eq!((&message["stop_reason"], &message["role"]), (&"end_turn".into(), &"assistant".into()));
}

/// Names of the events of a stream, or `data` where they have none.
fn events(body: &str) -> Vec<&str> {
    body.split("\n\n")
        .filter(|event| !event.is_empty())
        .map(|event| event.strip_prefix("event: ").map_or("data", |rest| rest.lines().next().unwrap_or("")))
        .collect()
}

#[tokio::test]
async fn streams_have_the_events_of_their_api_in_order() {
    let (_, chat) = read(&handoff(Api::Chat, true, false)).await;
    assert_eq!(events(&chat).len(), 4, "{chat}");
    assert!(chat.ends_with("data: [DONE]\n\n") && !chat.contains("usage"), "{chat}");
    let (_, with_usage) = read(&handoff(Api::Chat, true, true)).await;
    assert_eq!(events(&with_usage).len(), 5);
    assert_eq!(with_usage.matches("\"usage\":null").count(), 3);
    assert_eq!(with_usage.matches("\"choices\":[]").count(), 1);
    let (_, messages) = read(&handoff(Api::Messages, true, false)).await;
    let right = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(events(&messages), right);
    let (_, responses) = read(&handoff(Api::Responses, true, false)).await;
    let names: Vec<_> = events(&responses).iter().map(|name| name.trim_start_matches("response.")).collect();
    let right = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names, right);
    for (sequence, event) in responses.split("\n\n").filter(|event| !event.is_empty()).enumerate() {
        assert!(event.contains(&format!("\"sequence_number\":{sequence},")), "{event}");
    }
}
