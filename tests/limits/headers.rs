//! The rate headers on answers and refusals: the customer's own limits, as the books have them, in both dialects.

use crate::bed::Bed;
use crate::fixture::{Answer, Hand, NOON, Store, answer, bed, on_both_stores, used};
use tollgate::demo::provider::Script;
use tollgate::wire::Usage;

const PLANS: &str = r#"
[models.m-cent]
price = { input = 0, output = 100.0 }
[models.c-cent]
price = { input = 0, output = 100.0 }
[plans.shown]
messages = { rate = "1/s", burst = 30 }
rpm = 4
tpm = 10_000
spend = { day = 0.01 }
on_spend = []
on_provider = []
[customers.o]
plan = "shown"
[customers.a]
plan = "shown"
"#;

on_both_stores!(answers_and_refusals_state_the_books, the_provider_numbers_stay_with_the_provider);

async fn ask(bed: &Bed, customer: &str, output: u64) -> Answer {
    if customer == "o" {
        bed.provider.script(used(0, output));
        return answer(bed.chat(customer, "m-cent", r#","max_tokens":16"#)).await;
    }
    let body = format!(
        r#"{{"id":"m","type":"message","role":"assistant","content":[],"usage":{{"input_tokens":0,"output_tokens":{output}}}}}"#
    );
    bed.provider.script(Script::json(200, body).used(Usage { output, ..Usage::default() }));
    let body = r#"{"model":"c-cent","max_tokens":16,"messages":[{"role":"user","content":"hi"}]}"#;
    answer(bed.post("/v1/messages", customer, body)).await
}

/// Four requests a minute, 16 tokens claimed and 4 used, 0.16 cents claimed and 0.04 cents used; time stands still.
async fn answers_and_refusals_state_the_books(store: Store) {
    for customer in ["o", "a"] {
        let bed = bed(store, PLANS, &Hand::noon()).await;
        let mut level = None;
        for n in 1..=5_u64 {
            let answer = ask(&bed, customer, 4).await;
            let refused = n == 5;
            assert_eq!(answer.status, if refused { 429 } else { 200 }, "{answer:?}");
            bed.quiet().await;
            let (requests, spent) = (4_u64.saturating_sub(n), (n - 1) * 400);
            let money = if refused { 10_000 - spent } else { 10_000 - spent - 1_600 };
            assert_eq!((answer.left("messages"), answer.left("rpm"), answer.left("spend_day")), (30 - n, requests, money), "{n}");
            // The first shows how much a request claims; each that ended has given back twelve tokens of it.
            let first = *level.get_or_insert(answer.left("tpm"));
            let claimed = 10_000 - first;
            let tokens = 10_000 - (n - 1) * 4 - if refused { 0 } else { claimed };
            assert_eq!(answer.left("tpm"), tokens, "{n}");
            assert_eq!((answer.number("ratelimit-limit"), answer.number("ratelimit-remaining")), (4, requests));
            assert_eq!(answer.number("ratelimit-reset"), (4 - requests) * 15);
            let policy = r#""messages";q=30;w=30, "rpm";q=4;w=60, "tpm";q=10000;w=60;tollgate-unit="tokens", "spend_day";q=10000;w=86400;tollgate-unit="micro-usd""#;
            assert_eq!(answer.header("ratelimit-policy"), policy);
            let reset = (4 - requests) * 15;
            if customer == "o" {
                assert_eq!(
                    (answer.number("x-ratelimit-limit-requests"), answer.number("x-ratelimit-remaining-requests")),
                    (4, requests)
                );
                assert_eq!(
                    answer.header("x-ratelimit-reset-requests"),
                    if reset == 60 { "1m0s".to_owned() } else { format!("{reset}s") }
                );
                assert_eq!(
                    (answer.number("x-ratelimit-limit-tokens"), answer.number("x-ratelimit-remaining-tokens")),
                    (10_000, tokens)
                );
                assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("anthropic-")));
            } else {
                let header = |name: &str| format!("anthropic-ratelimit-requests-{name}");
                assert_eq!((answer.number(&header("limit")), answer.number(&header("remaining"))), (4, requests));
                let at = jiff::Timestamp::from_second(i64::try_from(NOON + reset).expect("small")).expect("in range");
                assert_eq!(answer.header(&header("reset")), at.to_string());
                assert_eq!(answer.number("anthropic-ratelimit-tokens-remaining"), tokens);
                assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("x-ratelimit-")));
            }
            if refused {
                assert_eq!((answer.header("retry-after"), answer.number("retry-after-ms")), ("15", 15_000));
            }
            assert_eq!(answer.header("x-tollgate-notice"), "", "nothing is nearly used up");
        }
        bed.assert_books(&[customer]).await;
    }
}

/// The account's numbers, doubled ids and a customer in debt: what the client reads is one value each, its own, never negative.
async fn the_provider_numbers_stay_with_the_provider(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let reply = |output: u64| {
        let script =
            used(0, output).header("x-ratelimit-remaining-tokens", "149984").header("x-ratelimit-remaining-tokens", "149983");
        let script = script
            .header("x-ratelimit-limit-requests", "500")
            .header("ratelimit", "\"account\";r=1")
            .header("ratelimit-remaining", "7");
        script
            .header("x-request-id", "req_1")
            .header("x-request-id", "req_2")
            .header("anthropic-ratelimit-requests-remaining", "77")
    };
    let mut last = None;
    for output in [80, 16_000] {
        bed.provider.script(reply(output));
        let answer = answer(bed.chat("o", "m-cent", r#","max_tokens":16"#)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        for name in answer.headers.keys().filter(|name| name.as_str().contains("ratelimit")) {
            answer.header(name.as_str()); // stands there once
        }
        assert!(answer.number("x-ratelimit-remaining-tokens") <= 10_000 && answer.number("x-ratelimit-limit-requests") == 4);
        assert!(!answer.text.contains("149984") && !answer.header("ratelimit").contains("account"));
        assert!(!answer.headers.contains_key("anthropic-ratelimit-requests-remaining"));
        let ids = answer.headers.get_all("x-request-id").iter().count();
        assert!(ids <= 1, "{ids} ids of one request");
        if output == 80 {
            assert_eq!(answer.header("x-tollgate-notice"), "");
        } else {
            let notice = answer.header("x-tollgate-notice");
            assert!(notice.starts_with("spend_day 80 % used ($0.008 of $0.01), resets 2026-12-01T00:00:00Z"), "{notice}");
        }
        bed.quiet().await;
        last = Some(answer);
    }
    assert!(last.is_some());
    // $1.60 were used of a cent, and 16,000 tokens of 10,000.
    let refused = answer(bed.chat("o", "m-cent", r#","max_tokens":16"#)).await;
    assert_eq!(refused.outcome(), (402, "spend_cap_exceeded"), "{refused:?}");
    assert_eq!((refused.left("tpm"), refused.left("spend_day"), refused.number("x-ratelimit-remaining-tokens")), (0, 0, 0));
    assert_eq!(refused.limit("used").as_f64(), Some(1.608));
    bed.assert_books(&["o"]).await;
}
