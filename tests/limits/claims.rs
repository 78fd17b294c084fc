//! What a request claims before it is sent. A customer whose cap is $0 is refused everything and told what was asked.

use crate::bed::Bed;
use crate::fixture::{DOLLAR, Hand, Store, answer, bed, on_both_stores, used};

const PLANS: &str = r#"
[pricing]
unpriced = "refuse"
[plans.broke]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
max_output_tokens = 1_000
spend = { day = 0 }
on_spend = []
on_provider = []
[customers.broke]
plan = "broke"
"#;

on_both_stores!(a_dollar_claim_is_the_worst_case);

/// The nano-dollars that a request claims.
async fn claim(bed: &Bed, path: &str, body: &str) -> u64 {
    let refused = answer(bed.post(path, "broke", body.to_owned())).await;
    assert_eq!(refused.outcome(), (402, "spend_cap_exceeded"), "{body}: {refused:?}");
    assert_eq!((refused.header("x-should-retry"), refused.header("retry-after")), ("false", ""), "never: the cap itself is zero");
    let dollars = refused.limit("asked").as_f64().expect("dollars");
    (dollars * DOLLAR as f64).round() as u64
}

async fn a_dollar_claim_is_the_worst_case(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let chat = |more: &str| format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
    let input = claim(&bed, "/v1/chat/completions", &chat(r#","max_tokens":1"#)).await - 10_000;
    assert!(input > 0 && input < 2_000_000, "a small prompt and what else its format may hold: {input}");
    let output = 1_000 * 10_000; // a thousand tokens at $10 per million
    for (more, right) in [
        (r#","n":5,"max_tokens":1000"#, 5 * output),
        (r#","max_tokens":1000"#, output),
        (r#","max_completion_tokens":1000"#, output),
        (r#","max_tokens":5000"#, output),
        (r#","max_tokens":100.0"#, output / 10),
        (r#","max_tokens":null"#, output),
        ("", output),
        (r#","n":2"#, 2 * output),
    ] {
        assert_eq!(claim(&bed, "/v1/chat/completions", &chat(more)).await - input, right, "{more}");
    }
    let responses = r#"{"model":"m-big","input":"hi"}"#;
    let capped = r#"{"model":"m-big","input":"hi","max_output_tokens":1000}"#;
    assert_eq!(claim(&bed, "/v1/responses", responses).await, claim(&bed, "/v1/responses", capped).await);
    // Legacy completions put out 16 tokens unless told otherwise, and `best_of` candidates are billed whole.
    let completion = |more: &str| format!(r#"{{"model":"m-small","prompt":"hi"{more}}}"#);
    let one = claim(&bed, "/v1/completions", &completion("")).await;
    assert_eq!(claim(&bed, "/v1/completions", &completion(r#","max_tokens":16"#)).await, one);
    assert_eq!(claim(&bed, "/v1/completions", &completion(r#","best_of":20"#)).await - one, 19 * 16 * 600);
    // A thinking budget beyond the cap, which some models may use, is held in full.
    let thinking = r#"{"model":"c-big","max_tokens":1000,"thinking":{"type":"enabled","budget_tokens":16000},"messages":[{"role":"user","content":"hi"}]}"#;
    let refused = answer(bed.post("/v1/messages", "broke", thinking)).await;
    let asked = refused.limit("asked").as_f64().expect("dollars");
    assert!(refused.status == 402 && asked >= 16_000.0 * 15e-6, "{refused:?}");
    for more in [r#","n":0"#, r#","n":-1"#, r#","n":1.5"#, r#","max_tokens":-1"#, r#","max_tokens":"100""#] {
        assert_eq!(answer(bed.post("/v1/chat/completions", "broke", chat(more))).await.status, 400, "{more}");
    }
    for more in [
        r#","n":1000000000"#,
        r#","n":1000000000,"max_tokens":1000000000"#,
        r#","max_tokens":18446744073709551616"#,
        r#","max_tokens":1e30"#,
    ] {
        let refused = answer(bed.post("/v1/chat/completions", "broke", chat(more))).await;
        assert!(matches!(refused.status, 400 | 402), "{more}: {refused:?}");
        assert!(refused.limit("asked").as_f64().is_none_or(|asked| asked >= 0.01), "never wrapped: {refused:?}");
    }
    assert_eq!(bed.provider.log().len(), 0);
    bed.assert_books(&["broke"]).await;
}

/// Reasoning is part of the output that the provider states, not on top of it.
#[tokio::test]
async fn reasoning_tokens_are_charged_once() {
    let bed = Bed::new().await;
    let usage =
        r#"{"prompt_tokens":0,"completion_tokens":100,"total_tokens":100,"completion_tokens_details":{"reasoning_tokens":90}}"#;
    let plain = tollgate::wire::Usage { output: 100, reasoning: 90, ..Default::default() };
    bed.provider.script(crate::fixture::reply(usage).used(plain));
    assert_eq!(answer(bed.chat("t", "m-big", r#","max_completion_tokens":100"#)).await.status, 200);
    assert_eq!(bed.spent("t").await.get(), 100 * 10_000);
    bed.provider.script(used(0, 100));
    assert_eq!(answer(bed.chat("t", "m-big", "")).await.status, 200);
    bed.assert_books(&["t"]).await;
}
