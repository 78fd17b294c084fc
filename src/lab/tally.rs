//! What a run is counted in: per crowd, per provider, over time.

use super::provider::Trailing;
use super::scenario::{Path, Run};
use crate::domain::NanoUsd;
use crate::limit::{LimitName, ScopeKey};
use std::collections::BTreeMap;

/// What became of a question, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Answered as asked.
    Full,
    /// Answered by the model that was asked, shorter than it might have been.
    Short,
    /// Answered by the cheaper model.
    Cheaper,
    /// Handed to a person.
    HandedOff,
    /// Refused, and the client gave up.
    Unanswered,
}

impl Fate {
    /// All of them, from best to worst.
    pub const ALL: [Self; 5] = [Self::Full, Self::Short, Self::Cheaper, Self::HandedOff, Self::Unanswered];

    /// The word in tables and charts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "answered",
            Self::Short => "short",
            Self::Cheaper => "cheaper",
            Self::HandedOff => "handed off",
            Self::Unanswered => "unanswered",
        }
    }
}

/// A question that a model answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When it was first asked, microseconds since the run began.
    pub arrived: u64,
    /// When the provider accepted it.
    pub started: u64,
}

/// What became of a crowd's questions.
#[derive(Debug, Default)]
pub struct CrowdReport {
    /// The crowd.
    pub name: String,
    /// Questions, each counted once.
    pub questions: u64,
    /// By [`Fate`].
    pub fates: [u64; 5],
    /// What its clients sent, retries included.
    pub attempts: u64,
    /// Refusals its clients saw, by what refused.
    pub refusals: BTreeMap<String, u64>,
    /// Attempts that could not be served as they were asked, by what stopped them first, whether or not something else was found.
    pub stopped: BTreeMap<String, u64>,
    /// Questions answered on a retry of the gateway's own.
    pub retried: u64,
    /// When the first of its questions was refused or degraded, and when the last.
    pub harmed: Option<(u64, u64)>,
    /// The `Retry-After` of its first refusal, microseconds.
    pub first_retry_after: Option<u64>,
    /// Those that a model answered, in the order of their starts.
    pub served: Vec<Served>,
}

impl CrowdReport {
    /// Questions with this fate.
    #[must_use]
    pub const fn of(&self, fate: Fate) -> u64 {
        self.fates[fate as usize]
    }

