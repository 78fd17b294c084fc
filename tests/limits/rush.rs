//! Many requests at once on the last of a budget: never a nano-dollar over, and nobody refused who would have fitted.

use crate::bed::{Bed, CONFIG};
use crate::fixture::{Answer, DOLLAR, answer, redis_ledger, until, used};
use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate::demo::provider::Gate;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::Ledger;
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

const CAP: u64 = 5 * DOLLAR;
const RUSH: usize = 500;

/// `m-rigid` is never asked for less than 100 tokens, so its claims are all alike; `m-cent` costs a cent for 100 tokens and nothing
/// else.
const PLANS: &str = r#"
[concurrency]
slots = 600
queue = 0
[models.m-rigid]
price = { input = 2.50, output = 10.0 }
output_floor = 100
[models.m-cent]
price = { input = 0, output = 100.0 }
output_floor = 100
[plans.five]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
max_output_tokens = 20_000
spend = { day = 5.00 }
on_spend = []
on_provider = []
[customers.c]
plan = "five"
"#;

/// Gateways on one ledger each, one provider whose answers wait for the gate, and customer `c` who has used so many tokens of m-cent.
async fn gateways(ledgers: Vec<Arc<dyn Ledger>>, used_tokens: u64) -> (Vec<Bed>, Gate) {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let provider = Arc::new(Provider::start(options).await.expect("a loopback port"));
    let mut beds = Vec::new();
    for ledger in ledgers {
        beds.push(Bed::on(&format!("{CONFIG}\n{PLANS}"), provider.clone(), ledger).await);
    }
    provider.script(used(0, used_tokens)); // scripts do not wait for the gate
    assert_eq!(answer(beds[0].chat("c", "m-cent", r#","max_tokens":100"#)).await.status, 200);
    assert_eq!(beds[0].spent("c").await.get(), used_tokens * 100_000);
    (beds, gate)
}

fn embedded() -> Vec<Arc<dyn Ledger>> {
    vec![Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)))]
}

fn redis(server: &RedisServer, gateways: usize) -> Vec<Arc<dyn Ledger>> {
    (0..gateways).map(|_| -> Arc<dyn Ledger> { Arc::new(redis_ledger(server)) }).collect()
}

/// Spent and held of customer `c` today; together never above the cap, whenever this is asked.
async fn standing(bed: &Bed) -> (u64, u64) {
    let balances = bed.balances("c").await;
    assert_eq!(balances.len(), 1, "{balances:?}");
    let (spent, held) = (balances[0].spent, balances[0].held);
    assert!(spent + held <= CAP, "{spent} spent and {held} held of {CAP}");
    (spent, held)
}

/// Sends `count` chats at once, spread over the gateways, and waits until each is refused or at the provider. Gives the number at the
/// provider and, once the gate is open and all are answered, the answers.
async fn rush(beds: &[Bed], gate: &Gate, count: usize, model: &str, more: &str) -> (usize, u64, Vec<Answer>) {
    let refused = Arc::new(AtomicUsize::new(0));
    let before = beds[0].provider.log().len();
    let calls = (0..count).map(|i| {
        let (request, refused) = (beds[i % beds.len()].chat("c", model, more), refused.clone());
        tokio::spawn(async move {
            let answer = answer(request).await;
            refused.fetch_add(usize::from(answer.status != 200), Ordering::SeqCst);
            answer
        })
    });
    let calls: Vec<_> = calls.collect();
    until("each request is refused or held at the provider", async || {
        standing(&beds[0]).await;
        refused.load(Ordering::SeqCst) + beds[0].provider.log().len() - before == count
    })
    .await;
    let admitted = beds[0].provider.log().len() - before;
    let (_, held) = standing(&beds[0]).await;
    gate.open();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("no panic"));
        standing(&beds[0]).await;
    }
    for bed in beds {
        bed.quiet().await;
    }
    (admitted, held, answers)
}

