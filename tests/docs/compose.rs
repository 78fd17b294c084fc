//! docker-compose.yml, Dockerfile and config/compose.toml agree, and what they start works.

use super::child::{ROOT, Running, run};
use super::markdown::{blocks_of, document};
use super::redis_server::RedisServer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tollgate::config::policy::{RedisServers, StoreKind};
use tollgate::config::{Env, Policy};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// The compose file.
pub fn file() -> Value {
    serde_saphyr::from_str(&document("docker-compose.yml")).expect("docker-compose.yml is YAML")
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().unwrap_or_else(|| panic!("{value} is a list")).iter().map(|word| word.as_str().expect("a string")).collect()
}

/// The instruction's words of the Dockerfile's last stage, with lines joined.
fn instruction(name: &str) -> String {
    let text = document("Dockerfile").replace("\\\n", " ");
    let line = text.lines().rev().find_map(|line| line.strip_prefix(name).map(str::trim).map(str::to_owned));
    line.unwrap_or_else(|| panic!("the Dockerfile has {name}"))
}

/// The environment that compose gives the gateway, and the names without which it does not start.
fn environment(compose: &Value) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let (mut given, mut required) = (BTreeMap::new(), BTreeSet::new());
    for (name, value) in compose["services"]["tollgate"]["environment"].as_object().expect("an environment") {
        let value = value.as_str().expect("a string");
        if value.starts_with(&format!("${{{name}:?")) {
            required.insert(name.clone());
            given.insert(name.clone(), KEY.to_owned());
        } else {
            assert_eq!(value, format!("${{{name}:-}}"), "required, or empty when it is not set");
            given.insert(name.clone(), String::new());
        }
    }
    (given, required)
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn the_image_is_built_by_the_compiler_of_the_recorded_profile() {
    let recorded = document("dist/rustc");
    let version = recorded.split_whitespace().nth(1).expect("rustc and its version");
    assert_eq!(instruction("ARG"), format!("RUST_VERSION={version}"));
    assert!(instruction("FROM rust:").starts_with("${RUST_VERSION}-"));
    assert!(document("Dockerfile").lines().any(|line| line.trim().starts_with("dist/build.sh ")));
    assert!(document(".dockerignore").lines().any(|line| line == "!dist"));
}

