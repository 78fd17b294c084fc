//! The output cap: what is written into a request, what is granted, and that the client is told.

use crate::bed::Bed;
use crate::fixture::{DOLLAR, Hand, Store, answer, bed, on_both_stores, used};
use serde_json::Value;
use tollgate::demo::provider::Gate;

const PLANS: &str = r#"
[plans.dollar]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 1.00 }
user = { spend = { day = 0.05 } }
on_spend = []
on_provider = []
[plans.dime]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 0.10 }
on_spend = []
on_provider = []
[customers.d]
plan = "dollar"
[customers.dime]
plan = "dime"
"#;

on_both_stores!(the_largest_cap_that_fits_is_granted, a_thinking_budget_is_never_granted_away);

/// The cap that the provider saw in its last request: exactly one of the three spellings.
fn seen_cap(bed: &Bed) -> Option<u64> {
    let body: Value = serde_json::from_slice(&bed.provider.log().last().expect("a request").body).expect("JSON");
    let caps: Vec<_> = ["max_tokens", "max_completion_tokens", "max_output_tokens"]
        .iter()
        .filter_map(|name| body.get(name))
        .filter(|cap| !cap.is_null())
        .collect();
    assert!(caps.len() <= 1, "{body}");
    caps.first().and_then(|cap| cap.as_u64())
}

/// The plan of customer `t` allows 1,000.
#[tokio::test]
async fn the_plans_cap_is_written_where_the_request_has_none_or_a_larger_one() {
    let bed = Bed::new().await;
    for (path, model, more, cap, told) in [
        ("/v1/chat/completions", "m-small", "", 1_000, "1000"),
        ("/v1/chat/completions", "m-small", r#","max_tokens":null"#, 1_000, "1000"),
        ("/v1/chat/completions", "m-small", r#","max_tokens":5000"#, 1_000, "1000"),
        ("/v1/chat/completions", "m-small", r#","max_completion_tokens":5000"#, 1_000, "1000"),
        ("/v1/chat/completions", "m-small", r#","max_tokens":1000"#, 1_000, ""),
        ("/v1/chat/completions", "m-small", r#","max_tokens":50"#, 50, ""),
        ("/v1/chat/completions", "m-small", r#","max_tokens":3"#, 3, ""),
        ("/v1/responses", "m-small", "", 1_000, "1000"),
        ("/v1/responses", "m-small", r#","max_output_tokens":200"#, 200, ""),
        ("/v1/completions", "m-small", "", 16, "16"),
        ("/v1/completions", "m-small", r#","max_tokens":5000"#, 1_000, "1000"),
        ("/v1/messages", "c-big", r#","max_tokens":5000"#, 1_000, "1000"),
        // Reasoning models need room before they say anything: the plan does not press them below their floor.
        ("/v1/chat/completions", "o3", "", 1_024, "1024"),
        ("/v1/chat/completions", "o3", r#","max_completion_tokens":5000"#, 1_024, "1024"),
        ("/v1/chat/completions", "o3", r#","max_completion_tokens":100"#, 100, ""),
    ] {
        let prompt = match path {
            "/v1/responses" => r#""input":"hi""#,
            "/v1/completions" => r#""prompt":"hi""#,
            _ => r#""messages":[{"role":"user","content":"hi"}]"#,
        };
        let answer = answer(bed.post(path, "t", format!(r#"{{"model":"{model}",{prompt}{more}}}"#))).await;
        assert_eq!(answer.status, 200, "{path} {model} {more}: {answer:?}");
        assert_eq!((seen_cap(&bed), answer.header("x-tollgate-output-cap")), (Some(cap), told), "{path} {model} {more}");
        bed.quiet().await;
    }
    bed.assert_books(&["t"]).await;
}

async fn the_largest_cap_that_fits_is_granted(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    // $10 for a million tokens and $1 a day for the customer, five cents for a user.
    for (user, cap) in [(None, DOLLAR), (Some("u"), DOLLAR / 20)] {
        let gate = Gate::new();
        let seen = bed.provider.log().len();
        bed.provider.script(used(0, 0).hold(&gate));
        let mut request = bed.chat("d", "m-big", r#","max_tokens":1000000"#);
        if let Some(user) = user {
            request = request.header("x-user-id", user);
        }
        let running = tokio::spawn(answer(request));
        bed.provider.wait_until(|log| log.len() > seen && !log[seen].body.is_empty()).await;
        let held = bed.balances("d").await[0].held;
        assert!(held <= cap && cap - held < 10_000, "one token more would not have fitted: {held} of {cap}");
        // The first who asks while the rest is held is told to wait, not to pay.
        let second = answer(bed.chat("d", "m-big", r#","max_tokens":1000000"#).header("x-user-id", user.unwrap_or("v"))).await;
        assert_eq!(second.outcome(), (429, "budget_in_flight"), "{second:?}");
        gate.open();
        let answer = running.await.expect("no panic");
        let granted = answer.number("x-tollgate-output-cap");
        assert_eq!((answer.status, seen_cap(&bed)), (200, Some(granted)), "{answer:?}");
        assert!(held - granted * 10_000 < 2_000_000, "the prompt, and the rest for the answer");
        bed.quiet().await;
    }
    bed.assert_books(&["d"]).await;
}

/// A grant below the thinking budget would be refused by the provider.
async fn a_thinking_budget_is_never_granted_away(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let ask = |budget: u64| {
        let thinking = format!(r#""thinking":{{"type":"enabled","budget_tokens":{budget}}}"#);
        bed.post(
            "/v1/messages",
            "dime",
            format!(r#"{{"model":"c-big","max_tokens":20000,{thinking},"messages":[{{"role":"user","content":"hi"}}]}}"#),
        )
    };
    // Ten cents afford about 6,600 tokens.
    let granted = answer(ask(2_000)).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    let cap = granted.number("x-tollgate-output-cap");
    assert!((6_000..6_667).contains(&cap), "{cap}");
    bed.quiet().await;
    let refused = answer(ask(16_000)).await;
    assert_eq!(refused.outcome(), (402, "spend_cap_exceeded"), "{refused:?}");
    let message = refused.json["error"]["message"].as_str().expect("a sentence");
    assert!(message.contains("This request alone exceeds"), "so much thinking costs more than a whole day affords: {message}");
    assert_eq!(refused.header("retry-after"), "", "no reset will help");
    assert_eq!(bed.provider.log().len(), 1);
    bed.assert_books(&["dime"]).await;
}
