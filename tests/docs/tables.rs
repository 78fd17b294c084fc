//! Names in the documents are the program's: headers, routes, metrics, log fields, links, and the map of the modules.

use super::child::{ROOT, Running};
use super::markdown::{code, document, documents, rows};
use std::collections::BTreeSet;
use std::path::Path;
use tollgate::telemetry::Metrics;
use tollgate::telemetry::metrics::{
    AnomalyLabels, ApiLabels, DegradedLabels, HandshakeLabels, JobLabels, ListenerLabels, ModelLabels, Name, PoolLabels,
    ReasonLabels, RefusalLabels, RepeatLabels, RequestLabels, ResultLabels, RetryLabels, ShadowLabels, StoreLabels, TokenLabels,
    UpstreamLabels, UpstreamNameLabels,
};

fn set<T: Into<String>>(items: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    items.into_iter().map(Into::into).collect()
}

#[tokio::test]
async fn the_routes_and_headers_of_the_readme_are_those_of_a_running_gateway() {
    let demo = Running::demo(&["--log", "info"]);
    let readme = document("README.md");
    let rows = rows(&readme, "Point your app at it");
    let mut routes = 0;
    for row in &rows {
        for (index, route) in code(&row[0]).iter().enumerate() {
            let Some(method) = ["POST", "GET"].into_iter().find(|method| row[0].starts_with(&format!("`{method} "))) else {
                break;
            };
            let path = route.trim_start_matches("POST ").trim_start_matches("GET ").replace("{id}", "gpt-4o-mini");
            assert!(index > 0 || route.starts_with(method), "{route}");
            let status = if method == "GET" { demo.get(&path).await.0 } else { demo.post(&path, &[], "{}").await.0 };
            // Without a key: 401 where the gateway asks for one. What is no route is 404.
            assert_eq!(status, if path.starts_with("/v1/") { 401 } else { 200 }, "{method} {path}");
            routes += 1;
        }
    }
    assert_eq!(routes, 14);

    let ours = [
        tollgate::reply::REQUEST_ID,
        tollgate::reply::REFUSED_BY,
        tollgate::reply::OUTPUT_CAP,
        tollgate::reply::MODEL,
        tollgate::reply::DEGRADED,
        tollgate::reply::LEVEL,
        tollgate::reply::TICKET,
        tollgate::reply::TICKET_URL,
        tollgate::reply::NOTICE,
        tollgate::reply::REPLAYED,
        tollgate::reply::ORIGINAL_REQUEST_ID,
    ];
    let documented = rows.iter().flat_map(|row| code(&row[0])).filter(|name| name.starts_with("x-tollgate-"));
    assert_eq!(documented.collect::<BTreeSet<_>>(), set(ours.iter().map(http::HeaderName::as_str)));

    // demo-quota has two requests a day: an answer, a notice with the last one, a refusal.
    let (mut seen, body) = (BTreeSet::new(), r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}]}"#);
    // acme's second call is a repeat of the first.
    for (customer, status) in [("acme", 200), ("acme", 200), ("demo-quota", 200), ("demo-quota", 200), ("demo-quota", 429)] {
        let mut headers =
            vec![("authorization", "Bearer demo"), ("x-customer-id", customer), ("x-user-id", "u"), ("x-request-class", "c")];
        headers.extend((customer == "acme").then_some(("idempotency-key", "k")));
        let (got, headers, _) = demo.post_when_settled("/v1/chat/completions", &headers, body).await;
        assert_eq!(got, status, "{customer}");
        seen.extend(headers.keys().map(|name| name.as_str().to_owned()));
    }
    // What the chain answers instead of an error, and what that answer says of itself.
    let dear = body.replace("gpt-4o-mini", "gpt-4o");
    for (customer, model, degraded) in
        [("demo-cheaper", "gpt-4o-mini", "cheaper;cause=spend"), ("demo-handoff", "human-triage", "handoff;cause=spend")]
    {
        let headers = [("authorization", "Bearer demo"), ("x-customer-id", customer), ("x-request-class", "general")];
        let (got, headers, _) = demo.post("/v1/chat/completions", &headers, &dear).await;
        assert_eq!(
            (got, &headers["x-tollgate-model"], &headers["x-tollgate-degraded"]),
            (200, &model.parse().unwrap(), &degraded.parse().unwrap())
        );
        seen.extend(headers.keys().map(|name| name.as_str().to_owned()));
    }
    let exact =
        rows.iter().filter(|row| row[0].starts_with("`x-tollgate") || row[0].starts_with("`r")).flat_map(|row| code(&row[0]));
    let exact: Vec<_> =
        exact.filter(|name| name != "retry-after-ms").map(|name| name.split(':').next().unwrap().to_owned()).collect();
    for name in &exact {
        assert!(seen.contains(name), "{name} is among {seen:?}");
    }
    assert!(exact.len() >= 10, "{exact:?}");

    // And the access log says of these calls only what the document explains.
    let fields = log_fields();
    let lines = demo.access_log(6);
    for line in lines {
        for field in line
            .as_object()
            .expect("an object")
            .keys()
            .filter(|field| !["timestamp", "level", "target"].contains(&field.as_str()))
        {
            assert!(fields.contains(field), "{field}");
        }
    }
}

