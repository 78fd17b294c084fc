//! What is in flight when the configuration changes.

use super::{Rig, with};
use crate::bed::CONFIG;
use futures_util::future::join_all;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tollgate::demo::provider::{Gate, Script};
use tollgate::domain::NanoUsd;
use tollgate::reload::Outcome;
use tollgate::store::documents::Expected;
use tollgate::wire::Usage;

const BOTH: [bool; 2] = [false, true];

/// A stream of 100 tokens in and 10 out, the last piece behind a gate.
fn stream(gate: &Gate) -> Script {
    let usage = r#"{"id":"c","object":"chat.completion.chunk","model":"m-big","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}"#;
    Script::sse()
        .send("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m-big\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":null}]}\n\n")
        .until(gate)
        .send(format!("data: {usage}\n\ndata: [DONE]\n\n"))
        .used(Usage { uncached_input: 100, output: 10, ..Usage::default() })
}

/// 100 in at $2.50 and 10 out at $10 a million tokens.
const OLD_COST: NanoUsd = NanoUsd::new(250_000 + 100_000);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_at_the_price_and_under_the_limits_it_began_with() {
    for (on_redis, change) in BOTH.into_iter().flat_map(|store| {
        [
            // E29: ten times the price in mid-stream.
            with(&[("input = 2.50", "input = 25.0"), ("output = 10.0", "output = 100.0")]),
            // Its plan is gone, and its customer has another.
            with(&[("[plans.case]", "[plans.other]"), ("plan = \"case\"", "plan = \"other\"")]),
            // Its caps are another, and smaller than what it holds.
            with(&[("spend = { day = 1.00 }", "spend = { day = 0.0001, month = 5 }"), ("tpm = 10_000", "tpm = 5")]),
            // Its pool is gone; so are its model's price and its upstream's name.
            CONFIG.replace("[upstreams.openai]", "[upstreams.elsewhere]\ndialect = \"openai\""),
            // One slot, and it has another.
            format!("{CONFIG}\n[concurrency]\nslots = 1\nqueue = 0\norphans = 0"),
        ]
        .map(move |change| (store, change))
    }) {
        let pool = "[pools.big]\nupstream = \"openai\"\nmodels = [\"m-big\"]\nceiling = { rpm = 100, tpm = 100_000 }\n";
        let rig = Rig::start(on_redis, &format!("{CONFIG}\n{pool}")).await;
        let gate = Gate::new();
        rig.bed.provider.script(stream(&gate));
        let mut reply = rig.bed.chat("t", "m-big", r#","stream":true"#).send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
        assert!(reply.chunk().await.expect("a piece").is_some_and(|piece| piece.starts_with(b"data: ")));
        let outcome = rig.reload(&change).await;
        assert!(matches!(outcome, Outcome::Applied { changes: 1.. }), "{outcome:?}");
        assert!(rig.bed.balances("t").await.iter().any(|balance| balance.held > 0), "it still holds what it held");
        gate.open();
        let rest = reply.text().await.expect("to the end");
        assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
        assert_eq!(rig.bed.spent("t").await, OLD_COST, "at the price it began with: {change}");
        rig.bed.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_has_the_new_price_and_the_new_limits_and_what_was_spent_stays_spent() {
    for on_redis in BOTH {
        let rig = Rig::start(on_redis, CONFIG).await;
        assert_eq!(rig.status("t", "m-big").await, 200);
        let before = rig.bed.spent("t").await;
        assert_eq!(before, rig.bed.provider_cost());
        let dear = with(&[
            ("input = 2.50", "input = 25.0"),
            ("cached_input = 1.25", "cached_input = 12.5"),
            ("output = 10.0", "output = 100.0"),
        ]);
        // input, cached_input, output
        assert_eq!(rig.reload(&dear).await, Outcome::Applied { changes: 3 });
        assert_eq!(rig.status("t", "m-big").await, 200);
        let log = rig.bed.provider.log();
        let after = log[1].usage.as_ref().map(|usage| {
            let policy = rig.bed.gateway.policy.load();
            policy.prices.get("m-big").expect("priced").cost(usage, None)
        });
        assert_eq!(rig.bed.spent("t").await, before.saturating_add(after.expect("used")));
        assert_eq!(
            rig.reload(&dear.replace("spend = { day = 1.00 }", "spend = { day = 0.000001 }")).await,
            Outcome::Applied { changes: 1 }
        );
        assert_eq!(rig.status("t", "m-big").await, 402, "what was spent counts against the new cap");
        assert_eq!(rig.reload(&dear.replace("[customers.t]\nplan = \"case\"", "")).await, Outcome::Applied { changes: 2 });
        assert_eq!(rig.status("t", "m-big").await, 200, "the default plan's cap");
        rig.bed.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_at_run_time_stays_above_the_new_configuration() {
    for on_redis in BOTH {
        let rig = Rig::start(on_redis, CONFIG).await;
        let directory = &rig.bed.gateway.directory;
        let serde_json::Value::Object(suspended) = json!({ "spend": { "day": 0 } }) else { unreachable!() };
        directory.set_override("ann", "t", &suspended, None, Expected::Nothing).await.expect("set");
        let serde_json::Value::Object(closed) = json!({ "rpm": 0 }) else { unreachable!() };
        directory.set_plan("ann", "open", &closed, Expected::Nothing).await.expect("set");
        assert_eq!((rig.status("t", "m-big").await, rig.status("else", "m-big").await), (402, 429));
        let raised = with(&[("rpm = 60", "rpm = 70"), ("spend = { day = 1000.0 }", "spend = { day = 900.0 }")]);
        assert_eq!(rig.reload(&raised).await, Outcome::Applied { changes: 2 });
        assert_eq!((rig.status("t", "m-big").await, rig.status("else", "m-big").await), (402, 429), "said at run time");
        directory.clear_override("ann", "t", Expected::Anything).await.expect("cleared");
        directory.clear_plan("ann", "open", Expected::Anything).await.expect("cleared");
        let reply = rig.bed.chat("t", "m-big", "").send().await.expect("an answer");
        let (status, limit) = (reply.status(), reply.headers()["x-ratelimit-limit-requests"].clone());
        drop(reply.bytes().await);
        assert_eq!((status.as_u16(), limit.to_str().expect("text")), (200, "70"));
        assert_eq!(rig.status("else", "m-big").await, 200);
        rig.bed.assert_books(&["t", "else"]).await;
        rig.bed.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_requests_during_fifty_reloads_are_all_served_and_all_booked() {
    const REQUESTS: usize = 500;
    for on_redis in BOTH {
        let rig = Rig::start(on_redis, CONFIG).await;
        let customers: Vec<String> = (0..10).map(|i| format!("c{i}")).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        let worker = async || {
            let mut served = 0;
            loop {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if n >= REQUESTS {
                    return served;
                }
                let more = if n % 3 == 0 { r#","stream":true"# } else { "" };
                let reply = rig.bed.chat(&customers[n % 10], "m-big", more).send().await.expect("an answer");
                let status = reply.status();
                let text = reply.text().await.expect("to the end");
                assert_eq!(status, 200, "{text}");
                served += 1;
            }
        };
        let reloads = async {
            let mut applied = 0;
            // All fifty, and on until the last request was served.
            while applied < 50 || !done.load(Ordering::SeqCst) {
                let pool =
                    "[pools.big]\nupstream = \"openai\"\nmodels = [\"m-big\"]\nceiling = { rpm = 100_000, tpm = 100_000_000 }\n";
                let config = match applied % 4 {
                    0 => format!("{CONFIG}\n{pool}\n[concurrency]\nslots = 2\n"),
                    1 => format!("{CONFIG}\n[upstreams.more]\nbase_url = \"http://127.0.0.1:9\"\nconnect_timeout = \"3s\"\n"),
                    2 => {
                        format!("{}\n{pool}", with(&[("[plans.case]", "[plans.other]"), ("plan = \"case\"", "plan = \"other\"")]))
                    }
                    _ => format!(
                        "{}\n[concurrency]\nslots = 64\n[customers.c3]\nrpm = 100_000",
                        with(&[("day = 1000.0", "day = 2000.0")])
                    ),
                };
                let outcome = rig.reload(&config).await;
                assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
                applied += 1;
            }
            applied
        };
        let requests = async {
            let served: usize = join_all((0..24).map(|_| worker())).await.into_iter().sum();
            done.store(true, Ordering::SeqCst);
            served
        };
        let (served, applied) = tokio::join!(requests, reloads);
        assert_eq!(served, REQUESTS);
        assert!(applied >= 50, "{applied}");
        let names: Vec<&str> = customers.iter().map(String::as_str).collect();
        rig.bed.assert_books(&names).await;
        assert_eq!(rig.bed.provider.log().len(), REQUESTS);
        let slots = rig.bed.gateway.policy.load().concurrency.slots;
        assert_eq!(rig.bed.gateway.slots.load().free, slots, "every slot is free again");
        rig.bed.stop().await;
    }
}
