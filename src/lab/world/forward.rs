//! The last part of a request's way: the provider's account, its answer, and the gateway's retries.

use super::{Crowd, Event, No, Told, World};
use crate::config::policy::Retry;
use crate::config::value::matches;
use crate::degrade::chain::Cause;
use crate::degrade::retry::{Budget, DICE};
use crate::domain::Priority;
use crate::lab::books;
use crate::lab::scenario::Path;
use crate::lab::tally::Fate;
use std::time::Duration;

/// How long a model takes that belongs to no account of the scenario, microseconds.
const NO_ACCOUNT: u64 = 1_000_000;
/// A whole, in millionths.
const WHOLE: u64 = 1_000_000;

/// What a provider made of a call.
enum Reply {
    /// The answer takes so long.
    Accepted(u64),
    /// 429, with the time to come back.
    Limited(u64),
    /// 500.
    Broke,
}

impl World<'_> {
    /// The account of a model.
    pub(super) fn account(&self, model: &str) -> Option<usize> {
        self.run.providers.iter().position(|provider| provider.models.iter().any(|pattern| matches(pattern, model)))
    }

    /// Straight to the provider, past any gateway.
    pub(super) fn direct(&mut self, id: usize, crowds: &[Crowd]) {
        let crowd = &crowds[self.questions[id].crowd];
        let question = &mut self.questions[id];
        question.output = crowd.cap.map_or(question.arrival.output, |cap| cap.min(question.arrival.output));
        match self.call(id, &crowd.model, crowd.priority) {
            Reply::Accepted(takes) => {
                self.served(id);
                self.schedule(takes, Event::End(id));
            }
            Reply::Limited(wait) => {
                let told = Told { retry_after: Some(wait), final_: false };
                self.refused(id, crowds, No { told, by: "provider 429".to_owned() });
            }
            Reply::Broke => {
                let told = Told { retry_after: None, final_: false };
                self.refused(id, crowds, No { told, by: "provider 500".to_owned() });
            }
        }
    }

    /// The wait of an admitted request is over.
    pub(super) fn start(&mut self, id: usize, crowds: &[Crowd]) {
        let Some(mut held) = self.questions[id].held.take() else { return };
        match self.gateway.start(books::instant(self.now), &mut held) {
            Ok(0) => {
                self.questions[id].held = Some(held);
                self.forward(id, crowds);
            }
            Ok(wait) => {
                self.questions[id].held = Some(held);
                self.schedule(wait, Event::Start(id));
            }
            Err(refusal) => {
                let attempted = self.questions[id].calls > 0;
                self.gateway.failed(books::instant(self.now), *held, attempted);
                self.limited(id, crowds, &refusal);
            }
        }
    }

    /// A further attempt: at the provider, for which the ceiling is claimed once more, or from the beginning after a step `wait`.
    pub(super) fn retry(&mut self, id: usize, crowds: &[Crowd]) {
        let Some(mut held) = self.questions[id].held.take() else {
            let model = std::sync::Arc::clone(&crowds[self.questions[id].crowd].model);
            return self.ask(id, crowds, &model);
        };
        match self.gateway.again(books::instant(self.now), &mut held, self.wait_left(id)) {
            Ok(wait) => {
                self.questions[id].held = Some(held);
                self.schedule(wait, Event::Start(id));
            }
            Err(refusal) => {
                self.gateway.failed(books::instant(self.now), *held, true);
                self.limited(id, crowds, &refusal);
            }
        }
    }

    fn forward(&mut self, id: usize, crowds: &[Crowd]) {
        let question = &mut self.questions[id];
        let priority = crowds[question.crowd].priority;
        let Some(held) = &question.held else { return };
        question.output = question.arrival.output.min(held.cap);
        question.calls += 1;
        let model = std::sync::Arc::clone(&held.model);
        let (wait, told, what) = match self.call(id, &model, priority) {
            Reply::Accepted(takes) => {
                self.served(id);
                return self.schedule(takes, Event::End(id));
            }
            Reply::Limited(wait) => (Some(wait), Told { retry_after: Some(wait), final_: false }, "provider 429"),
            Reply::Broke => (None, Told { retry_after: None, final_: false }, "provider 500"),
        };
        if let Some(wait) = self.retry_in(id, wait) {
            return self.schedule(wait, Event::Retry(id));
        }
        let held = self.questions[id].held.take().expect("it is held since it was admitted");
        self.gateway.failed(books::instant(self.now), *held, true);
        self.fall_back(id, crowds, Cause::Provider, No { told, by: what.to_owned() });
    }

    /// The gateway's own retries.
    fn retry_in(&mut self, id: usize, stated: Option<u64>) -> Option<u64> {
        let Retry { max, wait_budget, breaker: _ } = self.run.policy.retry;
        let now = self.now;
        let question = &mut self.questions[id];
        let dice = u32::try_from(question.draw.below(u64::from(DICE))).unwrap_or(0);
        let elapsed = Duration::from_micros(now - question.asked);
        let budget = Budget { retries: max, time: wait_budget };
        let wait = budget.next(question.calls - 1, elapsed, stated.map(Duration::from_micros), dice).ok()?;
        u64::try_from(wait.as_micros()).ok()
    }

    /// A call to the account of a model.
    fn call(&mut self, id: usize, model: &str, priority: Priority) -> Reply {
        let now = self.now;
        let question = &mut self.questions[id];
        let tokens = question.arrival.input + question.output;
        let Some(index) = self.account(model) else { return Reply::Accepted(NO_ACCOUNT) };
        let provider = &self.run.providers[index];
        let report = &mut self.report.providers[index];
        report.calls += 1;
        if let Err(wait) = self.accounts[index].call(now, tokens) {
            report.refused += 1;
            self.report.at(now).refused += 1;
            return Reply::Limited(wait);
        }
        report.tokens += tokens;
        if now < self.run.length {
            report.tokens_in_time += tokens;
        }
        report.trailing_tokens.add(now, tokens);
        report.trailing_requests.add(now, 1);
        if priority == Priority::Background {
            report.trailing_background.add(now, tokens);
        }
        let question = &mut self.questions[id];
        let breaks = question.draw.below(WHOLE) < u64::from(provider.errors);
        report.errors += u64::from(breaks);
        let step = self.report.at(now);
        step.tokens += tokens;
        step.requests += 1;
        if breaks { Reply::Broke } else { Reply::Accepted(provider.takes + provider.per_token * self.questions[id].output) }
    }

    /// An answer is complete.
    pub(super) fn answered(&mut self, id: usize, crowds: &[Crowd]) {
        let (now, path) = (self.now, self.run.path);
        let question = &mut self.questions[id];
        let (input, output) = (question.arrival.input, question.output);
        let fate = match question.held.take() {
            Some(held) => {
                let fate = if question.cheaper {
                    Fate::Cheaper
                } else if held.short && output < question.arrival.output {
                    Fate::Short
                } else {
                    Fate::Full
                };
                self.gateway.answered(books::instant(now), *held, input, output);
                fate
            }
            None => {
                if path == Path::Check {
                    let model = &crowds[question.crowd].model;
                    self.gateway.book(books::instant(now), &question.customer, model, input, output);
                }
                Fate::Full
            }
        };
        self.settled(id, fate);
    }
}
