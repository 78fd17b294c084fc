//! What becomes of a request that cannot be served as it was asked: the plan's chain, and at its end the client.

use super::{Crowd, Event, No, World};
use crate::degrade::chain::{self as degrade, Cause, Move, Permits, Walk};
use crate::lab::client::Told;
use crate::lab::tally::Fate;
use crate::limit::Refusal;
use crate::wire::Api;

impl World<'_> {
    /// A limit said no: the plan's chain, else the refusal.
    pub(super) fn limited(&mut self, id: usize, crowds: &[Crowd], refusal: &Refusal) {
        let told = Told { retry_after: refusal.remedy.retry_in(), final_: !refusal.remedy.waiting_helps() };
        let no = No { told, by: format!("{} {}", refusal.scope.as_str(), refusal.limit.as_str()) };
        match Cause::of(refusal) {
            Some(cause) => self.fall_back(id, crowds, cause, no),
            None => self.refused(id, crowds, no),
        }
    }

    /// Walks the plan's chain of the cause that stopped the request first; at its end the client learns the refusal that began the walk.
    pub(super) fn fall_back(&mut self, id: usize, crowds: &[Crowd], cause: Cause, no: No) {
        self.stopped(id, &no);
        let left = u64::try_from(self.wait_left(id).as_micros()).unwrap_or(u64::MAX);
        let question = &mut self.questions[id];
        let crowd = &crowds[question.crowd];
        let policy = &self.run.policy;
        let class = crowd.class.as_ref().and_then(|class| policy.classes.get(class));
        let fallback = policy.models.get(&crowd.model).and_then(|model| model.fallback.clone());
        let fallback = fallback.filter(|_| class.is_some_and(|class| class.fallback));
        let chat =
            degrade::Asked { api: Api::Chat, priority: crowd.priority, tools: false, formatted: false, choices: 1, later: false };
        let permits = Permits { cheaper: fallback.is_some(), handoff: chat.allows_handoff() };
        let plan = question.plan;
        let (walk, first) = question.walk.get_or_insert_with(|| {
            let chain = match cause {
                Cause::Spend => &plan.on_spend,
                Cause::Tokens => &plan.on_tokens,
                Cause::Provider => &plan.on_provider,
            };
            (Walk::new(chain), no)
        });
        let waiting_helps = first.told.retry_after.filter(|_| !first.told.final_);
        match (walk.next(permits, waiting_helps, left), fallback) {
            (Move::Wait(wait), _) => self.schedule(wait, Event::Retry(id)),
            (Move::Cheaper, Some(fallback)) => {
                (question.cheaper, question.calls) = (true, 0);
                self.ask(id, crowds, &fallback.model);
            }
            (Move::Handoff, _) => self.settled(id, Fate::HandedOff),
            (Move::Refuse | Move::Cheaper, _) => {
                let no = first.clone();
                self.refused(id, crowds, no);
            }
        }
    }

    /// The client learns a refusal, and comes back or gives up.
    pub(super) fn refused(&mut self, id: usize, crowds: &[Crowd], no: No) {
        self.stopped(id, &no);
        let now = self.now;
        let No { told, by } = no;
        let question = &mut self.questions[id];
        let index = question.crowd;
        let asked_for = now - question.arrival.at;
        let again = crowds[index].client.again(told, question.attempts, asked_for, &mut question.draw);
        let tally = self.tally(index);
        *tally.refusals.entry(by).or_default() += 1;
        if tally.first_retry_after.is_none() {
            tally.first_retry_after = told.retry_after;
        }
        match again {
            Some(wait) => self.schedule(wait, Event::Attempt(id)),
            None => self.settled(id, Fate::Unanswered),
        }
    }

    /// Notes what stops an attempt first: what stops it later is counted with the walk that began then.
    fn stopped(&mut self, id: usize, no: &No) {
        let question = &self.questions[id];
        if question.walk.is_none() {
            let index = question.crowd;
            *self.tally(index).stopped.entry(no.by.clone()).or_default() += 1;
        }
    }
}
