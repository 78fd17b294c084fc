//! The chain: what is tried, in which order, when a request cannot be served as it was asked.
//!
//! A plan has a chain for each [`Cause`]. A request walks the one of the cause that stopped it first, each step at most once, and never
//! starts over: a fallback that is refused in its turn falls to the next step. At the end of the chain stands the refusal that began
//! the walk, since it tells what the customer can do about it.
//!
//! Not everything that ends a request is a cause. The message bucket is not: it is there to stop floods, and an answer in place of its
//! refusal would feed them. Neither is a limit of zero (a door that somebody closed, not a limit that was reached), a request larger than
//! the limit (nothing to come back for), a store that is away, or a fault of the request's own.

use crate::config::policy::Step;
use crate::domain::Priority;
use crate::limit::{LimitName, Refusal, Scope};
use crate::wire::Api;

/// What stopped a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A dollar cap or a quota, of whomever; also one whose rest is only held by requests in flight.
    Spend,
    /// RPM or TPM of user, customer or app, or the customer's own bound on requests in flight.
    Tokens,
    /// No room at the provider (ceiling, share, the gateway's own rates, slots), or its failure.
    Provider,
}

impl Cause {
    /// The spelling used in headers, logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spend => "spend",
            Self::Tokens => "tokens",
            Self::Provider => "provider",
        }
    }

    /// The cause that a limit's refusal is; `None` = it is final.
    #[must_use]
    pub const fn of(refusal: &Refusal) -> Option<Self> {
        if refusal.max == 0 || refusal.is_oversize() {
            return None;
        }
        match (refusal.limit, refusal.scope) {
            (LimitName::Messages, _) => None,
            (LimitName::Spend(_) | LimitName::RequestQuota(_) | LimitName::TokenQuota(_), _) => Some(Self::Spend),
            (_, Scope::User | Scope::Customer | Scope::App) => Some(Self::Tokens),
            (_, Scope::Share | Scope::Pool | Scope::Gateway) => Some(Self::Provider),
        }
    }
}

/// What may be tried for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// Whether the model has a fallback that may answer this request.
    pub cheaper: bool,
    /// Whether a person's later answer can stand in for the model's.
    pub handoff: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Wait so many microseconds, then ask again for the same model.
    Wait(u64),
    /// Ask the fallback model.
    Cheaper,
    /// Answer with the hand-off.
    Handoff,
    /// Nothing is left: the refusal that began the walk.
    Refuse,
}

/// A request's way along its chain.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    rest: &'a [Step],
}

impl<'a> Walk<'a> {
    /// At the start of a chain.
    #[must_use]
    pub const fn new(chain: &'a [Step]) -> Self {
        Self { rest: chain }
    }

    /// The next move. `retry_in`: when whatever stopped the request may let it pass, microseconds, if waiting can help at all; `left`: what
    /// is left of the wait budget. Steps that are of no use now are passed over for good.
    pub fn next(&mut self, permits: Permits, retry_in: Option<u64>, left: u64) -> Move {
        while let Some((step, rest)) = self.rest.split_first() {
            self.rest = rest;
            match step {
                Step::Wait => {
                    if let Some(wait) = retry_in.filter(|wait| *wait <= left) {
                        return Move::Wait(wait);
                    }
                }
                Step::Cheaper if permits.cheaper => return Move::Cheaper,
                Step::Handoff if permits.handoff => return Move::Handoff,
                Step::Cheaper | Step::Handoff => {}
            }
        }
        Move::Refuse
    }
}

/// What of a request decides whether a person's later answer can stand in for the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The route.
    pub api: Api,
    /// For whom.
    pub priority: Priority,
    /// Whether tools are declared: a program reads the answer.
    pub tools: bool,
    /// Whether the answer must be JSON, or sound.
    pub formatted: bool,
    /// How many answers it wants.
    pub choices: u64,
    /// Whether it is a job, which waits for room: nobody is on the line to be told that a person takes over.
    pub later: bool,
}

impl Asked {
    /// Only one plain chat answer for a person can be replaced by a sentence. Legacy completions continue a text, which no sentence of
    /// ours does.
    #[must_use]
    pub const fn allows_handoff(&self) -> bool {
        matches!(self.api, Api::Chat | Api::Responses | Api::Messages)
            && matches!(self.priority, Priority::Live | Priority::Internal)
            && !self.tools
            && !self.formatted
            && self.choices == 1
            && !self.later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Period, Timestamp};
    use crate::limit::{Measure, Remedy};
    use Step::{Cheaper, Handoff, Wait};

    const ALL: Permits = Permits { cheaper: true, handoff: true };

    /// All moves of a walk.
    fn walk(chain: &[Step], permits: Permits, retry_in: Option<u64>) -> Vec<Move> {
        let mut walk = Walk::new(chain);
        let mut moves = Vec::new();
        loop {
            moves.push(walk.next(permits, retry_in, 6_000));
            if matches!(moves.last(), Some(Move::Handoff | Move::Refuse)) {
                return moves;
            }
        }
    }

