//! What must be refused, or read in exactly one way.

use super::*;
use std::time::{Duration, Instant};

#[test]
fn a_key_given_twice_is_refused_however_it_is_spelled() {
    let twice = |field: &str| ("duplicate_parameter", Some(field.to_owned()));
    for (members, field) in [
        (r#""model":"m-big""#, "model"),
        (r#""mod\u0065l":"m-big""#, "model"),
        (r#""max_tokens":1,"max_tokens":100000"#, "max_tokens"),
        (r#""stream":false,"stream":true"#, "stream"),
        (r#""n":1,"n":100"#, "n"),
        (r#""messages":[]"#, "messages"),
        (r#""unknown":1,"unknown":1"#, "unknown"),
        (r#""":1,"":1"#, ""),
        (r#""stream_options":{"include_usage":false,"include_usage":true}"#, "stream_options.include_usage"),
        (r#""stream_options":{"include_usage":false,"include_us\u0061ge":true}"#, "stream_options.include_usage"),
        (r#""stream_options":{"include_obfuscation":false,"include_obfuscation":true}"#, "stream_options.include_obfuscation"),
        (r#""metadata":{"user_id":"a","user_id":"b"}"#, "metadata.user_id"),
        (r#""tools":[{"type":"function"},{"type":"function","type":"web_search"}]"#, "tools[1].type"),
    ] {
        assert_eq!(refused(Api::Chat, chat(members).as_bytes()), twice(field), "{members}");
    }
    let thinking = r#"{"model":"m","max_tokens":1,"messages":[],"thinking":{"budget_tokens":1,"budget_tokens":2}}"#;
    assert_eq!(refused(Api::Messages, thinking.as_bytes()), twice("thinking.budget_tokens"));
    assert!(parse(Api::Chat, chat(r#""metadata":{"a":1},"x":{"a":1}"#).as_bytes()).is_ok(), "one key in two objects");
}

#[test]
fn a_metered_key_in_other_letter_case_is_refused() {
    for (members, field) in [
        (r#""Model":"m-big""#, "model"),
        (r#""MAX_TOKENS":100000"#, "max_tokens"),
        (r#""max_to\u212aens":100000"#, "max_tokens"),
        (r#""\u017ftream":true"#, "stream"),
        (r#""stream_options":{"Include_Usage":false}"#, "stream_options.include_usage"),
    ] {
        assert_eq!(refused(Api::Chat, chat(members).as_bytes()), ("unknown_parameter", Some(field.to_owned())), "{members}");
    }
    assert!(parse(Api::Chat, chat(r#""topK":1,"TopK":2,"größe":3"#).as_bytes()).is_ok(), "others may be spelled as they like");
}

#[test]
fn half_a_surrogate_pair_is_refused_and_a_whole_one_passes() {
    for text in [r"cut \ud83d", r"\ude00", r"\ud83d \ude00"] {
        for body in [
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#),
            format!(r#"{{"model":"{text}","messages":[]}}"#),
            format!(r#"{{"model":"m","messages":[],"x":"{text}"}}"#),
        ] {
            assert_eq!(refused(Api::Chat, body.as_bytes()), ("lone_surrogate", None), "{body}");
        }
    }
    let body = chat(r#""x":"\ud83d\ude00""#).replace("hi", r"\ud83d\ude00");
    assert_eq!(read(Api::Chat, &body).apply(&Bytes::from(body.clone()), &Edits::default()), body);
}

#[test]
fn numbers_are_read_exactly_or_refused() {
    for (api, field) in [
        (Api::Chat, "max_tokens"),
        (Api::Chat, "max_completion_tokens"),
        (Api::Chat, "n"),
        (Api::Responses, "max_output_tokens"),
        (Api::Completions, "n"),
    ] {
        for (number, right) in [
            ("-1", Err("integer_below_min_value")),
            ("-1e400", Err("integer_below_min_value")),
            ("0", Err("integer_below_min_value")),
            ("-0", Err("integer_below_min_value")),
            ("1.5", Err("invalid_type")),
            ("1e30", Err("integer_above_max_value")),
            ("1e400", Err("integer_above_max_value")),
            ("18446744073709551616", Err("integer_above_max_value")),
            ("4294967296", Err("integer_above_max_value")),
            ("\"100\"", Err("invalid_type")),
            ("true", Err("invalid_type")),
            ("[1]", Err("invalid_type")),
            ("null", Ok(None)),
            ("100", Ok(Some(100))),
            ("100.0", Ok(Some(100))),
            ("1e2", Ok(Some(100))),
            ("4294967295", Ok(Some(4_294_967_295))),
        ] {
            let body = format!(r#"{{"model":"m","messages":[],"input":"","prompt":"","{field}":{number}}}"#);
            match right {
                Err(code) => assert_eq!(refused(api, body.as_bytes()), (code, Some(field.to_owned())), "{body}"),
                Ok(value) if field == "n" => assert_eq!(read(api, &body).choices, value.unwrap_or(1), "{body}"),
                Ok(value) => assert_eq!(read(api, &body).output_cap, value, "{body}"),
            }
        }
    }
}

#[test]
fn nothing_but_one_json_object_is_taken() {
    for body in [
        "",
        "  \n",
        "null",
        "[]",
        "\"x\"",
        "7",
        "{",
        "{\"model\":\"m\"",
        "{\"model\":\"m-small\"}{\"model\":\"m-big\"}",
        "{\"model\":\"m\"}\0",
        "{\"model\":\"m\"} // c",
        "{'model':'m'}",
        "{\"model\":\"m\",}",
        "\u{feff}",
        "\u{feff}\u{feff}{}",
        "{\"x\":01}",
        "{\"model\":\"m\u{1}\"}",
    ] {
        assert_eq!(refused(Api::Chat, body.as_bytes()).0, "invalid_json", "{body:?}");
    }
    assert_eq!(refused(Api::Chat, b"{}"), ("missing_required_parameter", Some("model".into())));
    let twice = [chat(""), chat("")].concat();
    assert_eq!(parse(Api::Chat, twice.as_bytes()), Err(BodyError::TrailingData { at: chat("").len() }));
}

#[test]
fn other_encodings_are_refused() {
    let utf16: Vec<u8> = chat("").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut broken = chat("").into_bytes();
    broken[50] = 0xff;
    for body in [&utf16[..], &[0xff, 0xfe], &broken] {
        assert_eq!(refused(Api::Chat, body), ("invalid_json", None));
    }
    assert_eq!(parse(Api::Chat, &broken), Err(BodyError::NotUtf8 { at: 50 }));
}

#[test]
fn a_byte_order_mark_is_tolerated_and_not_forwarded() {
    let plain = chat("\"max_tokens\":5");
    let body = Bytes::from(format!("\u{feff}{plain}"));
    let request = parse(Api::Chat, &body).expect("tolerated");
    assert_eq!(&body[request.segments[0].range.clone()], br#"{"role":"user","content":"hi"}"#, "ranges point into the original");
    assert_eq!(request.apply(&body, &Edits::default()), plain);
    let edits = Edits { output_cap: Some(7), ..Edits::default() };
    assert_eq!(request.apply(&body, &edits), plain.replace(":5", ":7"));
}

#[test]
fn deep_nesting_is_refused_at_once() {
    let started = Instant::now();
    for open in ["[", "{\"a\":"] {
        let body = format!("{{\"x\":{}", open.repeat(100_000));
        assert_eq!(refused(Api::Chat, body.as_bytes()), ("nesting_too_deep", None));
    }
    assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
    let schema = |levels: usize| {
        let parameters = format!("{}{{}}{}", "{\"a\":".repeat(levels - 1), "}".repeat(levels - 1));
        chat(&format!(r#""tools":[{{"type":"function","function":{{"name":"f","parameters":{parameters}}}}}]"#))
    };
    assert!(read(Api::Chat, &schema(120)).features.tools);
    assert_eq!(refused(Api::Chat, schema(140).as_bytes()), ("nesting_too_deep", None));
}

#[test]
fn model_names_are_bounded_and_kept_exactly() {
    let body = |model: &str| format!("{{\"model\":{model},\"messages\":[]}}");
    for name in ["m-big ", "M-BIG", "ft:m-big:org::1", "unknown", "größe", &"x".repeat(256)] {
        assert_eq!(read(Api::Chat, &body(&format!("\"{name}\""))).model, name);
    }
    assert_eq!(read(Api::Chat, &body(r#""gpt\u002d4""#)).model, "gpt-4");
    for (model, code) in [
        ("\"\"".to_owned(), "empty_string"),
        ("null".to_owned(), "missing_required_parameter"),
        ("7".to_owned(), "invalid_type"),
        ("{}".to_owned(), "invalid_type"),
        (format!("\"{}\"", "x".repeat(257)), "string_above_max_length"),
        (format!("\"{}\"", "x".repeat(100_000)), "string_above_max_length"),
        (r#""\u001b[2J""#.to_owned(), "invalid_value"),
        (r#""m\n""#.to_owned(), "invalid_value"),
        (r#""m\u0000""#.to_owned(), "invalid_value"),
    ] {
        assert_eq!(refused(Api::Chat, body(&model).as_bytes()), (code, Some("model".to_owned())), "{model:.40}");
    }
}

#[test]
fn stream_is_a_boolean_or_null() {
    for (value, right) in [("true", true), ("false", false), ("null", false)] {
        assert_eq!(read(Api::Chat, &chat(&format!("\"stream\":{value}"))).stream, right);
    }
    for value in ["\"true\"", "1", "[]", "{}"] {
        let body = chat(&format!("\"stream\":{value}"));
        assert_eq!(refused(Api::Chat, body.as_bytes()), ("invalid_type", Some("stream".to_owned())), "{value}");
    }
}

#[test]
fn errors_never_repeat_the_body() {
    for body in [
        r#"{"model":"m","messages":[],"key":sk-secret}"#,
        r#"{"model":"m","messages":"sk-secret"}"#,
        r#"{"model":"m","user":["sk-secret"]}"#,
    ] {
        let message = parse(Api::Chat, body.as_bytes()).expect_err("refused").to_string();
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn lists_and_fields_beyond_all_reason_are_refused() {
    let many = format!("{{\"model\":\"m\",\"messages\":[{}{{}}]}}", "{},".repeat(100_000));
    assert_eq!(refused(Api::Chat, many.as_bytes()), ("array_above_max_length", Some("messages".to_owned())));
    let fields: String = (0..255).map(|i| format!(",\"x{i}\":0")).collect();
    assert!(parse(Api::Chat, format!("{{\"model\":\"m\",\"messages\":[]{}}}", &fields).as_bytes()).is_err());
    let fields: String = (0..254).map(|i| format!(",\"x{i}\":0")).collect();
    assert!(parse(Api::Chat, format!("{{\"model\":\"m\",\"messages\":[]{}}}", &fields).as_bytes()).is_ok());
    let user = format!("{{\"model\":\"m\",\"messages\":[],\"user\":\"{}\"}}", "x".repeat(1_025));
    assert_eq!(refused(Api::Chat, user.as_bytes()), ("string_above_max_length", Some("user".to_owned())));
}
