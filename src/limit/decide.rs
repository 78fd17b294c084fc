//! All claims of a request at once: read all, check all, write all or (almost) nothing.

use super::admission::{Admission, Decision, Line, Outcome, Settlement, Verdict};
use super::bucket::BucketState;
use super::budget::BudgetState;
use super::claim::{Claim, Elastic, LimitName, Measure, Rule, ScopeKey};
use super::window::WindowState;
use crate::domain::Timestamp;

/// Whoever must wait longer than this for its own limits claims the ceiling only at its start time, microseconds.
pub const DEFER_ABOVE: u64 = 1_000_000;

/// The state of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a [`Rule::Bucket`].
    Bucket(BucketState),
    /// Of a [`Rule::Window`].
    Window(Box<WindowState>),
    /// Of a [`Rule::Budget`].
    Budget(BudgetState),
}

impl State {
    /// Whether it is kept by a rule of this kind.
    const fn is_of(&self, rule: &Rule) -> bool {
        matches!(
            (self, rule),
            (Self::Bucket(_), Rule::Bucket { .. })
                | (Self::Window(_), Rule::Window { .. })
                | (Self::Budget(_), Rule::Budget { .. })
        )
    }
}

/// Where states are kept. A limit never seen has no state.
pub trait States {
    /// The state of a limit.
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State>;
    /// Keeps it.
    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State);
}

/// Decides an admission at `now` and takes its claims if all pass.
///
/// A refused admission writes nothing, except that a [`Measure::Message`] claim that passes is taken whatever else refuses.
pub fn admit(now: Timestamp, admission: &Admission, states: &mut impl States) -> Decision {
    let claims = &admission.claims;
    let mut open: Vec<Open> = claims.iter().map(|claim| Open::read(now, claim, states)).collect();
    let granted = admission.elastic.and_then(|elastic| shrink(&elastic, claims, &mut open));

    let own_wait = claims.iter().zip(&open).filter(|(c, _)| !c.is_ceiling()).map(|(_, o)| o.wait()).max().unwrap_or(0);
    if own_wait > DEFER_ABOVE {
        for (_, open) in claims.iter().zip(&mut open).filter(|(c, _)| c.is_ceiling()) {
            open.outcome = Outcome::Deferred;
        }
    }

    let admitted = open.iter().all(|o| o.outcome.passes());
    for (claim, open) in claims.iter().zip(&mut open) {
        let takes = open.outcome.passes() && open.outcome != Outcome::Deferred;
        if takes && (admitted || claim.measure == Measure::Message) {
            open.take(now, claim);
            states.put(&claim.scope, claim.limit, open.state.clone());
        }
    }
    Decision {
        at: now,
        admitted,
        start_in: if admitted { open.iter().map(Open::wait).max().unwrap_or(0) } else { 0 },
        granted: granted.filter(|_| admitted),
        verdicts: claims.iter().zip(&open).map(|(claim, open)| open.verdict(now, claim)).collect(),
    }
}

/// How limits stand at `now`, and what each would answer to its claim. Takes nothing.
pub fn look(now: Timestamp, claims: &[Claim], states: &mut impl States) -> Vec<Verdict> {
    claims.iter().map(|claim| Open::read(now, claim, states).verdict(now, claim)).collect()
}

/// What a store knows of the hold of a reservation that ends.
#[derive(Clone, Copy, Debug)]
pub enum Hold<'a> {
    /// It holds what the settlement claims.
    AsClaimed,
    /// It holds exactly these budget lines, whatever the settlement claims.
    Of(&'a [Line]),
    /// There is none: it was lost, or an outage admitted the request.
    Unknown,
}