    #[test]
    fn each_step_is_taken_once_and_only_where_it_may() {
        let none = Permits::default();
        for (chain, permits, retry_in, right) in [
            (&[][..], ALL, Some(1), vec![Move::Refuse]),
            (&[Cheaper, Handoff], ALL, None, vec![Move::Cheaper, Move::Handoff]),
            (&[Cheaper, Handoff], Permits { cheaper: false, ..ALL }, None, vec![Move::Handoff]),
            (&[Cheaper, Handoff], Permits { handoff: false, ..ALL }, None, vec![Move::Cheaper, Move::Refuse]),
            (&[Cheaper, Handoff], none, Some(1), vec![Move::Refuse]),
            (&[Wait, Cheaper], ALL, Some(6_000), vec![Move::Wait(6_000), Move::Cheaper, Move::Refuse]),
            (&[Wait, Cheaper], ALL, Some(6_001), vec![Move::Cheaper, Move::Refuse]),
            (&[Wait], ALL, None, vec![Move::Refuse]),
            (&[Cheaper, Wait, Handoff], ALL, Some(5), vec![Move::Cheaper, Move::Wait(5), Move::Handoff]),
        ] {
            assert_eq!(walk(chain, permits, retry_in), right, "{chain:?} {permits:?} {retry_in:?}");
        }
    }

    fn refusal(scope: Scope, limit: LimitName, measure: Measure, remedy: Remedy) -> Refusal {
        Refusal { scope, limit, measure, max: 100, used: 90, held: 0, asked: 20, remedy, resets_at: Timestamp(0) }
    }

    #[test]
    fn causes_are_told_by_limit_and_scope() {
        use Measure::{Message, Money, Request, Reserved, Tokens};
        let spend = LimitName::Spend(Period::Day);
        for (scope, limit, measure, remedy, right) in [
            (Scope::Customer, LimitName::Messages, Message, Remedy::Wait(1), None),
            (Scope::User, LimitName::Messages, Message, Remedy::Wait(1), None),
            (Scope::Customer, spend, Money, Remedy::NextPeriod(9), Some(Cause::Spend)),
            (Scope::User, spend, Money, Remedy::InFlight(9), Some(Cause::Spend)),
            (Scope::Gateway, spend, Money, Remedy::NextPeriod(9), Some(Cause::Spend)),
            (Scope::App, LimitName::RequestQuota(Period::Week), Request, Remedy::NextPeriod(9), Some(Cause::Spend)),
            (Scope::Customer, LimitName::TokenQuota(Period::Day), Tokens, Remedy::NextPeriod(9), Some(Cause::Spend)),
            (Scope::Customer, LimitName::Rpm, Request, Remedy::Wait(1), Some(Cause::Tokens)),
            (Scope::App, LimitName::Tpm, Tokens, Remedy::Wait(1), Some(Cause::Tokens)),
            (Scope::Share, LimitName::Tpm, Reserved, Remedy::Wait(1), Some(Cause::Provider)),
            (Scope::Pool, LimitName::Rpm, Request, Remedy::Wait(1), Some(Cause::Provider)),
            (Scope::Gateway, LimitName::Rpm, Request, Remedy::Wait(1), Some(Cause::Provider)),
        ] {
            assert_eq!(Cause::of(&refusal(scope, limit, measure, remedy)), right, "{scope:?} {limit:?}");
        }
    }

    #[test]
    fn a_closed_door_and_a_request_too_large_are_final() {
        let spend = refusal(Scope::Customer, LimitName::Spend(Period::Day), Measure::Money, Remedy::NextPeriod(9));
        assert_eq!(Cause::of(&Refusal { max: 0, used: 0, ..spend.clone() }), None, "a cap of zero is a suspended customer");
        let dear = Refusal { asked: 101, ..spend };
        assert_eq!(Cause::of(&dear), Some(Cause::Spend), "a cheaper model may fit under a cap that this one does not");
        let tokens = refusal(Scope::Customer, LimitName::Tpm, Measure::Tokens, Remedy::Never);
        assert_eq!(Cause::of(&Refusal { asked: 101, ..tokens }), None, "413");
    }

    #[test]
    fn only_one_plain_answer_for_a_person_is_handed_off() {
        let plain = Asked { api: Api::Chat, priority: Priority::Live, tools: false, formatted: false, choices: 1, later: false };
        for (asked, right) in [
            (plain, true),
            (Asked { api: Api::Responses, ..plain }, true),
            (Asked { api: Api::Messages, ..plain }, true),
            (Asked { priority: Priority::Internal, ..plain }, true),
            (Asked { priority: Priority::Background, ..plain }, false),
            (Asked { api: Api::Completions, ..plain }, false),
            (Asked { api: Api::Embeddings, choices: 0, ..plain }, false),
            (Asked { api: Api::CountTokens, choices: 0, ..plain }, false),
            (Asked { tools: true, ..plain }, false),
            (Asked { formatted: true, ..plain }, false),
            (Asked { choices: 2, ..plain }, false),
            (Asked { later: true, ..plain }, false),
        ] {
            assert_eq!(asked.allows_handoff(), right, "{asked:?}");
        }
    }
}
