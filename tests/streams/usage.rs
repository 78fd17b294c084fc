//! What is booked from the usage a provider states, to the nano-dollar, whatever it states.

use crate::bodies::{DONE, HI, IN, OUT, ROUTES, STREAM, USAGE, three};
use crate::rig::{Rig, complete, read, read_some};
use tollgate::config::{Env, Policy};
use tollgate::demo::provider::{Gate, Script};

/// Calls a model that answers " this this" and this usage, and gives tokens, cost, and whether we counted ourselves.
async fn booked(rig: &Rig, path: &str, usage: &str) -> (u64, u64, bool) {
    let (request, content) = match path {
        "/v1/messages" => {
            (ROUTES[2].request.replace(",\"stream\":true", ""), r#""content":[{"type":"text","text":" this this"}]"#)
        }
        "/v1/responses" => (r#"{"model":"m-big","input":"hi"}"#.into(), r#""output":[]"#),
        _ => (
            r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}]}"#.into(),
            r#""choices":[{"message":{"content":" this this"}}]"#,
        ),
    };
    let reply = format!("{{{content},\"usage\":{usage}}}");
    rig.bed.provider.script(Script::json(200, reply.clone()));
    let mut answer = rig.post(path, request).send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), read(&mut answer).await), (200, (reply, true)), "{usage}");
    let outcome = rig.outcome().await;
    assert_eq!((outcome.requests, outcome.ending.as_str(), outcome.cause.as_str()), (1, "complete", ""), "{usage}");
    (outcome.tokens, outcome.cost, outcome.estimated)
}

#[tokio::test]
async fn cached_tokens_are_priced_once_and_as_cached() {
    let rig = Rig::new().await;
    let chat = r#"{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":800}}"#;
    let responses = r#"{"input_tokens":1000,"output_tokens":100,"input_tokens_details":{"cached_tokens":800}}"#;
    assert_eq!(booked(&rig, "/v1/chat/completions", chat).await, (1_100, 2_500_000, false));
    assert_eq!(booked(&rig, "/v1/responses", responses).await, (1_100, 2_500_000, false));
    for (written, read, cost) in [(12_304, 0, 54_399_000), (0, 12_304, 11_950_200)] {
        let usage = format!(
            r#"{{"input_tokens":3,"cache_creation_input_tokens":{written},"cache_read_input_tokens":{read},"output_tokens":550}}"#
        );
        assert_eq!(booked(&rig, "/v1/messages", &usage).await, (12_857, cost, false), "{usage}");
    }
}