/// Replaces what was claimed by what was used.
///
/// A budget gives back what is held of it: no more if the settlement claims more, and also what the settlement does not mention. Where
/// the hold is not known (of a reservation that has budgets) it gives back nothing, and rates are not refunded either, since they may
/// never have been charged; what was used beyond the claims is booked all the same.
pub fn settle(now: Timestamp, settlement: &Settlement, hold: Hold<'_>, states: &mut impl States) {
    let lines = &settlement.lines;
    let charged = !matches!(hold, Hold::Unknown) || !lines.iter().any(|line| line.claim.is_budget());
    let mut held = if let Hold::Of(held) = hold { held.to_vec() } else { Vec::new() };
    for Line { claim, actual, booked } in lines.iter().filter(|line| line.changes()) {
        let state = states.state(&claim.scope, claim.limit);
        // The plan counts in another way since: what there was to correct is gone, and what is counted now must stay.
        if state.as_ref().is_some_and(|state| !state.is_of(&claim.rule)) {
            continue;
        }
        let mut state = advanced(now, claim, state);
        let refunded = if charged { *actual } else { claim.amount.max(*actual) };
        match (&mut state, claim.rule) {
            (State::Bucket(state), Rule::Bucket { bucket, mirrors: true, .. }) => {
                let claimed = if charged { claim.amount } else { 0 };
                bucket.settle(state, claimed, *actual);
            }
            (State::Bucket(state), Rule::Bucket { bucket, forgive, .. }) => {
                bucket.correct(state, claim.amount, refunded, forgive);
            }
            (State::Window(state), Rule::Window { .. }) => state.correct(now, *booked, claim.amount, refunded),
            (State::Budget(state), Rule::Budget { .. }) => {
                let given_back = match hold {
                    Hold::AsClaimed => claim.amount,
                    Hold::Of(_) => take(&mut held, claim, *booked),
                    Hold::Unknown => 0,
                };
                state.settle(*booked, given_back, *actual);
            }
            _ => unreachable!("`advanced` gives the state its rule asks for"),
        }
        states.put(&claim.scope, claim.limit, state);
    }
    for Line { claim, booked, .. } in held {
        if let Some(State::Budget(mut budget)) = states.state(&claim.scope, claim.limit).filter(|_| claim.amount > 0) {
            budget.settle(booked, claim.amount, 0);
            states.put(&claim.scope, claim.limit, State::Budget(budget));
        }
    }
}

/// All that is held of a budget in a period; from then on nothing is.
fn take(held: &mut [Line], claim: &Claim, period: u64) -> u64 {
    let of = |line: &&mut Line| line.booked == period && line.claim.limit == claim.limit && line.claim.scope == claim.scope;
    held.iter_mut().filter(of).fold(0, |sum, line| sum.saturating_add(std::mem::take(&mut line.claim.amount)))
}

/// Puts an admission in the place of a reservation: settles that to its actual amounts and decides the claims as if it had ended before.
/// Where they do not pass, nothing changes at all, not even for the message, and the verdicts tell how things would stand.
///
/// `hold` is what is known of the old reservation. One that has ended already is given without lines: nothing is booked of it again.
pub fn replace(now: Timestamp, old: &Settlement, hold: Hold<'_>, admission: &Admission, states: &mut impl States) -> Decision {
    let mut draft = Draft { states, written: Vec::new() };
    settle(now, old, hold, &mut draft);
    let decision = admit(now, admission, &mut draft);
    if decision.admitted {
        draft.commit();
    }
    decision
}

/// States as they will be if what is being decided comes to pass.
struct Draft<'a, S> {
    states: &'a mut S,
    /// A request touches a dozen limits at most: a walk beats a map.
    written: Vec<(ScopeKey, LimitName, State)>,
}

impl<S: States> Draft<'_, S> {
    fn commit(self) {
        for (scope, limit, state) in self.written {
            self.states.put(&scope, limit, state);
        }
    }
}

impl<S: States> States for Draft<'_, S> {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        let written = self.written.iter().find(|(owner, name, _)| *name == limit && owner == scope);
        written.map(|(.., state)| state.clone()).or_else(|| self.states.state(scope, limit))
    }

    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        match self.written.iter_mut().find(|(owner, name, _)| *name == limit && owner == scope) {
            Some((.., written)) => *written = state,
            None => self.written.push((scope.clone(), limit, state)),
        }
    }
}

/// One claim under decision.
struct Open {
    state: State,
    outcome: Outcome,
    amount: u64,
}

impl Open {
    fn read(now: Timestamp, claim: &Claim, states: &mut impl States) -> Self {
        let state = advanced(now, claim, states.state(&claim.scope, claim.limit));
        let outcome = match (&state, claim.rule) {
            (State::Bucket(state), Rule::Bucket { bucket, max_wait, .. }) => {
                bucket.fit(*state, now, claim.amount, max_wait).into()
            }
            (State::Window(state), Rule::Window { limit, max_wait }) => state.fit(limit, now, claim.amount, max_wait).into(),
            (State::Budget(state), Rule::Budget { cap, .. }) => state.fit(cap, claim.amount).into(),
            _ => unreachable!("`advanced` gives the state its rule asks for"),
        };
        Self { state, outcome, amount: claim.amount }
    }