#[test]
fn the_configuration_gets_every_variable_it_needs_and_the_readme_names_them() {
    let (given, required) = environment(&file());
    let (status, out, _) = run(&["check", "--config", "config/compose.toml"], &pairs(&given));
    assert_eq!(status, Some(0), "{out}");
    for name in &required {
        let mut without = given.clone();
        without.remove(name);
        let (status, out, _) = run(&["check", "--config", "config/compose.toml"], &pairs(&without));
        assert_eq!(status, Some(64), "{name} is needed");
        assert!(out.contains(&format!("the environment variable {name} is not set")), "{out}");
    }
    let blocks = blocks_of("sh");
    let exported = blocks.iter().flat_map(|block| block.text.lines()).filter_map(|line| line.strip_prefix("export "));
    let exported: BTreeSet<_> = exported.map(|line| line.split('=').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(exported, required);
}

#[test]
fn ports_mounts_commands_and_health_checks_fit_each_other() {
    let compose = file();
    let gateway = &compose["services"]["tollgate"];
    let env: Env = environment(&compose).0.into_iter().collect();
    let (policy, _) = Policy::load(Some(&Path::new(ROOT).join("config/compose.toml")), &env).expect("it loads");

    let port = policy.server.listen.port().to_string();
    assert!(policy.server.listen.ip().is_unspecified(), "from outside the container");
    assert_eq!(words(&gateway["ports"]), [format!("127.0.0.1:8080:{port}")], "the README says 127.0.0.1:8080");
    assert_eq!(instruction("EXPOSE"), port);

    let command = words(&gateway["command"]);
    let [serve, flag, path] = command[..] else { panic!("{command:?}") };
    assert_eq!((serve, flag), ("serve", "--config"));
    assert_eq!(serde_json::from_str::<Vec<String>>(&instruction("CMD")).expect("the exec form"), command);
    assert_eq!(serde_json::from_str::<Vec<String>>(&instruction("ENTRYPOINT")).expect("the exec form"), ["tollgate"]);
    let journal = instruction("WORKDIR");
    let mounts = [format!("./config/compose.toml:{path}:ro"), format!("tollgate-data:{journal}")];
    assert_eq!(words(&gateway["volumes"]), mounts, "the journal's relative path lies in the working directory");
    assert_eq!(gateway["read_only"], true);
    assert!(matches!(policy.store, StoreKind::Redis { .. }), "a read-only container keeps its books elsewhere");

    let check = words(&gateway["healthcheck"]["test"]);
    let [cmd, program, health, flag, url] = check[..] else { panic!("{check:?}") };
    assert_eq!((cmd, program, health, flag), ("CMD", "tollgate", "health", "--url"));
    assert_eq!(
        url,
        format!("http://127.0.0.1:{port}/healthz"),
        "alive, not ready: a Redis that is away must not restart gateways"
    );
    let dockerfile = instruction("HEALTHCHECK");
    let (_, dockerfile) = dockerfile.split_once("CMD ").expect("a command");
    assert_eq!(serde_json::from_str::<Vec<String>>(dockerfile).expect("the exec form"), &check[1..]);
    let (_, help, _) = run(&["health", "--help"], &[]);
    assert!(help.contains("--url <URL>"), "{help}");

    assert_eq!(instruction("STOPSIGNAL"), "SIGTERM");
    let grace = gateway["stop_grace_period"].as_str().and_then(|text| humantime::parse_duration(text).ok()).expect("a time");
    assert!(grace > policy.server.grace, "running streams end before the process is killed");
}

#[test]
fn redis_keeps_what_it_is_told_and_only_gateways_reach_it() {
    let compose = file();
    let redis = &compose["services"]["redis"];
    let command = words(&redis["command"]);
    assert_eq!(command[0], "redis-server");
    let settings: BTreeMap<_, _> = command[1..].chunks(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(settings.get("--appendonly"), Some(&"yes"));
    assert_eq!(settings.get("--maxmemory-policy"), Some(&"noeviction"));
    assert_eq!(words(&redis["volumes"]), ["redis-data:/data"]);
    assert!(
        compose["volumes"].as_object().is_some_and(|volumes| volumes.keys().eq(["redis-data", "tollgate-data"])),
        "what is declared is used"
    );
    assert_eq!(words(&redis["networks"]), ["store"]);
    assert_eq!(compose["networks"]["store"]["internal"], true);
    assert!(redis.get("ports").is_none());
    let gateway = &compose["services"]["tollgate"];
    assert!(words(&gateway["networks"]).contains(&"store"));
    assert_eq!(gateway["depends_on"]["redis"]["condition"], "service_healthy");
    assert_eq!(words(&redis["healthcheck"]["test"]), ["CMD", "redis-cli", "ping"]);
    let env: Env = environment(&compose).0.into_iter().collect();
    let (policy, _) = Policy::load(Some(&Path::new(ROOT).join("config/compose.toml")), &env).expect("it loads");
    let StoreKind::Redis { servers: RedisServers::One(url), .. } = &policy.store else { panic!("one Redis: {:?}", policy.store) };
    assert_eq!(url.expose(), "redis://redis:6379", "the name of the service");
}

#[tokio::test]
async fn what_compose_starts_serves_those_who_have_the_key() {
    let (redis, demo) = (RedisServer::start(), Running::demo(&[]));
    let provider = demo.said(|line| line.strip_prefix("provider ").map(str::to_owned));
    let urls = format!("[{:?}]", redis.url());
    let (given, _) = environment(&file());
    // The same file; only the addresses are those of this machine.
    let here = [("TOLLGATE_STORE__URLS", urls.as_str()), ("TOLLGATE_UPSTREAMS__OPENAI__BASE_URL", &provider)];
    let config = format!("{ROOT}/config/compose.toml");
    let gateway = Running::serve(&["--config", &config], &[&pairs(&given)[..], &here[..]].concat());
    let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}]}"#;
    let good = format!("Bearer {KEY}");
    for (key, plan, status, code) in [
        (good.as_str(), None, 200, None),
        (&good, Some("business"), 200, None),
        (&good, Some("platinum"), 403, Some("plan_not_allowed")),
        ("Bearer sk-of-somebody", None, 401, Some("invalid_api_key")),
    ] {
        let headers =
            [("authorization", key), ("x-customer-id", "t")].into_iter().chain(plan.map(|plan| ("x-customer-plan", plan)));
        let (got, _, answer) = gateway.post("/v1/chat/completions", &headers.collect::<Vec<_>>(), body).await;
        assert_eq!((got, answer["error"]["code"].as_str()), (status, code), "{key} {plan:?}: {answer}");
    }
    assert_eq!(gateway.get("/readyz").await.0, 200);
    assert_eq!(gateway.terminate().0.code(), Some(0));
}
