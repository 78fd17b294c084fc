//! Counting prompts through the gateway. Where the plan allows one token a minute every prompt is too large, and the refusal says how
//! many tokens were counted; what must be admitted is sent by customers with room.

use crate::bed::Bed;
use crate::fixture::{Hand, Store, answer, bed};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate::demo::provider::Script;

const PLANS: &str = r#"
[models.gpt-4]
price = { input = 1.0, output = 1.0 }
[models.o4]
price = { input = 1.0, output = 1.0 }
[plans.none]
messages = "unlimited"
rpm = "unlimited"
tpm = 1
spend = { day = 1000.0 }
on_spend = []
on_provider = []
[plans.some]
messages = "unlimited"
rpm = 300
tpm = 10_000
max_output_tokens = 100
spend = { day = 1.0 }
on_spend = []
on_provider = []
[customers.n]
plan = "none"
[customers.s]
plan = "some"
"#;

/// The tokens that a body is counted with.
async fn counted(bed: &Bed, path: &str, body: &Value) -> u64 {
    let begun = Instant::now();
    let refused = answer(bed.post(path, "n", body.to_string())).await;
    assert_eq!(refused.outcome(), (413, "request_exceeds_limit"), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "unoptimised and beside six others, but not quadratic");
    refused.limit("asked").as_u64().expect("tokens")
}

async fn content(bed: &Bed, model: &str, text: &str) -> u64 {
    let body = |text: &str| json!({"model": model, "messages": [{"role": "user", "content": text}]});
    counted(bed, "/v1/chat/completions", &body(text)).await - counted(bed, "/v1/chat/completions", &body("")).await
}

#[tokio::test]
async fn hostile_and_foreign_text_is_counted_exactly_and_soon() {
    let bed = Bed::plus(PLANS).await;
    let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}";
    for (model, text, right) in [
        ("gpt-4o", "a".repeat(1_000_000), 125_000),
        ("gpt-4o", "A".repeat(100_000), 12_500),
        ("gpt-4o", "^".repeat(100_000), 12_500),
        ("gpt-4", "^".repeat(100_000), 25_000),
        ("gpt-4o", " ".repeat(100_000), 782),
        ("gpt-4o", "\n".repeat(100_000), 6_250),
        ("gpt-4", "\n".repeat(100_000), 3_125),
        ("gpt-4o", "<|endoftext|>".to_owned(), 7),
        ("gpt-4o", "<|endoftext|>".repeat(1_000), 6_001),
        ("gpt-4o", "<|endofprompt|>".to_owned(), 7),
        ("gpt-4o", "<|im_start|>".to_owned(), 6),
        ("gpt-4o", "<|start|>assistant<|channel|>final<|message|>".to_owned(), 17),
        ("gpt-4o", "\u{12000}".repeat(100), 400),
        ("gpt-4o", family.repeat(100), 1_100),
        ("gpt-4", family.repeat(100), 1_800),
        ("gpt-4o", "北京".to_owned(), 1),
        ("gpt-4o", "\u{10FFFF}".repeat(10), 40),
        ("gpt-4o", "ğ".repeat(100), 100),
    ] {
        let shown: String = text.chars().take(12).collect();
        assert_eq!(content(&bed, model, &text).await, right, "{model}: {shown}... of {} bytes", text.len());
    }
    assert_eq!(bed.provider.log().len(), 0);
    bed.assert_books(&["n"]).await;
}

#[tokio::test]
async fn long_text_without_words_is_counted_in_linear_time() {
    let bed = Bed::plus(PLANS).await;
    let mut random = fastrand::Rng::with_seed(391);
    let letters = |n: usize, random: &mut fastrand::Rng| -> String { (0..n).map(|_| random.lowercase()).collect() };
    for n in [100_000, 1_000_000] {
        let tokens = content(&bed, "gpt-4o", &letters(n, &mut random)).await as f64 / n as f64;
        assert!((0.51..0.53).contains(&tokens), "{tokens} tokens a letter");
    }
    for text in [" ".repeat(2_000_000) + "x", " ".repeat(2_000_000), "\n".repeat(1_000_000), "\t \t".repeat(333_333)] {
        assert!(content(&bed, "gpt-4o", &text).await > 1_000);
    }
    bed.assert_books(&["n"]).await;
}

#[tokio::test]
async fn a_model_without_a_tokenizer_of_its_own_is_counted_too() {
    for model in ["o4", "c-big", "m-big"] {
        let bed = Bed::plus(PLANS).await;
        let path = if model == "c-big" { "/v1/messages" } else { "/v1/chat/completions" };
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(20);
        let body = json!({"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": text}]});
        let tokens = counted(&bed, path, &body).await;
        assert!((200..900).contains(&tokens), "{model}: {tokens}");
    }
}

