//! Providers: upstreams, the accounts behind them, models.

use super::{Fallback, Limit, Secret};
use crate::domain::Priority;
use crate::wire::Dialect;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// `[upstreams.NAME]`
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Its name.
    pub name: Arc<str>,
    /// The URL that stands in place of `/v1`, without a slash at the end.
    pub base_url: String,
    /// The provider key; `None` in passthrough mode or for providers without one.
    pub api_key: Option<Secret>,
    /// The formats it speaks.
    pub dialect: Dialect,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long the first byte of the reply may take.
    pub first_byte_timeout: Duration,
    /// How long the reply may pause.
    pub idle_timeout: Duration,
    /// How long an idle connection is kept.
    pub pool_idle_timeout: Duration,
    /// Whether `stream_options.include_usage` may be added (some compatible servers refuse it).
    pub include_usage: bool,
    /// What happens to a stream whose client left: cut at once, or read to its end.
    pub drain_on_abort: bool,
}

/// `[pools.NAME]`: an account limit of a provider, shared by some models.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its name.
    pub name: Arc<str>,
    /// Its upstream.
    pub upstream: Arc<Upstream>,
    /// Patterns of model names (`*` at the end).
    pub models: Vec<Box<str>>,
    /// The ceiling; empty = none.
    pub ceiling: Vec<Limit>,
    /// What each priority may use of the ceiling, where that is not all of it: the same limits, smaller.
    pub shares: HashMap<Priority, Vec<Limit>>,
    /// What is left of internal work's share from level 1 on.
    pub halved: Vec<Limit>,
    /// How the provider counts tokens against it.
    pub counts: Counts,
    /// How long background work may wait for it.
    pub background_wait: Duration,
}

/// How a provider counts tokens against its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// The larger of output cap and prompt estimate, never given back (OpenAI).
    Reserved,
    /// Input without cache reads, and output as it is produced (Anthropic).
    InputOutput,
    /// What was really used (others).
    Actual,
}

/// `[models.NAME]`
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The cheaper model that may answer instead.
    pub fallback: Option<Arc<Fallback>>,
    /// The smallest output cap worth having; `None` = the built-in one (more for reasoning models).
    pub output_floor: Option<u64>,
    /// The most the model can put out; `None` = the price table's.
    pub max_output_tokens: Option<u64>,
}
