//! What the axes of a report's columns have in common.

use crate::lab::scenario::MINUTE;
use crate::lab::tally::{ProviderReport, RunReport, Step};

/// What an account is measured in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Tokens,
    Requests,
}

impl Counted {
    /// Of the accounts' quotas the one that is used most: that which binds.
    fn of(runs: &[RunReport]) -> Self {
        let part = |most: u64, of: Option<u64>| of.map_or(0.0, |of| most as f64 / of.max(1) as f64);
        let accounts = || runs.iter().flat_map(|run| &run.providers);
        let tokens = accounts().map(|one| part(one.trailing_tokens.most, one.tpm)).fold(0.0, f64::max);
        let requests = accounts().map(|one| part(one.trailing_requests.most, one.rpm)).fold(0.0, f64::max);
        if requests > tokens { Self::Requests } else { Self::Tokens }
    }

    /// Accepted by the provider in a step.
    pub(super) const fn step(self, step: &Step) -> u64 {
        match self {
            Self::Tokens => step.tokens,
            Self::Requests => step.requests,
        }
    }

    /// The account's quota.
    pub(super) const fn quota(self, provider: &ProviderReport) -> Option<u64> {
        match self {
            Self::Tokens => provider.tpm,
            Self::Requests => provider.rpm,
        }
    }

    /// What the gateway keeps of each account.
    pub(super) fn ceilings(self, run: &RunReport) -> &[Option<u64>] {
        match self {
            Self::Tokens => &run.ceilings,
            Self::Requests => &run.request_ceilings,
        }
    }

    pub(super) const fn axis(self) -> &'static str {
        match self {
            Self::Tokens => "tokens per minute",
            Self::Requests => "requests per minute",
        }
    }
}

/// The same axes for all runs, so that columns can be compared.
pub(super) struct Scale {
    pub(super) minutes: f64,
    pub(super) counted: Counted,
    pub(super) used: f64,
    pub(super) questions: f64,
}

impl Scale {
    pub(super) fn of(runs: &[RunReport]) -> Self {
        let top = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max).max(1.0) * 1.1;
        let minutes = runs.iter().map(|run| run.steps.len() as f64 * step(run)).fold(0.0, f64::max);
        let counted = Counted::of(runs);
        let quota =
            runs.iter().flat_map(|run| &run.providers).filter_map(|provider| counted.quota(provider)).map(|most| most as f64);
        let used = runs.iter().flat_map(|run| run.steps.iter().map(|s| counted.step(s) as f64 / step(run)));
        let questions = runs.iter().flat_map(|run| run.steps.iter().map(|s| s.fates.iter().sum::<u64>() as f64 / step(run)));
        Self {
            minutes: minutes.max(step_least()),
            counted,
            used: top(used.chain(quota).collect()),
            questions: top(questions.collect()),
        }
    }
}

const fn step_least() -> f64 {
    1.0 / 60.0
}

/// Minutes per step.
pub(super) fn step(run: &RunReport) -> f64 {
    run.step as f64 / MINUTE as f64
}
