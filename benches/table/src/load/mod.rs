//! The load generator, a process of its own: `table load SPEC`, where SPEC is JSON.
//!
//! One thread, raw sockets, requests written from templates: as cheap as the usual generators in C, and it checks every answer, makes
//! prompts that nobody has seen before, and keeps to a rate without waiting for answers. It says `start` when what it measures begins, and
//! its report as one line of JSON at the end. No request is cut off: the last ones are waited for, so that the books can be compared.

mod chunks;
mod client;
mod pace;
mod prompt;
mod reply;
mod tally;

pub use prompt::Prompts;
pub use reply::Reader;
pub use tally::{Report, Spread};

use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tally::Tally;
use tokio::task::LocalSet;

/// How long the last answers are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be asked, of whom, how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Where connections go, in turn.
    pub targets: Vec<SocketAddr>,
    /// How many connections there are, each with one request at a time.
    pub connections: usize,
    /// Seconds before measuring begins.
    pub warm_up: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Requests a second, arriving at random and waiting for nobody. `None`: each connection asks again when it has its answer.
    pub rate: Option<f64>,
    /// Seconds over which connections are opened.
    pub ramp: f64,
    /// The gateway key.
    pub key: String,
    /// The model asked for.
    pub model: String,
    /// Customers `PREFIX0` to `PREFIX(n-1)`, each asking in turn.
    pub customers: (String, u64),
    /// What is asked.
    pub prompt: Prompt,
    /// Whether the answers are streams, of so many pieces of text.
    pub stream: Option<u64>,
    /// The status that is right.
    pub expect: u16,
    /// The body that is right.
    pub answer: Option<String>,
    /// The most requests.
    pub most: Option<u64>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Prompt {
    /// A few prompts of so many bytes, again and again.
    Known(usize),
    /// Text of so many bytes that was never sent before, the last message of each request.
    New(usize),
}

/// Runs the generator. `spec` is JSON.
pub fn main(spec: &str) -> Result<(), String> {
    let spec: Spec = serde_json::from_str(spec).map_err(|error| format!("the load cannot be read: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let report = LocalSet::new().block_on(&runtime, run(Rc::new(spec)))?;
    let line = serde_json::to_string(&report).map_err(|error| error.to_string())?;
    say(&line)
}

async fn run(spec: Rc<Spec>) -> Result<Report, String> {
    let tally = Rc::new(Tally::new(spec.most));
    let pace = spec.rate.map(|rate| pace::Pace::start(rate, spec.connections));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..spec.connections {
        let client = client::Client::new(number, spec.clone(), tally.clone(), pace.clone());
        let wait = Duration::from_secs_f64(spec.ramp * number as f64 / spec.connections as f64);
        clients.spawn_local(async move {
            tokio::time::sleep(wait).await;
            client.run().await
        });
    }
    tokio::time::sleep(Duration::from_secs_f64(spec.warm_up)).await;
    say("start")?;
    tally.begin();
    let window = Duration::from_secs_f64(spec.seconds);
    let ended = tokio::time::timeout(window, async { while clients.join_next().await.is_some() {} }).await;
    tally.end();
    if let Some(pace) = pace {
        pace.stop();
    }
    say("end")?;
    if ended.is_err() {
        let last = tokio::time::timeout(PATIENCE, async { while clients.join_next().await.is_some() {} }).await;
        last.map_err(|_| "a minute after the end some answers are still not there".to_owned())?;
    }
    Ok(tally.report())
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}
