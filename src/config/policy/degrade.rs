//! The parts of the policy about what happens instead of an error: retries, cheaper models, levels, hand-off, repeats, records.

use super::Secret;
use crate::degrade::breaker::Rules;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// `[retry]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Most further attempts at a provider after the first.
    pub max: u32,
    /// How long a live request may wait, all waits together.
    pub wait_budget: Duration,
    /// When a provider that fails is left alone.
    pub breaker: Rules,
}

impl Retry {
    /// Ten failures within ten seconds that are half of all calls, and then five seconds of quiet: at one call a second and all of them
    /// failing it opens within ten seconds, at a hundred within a tenth of one; a provider of which a third of the calls fails stays in
    /// use, for which retries are the better remedy.
    pub const BREAKER: Rules = Rules { failures: 10, share: 500_000, window: 10_000_000, pause: 5_000_000 };
}

impl Default for Retry {
    fn default() -> Self {
        Self { max: 2, wait_budget: Duration::from_secs(6), breaker: Self::BREAKER }
    }
}

/// `[classes.NAME]`: a kind of question. A class that is not configured, and no class at all, allow no fallback model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Whether another model than the one that was asked for may answer.
    pub fallback: bool,
}

/// `[classes.*]`, by name.
pub type Classes = HashMap<Box<str>, Class>;

/// `[models."NAME"] fallback`: who answers instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The cheaper model.
    pub model: Arc<str>,
    /// The system prompt it gets in place of the request's; `None` = the request's own.
    pub system: Option<Arc<str>>,
    /// Whether it may be a model of another upstream (of the same dialect). Even then only for a request that is marked as free of
    /// personal data, unless a scan says otherwise.
    pub other_provider: bool,
}

/// `[levels]`: how much is given up when a pool's ceiling comes near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Percent of the ceiling in use from which level 1, 2 and 3 hold.
    pub up: [u8; 3],
    /// How many points below its threshold the use has to stay before a level ends.
    pub margin: u8,
    /// For how long, per level.
    pub hold: [Duration; 3],
    /// Level 2: the output cap of short answers, tokens.
    pub output_cap: u64,
    /// Level 2: what is appended to the prompt.
    pub brevity: Arc<str>,
}

impl Default for Levels {
    fn default() -> Self {
        Self {
            up: [70, 85, 95],
            margin: 10,
            hold: [Duration::from_secs(600); 3],
            output_cap: 512,
            brevity: "Answer in at most three sentences.".into(),
        }
    }
}

/// `[handoff]`: the answer of last resort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// What the customer reads.
    pub message: Arc<str>,
}

impl Default for Handoff {
    fn default() -> Self {
        Self { message: "I am connecting you to one of our agents.".into() }
    }
}

/// `[triage]`: the queue of those who wait for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triage {
    /// How long an open ticket waits before it expires.
    pub keep: Duration,
    /// How long a claimed ticket belongs to its agent.
    pub lease: Duration,
    /// Whether the conversation is kept with the ticket.
    pub conversation: bool,
    /// The most bytes of it that are kept.
    pub conversation_max: usize,
    /// Whether the latest request is kept with the ticket as it came, so that an operator can ask it again.
    pub requests: bool,
    /// The most bytes its body may have.
    pub request_max: usize,
    /// Open tickets of one customer.
    pub open_per_customer: usize,
    /// Open tickets of all.
    pub open: usize,
    /// Who is told of tickets.
    pub webhook: Option<Webhook>,
}

impl Default for Triage {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(7 * 86_400),
            lease: Duration::from_secs(15 * 60),
            conversation: false,
            conversation_max: 16 << 10,
            requests: false,
            request_max: 64 << 10,
            open_per_customer: 5,
            open: 10_000,
            webhook: None,
        }
    }
}

/// Where news are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The address; often it holds a secret.
    pub url: Secret,
    /// The key of the signature; `None` = not signed.
    pub secret: Option<Secret>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Attempts at most.
    pub attempts: u32,
}

/// `[records]`: what is kept of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// How long; zero = not at all.
    pub keep: Duration,
}

/// `[history]`: what each customer and each model used over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Days for which days are kept; zero = nothing is.
    pub days: u32,
    /// Days for which hours are kept; zero = none are.
    pub hours: u32,
    /// Between two flushes: what a gateway loses that is killed.
    pub flush: Duration,
}

impl Default for History {
    fn default() -> Self {
        Self { days: 400, hours: 14, flush: Duration::from_secs(10) }
    }
}

impl Default for Records {
    fn default() -> Self {
        Self { keep: Duration::from_secs(7 * 86_400) }
    }
}

/// `[repeats]`: `Idempotency-Key` and `Prefer: respond-async`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// How long a finished reply is kept.
    pub keep: Duration,
    /// The longest reply that is kept, bytes.
    pub max_reply: usize,
    /// The longest body of an asynchronous request, bytes.
    pub max_request: usize,
    /// Asynchronous requests that may wait or run at once, all gateways together.
    pub jobs: usize,
    /// Those of one customer.
    pub jobs_per_customer: usize,
    /// Those that one gateway runs at once.
    pub jobs_at_once: usize,
    /// How long one may wait for room before it expires.
    pub job_wait: Duration,
}

impl Default for Repeats {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(86_400),
            max_reply: 1 << 20,
            max_request: 1 << 20,
            jobs: 1_000,
            jobs_per_customer: 100,
            jobs_at_once: 4,
            job_wait: Duration::from_secs(86_400),
        }
    }
}

/// `[admin]`: the listener for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub listen: std::net::SocketAddr,
    /// What callers must show; `None` only on loopback.
    pub token: Option<Secret>,
    /// `[admin.tls]`; `None` = plain HTTP.
    pub tls: Option<Arc<super::Tls>>,
}