    /// The wait before the provider's answer began that so many thousandths of the answered stayed under, microseconds.
    #[must_use]
    pub fn wait(&self, permille: usize) -> u64 {
        let mut waits: Vec<u64> = self.served.iter().map(|served| served.started - served.arrived).collect();
        waits.sort_unstable();
        waits.get((waits.len() * permille / 1_000).min(waits.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

/// What a provider's account saw.
#[derive(Debug)]
pub struct ProviderReport {
    /// Its name.
    pub name: String,
    /// Its quota.
    pub rpm: Option<u64>,
    /// Its quota.
    pub tpm: Option<u64>,
    /// Calls, refused ones included.
    pub calls: u64,
    /// 429s.
    pub refused: u64,
    /// 500s.
    pub errors: u64,
    /// Tokens of accepted calls.
    pub tokens: u64,
    /// Of these, while requests arrived (what comes later is the tail).
    pub tokens_in_time: u64,
    /// Accepted tokens in the trailing 60 s, and the most in any.
    pub trailing_tokens: Trailing,
    /// Accepted requests in the trailing 60 s, and the most in any.
    pub trailing_requests: Trailing,
    /// Tokens of background work in the trailing 60 s, and the most in any.
    pub trailing_background: Trailing,
}

/// One step of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Tokens that providers accepted.
    pub tokens: u64,
    /// Requests that providers accepted.
    pub requests: u64,
    /// 429s of providers.
    pub refused: u64,
    /// Questions by fate, when it was known.
    pub fates: [u64; 5],
    /// The highest level.
    pub level: u8,
}

/// What a customer with a budget spent.
#[derive(Debug)]
pub struct Spending {
    /// The id.
    pub customer: String,
    /// Before the run.
    pub before: NanoUsd,
    /// After it.
    pub after: NanoUsd,
    /// The cap of the day, if there is one.
    pub cap: Option<NanoUsd>,
}

/// What was left of a limit, over time.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// Whose limit it is: the customer's, or a pool's.
    pub scope: ScopeKey,
    /// Which.
    pub limit: LimitName,
    /// What there is when nothing is used.
    pub of: u64,
    /// The least that was left in each step; nothing where there was a debt.
    pub least: Vec<u64>,
}

/// What one run came to.
#[derive(Debug)]
pub struct RunReport {
    /// The run.
    pub name: String,
    /// What stood between clients and provider.
    pub path: Path,
    /// What was seen in the field.
    pub field: Vec<String>,
    /// For how long requests arrived, microseconds.
    pub length: u64,
    /// Per crowd.
    pub crowds: Vec<CrowdReport>,
    /// Per account.
    pub providers: Vec<ProviderReport>,
    /// The ceiling that the gateway keeps of each account, tokens per minute.
    pub ceilings: Vec<Option<u64>>,
    /// The same in requests per minute.
    pub request_ceilings: Vec<Option<u64>>,
    /// Changes of the level: when, to which.
    pub levels: Vec<(u64, u8)>,
    /// Customers whose spending the scenario speaks of.
    pub spending: Vec<Spending>,
    /// Refusals although the provider would have had room at that instant.
    pub refused_with_room: u64,
    /// The buckets of the first crowd's customer, and those of the pools.
    pub left: Vec<Left>,
    /// Microseconds per step.
    pub step: u64,
    /// Over time.
    pub steps: Vec<Step>,
}

/// Steps of a chart: enough to see a minute, few enough to draw.
const STEPS: u64 = 80;

impl RunReport {
    /// Nothing counted yet.
    pub(super) fn new(run: &Run, crowds: impl Iterator<Item = String>) -> Self {
        let crowd = |name| CrowdReport { name, ..CrowdReport::default() };
        let provider = |provider: &super::scenario::Provider| ProviderReport {
            name: provider.name.to_string(),
            rpm: provider.rpm,
            tpm: provider.tpm,
            calls: 0,
            refused: 0,
            errors: 0,
            tokens: 0,
            tokens_in_time: 0,
            trailing_tokens: Trailing::default(),
            trailing_requests: Trailing::default(),
            trailing_background: Trailing::default(),
        };
        Self {
            name: run.name.clone(),
            path: run.path,
            field: run.field.clone(),
            length: run.length,
            crowds: crowds.map(crowd).collect(),
            providers: run.providers.iter().map(provider).collect(),
            ceilings: Vec::new(),
            request_ceilings: Vec::new(),
            levels: Vec::new(),
            spending: Vec::new(),
            refused_with_room: 0,
            left: Vec::new(),
            // Whole seconds, so that a chart's axis has round numbers.
            step: (run.length / STEPS).div_ceil(1_000_000).max(1) * 1_000_000,
            steps: Vec::new(),
        }
    }

    /// The crowd with this name.
    #[must_use]
    pub fn crowd(&self, name: &str) -> Option<&CrowdReport> {
        self.crowds.iter().find(|crowd| crowd.name == name)
    }

    /// The step of an instant.
    pub(super) fn at(&mut self, at: u64) -> &mut Step {
        let index = usize::try_from(at / self.step).unwrap_or(usize::MAX).min(100_000);
        if self.steps.len() <= index {
            self.steps.resize(index + 1, Step::default());
        }
        &mut self.steps[index]
    }

    /// Calls to providers per minute while requests arrived, all accounts together.
    #[must_use]
    pub fn calls_per_minute(&self) -> u64 {
        let calls: u64 = self.providers.iter().map(|provider| provider.calls).sum();
        per_minute(calls, self.length)
    }
}

/// So many in so long, per minute, rounded.
#[must_use]
pub fn per_minute(n: u64, length: u64) -> u64 {
    let exact = u128::from(n) * u128::from(super::scenario::MINUTE) + u128::from(length / 2);
    u64::try_from(exact / u128::from(length.max(1))).unwrap_or(u64::MAX)
}
