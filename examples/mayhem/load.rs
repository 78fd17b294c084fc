//! Clients that never stop asking, and remember what they asked of whom.

use crate::Options;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The output cap of every request, tokens.
pub const CAP: u64 = 100;

/// One request, as its client saw it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Whose.
    pub customer: usize,
    /// Of which gateway.
    pub gateway: usize,
    /// How long it was: more tokens than bytes it cannot be counted as.
    pub bytes: u64,
    /// From when to when.
    pub from: Instant,
    /// When it was over, well or not.
    pub to: Instant,
    /// The status, if there was one.
    pub status: Option<u16>,
    /// Whether the whole answer came.
    pub whole: bool,
}

/// The running clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Vec<Asked>>,
}

impl Load {
    /// Starts as many clients as there are to be requests at a time.
    pub fn start(options: &Options, http: &reqwest::Client, addresses: [String; 2], seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for number in 0..options.concurrency {
            let client = Client {
                http: http.clone(),
                addresses: addresses.clone(),
                customers: options.customers,
                random: fastrand::Rng::with_seed(seed.wrapping_add(number as u64 + 1)),
                stop: stop.clone(),
            };
            clients.spawn(client.run());
        }
        Self { stop, clients }
    }

    /// Ends them when they have their last answer.
    pub async fn stop(self) -> Vec<Asked> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await.concat()
    }
}

struct Client {
    http: reqwest::Client,
    addresses: [String; 2],
    customers: usize,
    random: fastrand::Rng,
    stop: Arc<AtomicBool>,
}

impl Client {
    async fn run(mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let one = self.ask().await;
            // Nobody hammers a process that is not there, or a cap that is reached.
            let pause = if one.whole && one.status == Some(200) { 0 } else { 50 };
            asked.push(one);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        asked
    }

    async fn ask(&mut self) -> Asked {
        let (gateway, customer, streams) = (self.random.usize(0..2), self.random.usize(0..self.customers), self.random.bool());
        let body = format!(
            r#"{{"model":"m-small","stream":{streams},"max_tokens":{CAP},"messages":[{{"role":"user","content":"{}"}}]}}"#,
            "word ".repeat(self.random.usize(1..200))
        );
        let (bytes, from) = (body.len() as u64, Instant::now());
        let request = self.http.post(format!("{}/v1/chat/completions", self.addresses[gateway])).body(body);
        let request = request.header("authorization", "Bearer sk-test").header("content-type", "application/json");
        let request = request.header("x-customer-id", format!("c{customer}"));
        let (mut status, mut whole) = (None, false);
        if let Ok(mut reply) = request.send().await {
            status = Some(reply.status().as_u16());
            whole = loop {
                match reply.chunk().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
        }
        Asked { customer, gateway, bytes, from, to: Instant::now(), status, whole }
    }
}
