//! Kills everything, again and again, and looks at the books afterwards.
//!
//! `cargo run --release --example mayhem -- --seconds 180` starts one Redis, a stand-in provider and two gateways, sends them some hundred
//! streams and calls at a time, and kills a gateway, Redis, or several of them with `kill -9` at random moments, starting each again a
//! moment later. When the time is over everything is started once more and left to settle; then the books of every customer are compared
//! with what the provider itself logged.
//!
//! What must hold, per customer: nothing is held any more; nothing is spent beyond the cap; the books lie between what the provider
//! counted less what Redis may have forgotten, and what it counted plus what nobody could know (see [`bounds`]). The exit code says
//! whether it did.
//!
//! A program and not a test: it takes minutes, and what it finds depends on the moment.

mod bounds;
mod fleet;
mod load;

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};

/// What is asked of it.
#[derive(Parser, Clone, Debug)]
#[command(about = "Kills gateways and Redis under load, then compares the books with the provider's log")]
pub struct Options {
    /// How long the killing goes on.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Streams and calls at a time.
    #[arg(long, default_value_t = 200)]
    concurrency: usize,
    /// Customers; every fourth has a cap that binds.
    #[arg(long, default_value_t = 40)]
    customers: usize,
    /// How Redis keeps what it was told: `always` loses nothing, `everysec` up to a second or two.
    #[arg(long, default_value = "everysec", value_parser = ["always", "everysec"])]
    appendfsync: String,
    /// What becomes of the holds of a gateway that was killed.
    #[arg(long, default_value = "charge", value_parser = ["charge", "release"])]
    lost_hold: String,
    /// Decides what is killed when; printed at the start.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    // The gateways are this very program, so that it always tests what it was built with.
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return tollgate::cli::main();
    }
    let options = Options::parse();
    // Two providers of TLS are compiled in; nothing here uses TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string()),
    };
    match runtime.block_on(run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => complain(&error),
    }
}

async fn run(options: &Options) -> Result<bool, String> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    say(&format!("seed {seed}, {} s, {} at a time, appendfsync {}", options.seconds, options.concurrency, options.appendfsync));
    let provider = Provider::start(ProviderOptions {
        first_byte: Duration::from_millis(20),
        per_token: Duration::from_millis(10),
        keep: 2_000_000,
        ..ProviderOptions::default()
    });
    let provider = provider.await.map_err(|error| error.to_string())?;
    let mut fleet = fleet::Fleet::start(options, &provider.base_url(), seed).await?;
    let load = load::Load::start(options, &client()?, fleet.addresses(), seed);
    let kills = fleet.mayhem(Duration::from_secs(options.seconds)).await?;
    let asked = load.stop().await;
    say("the killing is over; waiting until everything is settled");
    fleet.settle(options).await?;
    bounds::judge(options, &fleet, &kills, &asked, &provider.log()).await
}

/// A client that goes nowhere but where it is sent.
fn client() -> Result<reqwest::Client, String> {
    reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())
}

fn complain(message: &str) -> ExitCode {
    say(message);
    ExitCode::from(2)
}

/// Progress, on standard error.
fn say(message: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{message}");
}
