//! What gateways put into the history, beside the ledger and the provider's own log.

use crate::bed::{Bed, CONFIG, config_and};
use crate::mortal_redis::MortalRedis;
use futures_util::StreamExt;
use futures_util::stream;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::NanoUsd;
use tollgate::history::{Day, Use};
use tollgate::store::Stores;
use tollgate::store::embedded::LostHold;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::store::series::Ranking;
use tollgate::telemetry::SystemClock;

/// Retries and a fallback, and a plan that runs dry.
const MORE: &str = r#"
[retry]
max = 2
wait_budget = "2s"
breaker = { failures = 0 }
[models.m-big]
fallback = "m-small"
price = { input = 2.50, cached_input = 1.25, output = 10.0 }
[classes.general]
fallback = true
[plans.walks]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 1000.0 }
on_provider = ["cheaper"]
on_spend = []
[plans.dry]
messages = { rate = "1/h", burst = 2 }
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 1000.0 }
on_spend = []
on_provider = []
[customers.walker]
plan = "walks"
[customers.loud]
plan = "dry"
"#;

async fn provider() -> Arc<Provider> {
    Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"))
}

fn config() -> String {
    config_and(MORE).replacen("[models.m-big]\nprice = { input = 2.50, cached_input = 1.25, output = 10.0 }\n", "", 1)
}

async fn on_redis(server: &MortalRedis, provider: &Arc<Provider>) -> Bed {
    let (url, patience) = (server.url(), Duration::from_secs(10));
    let ledger = Arc::new(RedisLedger::connect(&[&url], patience).expect("well-formed"));
    let documents = Arc::new(RedisDocuments::connect(&[&url], patience).expect("well-formed"));
    Bed::over(&config(), provider.clone(), Stores { ledger, documents }, Arc::new(SystemClock)).await
}

fn embedded(directory: &Path) -> Stores {
    Stores::embedded(directory, Arc::new(SystemClock), LostHold::Charge).expect("it opens")
}

