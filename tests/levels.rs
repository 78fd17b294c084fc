//! What each level takes away, and what it must leave alone, through the whole stack.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;

use bed::{Bed, CONFIG};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::stack::levels::Pinned;
use tollgate::store::embedded::EmbeddedLedger;

const CHAT: &str = "/v1/chat/completions";
const HI: &str = r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}]}"#;

/// A pool of the big model with this ceiling; the small one has none.
fn pool(ceiling: &str) -> String {
    format!(
        "[pools.big]\nupstream = \"openai\"\nmodels = [\"m-big\"]\nceiling = {{ {ceiling} }}\nbackground_wait = \"60s\"\n\
         [models.o3]\nprice = {{ input = 2.0, output = 8.0 }}\n[pools.reasons]\nupstream = \"openai\"\nmodels = [\"o3\"]\nceiling = {{ rpm = 1_000 }}\n\
         [classes.general]\nfallback = true\n[plans.fallen]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\n\
         spend = {{ day = 1000.0 }}\nmax_output_tokens = 1_000\non_spend = []\non_provider = [\"cheaper\", \"handoff\"]\n\
         [customers.f]\nplan = \"fallen\"\n"
    )
}

async fn bed(ceiling: &str) -> Bed {
    let config = CONFIG.replace("[models.m-big]\n", "[models.m-big]\nfallback = \"m-small\"\n");
    Bed::with(&format!("{config}\n{}", pool(ceiling)), ProviderOptions::default()).await
}

async fn pin(bed: &Bed, pool: &str, level: u8) {
    let until = bed.gateway.clock.now().plus(600_000_000).micros();
    bed.gateway.levels.pin(pool, Some(Pinned { level, until, by: "ops".into() })).await.expect("kept");
}

fn header<'a>(reply: &'a reqwest::Response, name: &str) -> &'a str {
    reply.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

