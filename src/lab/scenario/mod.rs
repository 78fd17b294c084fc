//! A scenario: who sends what to whom through what. Compiled from a file (see `config/scenarios/`), or put together by a replay.

mod compile;
mod file;

use crate::config::Policy;
use crate::config::Problem;
use crate::config::policy::Plan;
use crate::config::problem;
use crate::domain::{NanoUsd, Priority};
use std::sync::Arc;

/// A minute in microseconds.
pub const MINUTE: u64 = 60_000_000;

/// A whole scenario file.
#[derive(Debug)]
pub struct Scenario {
    /// What it is called.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// From which random arrivals, sizes and waits are drawn.
    pub seed: u64,
    /// Who sends what. The order decides who comes first at equal times.
    pub crowds: Vec<Crowd>,
    /// What is put together, in the order of the file.
    pub runs: Vec<Run>,
    /// Which limit binds.
    pub sweep: Option<Sweep>,
    /// The algorithms side by side.
    pub compare: Option<Compare>,
}

/// Who sends what.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Its name.
    pub name: Arc<str>,
    /// The ids its requests are spread over are `name-0` and so on; one: just that id.
    pub customers: u64,
    /// The id, or the beginning of the ids.
    pub id: Arc<str>,
    /// The plan of its customers, where it is not the configuration's default.
    pub plan: Option<Arc<str>>,
    /// The model it asks for.
    pub model: Arc<str>,
    /// When its requests arrive.
    pub timing: Timing,
    /// Input tokens of a request.
    pub input: u64,
    /// Output tokens of an answer.
    pub output: u64,
    /// The output cap asked for.
    pub cap: Option<u64>,
    /// By how much input and output vary, millionths.
    pub spread: u32,
    /// Its priority.
    pub priority: Priority,
    /// Its class.
    pub class: Option<Box<str>>,
    /// What it does about refusals.
    pub client: Client,
}

/// When requests arrive; microseconds since the run began.
#[derive(Clone, Debug)]
pub enum Timing {
    /// So many at one instant.
    Burst {
        /// When.
        at: u64,
        /// How many.
        count: u64,
    },
    /// At a rate.
    Rate {
        /// How much.
        amount: u64,
        /// In so long.
        period: u64,
        /// How they are spread.
        arrivals: Arrivals,
        /// From when.
        from: u64,
        /// For how long; `None` = to the end of the run.
        lasts: Option<u64>,
        /// No more than so many.
        count: Option<u64>,
    },
    /// As recorded: when, and with how many input and output tokens.
    Recorded(Arc<[Recorded]>),
}

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Microseconds since the first.
    pub at: u64,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// How requests are spread over their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Each at any instant, as independent people come.
    #[default]
    Random,
    /// At equal distances, the first at once.
    Even,
}

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Takes no for an answer.
    Once,
    /// Tries again at once, whatever it was told.
    AtOnce,
    /// As the official SDKs: a `Retry-After` of up to a minute is kept to, else 0.5 s, doubled each time up to 8 s, less up to a quarter
    /// of it; `x-should-retry: false` ends it.
    Sdk,
    /// Comes back exactly when it was told to.
    Patient,
}

/// What a client does about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// How.
    pub kind: Behaviour,
    /// Most retries.
    pub retries: u64,
    /// The least between a refusal and the next attempt, microseconds.
    pub pause: u64,
    /// When it gives up, microseconds after it first asked; `None` = never by time.
    pub gives_up: Option<u64>,
}

impl Client {
    /// Asks once.
    pub const ONCE: Self = Self { kind: Behaviour::Once, retries: 0, pause: 0, gives_up: None };
}

/// An account at a provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name.
    pub name: Arc<str>,
    /// Patterns of the models whose quota it is.
    pub models: Vec<Box<str>>,
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// How it enforces them.
    pub window: Enforced,
    /// Whether a refused request counts, too.
    pub counts_refused: bool,
    /// Microseconds until the first token.
    pub takes: u64,
    /// Microseconds per output token.
    pub per_token: u64,
    /// Accepted requests that end in a 500, millionths.
    pub errors: u32,
}

/// How a provider enforces its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforced {
    /// A bucket of a minute's worth that refills continuously.
    #[default]
    Bucket,
    /// A sixtieth of it in each second.
    Second,
    /// No more than the quota in any 60 s.
    Minute,
}

/// What stands between clients and provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Nothing.
    Direct,
    /// A limiter that looks at what is spent, passes the request on and books it at its end.
    Check,
    /// Tollgate.
    Tollgate,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// What stands between clients and provider.
    pub path: Path,
    /// The gateway's configuration.
    pub policy: Arc<Policy>,
    /// The accounts.
    pub providers: Vec<Provider>,
    /// Who takes part: indices into [`Scenario::crowds`], ascending.
    pub crowds: Vec<usize>,
    /// For how long requests arrive, microseconds.
    pub length: u64,
    /// What customers have spent before it begins.
    pub spent: Vec<(Arc<str>, NanoUsd)>,
    /// What was seen in the field.
    pub field: Vec<String>,
}

/// Which limit of a plan binds, over sizes of requests.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The configuration.
    pub policy: Arc<Policy>,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Tokens per request.
    pub tokens: Vec<u64>,
    /// For how long each size is tried, microseconds.
    pub length: u64,
}

/// Algorithms side by side.
#[derive(Clone, Debug)]
pub struct Compare {
    /// Who takes part.
    pub crowds: Vec<usize>,
    /// Requests.
    pub amount: u64,
    /// Per so many microseconds.
    pub period: u64,
    /// Capacity of the token bucket.
    pub burst: u64,
    /// For how long requests arrive, microseconds.
    pub length: u64,
}

impl Scenario {
    /// Reads and checks a scenario; `name` stands in messages.
    ///
    /// # Errors
    /// All problems, in the order of the text.
    pub fn parse(text: &str, name: &str) -> Result<Self, Vec<Problem>> {
        compile::compile(text, name)
    }

    /// Reads and checks a scenario file; blocks.
    ///
    /// # Errors
    /// All problems, in the order of the file.
    pub fn load(path: &std::path::Path) -> Result<Self, Vec<Problem>> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let place = problem::Place::root(problem::Source::File { name: name.as_str().into(), line: 1 });
            let reason = format!("the file cannot be read: {error}");
            vec![Problem { place, reason, advice: "scenarios that come with Tollgate are in config/scenarios".to_owned() }]
        })?;
        Self::parse(&text, &name)
    }
}