/// Gateways over one store, and what keeps the store.
async fn beds(redis: bool) -> (Vec<Bed>, Box<dyn Any>) {
    let provider = provider().await;
    if redis {
        let server = MortalRedis::awake();
        return (vec![on_redis(&server, &provider).await, on_redis(&server, &provider).await], Box::new(server));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let bed = Bed::over(&config(), provider, embedded(directory.path()), Arc::new(SystemClock)).await;
    (vec![bed], Box::new(directory))
}

fn today(bed: &Bed) -> Day {
    Day::of(bed.gateway.clock.now())
}

/// A customer's last two days (a test may run at midnight), with everything that these gateways gathered.
async fn used(beds: &[Bed], customer: &str) -> Use {
    for bed in beds {
        bed.used(customer).await; // flushes
    }
    let today = today(&beds[0]);
    let days = beds[0].gateway.history.customer_days(customer, today.back(1), today).await.expect("the store answers");
    let mut sum = Use::default();
    days.iter().for_each(|(_, day)| sum.add(day));
    sum
}

/// One request of many kinds: whole, streamed, failing, broken off, left by its client, refused.
async fn one(bed: &Bed, customer: &str, n: usize) {
    let (model, more) = match n % 8 {
        0 => ("m-big", ""),
        1 => ("m-big", r#","stream":true"#),
        2 => ("fault-500-on-m-big", ""),
        3 => ("m-small", r#","stream":true,"max_tokens":20"#),
        4 => ("m-big", r#","max_tokens":5"#),
        5 => ("no-such-price", ""),
        6 => ("m-small", r#","n":3"#),
        _ => ("m-big", r#","stream":true,"max_tokens":50"#),
    };
    let request = bed.chat(customer, model, more);
    if n % 8 == 7 {
        // Leaves after the first bytes.
        if let Ok(mut reply) = request.send().await {
            let _ = reply.chunk().await;
        }
        return;
    }
    if let Ok(reply) = request.send().await {
        let _ = reply.bytes().await;
    }
}

/// History = ledger = the sum of its hours = everybody's = the models', whatever the requests were.
async fn everything_adds_up(redis: bool) {
    let (beds, _kept) = beds(redis).await;
    let customers = ["ann", "bob", "walker", "loud"];
    // Some attempts fail first and are charged, some fall back to another model.
    for _ in 0..12 {
        beds[0].provider.script(Script::json(503, "{}"));
    }
    let requests = (0..200).map(|n| one(&beds[n % beds.len()], customers[n % customers.len()], n / customers.len()));
    stream::iter(requests).buffer_unordered(24).collect::<Vec<()>>().await;
    let (mut sum, mut requests) = (0, 0);
    for customer in customers {
        let mut spent = NanoUsd::ZERO;
        for bed in &beds {
            spent = bed.spent(customer).await;
        }
        let used = used(&beds, customer).await;
        assert_eq!(used.cost(), spent, "{customer}: the history and the ledger");
        assert_eq!(used.requests, 50, "{customer}: every request once: {used:?}");
        let outcomes = used.served + used.degraded + used.handed_off + used.refused + used.failed + used.left;
        assert_eq!(outcomes, 50, "{customer}: each came to exactly one thing: {used:?}");
        assert_eq!(used.refusals.values().sum::<u64>(), used.refused, "{customer}");
        sum += used.cost_nano_usd;
        requests += used.requests;
        let today = today(&beds[0]);
        let mut hours = Use::default();
        for day in [today.back(1), today] {
            let of_day = beds[0].gateway.history.customer_hours(customer, day).await.expect("the store answers");
            assert_eq!(of_day.len(), 24);
            of_day.iter().for_each(|hour| hours.add(hour));
        }
        let without_peaks = Use { plans: [].into(), peak_messages: 0, peak_requests: 0, peak_tokens: 0, ..used };
        assert_eq!(hours, without_peaks, "{customer}: the hours of its days");
    }
    let loud = used(&beds, "loud").await;
    assert_eq!((loud.refused, loud.served + loud.failed, loud.plan()), (48, 2, Some("dry")), "two messages an hour: {loud:?}");
    // Twelve name a model without a price. They are told that unless their bucket was just seen empty, which comes first.
    let unpriced = loud.refusals.get("model_not_priced").copied().unwrap_or(0);
    assert!(unpriced <= 12 && loud.refusals["customer.messages"] + unpriced == 48, "{loud:?}");
    let (today, history) = (today(&beds[0]), &beds[0].gateway.history);
    let mut everybody = Use::default();
    let mut by_model = 0;
    for day in [today.back(1), today] {
        everybody.add(&history.total_days(day, day).await.expect("the store answers")[0].1);
        by_model += history.models(day).await.expect("the store answers").iter().map(|model| model.cost_nano_usd).sum::<u64>();
    }
    assert_eq!((everybody.cost_nano_usd, everybody.requests, by_model), (sum, requests, sum));
    let rank = Ranking { limit: 10, ..Ranking::default() };
    let top = history.top_customers(today, &rank).await.expect("the store answers");
    assert!(top.windows(2).all(|two| two[0].1.cost_nano_usd >= two[1].1.cost_nano_usd) && top.len() == 4, "{top:?}");
    let mut booked = NanoUsd::ZERO;
    for customer in customers {
        booked = booked.saturating_add(beds[0].spent(customer).await);
    }
    assert_eq!(booked.get(), sum);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_adds_up_on_the_embedded_store() {
    everything_adds_up(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_adds_up_over_two_gateways_on_redis() {
    everything_adds_up(true).await;
}

fn reply(model: &str, usage: &str) -> Script {
    let body = format!(
        r#"{{"id":"x","object":"chat.completion","created":1,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"ok"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
    );
    Script::json(200, body)
}

/// 1,000 input of which 600 cached, 100 output of which 40 reasoning, of `m-big`: 400 x $2.50 + 600 x $1.25 + 100 x $10 per million.
const USAGE: &str = r#"{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":600},"completion_tokens_details":{"reasoning_tokens":40}}"#;

#[tokio::test]
async fn a_model_is_told_apart_by_upstream_asked_and_served_name() {
    let bed = Bed::plus("").await;
    for served in ["m-big-2026-11-01", "m-big", "m-big-2026-11-01"] {
        bed.provider.script(reply(served, USAGE));
        assert_eq!(bed.chat("ann", "m-big", "").send().await.expect("an answer").status(), 200);
    }
    assert_eq!(bed.used("ann").await, NanoUsd::new(3 * 2_750_000));
    let mut models = Vec::new();
    for day in [today(&bed).back(1), today(&bed)] {
        models.extend(bed.gateway.history.models(day).await.expect("the store answers"));
    }
    let told: Vec<_> =
        models.iter().map(|m| (&*m.upstream, &*m.model, &*m.served_model, m.requests, m.input_tokens, m.cached_tokens)).collect();
    assert_eq!(
        told,
        [("openai", "m-big", "m-big", 1, 1_000, 600), ("openai", "m-big", "m-big-2026-11-01", 2, 2_000, 1_200)],
        "{models:?}"
    );
    let rest: Vec<_> = models.iter().map(|m| (m.output_tokens, m.reasoning_tokens, m.cost_nano_usd)).collect();
    assert_eq!(rest, [(100, 40, 2_750_000), (200, 80, 5_500_000)]);
}

/// The first model failed after it had used something, the fallback answered: each is booked under its own name.
#[tokio::test]
async fn a_fallback_is_booked_under_its_own_name_and_the_request_counts_once() {
    let bed = Bed::with(&config(), ProviderOptions::default()).await;
    bed.provider.script(Script::json(500, "{}"));
    bed.provider.script(Script::json(500, "{}"));
    bed.provider.script(Script::json(500, "{}"));
    bed.provider.script(reply("m-small", USAGE));
    let request = bed.chat("walker", "m-big", "").header("x-request-class", "general");
    assert_eq!(request.send().await.expect("an answer").status(), 200);
    // 400 x $0.15, 600 x $0.075, 100 x $0.60 per million.
    let cost = NanoUsd::new(60_000 + 45_000 + 60_000);
    assert_eq!((bed.used("walker").await, bed.spent("walker").await), (cost, cost));
    let used = used(std::slice::from_ref(&bed), "walker").await;
    assert_eq!((used.requests, used.degraded, used.served, used.peak_requests, used.peak_tokens), (1, 1, 0, 1, 1_100));
    let mut models = Vec::new();
    for day in [today(&bed).back(1), today(&bed)] {
        models.extend(bed.gateway.history.models(day).await.expect("the store answers"));
    }
    let told: Vec<_> = models.iter().map(|m| (&*m.model, m.requests, m.cost_nano_usd)).collect();
    assert_eq!(told, [("m-big", 1, 0), ("m-small", 1, cost.get())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_survives_a_restart_and_the_end_of_a_gateway_flushes() {
    let (directory, provider) = (tempfile::tempdir().expect("a directory"), provider().await);
    let mut spent = NanoUsd::ZERO;
    for round in 1..=2 {
        let bed = Bed::over(CONFIG, provider.clone(), embedded(directory.path()), Arc::new(SystemClock)).await;
        for _ in 0..5 {
            assert_eq!(bed.chat("ann", "m-big", "").send().await.expect("an answer").status(), 200);
        }
        // Not flushed by anybody: the end does.
        spent = bed.spent("ann").await;
        let gateway = Arc::downgrade(&bed.gateway);
        bed.stop().await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while gateway.strong_count() > 0 {
            assert!(tokio::time::Instant::now() < deadline, "round {round}: the gateway is still there");
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        }
        // The flusher, which has the store as well, ends with the gateway.
        while Stores::embedded(directory.path(), Arc::new(SystemClock), LostHold::Charge).is_err() {
            assert!(tokio::time::Instant::now() < deadline, "round {round}: the store is still in use");
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        }
    }
    let bed = Bed::over(CONFIG, provider, embedded(directory.path()), Arc::new(SystemClock)).await;
    let after = used(std::slice::from_ref(&bed), "ann").await;
    assert_eq!((after.cost(), after.requests), (spent, 10));
    assert!(spent > NanoUsd::ZERO);
}

/// Redis is away while requests end: what they used arrives when it is back, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_gathered_while_redis_is_away_arrives_later() {
    let (mut server, provider) = (MortalRedis::awake(), provider().await);
    let bed = on_redis(&server, &provider).await;
    for _ in 0..3 {
        assert_eq!(bed.chat("ann", "m-big", "").send().await.expect("an answer").status(), 200);
    }
    let spent = bed.spent("ann").await;
    server.kill();
    assert!(!bed.gateway.history.flush(Duration::from_millis(300)).await, "nobody takes it");
    server.wake();
    let after = used(std::slice::from_ref(&bed), "ann").await;
    assert_eq!((after.cost(), after.requests), (spent, 3));
}

/// The same figures over HTTP.
#[tokio::test]
async fn operators_read_it_over_http() {
    let bed = Bed::with(&config_and("[admin]\nlisten = \"127.0.0.1:0\""), ProviderOptions::default()).await;
    for customer in ["acme-1", "acme-2", "acme-2", "zed"] {
        assert_eq!(bed.chat(customer, "m-big", "").send().await.expect("an answer").status(), 200);
    }
    let today = today(&bed);
    let costs = [bed.used("acme-1").await.get(), bed.used("acme-2").await.get(), bed.used("zed").await.get()];
    let admin = bed.admin.expect("it listens");
    let get = async |path: &str| {
        let reply = bed.client.get(format!("http://{admin}/admin/history/{path}")).send().await.expect("an answer");
        let status = reply.status().as_u16();
        (status, serde_json::from_str::<serde_json::Value>(&reply.text().await.expect("whole")).expect("JSON"))
    };
    let (status, top) = get("customers?prefix=acme&limit=1").await;
    assert_eq!((status, top["customers"][0]["customer"].as_str()), (200, Some("acme-2")), "{top}");
    assert_eq!(top["customers"][0]["cost_nano_usd"].as_u64(), Some(costs[1]));
    assert_eq!(get("customers?prefix=acme&skip=1").await.1["customers"][0]["customer"].as_str(), Some("acme-1"));
    let (_, one) = get(&format!("customers/acme-1?from={}", today.back(1))).await;
    assert_eq!((one["days"].as_array().map(Vec::len), &one["days"][1]["requests"]), (Some(2), &1.into()), "{one}");
    let (_, hours) = get("customers/acme-1/hours").await;
    let of_hours: u64 = hours["hours"].as_array().expect("hours").iter().filter_map(|hour| hour["cost_nano_usd"].as_u64()).sum();
    assert_eq!((hours["hours"].as_array().map(Vec::len), of_hours), (Some(24), costs[0]), "{hours}");
    let (_, total) = get(&format!("total?from={today}&to={today}")).await;
    assert_eq!(total["days"][0]["cost_nano_usd"].as_u64(), Some(costs.iter().sum()), "{total}");
    assert_eq!(get("total/hours").await.1["day"], serde_json::json!(today));
    let (_, models) = get(&format!("models?from={today}")).await;
    assert_eq!((&models["models"][0]["model"], &models["models"][0]["requests"]), (&"m-big".into(), &4.into()), "{models}");
    assert_eq!(get("scan").await.1["customers"].as_array().map(Vec::len), Some(3));
    for wrong in
        ["customers?day=tomorrow", "total?from=2026-12-02&to=2026-12-01", "customers?limit=x", "scan?page=2", "customers/a%20b"]
    {
        let (status, body) = get(wrong).await;
        assert_eq!((status, body["error"]["code"].as_str()), (400, Some("invalid_request")), "{wrong}: {body}");
    }
}