#[tokio::test]
async fn numbers_that_lie_are_not_believed() {
    let rig = Rig::new().await;
    let chat = "/v1/chat/completions";
    let own_output = (12, 10 * IN + 2 * OUT, true);
    for (usage, right) in [
        (r#"{"prompt_tokens":10,"completion_tokens":-5}"#, own_output),
        (r#"{"prompt_tokens":10,"completion_tokens":null}"#, own_output),
        (r#"{"prompt_tokens":10,"completion_tokens":"many"}"#, own_output),
        (r#"{"prompt_tokens":10,"completion_tokens":[]}"#, own_output),
        (r#"{"prompt_tokens":10,"completion_tokens_details":{"reasoning_tokens":7}}"#, own_output),
        (r#"{"prompt_tokens":-10,"completion_tokens":99}"#, (HI + 99, HI * IN + 99 * OUT, true)),
        (r#"{"prompt_tokens":10,"completion_tokens":12.0}"#, (22, 10 * IN + 12 * OUT, false)),
        (r#"{"prompt_tokens":10,"completion_tokens":"12"}"#, (22, 10 * IN + 12 * OUT, false)),
        (
            r#"{"prompt_tokens":1000,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2000}}"#,
            (2_001, 2_000 * IN / 2 + OUT, false),
        ),
        (r#"{"prompt_tokens":0,"completion_tokens":0}"#, (0, 0, false)),
        ("{}", (HI + 2, HI * IN + 2 * OUT, true)),
        ("[]", (HI + 2, HI * IN + 2 * OUT, true)),
        ("null", (HI + 2, HI * IN + 2 * OUT, true)),
        ("\"none\"", (HI + 2, HI * IN + 2 * OUT, true)),
        // Taken as a hundred million tokens, with an alarm.
        (r#"{"prompt_tokens":10,"completion_tokens":1e12}"#, (100_000_010, 10 * IN + 100_000_000 * OUT, false)),
    ] {
        assert_eq!(booked(&rig, chat, usage).await, right, "{usage}");
    }
    for (kind, times) in [("usage_garbage", 6), ("usage_capped", 1), ("usage_inconsistent", 1)] {
        assert_eq!(rig.metric("tollgate_usage_anomalies_total", kind), times, "{kind}");
    }
}

#[tokio::test]
async fn the_parts_of_an_anthropic_stream_are_not_added_up() {
    let rig = Rig::new().await;
    let route = &ROUTES[2];
    for delta in [r#"{"output_tokens":15}"#, r#"{"input_tokens":25,"output_tokens":15}"#] {
        let end = format!(
            "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}},\"usage\":{delta}}}\n\n\
             event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
        );
        let stream = format!("{}{end}", route.half());
        rig.bed.provider.script(Script::sse().send(stream.clone()));
        let mut reply = rig.post(route.path, route.request).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream, true));
        assert_eq!(rig.outcome().await, complete(40, 300_000), "{delta}");
    }
}

#[tokio::test]
async fn a_usage_that_shrinks_is_taken_and_counted() {
    let rig = Rig::new().await;
    let stream = format!("{}{}{USAGE}{DONE}", three(), USAGE.replace("99", "120"));
    rig.bed.provider.script(Script::sse().send(stream));
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    assert!(read(&mut reply).await.1);
    assert_eq!(rig.outcome().await, complete(109, crate::bodies::USAGE_COST));
    assert_eq!(rig.metric("tollgate_usage_anomalies_total", "usage_decreased"), 1);
}

#[tokio::test]
async fn searches_are_priced_or_reported_and_not_asked_for_unseen() {
    let usage = r#"{"input_tokens":10,"output_tokens":1,"server_tool_use":{"web_search_requests":3}}"#;
    let tokens = 10 * 3_000 + 15_000;
    let rig = Rig::new().await;
    assert_eq!(booked(&rig, "/v1/messages", usage).await, (11, tokens, false));
    assert_eq!(rig.metric("tollgate_usage_anomalies_total", "searches_not_priced"), 1, "free, but not silently");
    let config = crate::rig::config("", "").replace("output = 15.0 }", "output = 15.0, web_search_call = 0.01 }");
    let rig = Rig::on(&config).await;
    assert_eq!(booked(&rig, "/v1/messages", usage).await, (11, tokens + 30_000_000, false));
    assert_eq!(rig.metric("tollgate_usage_anomalies_total", "searches_not_priced"), 0);
    // Who asks for a search whose cost nobody bounded is refused.
    let tools = r#"{"model":"c-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#;
    let before = rig.bed.provider.seen();
    assert_eq!(rig.post("/v1/messages", tools).send().await.expect("an answer").status(), 400);
    assert_eq!(rig.bed.provider.seen(), before);
}

#[tokio::test]
async fn the_price_at_admission_holds_to_the_end() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    rig.bed.provider.script(Script::sse().send(three()).until(&gate).send(format!("{USAGE}{DONE}")));
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    read_some(&mut reply, &three()).await;
    let dearer =
        crate::rig::config("", "").replace("input = 2.50, cached_input = 1.25, output = 10.0", "input = 25.0, output = 100.0");
    let dearer = dearer.replace("{provider}", &rig.bed.provider.base_url());
    let (policy, _) = Policy::parse(&dearer, "dearer.toml", &Env::default()).expect("a policy");
    rig.bed.gateway.policy.store(std::sync::Arc::new(policy));
    gate.open();
    assert_eq!(read(&mut reply).await, (format!("{USAGE}{DONE}"), true));
    assert_eq!(rig.outcome().await, complete(109, crate::bodies::USAGE_COST));

    rig.bed.provider.script(Script::sse().send(format!("{USAGE}{DONE}")));
    assert!(read(&mut rig.chat(STREAM).send().await.expect("an answer")).await.1);
    assert_eq!(rig.outcome().await, complete(109, 10 * crate::bodies::USAGE_COST), "the next request has the next price");
}
