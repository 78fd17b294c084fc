//! Plays the order bug and five minutes of each IPO morning, in real time, against the running gateway.
//!
//! `cargo run --release --example incidents` starts a stand-in provider that enforces its account's quota, the gateway (this very program,
//! as a process of its own, with an embedded store), and clients that ask when their time has come however the questions before theirs
//! fare. Each incident is played straight at the provider first, then through the gateway. For each run a table is printed, and whether
//! each rule was kept; the exit code is 1 if one was not. `benches/README.md` says what is judged and by which numbers.
//!
//! A program and not a test: it takes its minutes.

mod asking;
mod gateway;
mod judge;
mod scene;
mod truth;

use clap::Parser;
use gateway::Gateway;
use judge::{Books, Run};
use scene::Scene;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};

/// The runs whose others are compared.
const WITH: &str = "order-tollgate";
const WITHOUT: &str = "order-without-merchant";

/// What is asked of it.
#[derive(Parser, Clone, Debug)]
#[command(about = "Plays the order bug and two IPO mornings in real time against the gateway, and judges what came out")]
struct Options {
    /// Only runs whose names begin like this: order-naive, order-tollgate, order-without-merchant, ipo-naive, ipo-tollgate, ipo-beyond
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How long each run takes; 150 s for the order bug and 300 s for the mornings unless told otherwise
    #[arg(long, value_parser = clap::value_parser!(u64).range(20..=3_600))]
    seconds: Option<u64>,
    /// The same in minutes
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=60), conflicts_with = "seconds")]
    minutes: Option<u64>,
}

fn main() -> ExitCode {
    // The gateway and its audit are this very program, so that it always plays what it was built with.
    if matches!(std::env::args().nth(1).as_deref(), Some("serve" | "audit")) {
        return tollgate::cli::main();
    }
    let options = Options::parse();
    // Two providers of TLS are compiled in; nothing here uses TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let played = tokio::runtime::Runtime::new()
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(play_all(&options)));
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&error);
            ExitCode::from(2)
        }
    }
}

async fn play_all(options: &Options) -> Result<bool, String> {
    let scenes = scene::all(&options.only, options.seconds.or(options.minutes.map(|minutes| minutes * 60)));
    if scenes.is_empty() {
        return Err("no run is called so".to_owned());
    }
    let mut runs = Vec::new();
    for scene in scenes {
        say(&format!("{}: {} s", scene.name, scene.seconds));
        let run = play(scene).await?;
        print(&run.table())?;
        runs.push(run);
    }
    let alone = runs.iter().find(|run| run.scene.name == WITHOUT).map(|run| run.outcome("others"));
    let mut sound = true;
    let mut out = "\n## Rules\n\n| run | rule | | found |\n|---|---|---|---|\n".to_owned();
    for run in &runs {
        for (rule, kept, found) in run.judge(alone.as_ref().filter(|_| run.scene.name == WITH)) {
            sound &= kept;
            out.push_str(&format!("| {} | {rule} | {} | {found} |\n", run.scene.name, if kept { "kept" } else { "**BROKEN**" }));
        }
    }
    print(&out)?;
    Ok(sound)
}

async fn play(scene: Scene) -> Result<Run, String> {
    let http = reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())?;
    let provider = Provider::start(ProviderOptions {
        first_byte: scene.first_byte,
        per_token: scene.per_token,
        count: Arc::new(count),
        limits: Some(scene.account),
        keep: 500_000,
        ..ProviderOptions::default()
    });
    let provider = provider.await.map_err(|error| error.to_string())?;
    let gateway = match scene.config {
        Some(_) => Some(Gateway::start(&scene, &provider.base_url(), &http).await?),
        None => None,
    };
    let base = gateway.as_ref().map_or_else(|| format!("http://{}", provider.address()), |gateway| gateway.base.clone());
    let (start, length) = (Instant::now(), Duration::from_secs(scene.seconds));
    let watching =
        gateway.as_ref().map(|gateway| tokio::spawn(gateway::watch(gateway.base.clone(), http.clone(), start, length)));
    let scene = Arc::new(scene);
    let (asked, ()) = tokio::join!(asking::ask_all(&scene, &base, &http, start), mishaps(&scene, &provider));
    let looks = match watching {
        Some(task) => task.await.map_err(|error| error.to_string())?,
        None => Vec::new(),
    };
    let mut books = None;
    if let Some(gateway) = gateway {
        gateway.settled(&http).await?;
        let metrics = gateway.metrics(&http).await;
        let customers: BTreeSet<String> = asked.iter().map(|asked| asked.customer.clone()).collect();
        let (clean, balances) = gateway.stop(&customers).await?;
        books = Some(Books { clean, balances, metrics });
    }
    let truth = truth::Truth::read(&scene, &provider.log());
    Ok(Run { scene: Arc::unwrap_or_clone(scene), asked, truth, looks, books })
}

/// Internal errors of the provider, one at a time, spread over the busy part.
async fn mishaps(scene: &Scene, provider: &Provider) {
    for _ in 0..scene.errors {
        tokio::time::sleep(Duration::from_secs(scene.seconds) / 2 / (scene.errors as u32 + 1)).await;
        provider.script(Script::json(500, r#"{"error":{"message":"The server had an error","type":"server_error"}}"#));
    }
}

/// Counts the input as the provider would, with another implementation than the gateway's.
fn count(_model: &str, body: &[u8]) -> u64 {
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(body) else { return 0 };
    let messages = body.get("messages").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let text =
        |message: &serde_json::Value| message.get("content").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    // Three tokens around each message, one for its role, three before the answer.
    let each = |message| tiktoken_rs::o200k_base_singleton().encode_ordinary(&text(message)).len() as u64 + 4;
    messages.iter().map(each).sum::<u64>() + 3
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

/// Progress, on standard error.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}
