//! Clients that leave at every moment of a request that is retried, degraded, handed off or repeated: nothing may stay behind (K1, K2).

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, bed_with, config};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

const PLAN: &str = "messages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nmax_output_tokens = 1_000\nmax_in_flight = 4\nspend = { day = 1000.0 }\non_tokens = [\"wait\", \"handoff\"]\non_provider = [\"wait\", \"cheaper\", \"handoff\"]";

fn script(at: usize) -> Script {
    let first = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    let content = first.replace("\"role\":\"assistant\"", "\"content\":\"Hello\"");
    let error = "data: {\"error\":{\"message\":\"late\",\"type\":\"server_error\"}}\n\n";
    match at % 11 {
        0 => Script::json(429, "{}").header("retry-after-ms", "110"),
        1 => Script::json(500, "{}"),
        2 => Script::raw().reset(),
        3 => Script::sse().send(first).silence(),
        4 => Script::sse().send(first).wait(Duration::from_millis(30)).send(error),
        5 => Script::sse().send(content.clone()).wait(Duration::from_millis(20)).send(content).reset(),
        6 => Script::sse().send(": ping\n\n").wait(Duration::from_millis(20)).send(": ping\n\n").close(),
        7 => Script::json(400, r#"{"error":{"message":"no"}}"#),
        8 => Script::json(200, r#"{"error":{"message":"busy","type":"server_error"}}"#),
        9 => Script::http(200).header("content-type", "application/json").send("{\"id\":").reset(),
        _ => Script::json(503, "{}").header("retry-after", "1"),
    }
}

#[tokio::test]
async fn whoever_leaves_whenever_leaves_nothing_behind() {
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
    let more = "[pools.all]\nupstream = \"openai\"\nmodels = [\"m-*\"]\nceiling = { rpm = 100_000, tpm = 1_000_000_000 }";
    let text = config(&[("busy".to_owned(), PLAN.to_owned())], more).replace("max = 0", "max = 2");
    let text = text.replace("base_url = \"{provider}\"\n", "base_url = \"{provider}\"\nidle_timeout = \"1s\"\n");
    let bed = Bed::on(&text, provider, ledger).await;
    for round in 0..6_usize {
        let asking = (0..40_usize).map(|at| {
            if at % 5 != 4 {
                bed.provider.script(script(round * 40 + at));
            }
            let customer = format!("c{}", at % 7);
            let mut request =
                bed.post("/v1/chat/completions", &customer, ROUTES[at % 2].body("")).header("x-customer-plan", "busy");
            if at % 3 == 0 {
                request = request.header("x-request-class", "general");
            }
            if at % 4 == 0 {
                request = request.header("idempotency-key", format!("k{round}-{}", at / 8));
            }
            let patience = Duration::from_millis((at as u64 * 37 + round as u64 * 11) % 400);
            async move {
                let answer = async { request.send().await?.bytes().await };
                drop(tokio::time::timeout(patience, answer).await);
            }
        });
        join_all(asking).await;
    }
    bed.quiet().await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while bed.gateway.tasks.count() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "tasks that do not end: {}", bed.gateway.tasks.count());
        tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
    }
    bed.quiet().await;
    assert_eq!(bed.gateway.slots.load().free, 64);
    for at in 0..7 {
        bed.spent(&format!("c{at}")).await; // and nothing is held
    }
}

/// After all that a customer has exactly as many places as before: no more, no fewer.
#[tokio::test]
async fn a_customer_keeps_exactly_its_places() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let plan = PLAN.replace("on_tokens = [\"wait\", \"handoff\"]", "on_tokens = []");
    let bed = bed_with(&[("busy", &plan)], "", options).await;
    let send = |stream: usize| bed.post("/v1/chat/completions", "c", ROUTES[stream].body("")).header("x-customer-plan", "busy");
    // Leave while the provider works, while a stream is held back, and while a keyed call goes on alone.
    for round in 0..3 {
        let request = send(round % 2).header("idempotency-key", format!("k{round}"));
        let request = if round == 1 { send(1) } else { request };
        let leaving = tokio::spawn(request.send());
        bed.provider.wait_until(|log| log.len() == round + 1).await;
        leaving.abort();
    }
    let four = (0..4).map(|_| tokio::spawn(Answer::of(send(0)))).collect::<Vec<_>>();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let fifth = Answer::of(send(0)).await;
        assert_eq!(fifth.status, 429, "{}", fifth.body);
        if bed.provider.seen() >= 5 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
    }
    gate.open();
    for one in four {
        let answer = one.await.expect("no panic");
        assert!([200, 429].contains(&answer.status), "{}", answer.body);
    }
    bed.quiet().await;
}
