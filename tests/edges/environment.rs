//! What the environment of the process may not do: send prompts through somebody's proxy. And what its log looks like.

use crate::kit::{chat, config};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tollgate::demo::{Provider, ProviderOptions};

/// A proxy that only counts who comes.
async fn proxy() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, calls) = (listener.local_addr().expect("bound"), Arc::new(AtomicUsize::new(0)));
    let counter = calls.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, calls)
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_used_and_every_line_of_the_log_is_json() {
    let provider = Provider::start(ProviderOptions::default()).await.expect("a port");
    let (proxy, calls) = proxy().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tollgate.toml");
    let store = format!("[server]\nlisten = \"127.0.0.1:0\"\n[store]\npath = {:?}\n", directory.path().join("data"));
    std::fs::write(&file, config(&store).replace("{provider}", &provider.base_url())).expect("a file");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["serve", "--config"]).arg(&file).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, format!("http://{proxy}"));
    }
    let mut gateway = command.kill_on_drop(true).spawn().expect("the built binary");
    let mut lines = BufReader::new(gateway.stderr.take().expect("piped")).lines();
    let mut log = Vec::new();
    let address = loop {
        let line = lines.next_line().await.expect("a log").unwrap_or_else(|| panic!("it serves: {log:#?}"));
        let json: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        log.push(line);
        if json["message"] == "serving" {
            break json["address"].as_str().expect("an address").to_owned();
        }
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    // This client has no proxy of its own: tests do not change their environment.
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let send = async |customer: &str, body: String| {
        let request = client.post(format!("http://{address}/v1/chat/completions")).bearer_auth("sk-test");
        let reply = request.header("x-customer-id", customer).body(body).send().await.expect("an answer");
        let status = reply.status().as_u16();
        reply.bytes().await.expect("a body");
        status
    };
    assert_eq!(send("t\"}1x=\"\\", chat("m-small", "")).await, 200);
    assert_eq!(send("t", chat("m-small\\u001b[2J", "")).await, 400);
    assert_eq!(send("t", chat("made\\u2028up\\\"", "")).await, 400);
    assert_eq!(provider.seen(), 1, "straight to the provider");
    assert_eq!(calls.load(Ordering::SeqCst), 0, "the proxy of the environment sees nobody");
    let access = |log: &[String]| log.iter().filter(|line| line.contains(r#""target":"access""#)).count();
    while access(&log) < 3 {
        log.push(lines.next_line().await.expect("a log").expect("three lines of the access log"));
    }
    gateway.start_kill().expect("ended by the test that started it");
    while let Some(line) = lines.next_line().await.expect("the rest of the log") {
        log.push(line);
    }
    gateway.wait().await.expect("ended");
    let mut customers = Vec::new();
    for line in &log {
        assert!(!line.bytes().any(|byte| byte < b' ' || byte == 0x7f), "no control characters: {line:?}");
        assert!(!line.contains("sk-test"), "no keys: {line}");
        let json: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if json["target"] == "access" {
            customers.push(json["customer"].as_str().unwrap_or_default().to_owned());
        }
    }
    // A line is written when the books are closed, so the answered request may come last.
    customers.sort_unstable();
    assert_eq!(customers, ["t", "t", "t\"}1x=\"\\"], "one line a request");
}
