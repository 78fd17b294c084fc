//! Hand-off where the gateway itself has no room, fallbacks in a pool of their own, and a provider that breaks at the commit.

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, Route, SENTENCE, config, models_seen, tickets};
use std::sync::Arc;
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::NanoUsd;
use tollgate::stack::levels::Pinned;
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;
use tollgate::wire::Usage;

const OPEN: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

/// A bed with the plan `open`, this `[concurrency]` and these lines behind it.
async fn bed(concurrency: &str, more: &str) -> Bed {
    let config = config(&[("open".to_owned(), OPEN.to_owned())], more).replace("slots = 64\n", &format!("{concurrency}\n"));
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    Bed::on(&config, provider, Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)))).await
}

/// A question of the customer `c`, whose class allows a fallback or not.
fn ask(bed: &Bed, route: Route, class: &str) -> reqwest::RequestBuilder {
    let request = bed.post(route.path, "c", route.body("")).header("x-customer-plan", "open");
    if class.is_empty() { request } else { request.header("x-request-class", class) }
}

/// Takes the only slot until the gate opens.
async fn occupy(bed: &Bed, gate: &Gate) -> tokio::task::JoinHandle<u16> {
    let usage = Usage { uncached_input: 10, output: 1, ..Usage::default() };
    let body = r#"{"choices":[{"message":{"content":"."}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}"#;
    bed.provider.script(Script::json(200, body).hold(gate).used(usage));
    let request = bed.chat("other", "m-small", "").header("x-customer-plan", "open");
    let running = tokio::spawn(async move { request.send().await.expect("an answer").status().as_u16() });
    bed.provider.wait_until(|seen| !seen.is_empty()).await;
    running
}

#[tokio::test]
async fn who_finds_no_slot_or_no_place_in_the_line_is_handed_off() {
    for (how, room) in [("no place in the line", "queue = 0"), ("the line did not move", "queue = 10\nmax_wait = \"20ms\"")] {
        for route in ROUTES {
            let bed = bed(&format!("slots = 1\n{room}"), "").await;
            let case = format!("{how} {route:?}");
            let gate = Gate::new();
            let running = occupy(&bed, &gate).await;
            let answer = Answer::of(ask(&bed, route, "general")).await;
            assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "handoff;cause=provider"), "{case}");
            assert_eq!((answer.text(), answer.model()), (SENTENCE.to_owned(), "human-triage".to_owned()), "{case}");
            let ticket = tickets(&bed, 1).await.remove(0);
            assert_eq!((&*ticket.requests[0].cause, ticket.requests[0].cost), ("overloaded", 0), "{case}");
            let tried: Vec<_> = ticket.requests[0].attempts.iter().map(|tried| (&*tried.model, &*tried.outcome)).collect();
            let (big, small) = route.models();
            assert_eq!(tried, [(big, "overloaded"), (small, "overloaded")], "{case}");
            gate.open();
            assert_eq!(running.await.expect("it ended"), 200);
            let later = Answer::of(ask(&bed, route, "general")).await;
            assert_eq!((later.status, later.remaining("rpm")), (200, Some(59)), "{case}: what found no room was given back");
            assert_eq!(bed.provider.seen(), 2, "{case}");
            bed.assert_books(&["c", "other"]).await;
        }
    }
}

/// The dear model and the cheap one have an account each; the dear one's is used up and at level 3.
const POOLS: &str = "[pools.dear]\nupstream = \"openai\"\nmodels = [\"m-big\"]\nceiling = { rpm = 1 }\n\
                     [pools.cheap]\nupstream = \"openai\"\nmodels = [\"m-small\"]\nceiling = { rpm = 2 }\n";

async fn pin(bed: &Bed, pool: &str, level: u8) {
    let until = bed.gateway.clock.now().plus(600_000_000).micros();
    bed.gateway.levels.pin(pool, Some(Pinned { level, until, by: "ops".into() })).await.expect("kept");
}

