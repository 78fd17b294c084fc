//! The spans of a request: which there are, under which, called what, and saying what.

use crate::collector::{Collector, attributes};
use crate::{COST, REPLY, bed_of, reply, told};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::collections::BTreeMap;
use tollgate::demo::provider::Script;
use tollgate::wire::Usage;

const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const ERROR: i32 = 2;

/// Name, kind, whether it is an error.
fn shape(span: &Span) -> (&str, i32, bool) {
    (&span.name, span.kind, span.status.as_ref().is_some_and(|status| status.code == ERROR))
}

/// What a span says, but for what is different each time.
fn says(span: &Span) -> BTreeMap<&str, String> {
    let mut says = attributes(&span.attributes);
    for varies in ["tollgate.request_id", "server.port"] {
        says.remove(varies);
    }
    says
}

fn map<'a>(pairs: &[(&'a str, &str)]) -> BTreeMap<&'a str, String> {
    pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
}

/// Everything of one trace: the children lie under the first, and inside its time.
fn assert_tree(spans: &[Span]) {
    let root = &spans[0];
    assert_eq!((root.trace_id.len(), root.span_id.len(), root.kind), (16, 8, SERVER));
    let mut ids: Vec<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "no two have the same id");
    for span in &spans[1..] {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&root.trace_id, &root.span_id), "{}", span.name);
        assert!(span.start_time_unix_nano >= root.start_time_unix_nano && span.end_time_unix_nano <= root.end_time_unix_nano);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
}

#[tokio::test]
async fn an_answered_chat_is_a_request_its_admission_and_one_call() {
    let collector = Collector::new().await;
    let bed = bed_of(&collector, "service_name = \"gate\"", "").await;
    bed.provider.script(reply());
    let answer = bed.chat("t", "m-big", "").send().await.expect("an answer");
    let id = answer.headers()["x-tollgate-request-id"].to_str().expect("text").to_owned();
    assert_eq!(answer.bytes().await.expect("whole"), REPLY);
    let spans = told(&bed, &collector, 1).await;
    let shapes: Vec<_> = spans.iter().map(shape).collect();
    assert_eq!(shapes, [("chat m-big", SERVER, false), ("admit", 1, false), ("chat m-big", CLIENT, false)]);
    assert_tree(&spans);
    assert_eq!(spans[0].parent_span_id, Vec::<u8>::new());
    assert_eq!(attributes(&spans[0].attributes)["tollgate.request_id"], id);
    let own = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m-big"),
        ("gen_ai.request.max_tokens", "1000"),
        ("gen_ai.request.stream", "false"),
        ("gen_ai.response.model", "m-big-2026"),
        ("http.response.status_code", "200"),
        ("tollgate.api", "chat"),
        ("tollgate.app", "passthrough"),
        ("tollgate.plan", "case"),
        ("tollgate.priority", "live"),
        ("tollgate.attempts", "1"),
        ("tollgate.waited", "0.0"),
        ("tollgate.cost_nano_usd", COST),
        ("tollgate.ending", "complete"),
    ];
    assert_eq!(says(&spans[0]), map(&own));
    assert_eq!(says(&spans[1]), map(&[]));
    let call = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m-big"),
        ("gen_ai.response.model", "m-big-2026"),
        ("gen_ai.usage.input_tokens", "10"),
        ("gen_ai.usage.output_tokens", "99"),
        ("http.response.status_code", "200"),
        ("server.address", "127.0.0.1"),
        ("tollgate.upstream", "openai"),
    ];
    assert_eq!(says(&spans[2]), map(&call));
    assert_eq!(attributes(&spans[2].attributes)["server.port"], bed.provider.address().port().to_string());
    let posted = collector.posted();
    assert!(posted.iter().all(|posted| posted.headers["content-type"] == "application/x-protobuf"));
    let mut paths: Vec<_> = posted.iter().map(|posted| posted.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths, ["/base/v1/metrics", "/base/v1/traces"]);
    assert_resource(&collector);
    bed.assert_books(&["t"]).await;
}

fn assert_resource(collector: &Collector) {
    let resource = collector.resource();
    let mut says = attributes(&resource.attributes);
    assert_eq!(says.remove("service.instance.id").map(|id| id.len()), Some(32));
    assert_eq!(says, map(&[("service.name", "gate"), ("service.version", env!("CARGO_PKG_VERSION"))]));
}

