//! Bodies that parsers read differently, or not at all.

use crate::kit::{Answer, Before, MESSAGES, bed, chat, messages_left};
use serde_json::Value;

#[tokio::test]
async fn a_body_that_could_be_read_in_two_ways_is_refused_without_effect() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t"]).await;
    let deep = |levels: usize| format!(r#","x":{}{}"#, "[".repeat(levels), "]".repeat(levels));
    let hi = r#""messages":[{"role":"user","content":"hi"}]"#;
    let lone = |text: &str| format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let mut broken_utf8 = chat("m-big", "").into_bytes();
    let at = broken_utf8.windows(2).position(|two| two == b"hi").expect("the prompt");
    broken_utf8[at] = 0xff;
    for (body, code, param) in [
        (format!(r#"{{"model":"m-small",{hi},"model":"m-big"}}"#).into_bytes(), "duplicate_parameter", Some("model")),
        (format!(r#"{{"model":"m-big",{hi},"model":"m-small"}}"#).into_bytes(), "duplicate_parameter", Some("model")),
        (format!(r#"{{"model":"m-small",{hi},"mod\u0065l":"m-big"}}"#).into_bytes(), "duplicate_parameter", Some("model")),
        (format!(r#"{{"model":"m-small",{hi},"Model":"m-big"}}"#).into_bytes(), "unknown_parameter", Some("model")),
        (chat("m-big", r#","max_tokens":1,"max_tokens":100000"#).into_bytes(), "duplicate_parameter", Some("max_tokens")),
        (chat("m-big", r#","stream":false,"stream":true"#).into_bytes(), "duplicate_parameter", Some("stream")),
        (chat("m-big", r#","n":1,"n":100"#).into_bytes(), "duplicate_parameter", Some("n")),
        (chat("m-big", r#","stream":"true""#).into_bytes(), "invalid_type", Some("stream")),
        (chat("m-big", r#","stream":1"#).into_bytes(), "invalid_type", Some("stream")),
        (lone(r"cut \ud83d").into_bytes(), "lone_surrogate", None),
        (lone(r"\ude00").into_bytes(), "lone_surrogate", None),
        (format!(r#"{{"x":{}"#, "[".repeat(100_000)).into_bytes(), "nesting_too_deep", None),
        (chat("m-big", &deep(140)).into_bytes(), "nesting_too_deep", None),
        (broken_utf8, "invalid_json", None),
        (Vec::new(), "invalid_json", None),
        (b"null".to_vec(), "invalid_json", None),
        (b"[]".to_vec(), "invalid_json", None),
        (b"\"x\"".to_vec(), "invalid_json", None),
        (b"{}".to_vec(), "missing_required_parameter", Some("model")),
        (b"{\"model\":\"m-small\"}{\"model\":\"m-big\"}".to_vec(), "invalid_json", None),
        (format!("{}\0", chat("m-big", "")).into_bytes(), "invalid_json", None),
        (format!("{} // c", chat("m-big", "")).into_bytes(), "invalid_json", None),
        (chat("m-big", ",").into_bytes(), "invalid_json", None),
        (chat("m-big", "").replace('}', "").into_bytes(), "invalid_json", None),
    ] {
        let what = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
        let answer = Answer::to(bed.post("/v1/chat/completions", "t", body)).await;
        answer.refused(400, code, &what);
        assert_eq!(answer.json()["error"]["param"].as_str(), param, "{what}");
    }
    let answer = Answer::to(bed.post("/v1/messages", "t", "{")).await;
    answer.refused_anthropic(400, "invalid_request_error", "invalid_json", "in the route's format");
    before.assert_no_effect(&bed, "ambiguous bodies").await;
}

#[tokio::test]
async fn an_unusual_body_that_reads_one_way_passes_byte_for_byte() {
    let bed = bed("").await;
    let nested = format!(r#","metadata":{{}},"x":{}{}"#, "[".repeat(120), "]".repeat(120));
    let mut sent = 0;
    for (more, what) in [
        (r#","max_tokens":20,"stream":null"#, "stream: null is not a stream"),
        (r#","max_tokens":20,"user":"\ud83d\ude00 \u00e9""#, "a whole surrogate pair"),
        (&format!(r#","max_tokens":20{nested}"#), "120 levels"),
        (r#","max_tokens":20,"seed":12345678901234567890123,"temperature":1.0"#, "numbers beyond a double"),
        (",\r\n\t \"max_tokens\" : 20 ", "white space"),
    ] {
        let body = chat("m-big", more);
        let answer = Answer::to(bed.post("/v1/chat/completions", "u", body.clone())).await;
        sent += 1;
        assert_eq!((answer.status, answer.messages_left()), (200, MESSAGES - sent), "{what}: {answer:?}");
        let seen = bed.provider.log().pop().expect("forwarded");
        assert_eq!(String::from_utf8_lossy(&seen.body), body, "{what}: the provider reads what the client wrote");
    }
    let pair = r#"{"model":"m-big","max_tokens":20,"messages":[{"role":"user","content":"\ud83d\ude00"}]}"#;
    assert_eq!(Answer::to(bed.post("/v1/chat/completions", "u", pair)).await.status, 200);
    assert_eq!(bed.provider.log().pop().expect("forwarded").body, pair);
    bed.assert_books(&["u"]).await;
}

#[tokio::test]
async fn a_model_that_is_not_priced_is_refused_and_never_borrows_a_price() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t"]).await;
    for (model, code) in [
        (r#""m-big ""#, "model_not_priced"),
        (r#"" m-big""#, "model_not_priced"),
        (r#""M-BIG""#, "model_not_priced"),
        (r#""ft:m-big:org::1""#, "model_not_priced"),
        (r#""openai/m-big""#, "model_not_priced"),
        (r#""unknown""#, "model_not_priced"),
        (r#""\u001b[2J""#, "invalid_value"),
        (r#""m-big\nx""#, "invalid_value"),
        (r#""""#, "empty_string"),
        ("null", "missing_required_parameter"),
        ("7", "invalid_type"),
        (r#"["m-big"]"#, "invalid_type"),
    ] {
        let body = format!(r#"{{"model":{model},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let answer = Answer::to(bed.post("/v1/chat/completions", "t", body)).await;
        answer.refused(400, code, model);
        assert_eq!(answer.json()["error"]["param"], "model", "{model}");
    }
    let answer = Answer::to(bed.chat("t", &"x".repeat(100_000), "")).await;
    let message = answer.refused(400, "string_above_max_length", "100 KB");
    assert!(!message.contains("xxxx"), "not repeated: {message}");
    before.assert_no_effect(&bed, "models without a price").await;
}

#[tokio::test]
async fn an_error_repeats_neither_prompt_nor_secret() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t"]).await;
    let secret = "sk-live-4242";
    for body in [
        format!(r#"{{"model":"m-big","api_key":"{secret}","messages":["#),
        format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"{secret}"}}]}}{secret}"#),
        format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"{secret}\ud800"}}]}}"#),
        format!(r#"{{"model":"m-big","max_tokens":"{secret}","messages":[]}}"#),
        format!("{secret}{}", chat("m-big", "")),
    ] {
        let answer = Answer::to(bed.post("/v1/chat/completions", "t", body.clone())).await;
        assert_eq!(answer.status, 400, "{body}");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(!text.contains(secret) && !text.contains("sk-test"), "{text}");
        assert!(text.len() < 1_000, "{text}");
    }
    before.assert_no_effect(&bed, "bodies with secrets").await;
}

#[tokio::test]
async fn how_a_reply_is_read_is_decided_by_the_reply() {
    use tollgate::demo::provider::Script;
    use tollgate::wire::Usage;
    let bed = bed("").await;
    let usage = || Usage { uncached_input: 9, output: 2, ..Usage::default() };
    let numbers = r#""usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}"#;
    let whole = format!(r#"{{"id":"c","model":"m-big","choices":[{{"index":0,"message":{{"content":"a b"}}}}],{numbers}}}"#);
    let events = format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a b\"}}}}]}}\n\ndata: \
         {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],{numbers}}}\n\ndata: [DONE]\n\n"
    );
    for (stream, as_events) in [(false, false), (false, true), (true, false), (true, true)] {
        let (script, body) =
            if as_events { (Script::sse().send(events.clone()), &events) } else { (Script::json(200, whole.clone()), &whole) };
        bed.provider.script(script.used(usage()));
        let answer = Answer::to(bed.chat("s", "m-big", &format!(r#","stream":{stream}"#))).await;
        assert_eq!((answer.status, String::from_utf8_lossy(&answer.body)), (200, body.as_str().into()), "{stream} {as_events}");
        bed.assert_books(&["s"]).await;
    }
    // 9 x $2.50 + 2 x $10 a million, four times.
    assert_eq!(bed.spent("s").await.get(), 4 * (9 * 2_500 + 2 * 10_000));
}

#[tokio::test]
async fn a_refused_body_costs_no_message() {
    let bed = bed("").await;
    for _ in 0..3 {
        Answer::to(bed.post("/v1/chat/completions", "v", "{")).await.refused(400, "invalid_json", "half an object");
    }
    assert_eq!(messages_left(&bed, "v").await, MESSAGES - 1);
    let last: Value = serde_json::from_slice(&bed.provider.log().pop().expect("the good one").body).expect("JSON");
    assert_eq!(last["model"], "m-small");
    bed.assert_books(&["v"]).await;
}
