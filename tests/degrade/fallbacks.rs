//! What a fallback is asked, what it costs, and what happens when it cannot answer.

use crate::scene::{Answer, ROUTES, bed, models_seen};
use tollgate::demo::provider::Script;
use tollgate::domain::NanoUsd;
use tollgate::wire::Usage;

const OPEN: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

fn usage(input: u64, output: u64) -> Usage {
    Usage { uncached_input: input, output, ..Usage::default() }
}

fn reply(model: &str) -> Script {
    let body = format!(
        r#"{{"id":"x","object":"chat.completion","created":1,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"ok"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}}}}"#
    );
    Script::json(200, body).used(usage(1_000, 100))
}

#[tokio::test]
async fn the_served_model_is_priced_and_named() {
    let bed = bed(&[("open", OPEN)], "").await;
    bed.provider.script(Script::json(503, "{}"));
    bed.provider.script(reply("m-small-2026"));
    let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "open");
    let answer = Answer::of(request.header("x-request-class", "general")).await;
    assert_eq!((answer.status, &*answer.model()), (200, "m-small-2026"), "the provider's own name passes");
    assert_eq!(answer.header("x-tollgate-model"), "m-small");
    assert_eq!(answer.header("x-tollgate-degraded"), "cheaper;cause=provider");
    assert_eq!(answer.remaining("rpm"), Some(59));
    assert_eq!(bed.spent("c").await, NanoUsd::new(210_000), "1,000 x $0.15 and 100 x $0.60 per million, not $0.0035");
    assert_eq!(models_seen(&bed), ["m-big", "m-small"]);
    let metrics = bed.gateway.metrics.render();
    assert!(metrics.contains("tollgate_spent_nano_usd_total{model=\"m-small\"} 210000"), "{metrics}");
    assert!(metrics.contains("tollgate_degraded_total{kind=\"cheaper\",cause=\"provider\"} 1"), "{metrics}");
    bed.assert_books(&["c"]).await;
}

