//! What is written, and that nothing else is.

use super::*;

fn edited(api: Api, body: &str, edits: &Edits) -> String {
    let request = read(api, body);
    String::from_utf8(request.apply(&Bytes::from(body.to_owned()), edits).to_vec()).expect("UTF-8")
}

#[test]
fn without_a_change_the_bytes_are_the_same_ones() {
    let body =
        Bytes::from(chat(r#""max_tokens":1e2,"stream":true,"stream_options":{"include_usage":true},"safety_identifier":"x""#));
    let request = parse(Api::Chat, &body).expect("valid");
    let same = Edits {
        model: Some("m-small".into()),
        output_cap: Some(100),
        include_usage: true,
        user_id: Some("y".into()),
        ..Edits::default()
    };
    for edits in [Edits::default(), same] {
        let out = request.apply(&body, &edits);
        assert_eq!((out.as_ptr(), out.len()), (body.as_ptr(), body.len()), "not a copy: {edits:?}");
    }
}

#[test]
fn the_model_is_replaced_in_place() {
    let body = r#"{ "x":1.50e+01, "mod\u0065l" : "gpt\u002d4" ,"messages":[{"content":"\u00e9\ud83d\ude00 model"}] }"#;
    let edits = Edits { model: Some("a\"b\\é".into()), ..Edits::default() };
    let right = r#"{ "x":1.50e+01, "mod\u0065l" : "a\"b\\é" ,"messages":[{"content":"\u00e9\ud83d\ude00 model"}] }"#;
    assert_eq!(edited(Api::Chat, body, &edits), right);
}

#[test]
fn the_cap_is_written_into_the_field_of_the_request_or_the_api() {
    let edits = Edits { output_cap: Some(9), ..Edits::default() };
    for (api, body, right) in [
        (Api::Chat, r#"{"model":"m","messages":[]}"#, r#"{"max_completion_tokens":9,"model":"m","messages":[]}"#),
        (Api::Chat, r#"{"model":"m","messages":[],"max_tokens":1e2}"#, r#"{"model":"m","messages":[],"max_tokens":9}"#),
        (
            Api::Chat,
            r#"{"model":"m","max_tokens": 5,"max_completion_tokens": 50 ,"messages":[]}"#,
            r#"{"model":"m","max_tokens": 9,"max_completion_tokens": 9 ,"messages":[]}"#,
        ),
        (
            Api::Chat,
            r#"{"model":"m","max_tokens":null,"max_completion_tokens":50,"messages":[]}"#,
            r#"{"model":"m","max_tokens":null,"max_completion_tokens":9,"messages":[]}"#,
        ),
        (
            Api::Chat,
            r#"{"model":"m","max_completion_tokens":null,"messages":[]}"#,
            r#"{"model":"m","max_completion_tokens":9,"messages":[]}"#,
        ),
        (
            Api::Chat,
            r#"{"model":"m","max_tokens":null,"messages":[]}"#,
            r#"{"max_completion_tokens":9,"model":"m","max_tokens":null,"messages":[]}"#,
        ),
        (Api::Responses, r#"{"model":"m","input":""}"#, r#"{"max_output_tokens":9,"model":"m","input":""}"#),
        (
            Api::Responses,
            r#"{"model":"m","input":"","max_output_tokens":null}"#,
            r#"{"model":"m","input":"","max_output_tokens":9}"#,
        ),
        (Api::Completions, r#"{"model":"m","prompt":""}"#, r#"{"max_tokens":9,"model":"m","prompt":""}"#),
        (Api::Messages, r#"{"model":"m","messages":[],"max_tokens":4096}"#, r#"{"model":"m","messages":[],"max_tokens":9}"#),
        (Api::Embeddings, r#"{"model":"m","input":""}"#, r#"{"model":"m","input":""}"#),
        (Api::CountTokens, r#"{"model":"m","messages":[]}"#, r#"{"model":"m","messages":[]}"#),
    ] {
        assert_eq!(edited(api, body, &edits), right);
    }
}

#[test]
fn usage_is_asked_of_chat_and_completion_streams_only() {
    let edits = Edits { include_usage: true, ..Edits::default() };
    for (members, right) in [
        (r#""stream":true"#, Some(r#"{"include_usage":true}"#)),
        (r#""stream":true,"stream_options":null"#, Some(r#"{"include_usage":true}"#)),
        (r#""stream":true,"stream_options":{}"#, Some(r#"{"include_usage":true}"#)),
        (r#""stream":true,"stream_options": { }"#, Some(r#"{"include_usage":true }"#)),
        (r#""stream":true,"stream_options":{"include_usage":false}"#, Some(r#"{"include_usage":true}"#)),
        (r#""stream":true,"stream_options":{"include_usage":null}"#, Some(r#"{"include_usage":true}"#)),
        (
            r#""stream":true,"stream_options":{"include_obfuscation":false}"#,
            Some(r#"{"include_usage":true,"include_obfuscation":false}"#),
        ),
        (
            r#""stream_options":{ "include_obfuscation":false, "include_usage" : false },"stream":true"#,
            Some(r#"{ "include_obfuscation":false, "include_usage" : true }"#),
        ),
        ("\"stream\":false", None),
        ("\"x\":1", None),
    ] {
        for api in [Api::Chat, Api::Completions] {
            let body = format!(r#"{{"model":"m","messages":[],"prompt":"",{members}}}"#);
            let out = edited(api, &body, &edits);
            match right {
                None => assert_eq!(out, body),
                Some(options) => {
                    assert!(out.contains(options), "{out}");
                    assert_eq!(out.matches("stream_options").count(), 1, "{out}");
                    assert_eq!(read(api, &out).include_usage, Some(true), "{out}");
                }
            }
        }
    }
    for (api, body) in [
        (Api::Responses, r#"{"model":"m","input":"","stream":true}"#),
        (Api::Messages, r#"{"model":"m","messages":[],"max_tokens":1,"stream":true}"#),
        (Api::Embeddings, r#"{"model":"m","input":"","stream":true}"#),
    ] {
        assert_eq!(edited(api, body, &edits), body);
    }
}

#[test]
fn the_user_is_told_in_the_apis_own_field_unless_the_request_does() {
    let edits = Edits { user_id: Some("u\"1".into()), ..Edits::default() };
    for (api, body, right) in [
        (
            Api::Chat,
            r#"{"model":"m","messages":[],"user":"x"}"#,
            r#"{"safety_identifier":"u\"1","model":"m","messages":[],"user":"x"}"#,
        ),
        (
            Api::Responses,
            r#"{"model":"m","input":"","safety_identifier":null}"#,
            r#"{"model":"m","input":"","safety_identifier":"u\"1"}"#,
        ),
        (
            Api::Responses,
            r#"{"model":"m","input":"","safety_identifier":""}"#,
            r#"{"model":"m","input":"","safety_identifier":""}"#,
        ),
        (
            Api::Completions,
            r#"{"model":"m","prompt":"","safety_identifier":"x"}"#,
            r#"{"user":"u\"1","model":"m","prompt":"","safety_identifier":"x"}"#,
        ),
        (Api::Embeddings, r#"{"model":"m","input":"","user":"x"}"#, r#"{"model":"m","input":"","user":"x"}"#),
        (
            Api::Messages,
            r#"{"model":"m","messages":[],"max_tokens":1}"#,
            r#"{"metadata":{"user_id":"u\"1"},"model":"m","messages":[],"max_tokens":1}"#,
        ),
        (
            Api::Messages,
            r#"{"model":"m","messages":[],"max_tokens":1,"metadata":{"a":1}}"#,
            r#"{"model":"m","messages":[],"max_tokens":1,"metadata":{"user_id":"u\"1","a":1}}"#,
        ),
        (
            Api::Messages,
            r#"{"model":"m","messages":[],"max_tokens":1,"metadata":null}"#,
            r#"{"model":"m","messages":[],"max_tokens":1,"metadata":{"user_id":"u\"1"}}"#,
        ),
        (
            Api::Messages,
            r#"{"model":"m","messages":[],"max_tokens":1,"metadata":{"user_id":"x"}}"#,
            r#"{"model":"m","messages":[],"max_tokens":1,"metadata":{"user_id":"x"}}"#,
        ),
        (Api::CountTokens, r#"{"model":"m","messages":[]}"#, r#"{"model":"m","messages":[]}"#),
    ] {
        assert_eq!(edited(api, body, &edits), right);
    }
}

#[test]
fn several_changes_at_once_keep_apart() {
    let body = r#"{"model":"m","messages":[],"stream":true}"#;
    let edits = Edits {
        model: Some("big".into()),
        output_cap: Some(7),
        include_usage: true,
        user_id: Some("u".into()),
        ..Edits::default()
    };
    let right = r#"{"max_completion_tokens":7,"stream_options":{"include_usage":true},"safety_identifier":"u","model":"big","messages":[],"stream":true}"#;
    assert_eq!(edited(Api::Chat, body, &edits), right);
}

#[test]
#[should_panic(expected = "a request is applied to its own body")]
fn a_request_is_never_applied_to_another_body() {
    let _ = read(Api::Chat, &chat("")).apply(&Bytes::from_static(b"{}"), &Edits::default());
}
