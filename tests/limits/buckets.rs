//! Token buckets through the gateway: refusals that take nothing, exact waits, refunds, silly limits, limits that change.

use crate::bed::Bed;
use crate::fixture::{Answer, Hand, SECOND, Store, answer, bed, bed_with, input_of, on_both_stores, redis_ledger, reload, used};
use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::time::Instant;
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};

const TPM: u64 = 10_000;

/// Everybody has the plan of the cases without its other limits, and nobody has any experience: an output is expected at its cap.
const PLANS: &str = r#"
[models.m-dear]
price = { input = 2.50, output = 1_000.0 }
[plans.tight]
messages = "unlimited"
rpm = 60
tpm = 10_000
spend = { day = 100.0 }
on_spend = []
on_provider = []
[plans.poor]
messages = "unlimited"
rpm = 60
tpm = 10_000
spend = { day = 0.01 }
on_spend = []
on_provider = []
[plans.few]
messages = "unlimited"
rpm = { limit = 60, burst = 2 }
tpm = 10_000
spend = { day = 100.0 }
on_spend = []
on_provider = []
[customers.c]
plan = "tight"
[customers.probe]
plan = "tight"
[customers.poor]
plan = "poor"
[customers.few]
plan = "few"
[customers.both]
plan = "few"
[customers.tokens]
plan = "few"
"#;

on_both_stores!(
    a_request_larger_than_the_bucket_can_never_pass,
    a_refused_request_takes_nothing,
    a_refusal_by_the_budget_refunds_no_more_than_it_took,
    the_wait_is_exact_and_of_the_slowest_bucket,
    a_refund_never_passes_capacity,
    a_changed_limit_holds_at_once,
    silly_limits_do_what_they_say,
    what_the_provider_turns_away_costs_one_request,
);

/// A chat that claims exactly `tokens`, the prompt's `input` included.
fn claiming(bed: &Bed, customer: &str, tokens: u64, input: u64) -> reqwest::RequestBuilder {
    bed.chat(customer, "m-big", &format!(r#","max_tokens":{}"#, tokens - input))
}

/// Brings a fresh customer's bucket down to `level`.
async fn down_to(bed: &Bed, customer: &str, level: u64, input: u64) {
    bed.provider.script(used(input, TPM - level - input));
    let answer = answer(claiming(bed, customer, TPM - level, input)).await;
    assert_eq!((answer.status, answer.left("tpm")), (200, level), "{answer:?}");
    bed.quiet().await;
}

fn refused_for(answer: &Answer, limit: &str, seconds: &str) {
    assert_eq!(answer.outcome(), (429, "rate_limit_exceeded"), "{answer:?}");
    assert_eq!((answer.limit("name").as_str(), answer.limit("scope").as_str()), (Some(limit), Some("customer")));
    assert_eq!(answer.header("retry-after"), seconds, "{answer:?}");
}

async fn a_request_larger_than_the_bucket_can_never_pass(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let body = format!(
        r#"{{"model":"m-big","max_tokens":16,"messages":[{{"role":"user","content":"{}"}}]}}"#,
        "lorem ipsum ".repeat(6_000)
    );
    let refused = answer(bed.post("/v1/chat/completions", "c", body)).await;
    assert_eq!(refused.outcome(), (413, "request_exceeds_limit"), "{refused:?}");
    let asked = refused.limit("asked").as_u64().expect("a number");
    assert!(
        asked > TPM && refused.json["error"]["message"].as_str().is_some_and(|text| text.contains(&format!("({asked} > 10000)")))
    );
    assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), ("", "false"));
    assert_eq!((refused.left("tpm"), refused.left("rpm")), (TPM, 60), "nothing is taken");
    assert_eq!(bed.provider.log().len(), 0);
    bed.assert_books(&["c"]).await;
}

async fn a_refused_request_takes_nothing(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let input = input_of(&bed, "probe", "m-big", TPM).await;
    down_to(&bed, "c", 2_000, input).await;
    for _ in 0..20 {
        let refused = answer(claiming(&bed, "c", 5_000, input)).await;
        refused_for(&refused, "tpm", "18"); // 3,000 missing at 166.67 a second
        assert_eq!((refused.left("tpm"), refused.left("rpm")), (2_000, 59), "neither tokens nor requests");
    }
    let passes = answer(claiming(&bed, "c", 1_500, input)).await;
    assert_eq!((passes.status, passes.left("tpm"), passes.left("rpm")), (200, 500, 58), "{passes:?}");
    bed.assert_books(&["c", "probe"]).await;
}