async fn code(reply: reqwest::Response) -> String {
    let body: Value = serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON");
    body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn level_1_pauses_background_work_and_nothing_else() {
    let bed = bed("rpm = 1_000").await;
    pin(&bed, "big", 1).await;
    let paused = bed.post(CHAT, "t", HI).header("x-priority", "background").send().await.expect("an answer");
    assert_eq!((paused.status().as_u16(), header(&paused, "retry-after")), (503, "60"));
    assert_eq!(code(paused).await, "background_paused");
    assert_eq!(bed.provider.log().len(), 0);
    assert!(bed.balances("t").await.is_empty(), "and nothing is claimed for it");
    for (priority, model) in [("internal", "m-big"), ("live", "m-big"), ("background", "m-small")] {
        let reply = bed.chat("t", model, "").header("x-priority", priority).send().await.expect("an answer");
        assert_eq!(reply.status(), 200, "{priority} {model}");
        assert_eq!(header(&reply, "x-tollgate-level"), if model == "m-big" { "1" } else { "" });
        assert_eq!(header(&reply, "x-tollgate-degraded"), "");
    }
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn level_1_halves_what_internal_work_may_use_of_the_ceiling() {
    for (level, fits) in [(0, 20), (1, 10)] {
        let config = format!("{}\n{}", CONFIG.replace("[retry]\n", "[retry]\nwait_budget = \"0s\"\n"), pool("rpm = 40"));
        let bed = Bed::with(&config, ProviderOptions::default()).await;
        pin(&bed, "big", level).await;
        let mut answered = 0;
        let refused = loop {
            let reply = bed.post(CHAT, "c", HI).header("x-priority", "internal").send().await.expect("an answer");
            if reply.status() != 200 || answered == 40 {
                break reply.status().as_u16();
            }
            answered += 1;
        };
        assert_eq!(refused, 429);
        assert_eq!(answered, fits, "of the 40 requests of the ceiling at level {level}");
        bed.assert_books(&["c"]).await;
    }
}

#[tokio::test]
async fn level_2_asks_for_short_answers_and_says_so() {
    let bed = bed("rpm = 1_000").await;
    pin(&bed, "big", 2).await;
    pin(&bed, "reasons", 2).await;
    for (body, sent) in [
        (
            HI.to_owned(),
            r#"{"max_completion_tokens":512,"model":"m-big","messages":[{"role":"user","content":"hi\n\nAnswer in at most three sentences."}]}"#,
        ),
        (
            r#"{"model":"m-big","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#.to_owned(),
            r#"{"model":"m-big","max_tokens":100,"messages":[{"role":"user","content":"hi\n\nAnswer in at most three sentences."}]}"#,
        ),
        (
            r#"{"model":"o3","reasoning_effort":"high","messages":[{"role":"user","content":"hi"}]}"#.to_owned(),
            r#"{"max_completion_tokens":1024,"model":"o3","reasoning_effort":"low","messages":[{"role":"user","content":"hi\n\nAnswer in at most three sentences."}]}"#,
        ),
    ] {
        let reply = bed.post(CHAT, "f", body.clone()).send().await.expect("an answer");
        assert_eq!(reply.status(), 200, "{body}");
        assert_eq!((header(&reply, "x-tollgate-level"), header(&reply, "x-tollgate-degraded")), ("2", "short;cause=level"));
        reply.bytes().await.expect("a whole body");
        assert_eq!(bed.provider.log().last().expect("seen").body, sent);
    }
    bed.assert_books(&["f"]).await;
}

#[tokio::test]
async fn level_2_leaves_tools_and_schemas_as_they_are() {
    let bed = bed("rpm = 1_000").await;
    pin(&bed, "big", 2).await;
    for more in [
        r#","max_tokens":900,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]"#,
        r#","max_tokens":900,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{}}}}"#,
    ] {
        let reply = bed.chat("f", "m-big", more).send().await.expect("an answer");
        assert_eq!(reply.status(), 200, "{more}");
        assert_eq!((header(&reply, "x-tollgate-level"), header(&reply, "x-tollgate-degraded")), ("2", ""));
        reply.bytes().await.expect("a whole body");
        let sent = format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        assert_eq!(bed.provider.log().last().expect("seen").body, sent);
    }
    bed.assert_books(&["f"]).await;
}

#[tokio::test]
async fn level_3_waits_no_more_but_answers_otherwise() {
    let bed = bed("rpm = 2").await;
    for _ in 0..2 {
        bed.chat("f", "m-big", "").send().await.expect("an answer").bytes().await.expect("a whole body");
    }
    pin(&bed, "big", 3).await;
    let cheaper = bed.post(CHAT, "f", HI).header("x-request-class", "general").send().await.expect("an answer");
    assert_eq!((cheaper.status().as_u16(), header(&cheaper, "x-tollgate-model")), (200, "m-small"));
    assert!(header(&cheaper, "x-tollgate-degraded").contains("cheaper;cause=provider"), "{:?}", cheaper.headers());
    cheaper.bytes().await.expect("a whole body");
    let handed = bed.post(CHAT, "f", HI).send().await.expect("an answer");
    assert!(header(&handed, "x-tollgate-degraded").contains("handoff;cause=provider"), "{:?}", handed.headers());
    let body: Value = serde_json::from_slice(&handed.bytes().await.expect("a body")).expect("JSON");
    assert_eq!(body["model"], "human-triage");
    assert_eq!(bed.provider.log().len(), 3, "nobody waited for the ceiling");
    bed.assert_books(&["f"]).await;
}

#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(1_780_000_000_000_000 + self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn the_level_follows_the_ceilings_use_up_at_once_and_down_after_ten_quiet_minutes() {
    let clock = Arc::new(Hand::default());
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
    let bed = Bed::clocked(&format!("{CONFIG}\n{}", pool("rpm = 10")), provider, ledger, clock.clone()).await;
    let policy = bed.gateway.policy.load_full();
    let levels = &bed.gateway.levels;
    let (mut seen, pass) = (Vec::new(), |secs: u64| clock.0.fetch_add(secs * 1_000_000, Ordering::SeqCst));
    let level = || levels.all().first().map_or(0, |(_, _, level)| *level);
    for _ in 0..10 {
        bed.post(CHAT, "c", HI).send().await.expect("an answer").bytes().await.expect("a whole body");
        levels.tick(&policy.levels).await;
        seen.push(level());
    }
    assert_eq!(seen, [0, 0, 0, 0, 0, 0, 1, 1, 2, 3], "of 9.7 a minute 7 are 72 %, 9 are 93 %, 10 are more than all");
    seen.clear();
    for secs in [61, 599, 1, 599, 1, 599, 1] {
        pass(secs);
        levels.tick(&policy.levels).await;
        seen.push(level());
    }
    assert_eq!(seen, [3, 3, 2, 2, 1, 1, 0]);
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn an_operator_sees_and_pins_the_level_of_a_pool() {
    let bed =
        Bed::with(&format!("{CONFIG}\n{}\n[admin]\nlisten = \"127.0.0.1:0\"\n", pool("rpm = 1_000")), ProviderOptions::default())
            .await;
    let admin = format!("http://{}", bed.admin.expect("it listens"));
    let ask = async |method: reqwest::Method, path: &str, body: &str| {
        let request = bed.client.request(method, format!("{admin}{path}")).header("content-type", "application/json");
        let reply = request.body(body.to_owned()).send().await.expect("an answer");
        let status = reply.status().as_u16();
        let body: Value = serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON");
        (status, body)
    };
    let (get, put, delete) = (reqwest::Method::GET, reqwest::Method::PUT, reqwest::Method::DELETE);
    let (status, seen) = ask(get.clone(), "/admin/levels", "").await;
    assert_eq!((status, &seen["pools"][0]["pool"], &seen["pools"][0]["level"]), (200, &"big".into(), &0.into()), "{seen}");
    for (path, wish, status, code) in [
        ("/admin/levels/nope", r#"{"level":1,"for":"1h","by":"ada"}"#, 404, "pool_not_found"),
        ("/admin/levels/big", r#"{"level":4,"for":"1h","by":"ada"}"#, 400, "invalid_request"),
        ("/admin/levels/big", r#"{"level":1,"for":"for ever","by":"ada"}"#, 400, "invalid_request"),
        ("/admin/levels/big", r#"{"level":1,"for":"8days","by":"ada"}"#, 400, "invalid_request"),
        ("/admin/levels/big", r#"{"level":1,"for":"1h","by":" "}"#, 400, "invalid_request"),
        ("/admin/levels/big", r#"{"level":1}"#, 400, "invalid_request"),
    ] {
        let (got, body) = ask(put.clone(), path, wish).await;
        assert_eq!((got, &body["error"]["code"]), (status, &code.into()), "{wish}: {body}");
    }
    assert_eq!(bed.gateway.levels.pinned().len(), 0, "a wish that is refused changes nothing");
    let (status, pinned) = ask(put, "/admin/levels/big", r#"{"level":1,"for":"1h","by":"ada"}"#).await;
    assert_eq!((status, &pinned["level"], &pinned["gauge_level"]), (200, &1.into(), &0.into()), "{pinned}");
    assert_eq!(pinned["pinned"]["by"], "ada");
    let background = || bed.post(CHAT, "t", HI).header("x-priority", "background").send();
    assert_eq!(background().await.expect("an answer").status(), 503);
    let (status, free) = ask(delete, "/admin/levels/big", "").await;
    assert_eq!((status, &free["pinned"]), (200, &Value::Null), "{free}");
    assert_eq!(background().await.expect("an answer").status(), 200);
    bed.assert_books(&["t"]).await;
}
