//! `[telemetry]`, and the variables that stand in for it.

use super::{policy, problems, sound};
use crate::config::policy::{Otlp, Secret, Telemetry};
use std::time::Duration;

fn otlp(base: &str) -> Otlp {
    Otlp {
        traces_url: format!("{base}/v1/traces"),
        metrics_url: format!("{base}/v1/metrics"),
        headers: Vec::new(),
        service_name: "tollgate".to_owned(),
        sample: 1_000_000,
        timeout: Duration::from_secs(10),
        interval: Duration::from_secs(5),
        metrics_interval: Duration::from_secs(60),
        customer_ids: false,
    }
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(http::HeaderName, Secret)> {
    pairs.iter().map(|(name, value)| (name.parse().expect("a header"), Secret::new(value))).collect()
}

#[test]
fn without_an_endpoint_nothing_is_exported() {
    assert_eq!(policy("").telemetry, Telemetry::default());
    assert_eq!(policy("[telemetry]\npropagate = true\n").telemetry, Telemetry { propagate: true, otlp: None });
    assert_eq!(sound("", &[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).0.telemetry, Telemetry::default());
}

#[test]
fn what_is_written_counts_before_the_environment() {
    assert_eq!(policy("[telemetry.otlp]\nendpoint = \"http://c:4318/\"\n").telemetry.otlp, Some(otlp("http://c:4318")));
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://env.example:4318/x/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, authorization=Basic%20y"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_SERVICE_NAME", "from-env"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "2000"),
        ("TOKEN", "Bearer s3cret"),
    ];
    let by_env = Otlp {
        headers: headers(&[("x-key", "a b"), ("authorization", "Basic y")]),
        service_name: "from-env".to_owned(),
        sample: 250_000,
        timeout: Duration::from_millis(2_500),
        interval: Duration::from_millis(100),
        metrics_interval: Duration::from_secs(2),
        ..otlp("https://env.example:4318/x")
    };
    assert_eq!(sound("", &variables).0.telemetry.otlp, Some(by_env.clone()));
    let written = "[telemetry.otlp]\nendpoint = \"http://f:1\"\nprotocol = \"http/protobuf\"\nheaders = { Authorization = { env = \"TOKEN\" } }\n\
                   service_name = \"f\"\nsample = 0.5\ntimeout = \"1s\"\ninterval = \"2s\"\nmetrics_interval = \"3s\"\ncustomer_ids = true\n";
    let by_file = Otlp {
        headers: headers(&[("authorization", "Bearer s3cret"), ("x-key", "a b")]),
        service_name: "f".to_owned(),
        sample: 500_000,
        timeout: Duration::from_secs(1),
        interval: Duration::from_secs(2),
        metrics_interval: Duration::from_secs(3),
        customer_ids: true,
        ..otlp("http://f:1")
    };
    let (policy, _) = sound(written, &variables);
    assert_eq!(policy.telemetry.otlp, Some(by_file));
    assert!(!format!("{policy:?}").contains("s3cret"), "no secret shows");
}

#[test]
fn variables_that_switch_it_off_or_ask_for_what_is_not_spoken_export_nothing() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
    assert_eq!(sound("", &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]).0.telemetry.otlp, None);
    let (policy, warnings) = sound("", &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert_eq!(policy.telemetry.otlp, None);
    assert!(warnings.iter().any(|warning| warning.contains("OTEL_EXPORTER_OTLP_PROTOCOL")), "{warnings:#?}");
    let off = sound("", &[endpoint, ("OTEL_TRACES_SAMPLER", "always_off")]).0.telemetry.otlp;
    assert_eq!(off.map(|otlp| otlp.sample), Some(0));
}

#[test]
fn what_cannot_be_used_is_refused() {
    for (text, right) in [
        ("service_name = \"x\"", "telemetry.otlp: `endpoint` is missing"),
        ("endpoint = \"c:4318\"", "f:2: telemetry.otlp.endpoint: is not an http(s) URL"),
        ("endpoint = \"http://u:p@c\"", "f:2: telemetry.otlp.endpoint: is not an http(s) URL"),
        ("endpoint = \"http://c\"\nprotocol = \"grpc\"", "f:3: telemetry.otlp.protocol: \"grpc\" is not spoken"),
        ("endpoint = \"http://c\"\nsample = 1.5", "f:3: telemetry.otlp.sample: 1.5 is not a part"),
        ("endpoint = \"http://c\"\nheaders = { a = \"b\" }", "f:3: telemetry.otlp.headers.a: is a secret written in the file"),
        ("endpoint = \"http://c\"\ntimeout = \"0s\"", "f:3: telemetry.otlp.timeout: is zero"),
    ] {
        let said = problems(&format!("[telemetry.otlp]\n{text}\n"), &[]);
        assert!(said.len() == 1 && said[0].contains(right), "{text}: {said:#?}");
    }
}