/// The budget has room for one hold of the dear model. If the fallback's claims came beside it there would be none for them.
#[tokio::test]
async fn what_the_first_model_held_makes_room_for_the_fallback() {
    let plan = OPEN.replace("day = 1.0", "day = 0.011");
    let bed = bed(&[("tight", &plan)], "").await;
    bed.provider.script(Script::json(500, "{}"));
    let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "tight");
    let answer = Answer::of(request.header("x-request-class", "general")).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "cheaper;cause=provider"), "{}", answer.body);
    let held = 1_000 * 600;
    assert!(bed.spent("c").await.get() < held);
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn a_fallback_that_is_dearer_than_what_is_left_is_passed_over() {
    let plan = OPEN.replace("day = 1.0", "day = 0.0105");
    let more = "[models.m-odd]\nprice = { input = 1.0, output = 5.0 }\nfallback = \"m-dear\"\n[models.m-dear]\nprice = { input = 100.0, output = 500.0 }\noutput_floor = 1_000";
    let bed = bed(&[("tight", &plan)], more).await;
    bed.provider.script(Script::json(500, r#"{"error":{"message":"first"}}"#));
    let body = ROUTES[0].body("").replace("m-big", "m-odd").replace("hi", "[900 tokens]");
    let request = |chain: &str| {
        bed.post("/v1/chat/completions", "c", body.clone()).header("x-customer-plan", "tight").header("x-request-class", chain)
    };
    let answer = Answer::of(request("general")).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "handoff;cause=provider"), "{}", answer.body);
    assert_eq!(models_seen(&bed), ["m-odd"], "never asked for $0.5");
    assert_eq!(bed.spent("c").await, NanoUsd::ZERO);
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn a_fallback_that_cannot_take_the_request_leaves_the_first_error_to_the_client() {
    let chain = |steps: &str| format!("{OPEN}\non_provider = {steps}");
    let (only, then) = (chain("[\"cheaper\"]"), chain("[\"cheaper\", \"handoff\"]"));
    let bed = bed(&[("only", &only), ("then", &then)], "").await;
    for (plan, right) in [("only", (529, "")), ("then", (200, "handoff;cause=provider"))] {
        for refusal in [400, 404, 413, 422] {
            bed.provider.script(Script::json(529, r#"{"error":{"message":"busy"}}"#).header("x-request-id", "r1"));
            bed.provider.script(Script::json(refusal, r#"{"error":{"message":"reasoning_effort is not supported"}}"#));
            let body = ROUTES[0].body(r#","reasoning_effort":"high""#);
            let request = bed.post("/v1/chat/completions", plan, body).header("x-customer-plan", plan);
            let answer = Answer::of(request.header("x-request-class", "general")).await;
            assert_eq!((answer.status, answer.header("x-tollgate-degraded")), right, "{refusal}: {}", answer.body);
            assert!(!answer.body.contains("reasoning_effort"), "the fallback's error is none of the client's: {}", answer.body);
            if plan == "only" {
                assert_eq!((answer.json()["error"]["message"].as_str(), answer.header("x-request-id")), (Some("busy"), "r1"));
                assert_eq!(answer.header("x-tollgate-model"), "");
            }
        }
        assert_eq!(bed.spent(plan).await, NanoUsd::ZERO);
    }
    let fallbacks = bed.provider.log().into_iter().filter(|seen| seen.model == "m-small");
    assert!(fallbacks.clone().count() == 8 && fallbacks.clone().all(|seen| seen.body.windows(4).any(|w| w == b"high")));
    bed.assert_books(&["only", "then"]).await;
}

#[tokio::test]
async fn the_fallback_gets_its_own_prompt_and_cap_and_no_other_byte_changes() {
    let more = r#"
[models.talker]
price = { input = 2.5, output = 10.0 }
fallback = { model = "limited", system = "Be brief. \"Now\"." }
[models.limited]
price = { input = 0.1, output = 0.2 }
max_output_tokens = 64
[models.c-talker]
price = { input = 2.5, output = 10.0 }
fallback = { model = "c-limited", system = "Be brief. \"Now\"." }
[models.c-limited]
price = { input = 0.1, output = 0.2 }
max_output_tokens = 64
"#;
    let bed = bed(&[("open", OPEN)], more).await;
    let prompt = r#""Be brief. \"Now\".""#;
    for (path, body, right) in [
        (
            "/v1/chat/completions",
            r#"{ "model" : "talker", "temperature":1.50e0, "max_tokens": 900, "messages":[{"role":"system","content":"Long."},{"role":"user","content":"\u00e9"}]}"#,
            r#"{ "model" : "limited", "temperature":1.50e0, "max_tokens": 64, "messages":[{"role":"system","content":@},{"role":"user","content":"\u00e9"}]}"#,
        ),
        (
            "/v1/chat/completions",
            r#"{"model":"talker","messages":[{"role":"user","content":"q"}]}"#,
            r#"{"max_completion_tokens":64,"model":"limited","messages":[{"role":"system","content":@},{"role":"user","content":"q"}]}"#,
        ),
        (
            "/v1/responses",
            r#"{"model":"talker","instructions":"Long.","input":"q","max_output_tokens":50}"#,
            r#"{"model":"limited","instructions":@,"input":"q","max_output_tokens":50}"#,
        ),
        (
            "/v1/messages",
            r#"{"model":"c-talker","max_tokens":500,"messages":[{"role":"user","content":"q"}]}"#,
            r#"{"system":@,"model":"c-limited","max_tokens":64,"messages":[{"role":"user","content":"q"}]}"#,
        ),
        ("/v1/completions", r#"{"model":"talker","prompt":"q"}"#, r#"{"max_tokens":16,"model":"limited","prompt":"q"}"#),
    ] {
        bed.provider.script(Script::json(500, "{}"));
        let request = bed.post(path, "c", body).header("x-customer-plan", "open").header("x-request-class", "general");
        let answer = Answer::of(request.header("x-personal-data", "none").header("x-conversation-id", "k")).await;
        assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "cheaper;cause=provider"), "{}", answer.body);
        let seen = bed.provider.log().pop().expect("the fallback's request");
        assert_eq!(String::from_utf8_lossy(&seen.body), right.replace('@', prompt), "{path}");
        for name in seen.headers.keys() {
            let ours = ["x-customer", "x-request-class", "x-personal", "x-conversation", "x-priority", "x-tollgate"];
            assert!(!ours.iter().any(|prefix| name.as_str().starts_with(prefix)), "{name} stays here");
        }
    }
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn a_prompt_longer_than_the_fallback_takes_is_not_sent_there() {
    let more = "[models.wide]\nprice = { input = 200.0, output = 200.0 }\nfallback = \"gpt-4o-mini\"";
    let plan = OPEN.replace("tpm = 100_000", "tpm = \"unlimited\"");
    let bed = bed(&[("open", &plan)], more).await;
    let most =
        bed.gateway.policy.load().prices.get("gpt-4o-mini").and_then(|price| price.max_input_tokens).expect("a known length");
    let body = format!(
        r#"{{"model":"wide","max_tokens":5,"messages":[{{"role":"user","content":"{}"}}]}}"#,
        "word ".repeat(most as usize + 500)
    );
    let request = bed.post("/v1/chat/completions", "c", body).header("x-customer-plan", "open");
    let answer = Answer::of(request.header("x-request-class", "general")).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "handoff;cause=spend"), "{}", answer.body);
    assert_eq!(models_seen(&bed), [""; 0]);
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn a_key_that_may_not_use_the_fallback_does_not_get_it() {
    let more = format!(
        "[keys.narrow]\nhash = \"blake3:{}\"\nmodels = [\"m-big\"]\nplans = [\"open\"]",
        blake3::hash(b"sk-narrow").to_hex()
    );
    let bed = bed(&[("open", OPEN)], &more).await;
    bed.provider.script(Script::json(500, "{}"));
    let request = bed.client.post(bed.url("/v1/chat/completions")).header("authorization", "Bearer sk-narrow");
    let request =
        request.header("content-type", "application/json").header("x-customer-id", "c").header("x-customer-plan", "open");
    let answer = Answer::of(request.header("x-request-class", "general").body(ROUTES[0].body(""))).await;
    assert_eq!(answer.header("x-tollgate-degraded"), "handoff;cause=provider");
    assert_eq!(models_seen(&bed), ["m-big"]);
    bed.assert_books(&["c"]).await;
}