fn log_fields() -> BTreeSet<String> {
    rows(&document("docs/metrics.md"), "The access log").iter().flat_map(|row| code(&row[0])).collect()
}

#[test]
fn every_field_of_the_access_log_is_explained() {
    let source = document("src/telemetry/spelled.rs");
    let spelled = source.lines().filter_map(|line| line.trim().strip_prefix("out.")?.split_once("(\"")?.1.split_once('"'));
    let fields = set(spelled.map(|(field, _)| field));
    assert!(fields.len() >= 25, "{fields:?}");
    assert_eq!(log_fields(), fields);
}

#[test]
fn every_metric_is_explained_with_its_kind_and_labels() {
    let metrics = Metrics::default();
    let model = || Name("m".into());
    metrics.requests.get_or_create(&RequestLabels { api: "chat", status: 200, cause: "" }).inc();
    metrics.refusals.get_or_create(&RefusalLabels { scope: "user", limit: "rpm" }).inc();
    metrics.shadow_refusals.get_or_create(&ShadowLabels { plan: model(), scope: "user", limit: "rpm" }).inc();
    metrics.tokens.get_or_create(&TokenLabels { model: model(), kind: "input" }).inc();
    metrics.degraded.get_or_create(&DegradedLabels { kind: "cheaper", cause: "spend" }).inc();
    metrics.spent.get_or_create(&ModelLabels { model: model() }).inc();
    metrics.upstream.get_or_create(&UpstreamLabels { upstream: model(), result: "ok" }).inc();
    metrics.retries.get_or_create(&RetryLabels { upstream: model(), cause: "timeout" }).inc();
    metrics.retries_ended.get_or_create(&ReasonLabels { reason: "attempts" }).inc();
    metrics.breaker.get_or_create(&UpstreamNameLabels { upstream: model() }).set(1);
    metrics.estimated.get_or_create(&ModelLabels { model: model() }).inc();
    metrics.anomalies.get_or_create(&AnomalyLabels { kind: "k" }).inc();
    metrics.duration.get_or_create(&ApiLabels { api: "chat" }).observe(1.0);
    metrics.first_byte.get_or_create(&ApiLabels { api: "chat" }).observe(1.0);
    metrics.store_calls.get_or_create(&StoreLabels { operation: "admit", result: "ok" }).inc();
    metrics.repeats.get_or_create(&RepeatLabels { outcome: "first" }).inc();
    metrics.jobs.get_or_create(&JobLabels { state: "queued" }).set(1);
    metrics.jobs_ended.get_or_create(&JobLabels { state: "done" }).inc();
    metrics.levels.get_or_create(&PoolLabels { pool: model() }).set(1);
    metrics.ceiling_used.get_or_create(&PoolLabels { pool: model() }).set(1);
    metrics.factor.get_or_create(&ModelLabels { model: model() }).set(1);
    metrics.tls.handshakes.get_or_create(&HandshakeLabels { listener: "server", result: "ok" }).inc();
    metrics.tls.expires.get_or_create(&ListenerLabels { listener: "server" }).set(1);
    metrics.reload.reloads.get_or_create(&ResultLabels { result: "applied" }).inc();

    metrics.levels.get_or_create(&PoolLabels { pool: model() }).set(1);
    metrics.ceiling_used.get_or_create(&PoolLabels { pool: model() }).set(1);
    metrics.newcomers.get_or_create(&ResultLabels { result: "admitted" }).inc();
    metrics.otlp.export("traces", "ok");
    metrics.otlp.dropped("queue_full", 1);
    metrics.triage.event("opened");
    metrics.triage.dropped("full");
    metrics.triage.webhook("delivered");
    metrics.alerts.raised("test");

    let text = metrics.render();
    let mut right = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a kind");
        let sample = text.lines().find(|line| line.starts_with(name)).expect("a sample");
        let labels = sample.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap_or_default());
        let labels =
            labels.split(',').filter_map(|label| label.split_once('=')).map(|(label, _)| label).filter(|label| *label != "le");
        right.insert((
            name.to_owned(),
            kind.to_owned(),
            labels.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect::<Vec<_>>(),
        ));
    }
    let sources =
        ["alerts", "metrics", "otlp/count", "outage", "reload", "tls", "triage"].map(|name| format!("src/telemetry/{name}.rs"));
    let registered: usize = sources.iter().map(|path| document(path).matches("r.register").count()).sum();
    assert_eq!(right.len(), registered, "this test touches every metric: {right:#?}");
    let metrics_md = document("docs/metrics.md");
    let documented = rows(&metrics_md, "`/metrics`").into_iter().filter(|row| row[0].starts_with("`tollgate_"));
    let documented: BTreeSet<_> = documented
        .map(|row| {
            (code(&row[0]).remove(0), row[1].clone(), code(&row[2]).into_iter().collect::<BTreeSet<_>>().into_iter().collect())
        })
        .collect();
    assert_eq!(documented, right);
}

