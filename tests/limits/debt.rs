//! What a request really used, above what was expected: debt, to the floor, and no further.

use crate::fixture::{Hand, SECOND, Store, answer, bed, input_of, on_both_stores, used};
use tollgate::demo::provider::Gate;

const PLANS: &str = r#"
[pricing.features]
stored_context_tokens = 2_000
[plans.tight]
messages = "unlimited"
rpm = 60
tpm = 10_000
spend = { day = 100.0 }
on_spend = []
on_provider = []
[customers.a]
plan = "tight"
[customers.b]
plan = "tight"
[customers.probe]
plan = "tight"
"#;

on_both_stores!(an_overrun_is_debt_down_to_one_capacity, context_that_nobody_saw_is_settled_to_the_truth);

async fn an_overrun_is_debt_down_to_one_capacity(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, PLANS, &clock).await;
    let input = input_of(&bed, "probe", "m-big", 10_000).await;
    let claiming =
        |customer: &'static str, tokens: u64| bed.chat(customer, "m-big", &format!(r#","max_tokens":{}"#, tokens - input));
    // 48 s: 7,000 of debt and 1,000 asked at 166.67 a second. 66 s: the debt ends at 10,000.
    for (customer, used_tokens, seconds, sdk_retries) in [("a", 9_000, 48, ""), ("b", 1_000_000, 66, "false")] {
        bed.provider.script(used(input, 8_000 - input));
        assert_eq!(answer(claiming(customer, 8_000)).await.left("tpm"), 2_000);
        bed.quiet().await;
        let gate = Gate::new();
        bed.provider.script(used(input, used_tokens - input).hold(&gate));
        let call = tokio::spawn(answer(claiming(customer, 1_000)));
        gate.open();
        assert_eq!(call.await.expect("no panic").left("tpm"), 1_000, "the answer is not cut for it");
        bed.quiet().await;
        let refused = answer(claiming(customer, 1_000)).await;
        assert_eq!(refused.outcome(), (429, "rate_limit_exceeded"), "{refused:?}");
        assert_eq!((refused.number("retry-after"), refused.header("x-should-retry")), (seconds, sdk_retries));
        assert_eq!(
            (refused.left("tpm"), refused.number("x-ratelimit-remaining-tokens")),
            (0, 0),
            "debt is never shown as negative"
        );
        assert_eq!(refused.limit("used").as_u64(), Some(if customer == "a" { 17_000 } else { 20_000 }));
    }
    clock.pass(48 * SECOND - 1);
    assert_eq!(answer(claiming("a", 1_000)).await.status, 429);
    clock.pass(1);
    assert_eq!(answer(claiming("a", 1_000)).await.status, 200);
    clock.pass(18 * SECOND);
    assert_eq!(answer(claiming("b", 1_000)).await.status, 200, "no debt outlives what capacity and refill need");
    bed.assert_books(&["a", "b", "probe"]).await;
}

/// `previous_response_id`: the estimate has the configured floor, the settlement has the provider's number, and a loop is throttled.
async fn context_that_nobody_saw_is_settled_to_the_truth(store: Store) {
    use tollgate::demo::provider::Script;
    use tollgate::wire::Usage;
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let usage = r#"{"input_tokens":50000,"output_tokens":10,"total_tokens":50010}"#;
    let body = format!(r#"{{"id":"r","object":"response","status":"completed","model":"m-big","output":[],"usage":{usage}}}"#);
    bed.provider.script(Script::json(200, body).used(Usage { uncached_input: 50_000, output: 10, ..Usage::default() }));
    let ask = || {
        bed.post("/v1/responses", "a", r#"{"model":"m-big","previous_response_id":"resp_1","input":"hi","max_output_tokens":16}"#)
    };
    let first = answer(ask()).await;
    assert_eq!(first.status, 200, "{first:?}");
    assert!((7_900..=8_000 - 16).contains(&first.left("tpm")), "2,000 of context are assumed: {first:?}");
    assert_eq!(bed.spent("a").await.get(), 50_000 * 2_500 + 10 * 10_000);
    let second = answer(ask()).await;
    assert_eq!(second.outcome(), (429, "rate_limit_exceeded"), "{second:?}");
    assert_eq!(bed.provider.log().len(), 1);
    bed.assert_books(&["a"]).await;
}
