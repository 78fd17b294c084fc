//! A stand-in LLM provider: OpenAI's and Anthropic's routes on one port, with honest usage numbers and faults on request.
//!
//! ```no_run
//! # async fn demo() -> std::io::Result<()> {
//! use tollgate::demo::{Provider, ProviderOptions};
//!
//! let provider = Provider::start(ProviderOptions::default()).await?;
//! println!("point a gateway at {}", provider.base_url());
//! # Ok(())
//! # }
//! ```
//!
//! **What it answers.** Chat completions, responses, legacy completions, embeddings, messages, `count_tokens` and models,
//! streaming and not. Any non-empty key will do, but there must be one (`sk-invalid` is refused), so a test that passes
//! proves that the key was forwarded. The answer is a fixed text, one word or mark per token, so the output it reports can be
//! counted by whoever reads it. Its length is a hash of the request between 24 and 96 tokens, never above the request's cap;
//! `[200 tokens]` anywhere in the request asks for exactly so many. With tools the answer is a tool call, with a JSON
//! schema it is JSON that fits.
//!
//! **What it gets wrong when asked.** Model names that start with `fault-` break in one particular way each
//! ([`Fault`]); a test that needs other bytes hands over a [`Script`], played once, to the next call that is not a `GET`.
//!
//! **What it remembers.** Every request with its headers and bytes, how the exchange ended (in particular whether the
//! client hung up), and the usage it reported, in [`Seen`]; the sums per model in [`Totals`] are what a gateway's books
//! must agree with.
//!
//! **What it does not do.** It does not check that a model exists, and it does not hold state between requests, so
//! `previous_response_id` and stored responses are ignored.

mod answer;
mod ask;
mod body;
mod errors;
mod fault;
mod headers;
mod limits;
mod log;
mod plan;
mod schema;
mod script;
mod serve;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use ask::count_words;
pub use fault::{FAULT_MODELS, Fault};
pub use limits::{AccountLimits, Window};
pub use log::{End, Seen, Totals};
pub use script::{Gate, Script, Step};

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{net::TcpListener, task::JoinHandle};

/// Counts the input tokens of a request, from the model's name and the body as it arrived.
pub type Counter = Arc<dyn Fn(&str, &[u8]) -> u64 + Send + Sync>;

/// How a [`Provider`] behaves.
#[derive(Clone)]
pub struct ProviderOptions {
    /// Where to listen; port 0 takes a free one.
    pub bind: SocketAddr,
    /// How long each answer lets its headers wait.
    pub first_byte: Duration,
    /// How long a stream pauses before each piece of text.
    pub per_token: Duration,
    /// Holds back every answer (not scripts) until it is opened: how a test gets many requests in flight at once.
    pub gate: Option<Gate>,
    /// How the input is counted. The default, [`count_words`], guesses from the number of words.
    pub count: Counter,
    /// The share of the input, in percent, that the usage reports as read from the prompt cache.
    pub cached_percent: u8,
    /// Limits of the whole account, enforced as the real ones are. `None` never refuses.
    pub limits: Option<AccountLimits>,
    /// The most requests [`Provider::log`] keeps; older ones are forgotten, the totals stay.
    pub keep: usize,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            first_byte: Duration::ZERO,
            per_token: Duration::ZERO,
            gate: None,
            count: Arc::new(count_words),
            cached_percent: 0,
            limits: None,
            keep: 4_096,
        }
    }
}

impl fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderOptions").field("bind", &self.bind).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A running stand-in provider. Dropping it closes the port and cuts every connection.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What every connection of one provider shares.
#[derive(Debug)]
struct Shared {
    options: ProviderOptions,
    log: Arc<log::Log>,
    scripts: Mutex<VecDeque<Script>>,
    account: limits::Account,
}

impl Provider {
    /// Starts to listen and to answer, in the background.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(options: ProviderOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.bind).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            log: Arc::new(log::Log::new(options.keep)),
            scripts: Mutex::default(),
            account: limits::Account::new(options.limits),
            options,
        });
        let accepting = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What an OpenAI client calls the base URL: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests seen so far, oldest first (the last [`ProviderOptions::keep`] of them).
    #[must_use]
    pub fn log(&self) -> Vec<Seen> {
        self.shared.log.entries()
    }

    /// How many requests have arrived since the start, forgotten ones included.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.shared.log.arrived()
    }

    /// Waits until `enough` holds for the log, looking again after each change to it. Tests wait with this, not with time.
    pub async fn wait_until(&self, enough: impl FnMut(&[Seen]) -> bool) -> Vec<Seen> {
        self.shared.log.wait_until(enough).await
    }

    /// What was used per model, over everything that has ended: what a bill would say.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<String, Totals> {
        self.shared.log.totals()
    }

    /// Plays `script` to the next request that is not a `GET`. Several wait in line; a script outranks every other rule.
    pub fn script(&self, script: Script) {
        self.shared.scripts.lock().push_back(script);
    }

    /// Scripts nobody has called for yet.
    #[must_use]
    pub fn scripts_left(&self) -> usize {
        self.shared.scripts.lock().len()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // The accept task owns the connections, so they end with it.
        self.accepting.abort();
    }
}
