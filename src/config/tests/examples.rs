//! Every shipped example loads, and so does every setting that a comment in one shows.

use super::super::{Env, Policy};
use std::fs;
use std::path::PathBuf;

/// What the examples name.
fn environment() -> Env {
    ["OPENAI_API_KEY", "APP_KEY", "REDIS_URL", "ID_SECRET", "ADMIN_TOKEN", "WEBHOOK_SECRET", "OTLP_TOKEN"]
        .into_iter()
        .map(|name| (name, if name == "REDIS_URL" { "redis://:pw@redis:6379" } else { "0123456789abcdef0123456789abcdef" }))
        .collect()
}

fn examples() -> Vec<(PathBuf, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let paths = fs::read_dir(directory).expect("the examples").map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.map(|path| (path.clone(), fs::read_to_string(&path).expect("readable"))).collect()
}

#[test]
fn every_example_loads_without_a_problem() {
    let examples = examples();
    assert!(examples.len() >= 3);
    for (path, _) in examples {
        let loaded = Policy::load(Some(&path), &environment());
        assert!(loaded.is_ok(), "{loaded:#?}");
    }
}

#[test]
fn every_commented_setting_of_an_example_can_be_uncommented() {
    let prices = tempfile::NamedTempFile::new().expect("a file");
    fs::write(prices.path(), "{}").expect("written");
    let prices = prices.path().to_str().expect("UTF-8").to_owned();
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(directory.path().join("tls.crt"), made.cert.pem()).expect("written");
    fs::write(directory.path().join("tls.key"), made.signing_key.serialize_pem()).expect("written");
    let certificates = format!("{}/", directory.path().display());
    for (path, text) in examples() {
        let lines: Vec<&str> = text.lines().collect();
        let is_setting = |line: &str| {
            let key = line.strip_prefix("# ").and_then(|rest| rest.split_once(" = "));
            key.is_some_and(|(key, _)| !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        };
        let settings: Vec<usize> = (0..lines.len()).filter(|i| is_setting(lines[*i])).collect();
        let uncommented = |which: &[usize]| {
            let line = |(i, line): (usize, &&str)| if which.contains(&i) { line[2..].to_owned() } else { (*line).to_owned() };
            let text: Vec<String> = lines.iter().enumerate().map(line).collect();
            text.join("\n").replace("model_prices_and_context_window.json", &prices).replace("/etc/tollgate/", &certificates)
        };
        for which in settings.iter().map(std::slice::from_ref).chain([settings.as_slice()]) {
            let loaded = Policy::parse(&uncommented(which), &path.display().to_string(), &environment());
            assert!(loaded.is_ok(), "lines {which:?}: {:#?}", loaded.err());
        }
        if path.ends_with("tollgate.toml") {
            assert!(settings.len() >= 35, "the complete example shows {} settings in comments", settings.len());
        }
    }
}

/// The words that operators learn from the documentation stay words of the file.
#[test]
fn the_documented_sketch_loads() {
    let sketch = r#"
[server]
listen = "127.0.0.1:8080"
max_body = "32MiB"
[auth]
mode = "passthrough"
trusted_networks = ["10.0.0.0/8"]
[identity]
default_plan = "individual"
anonymous = "refuse"
unknown_customers = "default_plan"
[store]
kind = "embedded"
path = "tollgate-data"
urls = ["redis://127.0.0.1:6379"]
[upstreams.openai]
base_url = "https://api.openai.com/v1"
api_key  = { env = "OPENAI_API_KEY" }
dialect  = "openai"
[pools.mini]
upstream = "openai"
models   = ["gpt-4o-mini*"]
ceiling  = { rpm = 500, tpm = 400_000 }
[models."gpt-4o"]
fallback = "gpt-4o-mini"
price    = { input = 2.50, cached_input = 1.25, output = 10.0 }
[plans.individual]
messages = { rate = "5/m", burst = 10 }
rpm = 60
tpm = 40_000
max_output_tokens = 1_024
max_in_flight = 4
spend = { day = 0.50 }
on_spend = ["cheaper", "handoff"]
on_tokens = []
on_provider = ["cheaper", "handoff"]
user = { messages = { rate = "2/m", burst = 4 } }
[customers.cust_42]
plan  = "business"
spend = { day = 100.0 }
[classes.general]
fallback = true
[priorities.background]
share = 0.15
[retry]
max = 2
wait_budget = "6s"
[concurrency]
slots = 32
queue = 1_000
[handoff]
message = "I am connecting you to one of our agents."
"#;
    let loaded = Policy::parse(sketch, "sketch", &Env::default());
    assert!(loaded.is_ok(), "{:#?}", loaded.err());
}