#[tokio::test]
async fn at_level_3_a_fallback_takes_of_its_own_pools_ceiling_and_gives_up_what_that_pool_does() {
    for (cheap, degraded, cap) in
        [(0, "cheaper;cause=provider", None), (2, "short;cause=level, cheaper;cause=provider", Some("512"))]
    {
        let bed = bed("slots = 64", POOLS).await;
        let chat = ROUTES[0];
        assert_eq!(Answer::of(ask(&bed, chat, "")).await.status, 200);
        pin(&bed, "dear", 3).await;
        pin(&bed, "cheap", cheap).await;
        for n in 1..=2 {
            let answer = Answer::of(ask(&bed, chat, "general")).await;
            assert_eq!((answer.status, answer.header("x-tollgate-model")), (200, "m-small"), "{cheap} {n}: {}", answer.body);
            assert_eq!(answer.header("x-tollgate-degraded"), degraded, "{cheap} {n}");
            assert_eq!(answer.remaining("rpm"), Some(59 - n), "{cheap} {n}: one request each, though two models were tried");
            let sent = String::from_utf8(bed.provider.log().last().expect("seen").body.to_vec()).expect("text");
            assert_eq!(sent.contains("\"max_completion_tokens\":512"), cap.is_some(), "{cheap} {n}: {sent}");
        }
        // Two is what the cheap pool's account gives in a minute, whatever was refused at the dear one.
        let answer = Answer::of(ask(&bed, chat, "general")).await;
        let right = (200, "handoff;cause=provider", SENTENCE);
        assert_eq!((answer.status, answer.header("x-tollgate-degraded"), &*answer.text()), right, "{cheap}");
        let ticket = tickets(&bed, 1).await.remove(0);
        let tried: Vec<_> = ticket.requests[0].attempts.iter().map(|tried| (&*tried.model, &*tried.outcome)).collect();
        assert_eq!(tried, [("m-big", "overloaded"), ("m-small", "overloaded")], "{cheap}");
        assert_eq!(models_seen(&bed), ["m-big", "m-small", "m-small"], "{cheap}: nobody waited, nobody was asked in vain");
        bed.assert_books(&["c"]).await;
    }
}

/// 15 tokens of prompt at $2.50 a million, and one of content at $10.
const COMMITTED: u64 = 15 * 2_500 + 10_000;

/// The first content commits. Broken in it or before it, the chain still answers and nothing of the first model is seen; broken right
/// behind it, in the same segment even, the break is the client's.
#[tokio::test]
async fn a_provider_that_breaks_at_the_commit_is_either_passed_on_or_answered_for() {
    let begin = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let first = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" zebra\"}}]}\n\n";
    let error = "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"code\":null}}\n\n";
    let half = &first[..first.len() - 5];
    for (class, degraded) in [("general", "cheaper;cause=provider"), ("strict", "handoff;cause=provider")] {
        for (how, sent, committed) in [
            ("before the content", begin.to_owned(), false),
            ("within the content", format!("{begin}{half}"), false),
            ("an error before the content", format!("{begin}{error}"), false),
            ("behind the content", format!("{begin}{first}"), true),
            ("an error behind the content", format!("{begin}{first}{error}"), true),
        ] {
            for reset in [true, false] {
                let case = format!("{class}, {how}, reset: {reset}");
                let bed = bed("slots = 64", "").await;
                let script = Script::sse().send(sent.clone());
                bed.provider.script(if reset { script.reset() } else { script.close() });
                let reply = ask(&bed, ROUTES[1], class).send().await.expect("an answer");
                assert_eq!(reply.status(), 200, "{case}");
                let marked =
                    reply.headers().get("x-tollgate-degraded").map_or("", |value| value.to_str().expect("text")).to_owned();
                let model = reply.headers()["x-tollgate-model"].to_str().expect("text").to_owned();
                let mut reply = reply;
                let mut text = String::new();
                let clean = loop {
                    match reply.chunk().await {
                        Ok(Some(chunk)) => text.push_str(std::str::from_utf8(&chunk).expect("text")),
                        end => break end.is_ok(),
                    }
                };
                bed.quiet().await;
                if committed {
                    assert_eq!((&*marked, &*model), ("", "m-big"), "{case}");
                    assert!(text.starts_with(&format!("{begin}{first}")), "{case}: {text}");
                    assert_eq!(models_seen(&bed), ["m-big"], "{case}: no second call");
                    tickets(&bed, 0).await;
                    assert_eq!(bed.spent("c").await, NanoUsd::new(COMMITTED), "{case}: the prompt and one token");
                } else {
                    assert!(clean, "{case}: {text}");
                    assert_eq!(marked, degraded, "{case}");
                    assert!(!text.contains("zebra") && !text.contains("server_error"), "{case}: {text}");
                    let handed = class == "strict";
                    assert_eq!(model, if handed { "human-triage" } else { "m-small" }, "{case}");
                    assert_eq!(models_seen(&bed), if handed { vec!["m-big"] } else { vec!["m-big", "m-small"] }, "{case}");
                    tickets(&bed, usize::from(handed)).await;
                    bed.assert_books(&["c"]).await;
                }
            }
        }
    }
}
