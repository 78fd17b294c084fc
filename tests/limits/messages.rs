//! The message bucket: spent by every request that reaches `admit`, and remembered when empty.

use crate::bed::{Bed, CONFIG};
use crate::fixture::{Hand, SECOND, Store, answer, bed, on_both_stores, redis_ledger, until};
use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tollgate::demo::{Provider, ProviderOptions};

const PLANS: &str = r#"
[plans.slow]
messages = { rate = "1/m", burst = 10 }
rpm = 60
tpm = 10_000
max_output_tokens = 100
spend = { day = 1.0 }
on_spend = []
on_provider = []
[plans.quick]
messages = { rate = "10/s", burst = 2 }
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 1.0 }
on_spend = []
on_provider = []
[plans.broke]
messages = { rate = "1/m", burst = 10 }
rpm = 60
tpm = 10_000
spend = { day = 0 }
on_spend = []
on_provider = []
[customers.slow]
plan = "slow"
[customers.quick]
plan = "quick"
[customers.broke]
plan = "broke"
[customers.c]
plan = "slow"
"#;

on_both_stores!(
    a_flood_costs_a_store_call_a_second,
    an_empty_bucket_is_never_trusted_past_its_refill,
    a_doomed_flood_runs_dry_too,
    what_inspection_turns_away_spends_no_message,
);

async fn a_flood_costs_a_store_call_a_second(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, PLANS, &clock).await;
    for i in 0..1_000 {
        let answer = answer(bed.chat("slow", "m-big", "")).await;
        if i < 10 {
            assert_eq!(answer.status, 200, "{answer:?}");
        } else {
            assert_eq!(answer.outcome(), (429, "rate_limit_exceeded"), "{answer:?}");
            assert_eq!(answer.limit("name"), "messages");
            assert_eq!(answer.left("messages"), 0);
            // The ten went at noon; one comes back a minute after it. 500 refusals a second.
            let wait = 60 * 1_000 - 2 * (i - 10);
            assert_eq!(answer.number("retry-after-ms"), wait);
            assert_eq!(answer.number("retry-after"), wait.div_ceil(1_000));
            clock.pass(2_000);
        }
    }
    let calls = bed.ledger.admits.load(Ordering::SeqCst);
    assert_eq!(calls, 10 + 2, "ten admitted, and in just under two seconds of flood two refused by the store");
    assert_eq!(bed.provider.log().len(), 10);
    clock.pass(60 * SECOND - 990 * 2_000);
    assert_eq!(answer(bed.chat("slow", "m-big", "")).await.status, 200, "back on the minute, it passes");
    bed.assert_books(&["slow"]).await;
}

async fn an_empty_bucket_is_never_trusted_past_its_refill(store: Store) {
    let clock = Hand::noon();
    let bed = bed(store, PLANS, &clock).await;
    for _ in 0..2 {
        assert_eq!(answer(bed.chat("quick", "m-big", "")).await.status, 200);
    }
    let refused = answer(bed.chat("quick", "m-big", "")).await;
    assert_eq!((refused.status, refused.number("retry-after-ms")), (429, 100), "{refused:?}");
    let calls = bed.ledger.admits.load(Ordering::SeqCst);
    clock.pass(99_999);
    let refused = answer(bed.chat("quick", "m-big", "")).await;
    assert_eq!((refused.status, refused.number("retry-after-ms")), (429, 1), "a microsecond early");
    assert_eq!(bed.ledger.admits.load(Ordering::SeqCst), calls, "refused from memory");
    clock.pass(1);
    assert_eq!(answer(bed.chat("quick", "m-big", "")).await.status, 200, "refilled, though not a second has passed");
    bed.assert_books(&["quick"]).await;
}

