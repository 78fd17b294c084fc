//! The provider's own account limits: counted as it counts, shared by all, told to nobody.

use crate::fixture::{Answer, Hand, SECOND, Store, answer, bed, bed_with, on_both_stores, used};
use tollgate::demo::ProviderOptions;

const POOLS: &str = r#"
# Levels go by the real time and are another matter: here they begin beyond what a ceiling lets through.
[levels]
at = [101, 102, 103]
[retry]
max = 0
wait_budget = "0s"
[pools.reserved]
upstream = "openai"
models = ["m-pool"]
ceiling = { rpm = 5, tpm = 10_000 }
background_wait = "0s"
[pools.shared]
upstream = "openai"
models = ["m-shared"]
ceiling = { rpm = 40 }
background_wait = "0s"
[pools.apart]
upstream = "anthropic"
models = ["c-apart"]
ceiling = { input_tpm = 1_000, output_tpm = 1_000 }
[pools.single]
upstream = "openai"
models = ["m-single"]
ceiling = { rpm = 1 }
[models.m-pool]
price = { input = 1.0, output = 1.0 }
[models.m-shared]
price = { input = 1.0, output = 1.0 }
[models.m-single]
price = { input = 1.0, output = 1.0 }
[models.c-apart]
price = { input = 1.0, cached_input = 0.5, output = 1.0 }
"#;

on_both_stores!(
    tokens_are_reserved_as_the_provider_reserves_them,
    only_an_input_above_the_account_limit_is_too_large,
    separate_input_and_output_are_debited_as_they_are_used,
    each_credential_has_a_ceiling_of_its_own,
    background_stays_under_its_share,
);

/// 503 `overloaded` with an exact wait, and not a number of anybody else's.
fn overloaded(answer: &Answer, millis: u64) {
    let code = if answer.json["type"] == "error" {
        &answer.json["error"]["details"]["error_code"]
    } else {
        &answer.json["error"]["code"]
    };
    assert_eq!((answer.status, code.as_str()), (503, Some("overloaded")), "{answer:?}");
    assert_eq!(answer.number("retry-after"), millis.div_ceil(1_000), "{answer:?}");
    if millis <= 60_000 {
        assert_eq!(answer.number("retry-after-ms"), millis, "{answer:?}");
    }
    without_numbers(answer);
}

fn without_numbers(answer: &Answer) {
    for member in ["limit", "used", "asked", "held", "resets_at"] {
        assert!(answer.limit(member).is_null(), "{member} is nobody's business: {answer:?}");
    }
    let message = answer.json["error"]["message"].as_str().expect("a sentence");
    let number = |word: &str| {
        word.trim_matches(|c: char| !c.is_ascii_digit())
            .parse::<u64>()
            .is_ok_and(|n| n.to_string() != answer.header("retry-after"))
    };
    assert!(!message.split_whitespace().filter(|word| !word.starts_with("tg_")).any(number), "{message}");
    assert!(
        !answer
            .headers
            .keys()
            .any(|name| answer.headers[name].to_str().is_ok_and(|value| value.contains("pool") || value.contains("share")))
    );
}