    const fn wait(&self) -> u64 {
        match self.outcome {
            Outcome::Starts(wait) => wait,
            _ => 0,
        }
    }

    fn take(&mut self, now: Timestamp, claim: &Claim) {
        let start = now.plus(self.wait());
        match (&mut self.state, claim.rule) {
            (State::Bucket(state), Rule::Bucket { bucket, mirrors: true, .. }) => bucket.hold(state, self.amount),
            (State::Bucket(state), Rule::Bucket { bucket, .. }) => bucket.take(state, self.amount),
            (State::Window(state), _) => state.take(start.secs(), self.amount),
            (State::Budget(state), _) => state.hold(self.amount),
            _ => unreachable!("`advanced` gives the state its rule asks for"),
        }
    }

    fn verdict(&self, now: Timestamp, claim: &Claim) -> Verdict {
        let (used, held, remaining, reset_in, booked) = match (&self.state, claim.rule) {
            (State::Bucket(state), Rule::Bucket { bucket, .. }) => {
                (bucket.used(*state), 0, bucket.remaining(*state), bucket.full_in(*state, now), 0)
            }
            (State::Window(state), Rule::Window { limit, .. }) => {
                let used = state.used(now);
                (used, 0, limit.saturating_sub(used), state.until_empty(now), now.plus(self.wait()).secs())
            }
            (State::Budget(state), Rule::Budget { cap, boundaries }) => {
                let period = state.current;
                let ends = Timestamp::from_secs(boundaries.at(now).1);
                (period.spent, period.held, cap.saturating_sub(period.spent + period.held), ends.since(now), period.start)
            }
            _ => unreachable!("`advanced` gives the state its rule asks for"),
        };
        Verdict { outcome: self.outcome, used, held, remaining, reset_in, booked }
    }
}

/// Lowers the dollar claims to the largest output cap that every dollar limit affords, if one of them is spent too far for the wanted
/// one. Gives that cap when it is smaller than wanted.
fn shrink(elastic: &Elastic, claims: &[Claim], open: &mut [Open]) -> Option<u64> {
    let money: Vec<usize> = (0..claims.len()).filter(|&i| claims[i].measure == Measure::Money).collect();
    let period = |open: &Open| match &open.state {
        State::Budget(budget) => budget.current,
        _ => unreachable!("money is claimed from budgets"),
    };
    let cap_of = |i: usize| match claims[i].rule {
        Rule::Budget { cap, .. } => cap,
        _ => unreachable!("money is claimed from budgets"),
    };
    let mut granted = elastic.wanted;
    let mut below_floor = false;
    for &i in &money {
        if open[i].outcome != Outcome::Exhausted {
            continue;
        }
        let spent = period(&open[i]);
        let room = cap_of(i).saturating_sub(spent.spent);
        let affordable = elastic.affordable(room.saturating_sub(spent.held));
        if let Some(cap) = affordable.filter(|cap| *cap >= elastic.floor) {
            granted = granted.min(cap);
            // Should another limit refuse, that one is the cause: this one affords a shorter answer.
            open[i].outcome = Outcome::Fits;
        } else {
            below_floor = true;
            // Without the requests in flight the floor would fit: their settlement may make room.
            if elastic.affordable(room).is_some_and(|cap| cap >= elastic.floor) {
                open[i].outcome = Outcome::InFlight;
            }
        }
    }
    if below_floor || granted == elastic.wanted {
        return None;
    }
    let amount = elastic.cost(granted).get();
    for &i in &money {
        let spent = period(&open[i]);
        open[i].amount = amount;
        open[i].outcome = if spent.spent + spent.held + amount <= cap_of(i) { Outcome::Fits } else { Outcome::InFlight };
    }
    Some(granted)
}

/// The state at `now` in the shape the claim's rule asks for; one of another shape (the plan changed) counts as never seen.
fn advanced(now: Timestamp, claim: &Claim, state: Option<State>) -> State {
    match claim.rule {
        Rule::Bucket { bucket, .. } => {
            let old = if let Some(State::Bucket(old)) = state { Some(old) } else { None };
            State::Bucket(bucket.advance(old, now))
        }
        Rule::Window { .. } => {
            let mut window = if let Some(State::Window(old)) = state { old } else { Box::default() };
            window.advance(now);
            State::Window(window)
        }
        Rule::Budget { boundaries, .. } => {
            let mut budget = if let Some(State::Budget(old)) = state { old } else { BudgetState::default() };
            budget.advance(&boundaries, now);
            State::Budget(budget)
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