/// Refused for money each time, and still each is a message.
async fn a_doomed_flood_runs_dry_too(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    for i in 0..20 {
        let answer = answer(bed.chat("broke", "m-big", r#","max_tokens":16"#)).await;
        // The eleventh is refused for both; of the two the store reports what waiting does not cure, memory what it remembers.
        let right = if i < 11 { (402, "spend_cap_exceeded") } else { (429, "rate_limit_exceeded") };
        assert_eq!(answer.outcome(), right, "{i}: {answer:?}");
        assert_eq!(answer.left("messages"), 9_u64.saturating_sub(i));
        if i < 10 {
            assert_eq!((answer.left("rpm"), answer.left("tpm")), (60, 10_000), "nothing else is spent");
        }
    }
    assert_eq!((bed.provider.log().len(), bed.ledger.admits.load(Ordering::SeqCst)), (0, 11));
    bed.assert_books(&["broke"]).await;
}

async fn what_inspection_turns_away_spends_no_message(store: Store) {
    let bed = bed(store, PLANS, &Hand::noon()).await;
    for (path, body, code) in [
        ("/v1/chat/completions", "{", "invalid_json"),
        ("/v1/completions", r#"{"model":"nobody-knows","prompt":"hi"}"#, "model_not_priced"),
        ("/v1/responses", r#"{"model":"m-big","background":true,"input":"hi"}"#, "background_not_supported"),
    ] {
        for _ in 0..4 {
            assert_eq!(answer(bed.post(path, "slow", body)).await.outcome(), (400, code));
        }
    }
    assert_eq!(bed.ledger.admits.load(Ordering::SeqCst), 0);
    assert_eq!(answer(bed.chat("slow", "m-big", "")).await.left("messages"), 9);
    bed.assert_books(&["slow"]).await;
}

/// The customer's name may come late, in a body; what was learnt of the bucket since the head arrived holds for it too.
#[tokio::test]
async fn a_body_that_names_its_customer_late_is_refused_from_memory() {
    let clock = Hand::noon();
    let bed = bed(Store::Embedded, PLANS, &clock).await;
    let mut policy = tollgate::config::Policy::parse(
        &format!("{CONFIG}\n{PLANS}").replace("{provider}", &bed.provider.base_url()),
        "late.toml",
        &tollgate::config::Env::default(),
    )
    .expect("a good configuration")
    .0;
    policy.identity.body_sources = vec![tollgate::config::policy::BodySource::User];
    bed.gateway.policy.store(Arc::new(policy));
    let (body, pieces) = tokio::sync::mpsc::channel::<Result<&'static str, std::io::Error>>(1);
    let late = futures_util::stream::unfold(pieces, async |mut pieces| pieces.recv().await.map(|piece| (piece, pieces)));
    let request = bed.client.post(bed.url("/v1/chat/completions")).header("content-type", "application/json");
    let request = request.header("authorization", "Bearer sk-test").body(reqwest::Body::wrap_stream(late));
    let late = tokio::spawn(answer(request));
    body.send(Ok(r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}],"#)).await.expect("the client reads it");
    until("its head has arrived", async || bed.gateway.metrics.in_flight.get() == 1).await;
    clock.pass(SECOND / 2);
    for i in 0..11 {
        assert_eq!(answer(bed.chat("slow", "m-big", "")).await.status, if i < 10 { 200 } else { 429 });
    }
    body.send(Ok(r#""user":"slow"}"#)).await.expect("the client reads it");
    drop(body);
    let refused = late.await.expect("no panic");
    assert_eq!((refused.status, refused.number("retry-after-ms")), (429, 60_000), "{refused:?}");
    assert_eq!(bed.ledger.admits.load(Ordering::SeqCst), 11, "no store call for it");
    bed.assert_books(&["slow"]).await;
}

/// On the server's own clock: however long the machine takes, a call a second at most.
#[tokio::test]
async fn a_flood_on_redis_costs_a_store_call_a_second_of_real_time() {
    let server = RedisServer::start();
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let bed = Bed::on(&format!("{CONFIG}\n{PLANS}"), provider, Arc::new(redis_ledger(&server))).await;
    let begun = Instant::now();
    let mut refused = 0;
    for _ in 0..400 {
        refused += usize::from(answer(bed.chat("c", "m-big", "")).await.status == 429);
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("a short test");
    let passed = 400 - refused;
    assert!((10..=10 + seconds / 60 + 1).contains(&passed), "{passed} passed in {seconds} s");
    let calls = bed.ledger.admits.load(Ordering::SeqCst);
    assert!(calls <= passed + seconds + 1, "{calls} store calls in {seconds} s");
    bed.assert_books(&["c"]).await;
}