async fn a_refusal_by_the_budget_refunds_no_more_than_it_took(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    let small = || bed.chat("poor", "m-small", r#","max_tokens":16"#);
    for left in (5..60).rev() {
        bed.provider.script(used(1, 1));
        assert_eq!(answer(small()).await.left("rpm"), left);
    }
    let refused = answer(bed.chat("poor", "m-dear", r#","max_tokens":16"#)).await;
    assert_eq!(refused.outcome(), (402, "spend_cap_exceeded"), "{refused:?}");
    let mut passed = 0;
    for _ in 0..60 {
        passed += u32::from(answer(small()).await.status == 200);
    }
    assert_eq!(passed, 5);
    bed.assert_books(&["poor"]).await;
}

async fn the_wait_is_exact_and_of_the_slowest_bucket(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, PLANS, &clock).await;
    let input = input_of(&bed, "probe", "m-big", TPM).await;
    // Requests: two at once, none left, and 0.2 s of refill. Tokens: none left, 1,000 asked.
    let one = |customer: &'static str, tokens: u64| claiming(&bed, customer, tokens, input);
    for (customer, first, second) in [("few", 100, 100), ("both", 5_000, 5_000)] {
        for tokens in [first, second] {
            bed.provider.script(used(input, tokens - input));
            assert_eq!(answer(one(customer, tokens)).await.status, 200);
        }
    }
    bed.provider.script(used(input, TPM - input));
    assert_eq!(answer(one("tokens", TPM)).await.status, 200);
    bed.quiet().await;
    clock.pass(SECOND / 5);
    // 0.2 s of refill are 33 tokens; they are asked for on top.
    for (customer, tokens, limit, seconds, millis) in
        [("few", 100, "rpm", "1", 800), ("tokens", 1_033, "tpm", "6", 5_998), ("both", 1_033, "tpm", "6", 5_998)]
    {
        let refused = answer(one(customer, tokens)).await;
        refused_for(&refused, limit, seconds);
        assert_eq!(refused.number("retry-after-ms"), millis, "{customer}");
    }
    clock.pass(799_999);
    refused_for(&answer(one("few", 100)).await, "rpm", "1");
    clock.pass(1);
    assert_eq!(answer(one("few", 100)).await.status, 200, "exactly then it passes");
    clock.pass(5_998_000 - 800_000);
    for customer in ["tokens", "both"] {
        assert_eq!(answer(one(customer, 1_033)).await.status, 200, "{customer}");
    }
    bed.assert_books(&["few", "tokens", "both", "probe"]).await;
}

async fn a_refund_never_passes_capacity(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, PLANS, &clock).await;
    let input = input_of(&bed, "probe", "m-big", TPM).await;
    let gate = tollgate::demo::provider::Gate::new();
    bed.provider.script(used(0, 10).hold(&gate));
    let long = tokio::spawn(answer(claiming(&bed, "c", 9_000, input)));
    bed.provider.wait_until(|seen| seen.len() == 2).await;
    clock.pass(70 * SECOND);
    gate.open();
    assert_eq!(long.await.expect("no panic").left("tpm"), 1_000);
    bed.quiet().await;
    assert_eq!(answer(claiming(&bed, "c", 1_000, input)).await.left("tpm"), 9_000, "full, and no more than that");
    bed.assert_books(&["c", "probe"]).await;
}

async fn a_changed_limit_holds_at_once(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, PLANS, &clock).await;
    let input = input_of(&bed, "probe", "m-big", TPM).await;
    down_to(&bed, "c", 9_000, input).await;
    for (tpm, left) in [("1_000", 900), ("100_000", 700)] {
        reload(&bed, &PLANS.replacen("tpm = 10_000", &format!("tpm = {tpm}"), 1));
        bed.provider.script(used(input, 100 - input));
        assert_eq!(answer(claiming(&bed, "c", 100, input)).await.left("tpm"), left, "{tpm}");
        bed.quiet().await;
        clock.pass(60_000); // 1 token of 1,000 a minute, 100 of 100,000
        let claims = if tpm == "1_000" { 101 } else { 0 };
        if claims > 0 {
            bed.provider.script(used(input, claims - input));
            assert_eq!(answer(claiming(&bed, "c", claims, input)).await.left("tpm"), 800, "grows by refill only");
            bed.quiet().await;
        } else {
            assert_eq!(answer(claiming(&bed, "c", 100, input)).await.left("tpm"), 700, "100 earned, 100 asked");
        }
    }
    bed.assert_books(&["c", "probe"]).await;
}

