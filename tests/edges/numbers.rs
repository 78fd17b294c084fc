//! Numbers that decide what a request may cost.

use crate::kit::{Answer, Before, bed};
use serde_json::Value;

/// Route, field, and a body to which the field is added.
const FIELDS: [(&str, &str, &str); 6] = [
    ("/v1/chat/completions", "max_tokens", r#""model":"m-big","messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/chat/completions", "max_completion_tokens", r#""model":"m-big","messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/chat/completions", "n", r#""model":"m-big","messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/responses", "max_output_tokens", r#""model":"m-big","input":"hi""#),
    ("/v1/completions", "max_tokens", r#""model":"m-small","prompt":"hi""#),
    ("/v1/messages", "max_tokens", r#""model":"c-big","messages":[{"role":"user","content":"hi"}]"#),
];

#[tokio::test]
async fn a_number_that_is_no_count_is_refused_and_never_wraps() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t"]).await;
    for (path, field, body) in FIELDS {
        for (number, code) in [
            ("-1", "integer_below_min_value"),
            ("0", "integer_below_min_value"),
            ("-0", "integer_below_min_value"),
            ("1.5", "invalid_type"),
            ("\"100\"", "invalid_type"),
            ("true", "invalid_type"),
            ("[1]", "invalid_type"),
            ("{}", "invalid_type"),
            ("1e30", "integer_above_max_value"),
            ("18446744073709551616", "integer_above_max_value"),
            ("18446744073709551615", "integer_above_max_value"),
            ("1e400", "integer_above_max_value"),
            ("-1e400", "integer_below_min_value"),
            ("1e-400", "invalid_type"),
            ("NaN", "invalid_json"),
        ] {
            // Two APIs take 0 output tokens: to score a prompt, to warm a cache.
            let allowed = matches!(path, "/v1/completions" | "/v1/messages") && matches!(number, "0" | "-0");
            if allowed {
                continue;
            }
            let what = format!("{path} {field}: {number}");
            let answer = Answer::to(bed.post(path, "t", format!("{{{body},\"{field}\":{number}}}"))).await;
            if path == "/v1/messages" {
                let kind = "invalid_request_error";
                answer.refused_anthropic(400, kind, code, &what);
            } else {
                answer.refused(400, code, &what);
            }
        }
    }
    before.assert_no_effect(&bed, "numbers").await;
}

#[tokio::test]
async fn a_whole_number_in_another_spelling_is_that_number_and_null_is_absent() {
    let bed = bed("").await;
    let mut customers = vec!["w".to_owned()];
    for (path, field, body) in FIELDS.into_iter().filter(|(_, field, _)| *field != "n") {
        let mut claimed = None;
        for (number, cap) in [("100", 100.0), ("100.0", 100.0), ("1e2", 100.0), ("100000", 1000.0)] {
            let what = format!("{path} {field}: {number}");
            // A customer each, so that all buckets are full and what is left tells the claim.
            let customer = format!("{}{number}", path.replace('/', "-"));
            let answer = Answer::to(bed.post(path, &customer, format!("{{{body},\"{field}\":{number}}}"))).await;
            // The stand-in reads whole numbers only, and says so itself.
            let refused = answer.header("x-tollgate-refused-by") == "provider" && number.contains(['.', 'e']);
            assert!(answer.status == 200 || refused, "{what}: {answer:?}");
            let seen: Value = serde_json::from_slice(&bed.provider.log().pop().expect("forwarded").body).expect("JSON");
            assert_eq!(seen[field].as_f64(), Some(cap), "{what}: the smaller of the request's and the plan's");
            if cap < 1000.0 {
                let left = answer.header("x-ratelimit-remaining-tokens").to_owned();
                assert_eq!(*claimed.get_or_insert(left.clone()), left, "{what}: claimed as 100");
            }
            customers.push(customer);
        }
        if path == "/v1/messages" {
            continue; // it requires the field
        }
        let answer = Answer::to(bed.post(path, "w", format!("{{{body},\"{field}\":null}}"))).await;
        assert_eq!(answer.status, 200, "{path} {field}: {answer:?}");
        let cap = if path == "/v1/completions" { "16" } else { "1000" };
        assert_eq!(answer.header("x-tollgate-output-cap"), cap, "{path}: null is no cap, so it is written in");
    }
    customers.sort_unstable();
    customers.dedup();
    bed.assert_books(&customers.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn choices_are_held_and_paid_one_by_one() {
    let bed = bed("").await;
    for (n, choices) in [("null", 1), ("1", 1), ("3", 3)] {
        let more = format!(r#","max_tokens":10,"n":{n}"#);
        let answer = Answer::to(bed.chat("x", "m-big", &more)).await;
        assert_eq!(answer.status, 200, "n = {n}: {answer:?}");
        assert_eq!(answer.json()["choices"].as_array().map(Vec::len), Some(choices), "n = {n}");
        bed.assert_books(&["x"]).await;
    }
}
