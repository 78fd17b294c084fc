//! The command line.

mod alerts;
mod ask;
mod audit;
pub mod check;
mod demo;
mod health;
mod key;
mod lab;
mod out;
mod reconcile;
mod replay;
mod request;
mod serve;
mod signal;
mod source;
mod suggest;

use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for a configuration that cannot be used (EX_USAGE of sysexits.h).
pub const BAD_CONFIG: u8 = 64;

/// A gateway in front of an LLM provider that keeps every customer inside their own share of requests, tokens and dollars.
#[derive(Parser, Debug)]
#[command(name = "tollgate", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve. Without a configuration: embedded store, passthrough, 127.0.0.1:8080, api.openai.com and api.anthropic.com
    Serve(Serve),
    /// Try it out: gateway, fresh embedded store and a stand-in provider in one process; prints curl lines that work
    Demo(Demo),
    /// Check a configuration: prints every problem with its line, or what it amounts to
    Check(Check),
    /// Recompute the books: every balance of the embedded store from its ledger, while no gateway runs; of Redis what each budget holds
    /// from the requests in flight, also while gateways run. Exits with 0: clean, 1: something does not add up, 2: nothing could be read
    Audit(Audit),
    /// Try limits out under a virtual clock, without a provider: play a scenario file (those that come with Tollgate are in
    /// config/scenarios), or replay an access log against other limits, or a trace against a ceiling
    Lab(Lab),
    /// Propose limits from recorded use: per plan the 99.9th percentile of a customer's daily spend times a factor, a monthly cap from
    /// price and margin, RPM, TPM and messages from the largest minutes, with what each would have refused. Exits 2 from too little data
    Suggest(Suggest),
    /// Compare a usage or cost export of OpenAI or Anthropic (CSV, JSON) with the history, per model and day, and say the likely cause of
    /// each difference. Exits with 0: alike, 1: something differs by more than --tolerance, 2: a side could not be read
    Reconcile(Reconcile),
    /// Make a gateway key: prints the key once, and the lines for the configuration that hold only its hash
    Key {
        /// The application that will use it
        name: String,
    },
    /// Print what a running gateway kept of one request: models, level, attempts, cost, cause
    Request {
        /// Our id (x-tollgate-request-id), or the provider's
        id: String,
        /// The gateway's admin listener
        #[arg(long, default_value = "http://127.0.0.1:8081")]
        url: String,
        /// Its token
        #[arg(long, env = "TOLLGATE_ADMIN_TOKEN", hide_env_values = true)]
        token: Option<String>,
        #[command(flatten)]
        trust: ask::Trust,
    },
    /// Try the alerts out: sends a test to every webhook of [alerts], once, and prints what came of it. Exits with 0: all took it, 1: not
    /// all did or there is none, 64: the configuration cannot be used
    Alerts(AlertsArgs),
    /// Ask a running gateway whether it is ready; exits non-zero when it is not (for container health checks)
    Health {
        /// What to ask
        #[arg(long, default_value = "http://127.0.0.1:8080/readyz")]
        url: String,
        #[command(flatten)]
        trust: ask::Trust,
    },
}

#[derive(Args, Debug)]
struct ConfigPath {
    /// The configuration file; without one the shipped plans and defaults are used
    #[arg(long, short, env = "TOLLGATE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct HistorySource {
    /// The gateway's admin listener, which has the history
    #[arg(long, default_value = "http://127.0.0.1:8081")]
    url: String,
    /// Its token
    #[arg(long, env = "TOLLGATE_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Read the store of --config instead: Redis, or an embedded store that no gateway runs on
    #[arg(long, conflicts_with = "url")]
    store: bool,
    #[command(flatten)]
    trust: ask::Trust,
    #[command(flatten)]
    config: ConfigPath,
}

#[derive(Args, Debug)]
struct AlertsArgs {
    /// What to do
    #[arg(value_parser = ["test"])]
    action: String,
    /// Only the destinations that want alerts of this kind, and as one of it
    #[arg(long, value_name = "KIND", default_value = "test", value_parser = alerts::kind)]
    kind: crate::alert::Kind,
    #[command(flatten)]
    config: ConfigPath,
}