async fn silly_limits_do_what_they_say(store: Store) {
    let plans: String = [
        ("none", "rpm = 0"),
        ("one", "rpm = 1"),
        ("huge", "rpm = 1_000_000_000_000"),
        ("mute", "tpm = 0"),
        ("free", ""),
    ]
    .map(|(name, limit)| {
        format!(
            "[plans.{name}]\nmessages = \"unlimited\"\nspend = {{ day = 1.0 }}\n{limit}\n[customers.{name}]\nplan = \"{name}\"\n"
        )
    })
    .concat();
    let bed = bed(store, &plans, &Hand::noon()).await;
    for (customer, outcomes) in
        [("none", [429, 429]), ("one", [200, 429]), ("huge", [200, 200]), ("mute", [429, 429]), ("free", [200, 200])]
    {
        for status in outcomes {
            let answer = answer(bed.chat(customer, "m-big", r#","max_tokens":16"#)).await;
            assert_eq!(answer.status, status, "{customer}: {answer:?}");
            if status == 429 {
                assert_eq!(answer.code(), "rate_limit_exceeded");
                let never = customer != "one";
                assert_eq!(
                    (answer.header("retry-after").is_empty(), answer.header("x-should-retry")),
                    (never, if never { "false" } else { "" })
                );
            }
        }
        if customer == "huge" {
            let answer = answer(bed.chat(customer, "m-big", r#","max_tokens":16"#)).await;
            assert!(answer.left("rpm") >= 999_999_999_997, "{answer:?}");
        }
    }
    bed.assert_books(&["none", "one", "huge", "mute", "free"]).await;
}

/// Embeddings of nothing, replies that used nothing and 400s: each is one request, and every token and nano-dollar comes back.
async fn what_the_provider_turns_away_costs_one_request(store: Store) {
    let bed =
        bed_with(store, PLANS, &Hand::noon(), ProviderOptions { count: Arc::new(|_, _| 0), ..ProviderOptions::default() }).await;
    let embed = |text: &str| bed.post("/v1/embeddings", "c", format!(r#"{{"model":"emb","input":"{text}"}}"#));
    let chat = || bed.chat("c", "m-big", r#","max_tokens":5000"#);
    let script =
        |status| bed.provider.script(Script::json(status, r#"{"error":{"message":"no","type":"invalid_request_error"}}"#));
    let mut rpm = 60;
    let mut first = None;
    for round in 0..9 {
        match round % 3 {
            0 => assert_eq!(answer(embed("")).await.status, 200),
            1 => {
                bed.provider.script(used(0, 0));
                assert_eq!(answer(chat()).await.status, 200);
            }
            _ => {
                script(400);
                assert_eq!(answer(chat()).await.status, 400);
            }
        }
        bed.quiet().await;
        rpm -= 2;
        bed.provider.script(used(0, 0));
        let after = answer(chat()).await;
        assert_eq!(after.left("rpm"), rpm, "one request each");
        assert_eq!(after.left("tpm"), *first.get_or_insert(after.left("tpm")), "not one token less");
        bed.quiet().await;
    }
    assert_eq!(bed.spent("c").await.get(), 0);
    bed.assert_books(&["c"]).await;
}

/// Two gateways, one clock that nobody holds: the bucket and its refill, and not one more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_over_two_gateways_share_one_bucket() {
    let server = RedisServer::start();
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let config = format!(
        "{}\n{PLANS}\n[plans.rate]\nmessages = \"unlimited\"\nrpm = 60\ntpm = \"unlimited\"\nspend = {{ day = 10.0 }}\n[customers.r]\nplan = \"rate\"\n[concurrency]\nslots = 600\n",
        crate::bed::CONFIG
    );
    let beds = [(); 2].map(|()| Bed::on(&config, provider.clone(), Arc::new(redis_ledger(&server))));
    let [one, two] = beds;
    let (one, two) = (one.await, two.await);
    let begun = Instant::now();
    let calls: Vec<_> =
        (0..500).map(|i| tokio::spawn(answer([&one, &two][i % 2].chat("r", "m-big", r#","max_tokens":16"#)))).collect();
    let mut passed = 0;
    for call in calls {
        let answer = call.await.expect("no panic");
        passed += u64::from(answer.status == 200);
        assert!(answer.status == 200 || answer.outcome() == (429, "rate_limit_exceeded"), "{answer:?}");
    }
    assert!((60..=60 + begun.elapsed().as_secs() + 1).contains(&passed), "{passed} in {:?}", begun.elapsed());
    two.quiet().await;
    one.assert_books(&["r"]).await;
}
