//! `tollgate reconcile` and `tollgate suggest`, as somebody runs them.

use crate::bed::{Bed, config_and};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::Clock;
use tollgate::history::Day;
use tollgate::store::Stores;
use tollgate::store::embedded::LostHold;
use tollgate::store::series::{Addition, Batch, Kind, Peak, RowKey};
use tollgate::telemetry::SystemClock;

const EXPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/history/exports");

/// Exit code, standard output and standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(args)
        .env_remove("TOLLGATE_CONFIG")
        .env_remove("TOLLGATE_ADMIN_TOKEN")
        .output()
        .expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The same off the async threads, while a gateway runs on them.
async fn run_beside(args: Vec<String>) -> (Option<i32>, String, String) {
    let args = move || run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(args).await.expect("it does not panic")
}

/// Each export beside the same history: the table, word for word.
#[test]
fn the_examples_of_exports_are_compared_as_worked_out_by_hand() {
    let ours = format!("{EXPORTS}/ours.json");
    for (file, code, golden) in [
        ("openai-usage.csv", 1, include_str!("exports/openai-usage.txt")),
        ("openai-costs.json", 1, include_str!("exports/openai-costs.txt")),
        ("anthropic-usage.csv", 1, include_str!("exports/anthropic-usage.txt")),
    ] {
        let path = format!("{EXPORTS}/{file}");
        let (status, out, err) = run(&["reconcile", &path, "--history", &ours]);
        assert_eq!((status, &*out, &*err), (Some(code), golden, ""), "{file}:\n{out}");
        let (status, out, _) = run(&["reconcile", &path, "--history", &ours, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let differing = shown["lines"].as_array().expect("lines").iter().filter(|line| line["differs"] == true).count();
        assert_eq!((status, shown["differing"].as_u64()), (Some(code), Some(differing as u64)), "{out}");
        assert!(differing > 0 && out.contains("\"cause\""), "{out}");
        let (status, _, _) = run(&["reconcile", &path, "--history", &ours, "--tolerance", "100"]);
        assert_eq!(status, Some(0), "{file}: everything is within 100 %");
    }
}

#[test]
fn what_cannot_be_read_is_an_exit_code_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let ours = format!("{EXPORTS}/ours.json");
    let export = format!("{EXPORTS}/openai-usage.csv");
    let (unknown, packed, empty) = (write("a.csv", b"a,b\n1,2\n"), write("b.zip", b"PK\x03\x04\xff"), write("c.csv", b""));
    for (args, code, says) in [
        (vec!["reconcile", "nowhere.csv", "--history", &ours], 2, "nowhere.csv: "),
        (vec!["reconcile", &unknown, "--history", &ours], 2, "none of the exports that are known"),
        (vec!["reconcile", &packed, "--history", &ours], 2, "no text"),
        (vec!["reconcile", &empty, "--history", &ours], 2, "the file is empty"),
        (vec!["reconcile", &export, "--history", &export], 2, "not what /admin/history/models answers"),
        (vec!["reconcile", &export, "--url", "http://127.0.0.1:1"], 2, "is the gateway running"),
        (vec!["reconcile", &export, "--tolerance=101", "--history", &ours], 64, "no percentage"),
        (vec!["suggest", "--url", "http://127.0.0.1:1"], 1, "is the gateway running"),
        (vec!["suggest", "--url", "nothing"], 64, "is not a URL"),
        (vec!["suggest", "--price", "many"], 64, "--price many"),
        (vec!["suggest", "--margin", "2"], 64, "--margin 2 is out of range"),
    ] {
        let (status, out, err) = run(&args);
        assert_eq!((status, &*out), (Some(code), ""), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

/// What the gateway served and what the provider says of it are alike; one request past the gateway is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_gateway_is_compared_with_its_provider() {
    let bed = Bed::with(&config_and("[admin]\nlisten = \"127.0.0.1:0\""), ProviderOptions::default()).await;
    for _ in 0..5 {
        assert_eq!(bed.chat("ann", "m-big", "").send().await.expect("an answer").status(), 200);
    }
    bed.used("ann").await; // flushes
    let (mut requests, mut input, mut output) = (0, 0, 0);
    for usage in bed.provider.log().iter().filter_map(|seen| seen.usage.clone()) {
        (requests, input, output) = (requests + 1, input + usage.input(), output + usage.total_output());
    }
    let seconds = bed.gateway.clock.now().secs();
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("http://{}", bed.admin.expect("it listens"));
    for (more, code) in [(0, 0), (1, 1)] {
        let sheet = format!(
            "start_time,num_model_requests,model,input_tokens,output_tokens\n{seconds},{},m-big,{input},{output}\n",
            requests + more
        );
        let path = directory.path().join(format!("{more}.csv"));
        std::fs::write(&path, sheet).expect("written");
        let args = vec!["reconcile".to_owned(), path.display().to_string(), "--url".to_owned(), url.clone()];
        let (status, out, err) = run_beside(args).await;
        assert_eq!(status, Some(code), "{out}{err}");
    }
    bed.assert_books(&["ann"]).await;
}

const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"";

/// Nine days of 120 customers of the plan `pro`, customer n spending n cents a day with 10 requests.
async fn seed(stores: &Stores, today: Day, days: u32) {
    let mut additions = Vec::new();
    for back in 1..=days {
        let day = today.back(back);
        for n in 0..120_u64 {
            let key = RowKey { kind: Kind::CustomerDay, day: day.0, id: format!("c{n}") };
            let sums = vec![("req".into(), 10), ("cost".into(), n * 10_000_000), ("p:pro".into(), 10)];
            let peak = |name: &'static str, amount| Peak { name: name.into(), minute: u64::from(day.0) * 1_440, amount };
            additions.push(Addition { key, sums, peaks: vec![peak("pm", 4), peak("pr", 3), peak("pt", 1_000)], keep: 100 });
        }
    }
    let batch = Batch { gateway: 1, number: 1, today: today.0, additions };
    stores.documents.series().add(&batch).await.expect("the store takes it");
}

fn open(directory: &Path) -> Stores {
    Stores::embedded(directory, Arc::new(SystemClock), LostHold::Charge).expect("it opens")
}

/// From a running gateway and from its store, the same; what is printed as TOML passes `tollgate check`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_suggested_from_a_gateway_or_its_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let stores = open(&directory.path().join("data"));
    let today = Day::of(SystemClock.now());
    seed(&stores, today, 9).await;
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let bed = Bed::over(&config_and(ADMIN), provider, stores, Arc::new(SystemClock)).await;
    let url = format!("http://{}", bed.admin.expect("it listens"));
    let last = today.back(1).to_string();
    let ask = |more: &[&str]| {
        let args = ["suggest", "--to", &last, "--price", "20", "--margin", "0.6"];
        args.iter().chain(more).map(|arg| (*arg).to_owned()).collect::<Vec<_>>()
    };
    let (status, table, err) = run_beside(ask(&["--url", &url])).await;
    assert_eq!(status, Some(0), "{table}{err}");
    for says in [
        "plan pro: 120 customers, 9 days, 1080 days of customers",
        // Of 1,080 values the 1,079th is $1.19; three times as much.
        "spend.day             $3.57          $1.19    1080  nothing",
        // 3 x 1.5, rounded up.
        "rpm                       5              3    1080  nothing",
        "99.9th percentile of a customer's daily spend x 3",
        "whole gateway",
    ] {
        assert!(table.contains(says), "{says}:\n{table}");
    }
    let (_, toml, _) = run_beside(ask(&["--url", &url, "--toml"])).await;
    // $20 less 60 %; the average day is 119 x 120 / 2 cents.
    for says in [
        "[plans.pro]\n",
        "messages = { rate = \"6/m\", burst = 6 }",
        "tpm = 1500",
        "spend = { day = 3.57, month = 8.00 }",
        "spend = { day = 214.20 }",
    ] {
        assert!(toml.contains(says), "{says}:\n{toml}");
    }
    let proposed = directory.path().join("proposed.toml");
    std::fs::write(&proposed, &toml).expect("written");
    let (status, checked, _) = run(&["check", "--config", &proposed.display().to_string()]);
    assert_eq!(status, Some(0), "{checked}");
    bed.stop().await;

    let config = directory.path().join("tollgate.toml");
    let path = directory.path().join("data").display().to_string();
    std::fs::write(&config, format!("[store]\npath = {path:?}\n")).expect("written");
    let config = config.display().to_string();
    let from_store = ask(&["--store", "--config", &config]);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let (status, again, err) = run_beside(from_store.clone()).await;
        if status == Some(0) {
            assert_eq!(again, table, "from the store the same");
            break;
        }
        // The gateway's tasks may still have the store.
        assert!(err.contains("in use") && tokio::time::Instant::now() < deadline, "{err}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await; // polling with a deadline
    }
    let (status, json, _) = run_beside(ask(&["--store", "--config", &config, "--json"])).await;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, json["plans"][0]["figures"][0]["value"].as_u64()), (Some(0), Some(3_570_000_000)), "{json}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_too_little_nothing_is_suggested() {
    let directory = tempfile::tempdir().expect("a directory");
    let today = Day::of(SystemClock.now());
    let stores = open(&directory.path().join("data"));
    seed(&stores, today, 3).await;
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let bed = Bed::over(&config_and(ADMIN), provider, stores, Arc::new(SystemClock)).await;
    let url = format!("http://{}", bed.admin.expect("it listens"));
    let ask = async |to: Day| {
        let args = ["suggest", "--to", &to.to_string(), "--url", &url].map(str::to_owned);
        run_beside(args.to_vec()).await
    };
    let (status, out, _) = ask(today.back(1)).await;
    assert_eq!(status, Some(2), "{out}");
    assert!(out.contains("nothing is proposed: 3 days of 120 customers and 360 days of customers are too little"), "{out}");
    let (status, out, err) = ask(today.back(60)).await;
    assert_eq!((status, &*out), (Some(2), ""), "{err}");
    assert!(err.contains("nothing was recorded from"), "{err}");
}