async fn tokens_are_reserved_as_the_provider_reserves_them(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, POOLS, &clock).await;
    let ask = |customer| bed.chat(customer, "m-pool", r#","max_tokens":3000"#);
    for customer in ["a", "b", "c"] {
        assert_eq!(answer(ask(customer)).await.status, 200);
    }
    bed.quiet().await;
    // 3,000 each, whatever the answers used; 2,000 are missing, and 97 % of 10,000 come back in a minute.
    let refused = answer(ask("d")).await;
    overloaded(&refused, (2_000_u64 * 60_000 * 100).div_ceil(10_000 * 97));
    // A prompt larger than the cap is what counts: 1,000 are left, 999 and a few more are asked.
    let long = format!(r#"{{"model":"m-pool","max_tokens":16,"messages":[{{"role":"user","content":"{}"}}]}}"#, " a".repeat(999));
    assert_eq!(answer(bed.post("/v1/chat/completions", "e", long)).await.status, 503);
    assert_eq!(answer(bed.chat("e", "m-pool", r#","max_tokens":1000"#)).await.status, 200, "exactly what is left");
    clock.pass(2_000 * 60 * SECOND / 9_700);
    assert_eq!(answer(ask("d")).await.status, 503, "a little early, and a thousand more are gone");
    bed.assert_books(&["a", "b", "c", "d", "e"]).await;
}

async fn only_an_input_above_the_account_limit_is_too_large(store: Store) {
    let bed = bed(store, POOLS, &Hand::noon()).await;
    let ask = |words: usize| {
        let body =
            format!(r#"{{"model":"m-pool","max_tokens":16,"messages":[{{"role":"user","content":"{}"}}]}}"#, " a".repeat(words));
        bed.post("/v1/chat/completions", "a", body)
    };
    let refused = answer(ask(10_001)).await;
    assert_eq!(refused.outcome(), (413, "request_exceeds_limit"), "{refused:?}");
    assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), ("", "false"));
    // Larger than the share of background (1,500) is not larger than the account; it may have the whole share at once.
    let passes = answer(ask(4_000).header("x-priority", "background")).await;
    assert_eq!(passes.status, 200, "{passes:?}");
    // Nor is a wish for a longer answer than a minute holds.
    assert_eq!(
        answer(bed.chat("a", "m-pool", r#","max_tokens":50000"#)).await.status,
        503,
        "it takes all of the limit, not more"
    );
    bed.assert_books(&["a"]).await;
}

async fn separate_input_and_output_are_debited_as_they_are_used(store: Store) {
    let clock = Hand::noon();
    let options = ProviderOptions { cached_percent: 50, ..ProviderOptions::default() };
    let bed = bed_with(store, POOLS, &clock, options).await;
    let ask = |customer, words: usize, output: u64| {
        let text = format!("[{output} tokens]{}", " a".repeat(words));
        let body = format!(r#"{{"model":"c-apart","max_tokens":5000,"messages":[{{"role":"user","content":"{text}"}}]}}"#);
        bed.post("/v1/messages", customer, body)
    };
    // Read from the cache, half of the input comes back; without that the second would not fit the 1,000.
    for customer in ["a", "b"] {
        let passes = answer(ask(customer, 430, 100)).await;
        assert_eq!(passes.status, 200, "5,000 of output are not reserved: {passes:?}");
        bed.quiet().await;
    }
    assert_eq!(answer(ask("a", 1, 1_300)).await.status, 200, "800 of output are left, which is enough to begin");
    bed.quiet().await;
    // 500 in debt, and 970 come back in a minute; who starts at zero waits exactly for that.
    let wait = (500_u64 * 60_000_000).div_ceil(970);
    overloaded(&answer(ask("c", 1, 10)).await, wait.div_ceil(1_000));
    clock.pass(wait - 1);
    assert_eq!(answer(ask("c", 1, 10)).await.status, 503);
    clock.pass(1);
    assert_eq!(answer(ask("c", 1, 10)).await.status, 200);
    bed.assert_books(&["a", "b", "c"]).await;
}

async fn each_credential_has_a_ceiling_of_its_own(store: Store) {
    let bed = bed(store, POOLS, &Hand::noon()).await;
    let ask = |customer, key: &str| {
        let body = r#"{"model":"m-single","max_tokens":16,"messages":[{"role":"user","content":"hi"}]}"#;
        let request = bed.client.post(bed.url("/v1/chat/completions")).header("content-type", "application/json");
        answer(request.header("authorization", format!("Bearer {key}")).header("x-customer-id", customer).body(body))
    };
    assert_eq!(ask("a", "sk-one").await.status, 200);
    overloaded(&ask("b", "sk-one").await, (60_000_u64 * 100).div_ceil(97));
    assert_eq!(ask("b", "sk-two").await.status, 200, "another account, another ceiling");
    bed.assert_books(&["a", "b"]).await;
}

async fn background_stays_under_its_share(store: Store) {
    let bed = bed(store, POOLS, &Hand::noon()).await;
    let ask = |priority: &'static str| {
        bed.provider.script(used(1, 1));
        answer(bed.chat(priority, "m-shared", r#","max_tokens":16"#).header("x-priority", priority))
    };
    // 15 % of 40.
    for _ in 0..6 {
        assert_eq!(ask("background").await.status, 200);
    }
    let refused = ask("background").await;
    assert_eq!(refused.outcome(), (429, "rate_limit_exceeded"), "{refused:?}");
    assert_eq!((refused.limit("scope").as_str(), refused.limit("name").as_str()), (Some("share"), Some("rpm")));
    without_numbers(&refused);
    assert!(refused.number("retry-after") > 0);
    for _ in 0..34 {
        assert_eq!(ask("live").await.status, 200, "what background may not use is there for live work");
    }
    overloaded(&ask("live").await, 60_000_u64.div_ceil(40) * 100 / 97 + 1);
    bed.assert_books(&["background", "live"]).await;
}