#[derive(Args, Debug)]
struct Suggest {
    #[command(flatten)]
    source: HistorySource,
    /// How many days to look at
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=400))]
    days: u32,
    /// The last of them, UTC; yesterday if it is not given
    #[arg(long, value_name = "DATE")]
    to: Option<crate::history::Day>,
    /// Daily cap: times the 99.9th percentile of a customer's daily spend
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    factor: f64,
    /// RPM, TPM and messages: times the 99.9th percentile of a customer's largest minutes
    #[arg(long, value_name = "N", default_value_t = 1.5)]
    headroom: f64,
    /// The whole gateway's spend a day: times the average day
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    ceiling: f64,
    /// Dollars a customer pays a month, for all plans or, as in business=400, for one; may be given several times
    #[arg(long, value_name = "DOLLARS")]
    price: Vec<String>,
    /// The part of the price that is to be left
    #[arg(long, value_name = "PART", default_value_t = 0.5)]
    margin: f64,
    /// Print a piece of configuration
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Reconcile {
    /// The export
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    source: HistorySource,
    /// What GET /admin/history/models answered, in a file, instead of asking
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "store"])]
    history: Option<PathBuf>,
    /// Percent by which figures may differ
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    tolerance: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Check {
    #[command(flatten)]
    config: ConfigPath,
    /// Ask each model and its fallback the questions of this file, and print the answers side by side. One question a line: a request
    /// body, or a JSON string that goes to every model with a fallback. Calls the upstreams, which costs money
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Print only what is different from the configuration in this file, setting by setting, and whether a running gateway could go over
    /// to it without a restart
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    against: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct Audit {
    #[command(flatten)]
    config: ConfigPath,
    /// The directory of an embedded store, instead of the configured store
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["file", "replay", "trace"])))]
struct Lab {
    /// The scenario to play
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Draw it, too, as SVG: use against the ceiling, level, what became of the questions, over time
    #[arg(long, value_name = "OUT", conflicts_with = "replay")]
    svg: Option<PathBuf>,
    /// An access log: who would have been refused under the limits of --config
    #[arg(long, value_name = "LOG")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigPath,
    /// With --replay: so many customers are listed, those with the most refusals
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// A trace of three columns: time, context tokens, generated tokens; needs --tpm
    #[arg(long, value_name = "CSV", requires = "tpm")]
    trace: Option<PathBuf>,
    /// With --trace: the account's tokens per minute
    #[arg(long, value_name = "N")]
    tpm: Option<u64>,
    /// With --trace: the account's requests per minute
    #[arg(long, value_name = "N")]
    rpm: Option<u64>,
    /// With --trace: seconds that a request may wait for room
    #[arg(long, value_name = "SECONDS", default_value_t = 6)]
    wait: u64,
}

#[derive(Args, Debug)]
struct Logging {
    /// What to log, as a tracing filter, e.g. `warn`, `tollgate=debug`, `info,access=off`
    #[arg(long, env = "TOLLGATE_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    /// Log into this file instead of standard error
    #[arg(long, env = "TOLLGATE_LOG_FILE", value_name = "FILE")]
    log_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct Serve {
    #[command(flatten)]
    config: ConfigPath,
    #[command(flatten)]
    logging: Logging,
}

#[derive(Args, Debug)]
struct Demo {
    /// Where to listen; the next free port is taken when this one is not free
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Print only the gateway's and the provider's URL, for programs
    #[arg(long)]
    print_url: bool,
    /// What to log, as a tracing filter; the log goes to standard error
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Check(args) => match &args.against {
            Some(against) => check::compare(args.config.config.as_deref(), against),
            None => check::run(args.config.config.as_deref(), args.replay.as_deref()),
        },
        Command::Audit(args) => audit::run(args.config.config.as_deref(), args.data),
        Command::Lab(args) => lab::run(&args),
        Command::Suggest(args) => suggest::run(&args),
        Command::Reconcile(args) => reconcile::run(&args),
        Command::Key { name } => key::run(&name),
        Command::Request { id, url, token, trust } => request::run(&id, &url, token.as_deref(), &trust),
        Command::Alerts(AlertsArgs { action: _, kind, config }) => alerts::run(config.config.as_deref(), kind),
        Command::Health { url, trust } => health::run(&url, &trust),
    }
}

/// Says what went wrong, on standard error.
fn fail(message: &str, code: u8) -> ExitCode {
    out::complain(message);
    ExitCode::from(code)
}

/// A runtime for the whole process.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("tollgate").build()
}