/// 100,000 characters of base64 are a picture, a sound or a document; as text they are what they are.
#[tokio::test]
async fn pictures_are_not_counted_as_text() {
    let bed = Bed::plus(PLANS).await;
    let data = "iVBORw0KGgoAAAANSUhEUgAAAgAAAAIACAIAAAB7GkOt".to_owned() + &"QUJDREVG".repeat(12_494);
    let url = format!("data:image/png;base64,{data}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    let chat = |part: Value| json!({"model": "gpt-4o", "messages": [{"role": "user", "content": [part]}]});
    let messages = |part: Value| json!({"model": "c-big", "max_tokens": 16, "messages": [{"role": "user", "content": [part]}]});
    let cases = [
        ("/v1/chat/completions", chat(json!({"type": "image_url", "image_url": {"url": url}}))),
        ("/v1/chat/completions", chat(json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}))),
        (
            "/v1/chat/completions",
            chat(
                json!({"type": "file", "file": {"file_data": format!("data:application/pdf;base64,{data}"), "filename": "a.pdf"}}),
            ),
        ),
        (
            "/v1/responses",
            json!({"model": "gpt-4o", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}),
        ),
        ("/v1/messages", messages(json!({"type": "image", "source": source}))),
        (
            "/v1/messages",
            messages(json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": source}]})),
        ),
    ];
    for (path, body) in cases {
        let tokens = counted(&bed, path, &body).await;
        assert!((85..=9_000).contains(&tokens), "{path}: {tokens}");
        bed.provider.script(Script::json(400, r#"{"error":{"message":"the stand-in sees nothing"}}"#));
        assert_eq!(answer(bed.post(path, "s", body.to_string())).await.status, 400, "{path}: admitted and sent");
        bed.quiet().await;
    }
    assert_eq!(bed.provider.log().len(), 6);
    let text = chat(json!({"type": "text", "text": data}));
    assert_eq!(answer(bed.post("/v1/chat/completions", "s", text.to_string())).await.outcome(), (413, "request_exceeds_limit"));
    bed.assert_books(&["n", "s"]).await;
}

#[tokio::test]
async fn tools_schemas_and_history_are_counted_wherever_they_stand() {
    let bed = Bed::plus(PLANS).await;
    let text = "lorem ipsum dolor sit amet ".repeat(400);
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "description": text}}});
    let hi = json!([{"role": "user", "content": "hi"}]);
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": json!({"q": text}).to_string()}});
    let chat = |name: &str, value: Value| {
        let mut body = json!({"model": "gpt-4o", "messages": hi});
        body[name] = value;
        ("/v1/chat/completions", body)
    };
    let messages = |name: &str, value: Value| {
        let mut body = json!({"model": "c-big", "max_tokens": 16, "messages": hi});
        body[name] = value;
        ("/v1/messages", body)
    };
    let responses = |name: &str, value: Value| {
        let mut body = json!({"model": "gpt-4o", "input": "hi"});
        body[name] = value;
        ("/v1/responses", body)
    };
    for (path, body) in [
        chat("tools", json!([{"type": "function", "function": {"name": "f", "description": text, "parameters": {}}}])),
        chat("tools", json!([{"type": "function", "function": {"name": "f", "parameters": schema}}])),
        chat("functions", json!([{"name": "f", "description": text, "parameters": {}}])),
        chat("response_format", json!({"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})),
        chat(
            "messages",
            json!([{"role": "assistant", "content": null, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]),
        ),
        chat("messages", json!([{"role": "tool", "tool_call_id": "c", "content": text}])),
        responses("instructions", json!(text)),
        responses("input", json!([{"role": "user", "content": [{"type": "input_text", "text": text}]}])),
        responses("text", json!({"format": {"type": "json_schema", "name": "s", "schema": schema}})),
        responses("tools", json!([{"type": "function", "name": "f", "description": text, "parameters": {}}])),
        messages("system", json!(text)),
        messages("system", json!([{"type": "text", "text": text}])),
        messages("tools", json!([{"name": "f", "description": text, "input_schema": {"type": "object"}}])),
        messages(
            "messages",
            json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]}]),
        ),
    ] {
        let tokens = counted(&bed, path, &body).await;
        assert!((1_900..5_000).contains(&tokens), "{path} {tokens}: {}", body.to_string().chars().take(80).collect::<String>());
    }
    bed.assert_books(&["n"]).await;
}

#[tokio::test]
async fn counting_tokens_is_a_request_and_nothing_more() {
    let bed = bed(Store::Embedded, PLANS, &Hand::noon()).await;
    let body = r#"{"model":"c-big","messages":[{"role":"user","content":"hi"}]}"#;
    for _ in 0..100 {
        let counted = answer(bed.post("/v1/messages/count_tokens", "s", body)).await;
        assert!(counted.status == 200 && counted.json["input_tokens"].is_u64(), "{counted:?}");
    }
    assert_eq!(bed.spent("s").await.get(), 0);
    let chat = answer(bed.chat("s", "m-small", r#","max_tokens":100"#)).await;
    assert!(chat.left("tpm") >= 10_000 - 150, "tokens are untouched: {chat:?}");
    assert_eq!(chat.left("rpm"), 300 - 101, "requests they are");
    bed.assert_books(&["s"]).await;
}
