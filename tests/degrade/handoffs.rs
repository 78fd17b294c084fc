//! Who is handed over, who is not, and the ticket.

use crate::scene::{Answer, ROUTES, SENTENCE, bed, models_seen, tickets};
use serde_json::Value;
use tollgate::domain::NanoUsd;

/// Nothing is affordable.
const BROKE: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 0.000_001 }";

#[tokio::test]
async fn only_one_plain_answer_for_a_person_is_handed_off() {
    let bed = bed(&[("broke", BROKE)], "").await;
    let chat = |more: &str| format!(r#"{{"model":"m-small","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
    let tool = r#","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#;
    for (path, body, handed) in [
        ("/v1/chat/completions", chat(""), true),
        ("/v1/chat/completions", chat(r#","n":1,"tools":[],"response_format":{"type":"text"}"#), true),
        ("/v1/chat/completions", chat(tool), false),
        ("/v1/chat/completions", chat(r#","functions":[{"name":"f"}]"#), false),
        ("/v1/chat/completions", chat(r#","response_format":{"type":"json_object"}"#), false),
        (
            "/v1/chat/completions",
            chat(r#","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}"#),
            false,
        ),
        ("/v1/chat/completions", chat(r#","n":2"#), false),
        ("/v1/chat/completions", chat(r#","modalities":["text","audio"],"audio":{"voice":"a","format":"wav"}"#), false),
        ("/v1/responses", r#"{"model":"m-small","input":"hi"}"#.into(), true),
        ("/v1/responses", r#"{"model":"m-small","input":"hi","text":{"format":{"type":"json_object"}}}"#.into(), false),
        ("/v1/responses", r#"{"model":"m-small","input":"hi","tools":[{"type":"function","name":"f"}]}"#.into(), false),
        ("/v1/messages", r#"{"model":"c-small","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#.into(), true),
        (
            "/v1/messages",
            r#"{"model":"c-small","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}"#.into(),
            false,
        ),
        ("/v1/completions", r#"{"model":"m-small","prompt":"hi"}"#.into(), false),
        ("/v1/embeddings", r#"{"model":"emb","input":"hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi"}"#.into(), false),
    ] {
        let answer = Answer::of(bed.post(path, "c", body.clone()).header("x-customer-plan", "broke")).await;
        let right = if handed { (200, "handoff;cause=spend") } else { (402, "") };
        assert_eq!((answer.status, answer.header("x-tollgate-degraded")), right, "{path} {body}: {}", answer.body);
    }
    assert_eq!(models_seen(&bed), [""; 0]);
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn a_request_at_fault_or_a_closed_door_is_never_handed_off() {
    let closed = BROKE.replace("0.000_001", "0");
    let flooded = BROKE.replace("messages = \"unlimited\"", "messages = { rate = \"1/h\", burst = 2 }");
    let bed = bed(&[("broke", BROKE), ("closed", &closed), ("flooded", &flooded)], "").await;
    let hi = r#"{"model":"m-small","messages":[{"role":"user","content":"hi"}]}"#;
    let long = format!(r#"{{"model":"m-small","messages":[{{"role":"user","content":"{}"}}]}}"#, "word ".repeat(110_000));
    for (plan, body, status, code) in [
        ("closed", hi, 402, "spend_cap_exceeded"),
        ("broke", r#"{"model":"nobody-knows","messages":[]}"#, 400, "model_not_priced"),
        ("broke", r#"{"model":"m-small"}"#, 400, "missing_field"),
        ("broke", &*long, 413, "request_exceeds_limit"),
    ] {
        let answer = Answer::of(bed.post("/v1/chat/completions", plan, body.to_owned()).header("x-customer-plan", plan)).await;
        assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (status, ""), "{plan}: {}", answer.body);
        if !code.is_empty() && status != 400 {
            assert_eq!(answer.code(), code, "{plan}");
        }
    }
    // Each hand-off costs a message, and where none is left the chain does not act, whichever of the two refusals is reported.
    let mut seen = Vec::new();
    for _ in 0..4 {
        let answer = Answer::of(bed.post("/v1/chat/completions", "f", hi).header("x-customer-plan", "flooded")).await;
        seen.push((answer.status, answer.remaining("messages")));
    }
    assert_eq!(seen, [(200, Some(1)), (200, Some(0)), (402, Some(0)), (429, Some(0))]);
    assert_eq!(models_seen(&bed), [""; 0]);
    bed.assert_books(&["closed", "broke", "f"]).await;
}

#[tokio::test]
async fn a_hand_off_uses_nothing_and_its_ticket_says_what_was_tried() {
    let bed = bed(&[("broke", BROKE)], "[triage]\nconversation = true").await;
    for route in ROUTES {
        let more =
            if route.path == "/v1/chat/completions" && route.stream { r#","stream_options":{"include_usage":true}"# } else { "" };
        let request = bed.post(route.path, "c", route.body(more)).header("x-customer-plan", "broke").header("x-user-id", "u1");
        let answer = Answer::of(request.header("x-request-class", "general").header("x-conversation-id", route.path)).await;
        assert_eq!(answer.text(), SENTENCE);
        let numbers: Vec<&str> = answer.body.split('"').filter(|part| part.ends_with("_tokens")).collect();
        assert!(!numbers.is_empty(), "{route:?} states a usage");
        for at in numbers {
            let behind = answer.body.split(&format!("\"{at}\":")).nth(1).expect("a value");
            assert!(behind.starts_with('0') || behind.starts_with("null"), "{route:?} {at}: {behind:.20}");
        }
    }
    // One ticket for each conversation, with both requests of it.
    let tickets = tickets(&bed, 3).await;
    for ticket in &tickets {
        assert_eq!((&*ticket.customer, ticket.user.as_deref(), &*ticket.app, &*ticket.plan), ("c", Some("u1"), "app", "broke"));
        assert_eq!((&*ticket.queue, ticket.requests.len()), ("general", 2), "{ticket:?}");
        for request in &ticket.requests {
            assert_eq!((&*request.cause, request.cost), ("spend_cap_exceeded", 0), "{ticket:?}");
            let tried: Vec<_> = request.attempts.iter().map(|tried| (&*tried.model, &*tried.outcome)).collect();
            let big =
                if ticket.conversation.as_deref() == Some("/v1/messages") { ("c-big", "c-small") } else { ("m-big", "m-small") };
            assert_eq!(tried, [(big.0, "spend_cap_exceeded"), (big.1, "spend_cap_exceeded")], "main and fallback, each once");
        }
    }
    assert_eq!(bed.spent("c").await, NanoUsd::ZERO);
    let degraded = bed.gateway.metrics.render();
    assert!(degraded.contains("tollgate_degraded_total{kind=\"handoff\",cause=\"spend\"} 6"), "{degraded}");
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn the_reply_to_a_hand_off_is_json_that_names_no_other_model() {
    let bed = bed(&[("broke", BROKE)], "").await;
    for route in ROUTES {
        let answer = Answer::of(bed.post(route.path, "c", route.body("")).header("x-customer-plan", "broke")).await;
        assert!(!answer.body.contains("-big") && !answer.body.contains("-small"), "{}", answer.body);
        if !route.stream {
            assert!(matches!(answer.json(), Value::Object(_)));
        }
    }
    bed.assert_books(&["c"]).await;
}
