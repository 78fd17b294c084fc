//! The dashboard and the alert rules under `config/` ask for what a gateway tells: every metric and label in them is documented (and so
//! registered, see `tables`), a query stands behind every panel, and Prometheus' own tool takes the rules, their test and a live scrape.

use super::child::{ROOT, Running};
use super::markdown::{code, document, rows};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// Labels that Prometheus itself puts on every series, and that of a histogram's buckets.
const GIVEN: [&str; 3] = ["job", "instance", "le"];

/// Metric names as they are scraped, with the labels of each.
fn scraped() -> BTreeMap<String, BTreeSet<String>> {
    let text = document("docs/metrics.md");
    let rows = rows(&text, "`/metrics`").into_iter().filter(|row| row[0].starts_with("`tollgate_"));
    rows.flat_map(|row| {
        let (name, labels) = (code(&row[0]).remove(0), code(&row[2]).into_iter().collect::<BTreeSet<_>>());
        let suffixes: &[&str] = match row[1].as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        suffixes.iter().map(move |suffix| (format!("{name}{suffix}"), labels.clone())).collect::<Vec<_>>()
    })
    .collect()
}

/// The words of an expression that begin like one of our metrics.
fn metrics(expression: &str) -> Vec<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tollgate_")).map(str::to_owned).collect()
}

/// The labels an expression selects or groups by.
fn labels(expression: &str) -> BTreeSet<String> {
    let inside = |open: &str, close: char| {
        expression.split(open).skip(1).filter_map(move |rest| rest.split(close).next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let selected = inside("{", '}').into_iter().flat_map(|list| {
        let names = list.split("\",").filter_map(|pair| pair.split(['=', '!']).next().map(|name| name.trim().to_owned()));
        names.collect::<Vec<_>>()
    });
    let grouped =
        inside("by (", ')').into_iter().flat_map(|list| list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    selected.chain(grouped).collect()
}

fn assert_known(at: &str, expression: &str) {
    let scraped = scraped();
    let mut allowed: BTreeSet<_> = GIVEN.map(str::to_owned).into();
    for name in metrics(expression) {
        let labels = scraped.get(&name).unwrap_or_else(|| panic!("{at}: no gateway tells {name}, in {expression}"));
        allowed.extend(labels.iter().cloned());
    }
    let unknown: Vec<_> = labels(expression).into_iter().filter(|label| !allowed.contains(label)).collect();
    assert!(unknown.is_empty(), "{at}: no metric in it has the labels {unknown:?}: {expression}");
}

#[test]
fn the_dashboard_asks_for_what_a_gateway_tells() {
    let dashboard: serde_json::Value = serde_json::from_str(&document("config/grafana/tollgate.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let (mut ids, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is another panel's");
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|about| about.len() > 10), "{title}: says what it shows");
        let targets = panel["targets"].as_array().expect("queries");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            assert!(!metrics(expression).is_empty(), "{title}: {expression}");
            assert_known(title, expression);
            shown.extend(metrics(expression));
            let named = target["legendFormat"].as_str().expect("a legend");
            let shown = named.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in shown {
                assert!(
                    labels(expression).contains(label),
                    "{title}: the legend shows {label}, which {expression} does not keep"
                );
            }
        }
    }
    // Whoever adds a metric says on which panel it is looked at, or here that nobody needs to.
    let elsewhere = [
        "tollgate_alerts_missed",
        "tollgate_history_dropped",
        "tollgate_jobs",
        "tollgate_jobs_ended",
        "tollgate_records_dropped",
        "tollgate_repeats",
        "tollgate_store_breaker_open",
        "tollgate_store_evicts", // a rule
        "tollgate_store_late",
        "tollgate_store_outages",
        "tollgate_store_replayed",
        "tollgate_store_repaired", // a rule
        "tollgate_store_stale",    // a rule
    ];
    let bare = |name: &String| {
        ["_total", "_bucket", "_sum", "_count"].iter().fold(name.clone(), |name, end| name.trim_end_matches(end).to_owned())
    };
    let shown: BTreeSet<_> = shown.iter().map(bare).collect();
    let told: BTreeSet<_> = scraped().keys().map(bare).collect();
    let missing: Vec<_> = told.difference(&shown).filter(|name| !elsewhere.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "on no panel of the dashboard: {missing:?}");
}

#[test]
fn the_alert_rules_ask_for_what_a_gateway_tells() {
    let rules: serde_json::Value = serde_saphyr::from_str(&document("config/prometheus/tollgate-rules.yml")).expect("YAML");
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    assert!(rules.len() >= 10);
    for rule in rules {
        let name = rule["alert"].as_str().expect("a name");
        assert_known(name, rule["expr"].as_str().expect("an expression"));
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| text.len() > 20), "{name}: {text}");
        }
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("warning" | "critical")), "{name}");
    }
}

/// What Prometheus' own tool finds fault with in a scrape.
fn complaints(scrape: &str) -> Vec<String> {
    let spawned = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.expect("promtool is missing: tests/run.sh installs it");
    child.stdin.take().expect("piped").write_all(scrape.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().filter(|line| !line.ends_with("_total no help text")).map(str::to_owned).collect()
}

/// Runs Prometheus' own tool in `config/prometheus`; gives what it said.
fn promtool(arguments: &[&str]) -> String {
    let output = Command::new("promtool").args(arguments).current_dir(format!("{ROOT}/config/prometheus")).output();
    let output = output.expect("promtool is missing: tests/run.sh installs it, or install Debian's package prometheus");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

#[test]
fn prometheus_takes_the_configuration_the_rules_and_their_test() {
    let said = promtool(&["check", "config", "prometheus.yml"]);
    assert!(said.contains("1 rule files found"), "{said}");
    let said = promtool(&["test", "rules", "tollgate-rules-test.yml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}

#[tokio::test]
async fn prometheus_takes_a_live_scrape() {
    let demo = Running::demo(&[]);
    let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Where is my order?"}]}"#;
    let key = [("authorization", "Bearer demo"), ("x-customer-id", "cust_1")];
    assert_eq!(demo.post("/v1/chat/completions", &key, body).await.0, 200);
    let (status, text) = demo.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("tollgate_requests_total{api=\"chat\",status=\"200\""), "{text}");
    // Its check reads the older text format, in which a counter's help has the suffix of its samples; as OpenMetrics has it, that is
    // another name and so no help. Whatever else it finds is wrong.
    assert_eq!(complaints(&text), Vec::<String>::new());
    assert_ne!(complaints(&format!("# TYPE x gauge\nx 1\n{text}")), Vec::<String>::new(), "it does look");
}
