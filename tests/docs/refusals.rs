//! The bodies that the documents show are those that the gateway sends, member by member.

use super::child::Running;
use super::markdown::blocks_of;
use serde_json::Value;
use std::collections::BTreeSet;

const QUESTION: &str = "Where is my order?";

/// How a documented body is brought about: route, customer, model, prompt.
fn provocation(body: &Value) -> Option<(&'static str, &'static str, &'static str, String)> {
    let chat = "/v1/chat/completions";
    Some(match (body["error"]["code"].as_str(), body["error"]["details"]["error_code"].as_str()) {
        (Some("rate_limit_exceeded"), _) => (chat, "demo-messages", "gpt-4o-mini", QUESTION.to_owned()),
        (Some("spend_cap_exceeded"), _) => (chat, "demo-dollars", "gpt-4o", format!("{QUESTION} [60 tokens]")),
        (Some("insufficient_quota"), _) => (chat, "demo-quota", "gpt-4o-mini", QUESTION.to_owned()),
        (Some("request_exceeds_limit"), _) => (chat, "demo-tpm", "gpt-4o-mini", "Where is my order, please? ".repeat(1_000)),
        (_, Some("rate_limit_exceeded")) => ("/v1/messages", "demo-messages", "claude-haiku-4-5", QUESTION.to_owned()),
        _ => return None,
    })
}

#[tokio::test]
async fn every_refusal_in_a_document_is_a_real_one() {
    let demo = Running::demo(&[]);
    // Nothing listens on port 1: a Redis that is away.
    let away = [("TOLLGATE_STORE__KIND", "redis"), ("TOLLGATE_STORE__URLS", r#"["redis://127.0.0.1:1"]"#)];
    let outage = Running::serve(&[], &away);
    let mut statuses = BTreeSet::new();
    for block in blocks_of("json") {
        let documented: Value = serde_json::from_str(&block.text).unwrap_or_else(|error| panic!("{}: {error}", block.at));
        let code = documented["error"]["code"].as_str();
        let (gateway, path, customer, model, prompt) = match provocation(&documented) {
            Some((path, customer, model, prompt)) => (&demo, path, customer, model, prompt),
            None if code == Some("limits_unavailable") => {
                (&outage, "/v1/chat/completions", "acme", "gpt-4o-mini", QUESTION.to_owned())
            }
            None => panic!("{}: no test brings this about", block.at),
        };
        let request =
            serde_json::json!({ "model": model, "max_tokens": 64, "messages": [{ "role": "user", "content": prompt }] });
        let headers = [("authorization", "Bearer demo"), ("x-customer-id", customer)];
        let mut answers = Vec::new();
        let (status, body) = loop {
            let (status, headers, body) = gateway.post_when_settled(path, &headers, &request.to_string()).await;
            if status != 200 {
                assert_eq!(headers["x-tollgate-refused-by"], "tollgate", "{}", block.at);
                assert_eq!(headers["x-tollgate-request-id"], request_id(&body), "{}", block.at);
                break (status, body);
            }
            answers.push(body);
            assert!(answers.len() < 8, "{}: {customer} is never refused", block.at);
        };
        compare(&block.at, "", &documented, &body);
        statuses.insert(status);
    }
    assert_eq!(statuses, BTreeSet::from([402, 413, 429, 503]), "one of each kind is documented");
    assert!(outage.terminate().0.success());
    assert!(demo.terminate().0.success());
}

fn request_id(body: &Value) -> &str {
    body["request_id"].as_str().or_else(|| body["error"]["request_id"].as_str()).expect("a request id")
}

/// Equal, but for instants, request ids and the seconds that are left.
fn compare(at: &str, path: &str, documented: &Value, real: &Value) {
    match (documented, real) {
        (Value::Object(documented), Value::Object(real)) => {
            let (left, right): (BTreeSet<_>, BTreeSet<_>) = (documented.keys().collect(), real.keys().collect());
            assert_eq!(left, right, "{at}: the members of {path}");
            for (key, value) in documented {
                compare(at, &format!("{path}.{key}"), value, &real[key]);
            }
        }
        (Value::String(documented), Value::String(real)) => assert_eq!(still(documented), still(real), "{at}: {path}"),
        _ => assert_eq!(documented, real, "{at}: {path}"),
    }
}

fn still(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches('.');
        let instant = bare.len() == 20 && bare.ends_with('Z') && bare.as_bytes()[10] == b'T';
        if instant {
            return "INSTANT".to_owned();
        }
        if word.starts_with("tg_") && word.len() == 35 { "ID".to_owned() } else { word.to_owned() }
    };
    let mut words: Vec<String> = text.split(' ').map(word).collect();
    if let [.., number, unit] = words.as_mut_slice()
        && unit.starts_with("second")
    {
        let seconds: u64 = number.parse().expect("a number of seconds");
        assert!((1..=60).contains(&seconds), "{text}");
        *number = "SOME".to_owned();
    }
    words.join(" ")
}