#[test]
fn every_link_within_the_repository_leads_somewhere() {
    let mut links = 0;
    for (name, text) in
        documents().into_iter().chain(["CHANGELOG.md", "CONTRIBUTING.md"].map(|name| (name.to_owned(), document(name))))
    {
        let directory = Path::new(ROOT).join(&name);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !link.contains("://") && !file.is_empty() {
                assert!(directory.parent().expect("a directory").join(file).exists(), "{name}: {link}");
                links += 1;
            }
        }
    }
    assert!(links >= 10, "{links}");
}

#[test]
fn the_changelog_begins_with_what_is_unreleased() {
    let text = document("CHANGELOG.md");
    let first = text.lines().find(|line| line.starts_with("## "));
    assert_eq!(first, Some("## [Unreleased]"));
}

#[test]
fn the_map_of_the_modules_names_exactly_the_modules_there_are() {
    let source = document("src/lib.rs");
    let map = source.split("//! ```text\n").nth(1).and_then(|rest| rest.split("//! ```").next()).expect("the map");
    let mapped: Vec<_> = map.lines().filter_map(|line| line.trim_start_matches("//!").split_whitespace().next()).collect();
    let declared = source.lines().filter_map(|line| line.strip_prefix("pub mod ")).map(|name| name.trim_end_matches(';'));
    let there = std::fs::read_dir(format!("{ROOT}/src")).expect("src/").map(|entry| entry.expect("an entry").path());
    let there = there.filter(|path| !path.ends_with("lib.rs") && !path.ends_with("main.rs"));
    let there = there.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned());
    assert_eq!(set(mapped.iter().copied()), set(declared));
    assert_eq!(set(mapped.iter().copied()), set(there));
    assert_eq!(mapped.len(), set(mapped.iter().copied()).len(), "each once");
}