#[tokio::test]
async fn a_stream_says_so_and_its_call_lasts_to_its_end() {
    let collector = Collector::new().await;
    let bed = bed_of(&collector, "", "").await;
    let answer = bed.chat("t", "m-big", r#","stream":true,"max_tokens":50"#).send().await.expect("an answer");
    answer.bytes().await.expect("whole");
    let spans = told(&bed, &collector, 1).await;
    assert_tree(&spans);
    let [root, _, call] = &spans[..] else { panic!("{spans:#?}") };
    let (own, said) = (says(root), says(call));
    assert_eq!((own["gen_ai.request.stream"].as_str(), own["gen_ai.request.max_tokens"].as_str()), ("true", "50"));
    let usage = bed.provider.log()[0].usage.clone().expect("the provider counted");
    assert_eq!(said["gen_ai.usage.input_tokens"], usage.input().to_string());
    assert_eq!(said["gen_ai.usage.output_tokens"], usage.total_output().to_string());
    assert!(usage.total_output() > 0);
    assert_eq!(own["tollgate.cost_nano_usd"], bed.provider_cost().get().to_string());
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_refusal_says_why_by_which_limit_and_calls_nobody() {
    let collector = Collector::new().await;
    let more = "[plans.one]\nmessages = { rate = \"1/h\", burst = 1 }\nspend = { day = 1.0 }\n[customers.few]\nplan = \"one\"\n";
    let bed = bed_of(&collector, "", more).await;
    bed.provider.script(reply());
    for status in [200, 429, 429] {
        let answer = bed.chat("few", "m-big", "").send().await.expect("an answer");
        assert_eq!(answer.status(), status);
        answer.bytes().await.expect("whole");
    }
    let spans = told(&bed, &collector, 3).await;
    let roots: Vec<_> = spans.iter().filter(|span| span.kind == SERVER).collect();
    for refused in &roots[1..] {
        let said = says(refused);
        for (key, value) in [
            ("http.response.status_code", "429"),
            ("tollgate.cause", "rate_limit_exceeded"),
            ("tollgate.refusal.scope", "customer"),
            ("tollgate.refusal.limit", "messages"),
            ("tollgate.plan", "one"),
            ("tollgate.attempts", "0"),
            ("tollgate.cost_nano_usd", "0"),
            ("gen_ai.operation.name", "chat"),
        ] {
            assert_eq!(said.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert!(!shape(refused).2, "a refusal is no fault of the server");
    }
    assert_eq!(spans.iter().filter(|span| span.kind == CLIENT).count(), 1);
    let durations = collector.histogram("gen_ai.client.operation.duration", "s");
    assert_eq!(durations.iter().map(|point| point.count).sum::<u64>(), 1, "nobody was asked for the refused");
    bed.assert_books(&["few"]).await;
}

#[tokio::test]
async fn a_call_that_is_tried_again_is_two_spans_with_the_wait_between() {
    let collector = Collector::new().await;
    let bed = bed_of(&collector, "", "[retry]\nmax = 1\nbreaker = { failures = 0 }\n").await;
    let error = r#"{"error":{"message":"SECRET","type":"server_error","param":null,"code":null}}"#;
    bed.provider.script(Script::json(503, error).header("retry-after", "0"));
    bed.provider.script(reply());
    let answer = bed.chat("t", "m-big", "").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.bytes().await.expect("whole");
    let spans = told(&bed, &collector, 1).await;
    assert_tree(&spans);
    let shapes: Vec<_> = spans.iter().map(shape).collect();
    let right = [
        ("chat m-big", SERVER, false),
        ("admit", 1, false),
        ("chat m-big", CLIENT, true),
        ("wait", 1, false),
        ("chat m-big", CLIENT, false),
    ];
    assert_eq!(shapes, right);
    let failed = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m-big"),
        ("http.response.status_code", "503"),
        ("error.type", "503"),
        ("server.address", "127.0.0.1"),
        ("tollgate.fault", "server_error"),
        ("tollgate.upstream", "openai"),
    ];
    assert_eq!(says(&spans[2]), map(&failed));
    assert_eq!(says(&spans[3]), map(&[("tollgate.wait.reason", "backoff")]));
    assert_eq!(says(&spans[4])["gen_ai.usage.output_tokens"], "99");
    assert!(spans[2].end_time_unix_nano <= spans[3].start_time_unix_nano);
    assert!(spans[3].end_time_unix_nano <= spans[4].start_time_unix_nano);
    let own = says(&spans[0]);
    assert_eq!((own["tollgate.attempts"].as_str(), own["tollgate.cost_nano_usd"].as_str()), ("2", COST));
    let mut series: Vec<_> = collector
        .histogram("gen_ai.client.operation.duration", "s")
        .iter()
        .map(|point| (attributes(&point.attributes).get("error.type").cloned(), point.count))
        .collect();
    series.sort();
    assert_eq!(series, [(None, 1), (Some("503".to_owned()), 1)]);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_provider_that_cannot_answer_is_an_error_of_the_request_too() {
    let collector = Collector::new().await;
    let bed = bed_of(&collector, "", "").await;
    bed.provider.script(Script::json(500, r#"{"error":{"message":"m","type":"server_error"}}"#));
    let answer = bed.chat("t", "m-big", "").send().await.expect("an answer");
    assert_eq!(answer.status(), 500);
    answer.bytes().await.expect("whole");
    let spans = told(&bed, &collector, 1).await;
    let shapes: Vec<_> = spans.iter().map(shape).collect();
    assert_eq!(shapes, [("chat m-big", SERVER, true), ("admit", 1, false), ("chat m-big", CLIENT, true)]);
    let own = says(&spans[0]);
    assert_eq!((own["error.type"].as_str(), own["tollgate.cause"].as_str()), ("upstream_error", "upstream_error"));
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_fallback_is_a_second_call_of_another_model() {
    let collector = Collector::new().await;
    let more = "[plans.cheap]\nmessages = \"unlimited\"\nspend = { day = 1.0 }\non_provider = [\"cheaper\"]\n[customers.c]\nplan = \"cheap\"\n";
    let bed = bed_of(&collector, "", more).await;
    let used = Usage { uncached_input: 10, output: 99, ..Usage::default() };
    bed.provider.script(Script::json(500, r#"{"error":{"message":"m","type":"server_error"}}"#));
    bed.provider.script(Script::json(200, REPLY.replace("m-big-2026", "m-small-2026")).used(used));
    let answer = bed.chat("c", "m-big", "").header("x-request-class", "general").send().await.expect("an answer");
    assert_eq!(answer.headers()["x-tollgate-degraded"], "cheaper;cause=provider");
    answer.bytes().await.expect("whole");
    let spans = told(&bed, &collector, 1).await;
    assert_tree(&spans);
    let calls: Vec<_> = spans.iter().filter(|span| span.kind == CLIENT).collect();
    let shapes: Vec<_> = calls.iter().map(|span| shape(span)).collect();
    assert_eq!(shapes, [("chat m-big", CLIENT, true), ("chat m-small", CLIENT, false)]);
    assert_eq!(says(calls[0])["error.type"], "500");
    assert!(!says(calls[0]).contains_key("gen_ai.usage.input_tokens"), "tokens are told once");
    let said = says(calls[1]);
    assert_eq!((said["gen_ai.request.model"].as_str(), said["gen_ai.response.model"].as_str()), ("m-small", "m-small-2026"));
    assert_eq!(said["gen_ai.usage.input_tokens"], "10");
    let own = says(&spans[0]);
    for (key, value) in [
        ("gen_ai.request.model", "m-big"),
        ("gen_ai.response.model", "m-small-2026"),
        ("tollgate.fallback_model", "m-small"),
        ("tollgate.degraded", "cheaper"),
        ("tollgate.degraded.cause", "provider"),
        ("tollgate.attempts", "2"),
        ("tollgate.cost_nano_usd", "60900"),
    ] {
        assert_eq!(own.get(key).map(String::as_str), Some(value), "{key}");
    }
    let tokens = collector.histogram("gen_ai.client.token.usage", "{token}");
    let tokens: Vec<_> = tokens.iter().map(|point| (attributes(&point.attributes), point.sum, point.count)).collect();
    let series = |kind: &str| {
        map(&[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", "m-small"),
            ("gen_ai.token.type", kind),
        ])
    };
    assert_eq!(tokens, [(series("input"), Some(10.0), 1), (series("output"), Some(99.0), 1)]);
    bed.assert_books(&["c"]).await;
}