/// $4.90 of $5.00 used: as many go through as have room for their worst case, to the last one.
async fn fits_exactly(ledgers: Vec<Arc<dyn Ledger>>) {
    let (beds, gate) = gateways(ledgers, 49_000).await;
    let (admitted, held, answers) = rush(&beds, &gate, RUSH, "m-rigid", r#","max_tokens":100"#).await;
    let each = held / admitted as u64;
    assert_eq!(held % admitted as u64, 0, "all claims are alike");
    assert!((1_000_000..2_000_000).contains(&each), "100 tokens of output and the bound of a small prompt: {each}");
    assert_eq!(admitted as u64, (DOLLAR / 10) / each, "as many as fit into ten cents, and not one fewer");
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), admitted);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(answer.outcome(), (429, "budget_in_flight"), "{answer:?}");
        assert_eq!((answer.header("retry-after"), answer.header("x-should-retry")), ("1", ""));
        assert_eq!(answer.limit("used").as_f64(), Some(4.9), "{answer:?}");
    }
    beds[0].assert_books(&["c"]).await;
    assert!(beds[0].spent("c").await.get() <= CAP);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_stay_within_five_dollars_on_the_embedded_store() {
    fits_exactly(embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_stay_within_five_dollars_on_redis() {
    let server = RedisServer::start();
    fits_exactly(redis(&server, 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_over_two_gateways_stay_within_five_dollars() {
    let server = RedisServer::start();
    fits_exactly(redis(&server, 2)).await;
}

/// Ten cents left and a cent each: exactly ten, over two gateways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_cents_go_to_exactly_ten_of_fifty() {
    let server = RedisServer::start();
    let (beds, gate) = gateways(redis(&server, 2), 49_000).await;
    let (admitted, held, answers) = rush(&beds, &gate, 50, "m-cent", r#","max_tokens":100"#).await;
    assert_eq!((admitted, held), (10, DOLLAR / 10), "the cap is reached to the nano-dollar");
    assert_eq!(answers.iter().filter(|answer| answer.outcome() == (429, "budget_in_flight")).count(), 40);
    beds[0].assert_books(&["c"]).await;
}

/// The plan's 20,000 tokens cost more than is left: the first gets what fits exactly, the others wait for it, and in the end the
/// budget is used up to less than the shortest answer.
async fn shrinks_exactly(ledgers: Vec<Arc<dyn Ledger>>) {
    let (beds, gate) = gateways(ledgers, 49_000).await;
    let (admitted, held, answers) = rush(&beds, &gate, RUSH, "m-big", "").await;
    assert_eq!(admitted, 1, "one holds all that is left");
    assert!(DOLLAR / 10 - held < 10_000, "the next token would not have fitted: {held}");
    let first = answers.iter().find(|answer| answer.status == 200).expect("one");
    let granted = first.number("x-tollgate-output-cap");
    let prompt = held - granted * 10_000;
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(answer.outcome(), (429, "budget_in_flight"), "{answer:?}");
    }
    let body = r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}],"user":"[2500 tokens]"}"#;
    for i in 0.. {
        let (spent, held) = standing(&beds[0]).await;
        assert_eq!(held, 0);
        let fits = (CAP - spent).saturating_sub(prompt) / 10_000;
        let answer = answer(beds[i % beds.len()].post("/v1/chat/completions", "c", body)).await;
        if fits < 16 {
            assert_eq!(answer.outcome(), (402, "spend_cap_exceeded"), "{answer:?}");
            let message = answer.json["error"]["message"].as_str().expect("a sentence");
            assert!(
                message.contains(&format!("affords an answer of {fits} token")) && message.contains("16 are the least"),
                "{message}"
            );
            break;
        }
        assert_eq!((answer.status, answer.number("x-tollgate-output-cap")), (200, fits), "the largest cap that fits");
        beds[i % beds.len()].quiet().await;
    }
    beds[0].assert_books(&["c"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elastic_answers_use_the_rest_up_on_the_embedded_store() {
    shrinks_exactly(embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elastic_answers_use_the_rest_up_over_two_gateways() {
    let server = RedisServer::start();
    shrinks_exactly(redis(&server, 2)).await;
}
