//! Replies that are no streams, and telling the two apart.

use super::{options, pass, tokens};
use crate::wire::meter::{Meter, ReplyError};
use crate::wire::{Api, Usage};

/// Reads a body in two pieces at every cut and gives back its summary, which must be the same each time.
fn read(api: Api, body: &str) -> super::Summary {
    let meter = || Meter::for_reply(options(api, true), Some("application/json"));
    let (_, whole) = pass(meter(), [body.as_bytes()]);
    for cut in 0..=body.len() {
        let (head, tail) = body.as_bytes().split_at(cut);
        let (out, split) = pass(meter(), [head, tail]);
        assert_eq!(out, body.as_bytes());
        assert_eq!(split.summary(), whole.summary(), "cut at {cut}");
    }
    whole.summary()
}

#[test]
fn the_usage_of_every_api_is_read() {
    for (api, body, usage) in [
        (
            Api::Chat,
            r#" {"id":"r1","model":"m1","service_tier":"priority","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":800}}}"#,
            Usage {
                uncached_input: 200,
                cache_read: 800,
                output: 100,
                service_tier: Some("priority".into()),
                ..Usage::default()
            },
        ),
        (
            Api::Completions,
            r#"{"id":"r1","model":"m1","choices":[{"text":"Hi"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}"#,
            tokens(5, 7).expect("some"),
        ),
        (
            Api::Embeddings,
            r#"{"id":"r1","object":"list","data":[{"embedding":[0.1,-2e-3]}],"model":"m1","usage":{"prompt_tokens":1000,"total_tokens":1000}}"#,
            tokens(1_000, 0).expect("some"),
        ),
        (
            Api::Responses,
            r#"{"id":"r1","model":"m1","error":null,"output":[{"type":"web_search_call"},{"type":"web_search_call"},{"type":"message","content":[]}],"usage":{"input_tokens":37,"output_tokens":11}}"#,
            Usage { uncached_input: 37, output: 11, web_searches: 2, ..Usage::default() },
        ),
        (
            Api::Messages,
            r#"{"id":"r1","type":"message","model":"m1","content":[{"type":"text","text":"Hi"}],"usage":{"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0,"output_tokens":550,"server_tool_use":{"web_search_requests":3}}}"#,
            Usage { uncached_input: 3, cache_write: 12_304, output: 550, web_searches: 3, ..Usage::default() },
        ),
    ] {
        let summary = read(api, body);
        assert_eq!(summary.usage, Some(usage), "{api:?}");
        assert_eq!((summary.model.as_deref(), summary.reply_id.as_deref()), (Some("m1"), Some("r1")), "{api:?}");
        assert!(summary.complete && summary.input_known && summary.output_known && summary.error.is_none(), "{api:?}");
        assert!(summary.delivered.is_empty(), "nobody needs it");
    }
}

#[test]
fn a_success_may_carry_an_error() {
    for (api, body, code, kind, usage) in [
        (Api::Chat, r#"{"error":{"message":"m","type":"server_error","code":"boom"}}"#, Some("boom"), Some("server_error"), None),
        (Api::Chat, r#"{"error":"boom"}"#, None, None, None),
        (
            Api::Chat,
            r#"{"error":{"code":500},"usage":{"prompt_tokens":5,"completion_tokens":0}}"#,
            Some("500"),
            None,
            tokens(5, 0),
        ),
        (
            Api::Messages,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            None,
            Some("overloaded_error"),
            None,
        ),
        (
            Api::Responses,
            r#"{"status":"failed","error":{"code":"server_error"},"usage":{"input_tokens":5,"output_tokens":0}}"#,
            Some("server_error"),
            None,
            tokens(5, 0),
        ),
    ] {
        let summary = read(api, body);
        let error = ReplyError { code: code.map(str::to_owned), kind: kind.map(str::to_owned) };
        assert_eq!(summary.error, Some(error), "{body}");
        assert_eq!(summary.usage, usage, "{body}");
        assert!(summary.complete);
    }
    for body in [r#"{"choices":[],"error":null}"#, r#"{"choices":[],"error":""}"#] {
        let summary = read(Api::Chat, body);
        assert!(summary.error.is_none() && summary.usage.is_none() && summary.complete && summary.delivered.is_empty(), "{body}");
    }
}

#[test]
fn a_reply_without_usage_is_known_by_its_text() {
    let summary = read(
        Api::Chat,
        r#"{"choices":[{"message":{"content":"Hi","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}],"usage":{}}"#,
    );
    assert_eq!((summary.usage, summary.delivered.text.as_str(), summary.output_known), (None, "Hif{}", false));
}

#[test]
fn half_a_reply_is_not_complete() {
    for body in [r#"{"usage":{"prompt_tokens":5,"completion_tokens":7},"choices":["#, "[", "", "<html>", "null"] {
        let summary = read(Api::Chat, body);
        assert!(!summary.complete && summary.usage.is_none(), "{body}");
    }
}

#[test]
fn stream_or_not_is_told_by_the_reply_itself() {
    let stream = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n";
    let json = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}"#;
    for content_type in
        [None, Some("text/event-stream"), Some("Text/Event-Stream; charset=utf-8"), Some("application/json"), Some("text/plain")]
    {
        for (body, is_stream) in [(stream, true), (json, false)] {
            for prefix in ["", "\r\n", "\u{feff}", "\u{feff}: hi\n\n"] {
                if !is_stream && prefix.contains(':') {
                    continue;
                }
                let body = [prefix, body].concat();
                for hide in [false, true] {
                    let meter = || Meter::for_reply(options(Api::Chat, hide), content_type);
                    for meter in [pass(meter(), [body.as_bytes()]).1, pass(meter(), body.as_bytes().chunks(1)).1] {
                        assert_eq!(meter.is_stream(), is_stream, "{content_type:?}: {body:?}");
                        assert_eq!(meter.summary().usage, tokens(5, 7), "{content_type:?}: {body:?}");
                    }
                }
            }
        }
    }
    // A stream may begin with a field nobody knows; only the content type tells.
    let odd = ["x: 1\n", stream].concat();
    for (content_type, usage) in [(Some("text/event-stream"), tokens(5, 7)), (None, None)] {
        let (_, meter) = pass(Meter::for_reply(options(Api::Chat, false), content_type), [odd.as_bytes()]);
        assert_eq!(meter.summary().usage, usage);
    }
}

#[test]
fn the_free_routes_have_no_usage() {
    for (api, body) in [(Api::CountTokens, r#"{"input_tokens":14}"#), (Api::Models, r#"{"object":"list","data":[]}"#)] {
        let summary = read(api, body);
        assert!(summary.usage.is_none() && summary.complete, "{api:?}");
    }
}
