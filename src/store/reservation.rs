//! A reservation: what the limits took for one request, and the duty to settle it exactly once.
//!
//! It moves with the request and in the end into the reply's body. Settled or dropped, on whatever path, its settlement goes to the
//! queue in which it took a place at admission; nothing here waits or fails.

mod replace;

pub use replace::Replaced;

use super::leases::Metered;
use super::settler::SettlePlace;
use crate::domain::{NanoUsd, ReservationId};
use crate::limit::{Claim, Decision, Elastic, Line, Measure, Scope, ScopeKey, Settlement};
use std::sync::Arc;

/// All claims of one request that were admitted; the duty to settle them exactly once. Dropping it settles too: what was never
/// attempted is given back, what was attempted is charged as held, since nothing better is known. After [`Reservation::replaced`] it is
/// known what was used, until the next attempt.
pub struct Reservation {
    settlement: Settlement,
    /// What attempts that are over claimed of the provider, and what they came to.
    earlier: Vec<Line>,
    attempted: bool,
    /// What the attempts made so far have used, where all of them have ended.
    used: Option<Actuals>,
    /// `None` once settled.
    place: Option<SettlePlace>,
    witness: Option<Box<dyn Witness>>,
    /// The model that says it has answered.
    served: Option<Box<str>>,
}

/// Is told what a reservation comes to, once, when its settlement is handed over.
pub trait Witness: Send + Sync {
    /// It is settled to this; `served` is the model that says it has answered. Called from a `Drop`: must neither block nor panic.
    fn settled(self: Box<Self>, used: &Actuals, served: Option<&str>);
}

/// What a request really used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actuals {
    /// Whether it was sent to a provider at all.
    pub attempted: bool,
    /// All input tokens.
    pub input: u64,
    /// Input tokens that were not read from the provider's cache.
    pub input_uncached: u64,
    /// Input tokens that were written to the provider's cache; only for those who count.
    pub cache_write: u64,
    /// Output tokens.
    pub output: u64,
    /// Output tokens that were reasoning; only for those who count.
    pub reasoning: u64,
    /// What it cost, all attempts together.
    pub cost: NanoUsd,
}

impl Actuals {
    /// Adds what another attempt used.
    pub const fn add(&mut self, other: &Self) {
        self.attempted = self.attempted || other.attempted;
        self.input = self.input.saturating_add(other.input);
        self.input_uncached = self.input_uncached.saturating_add(other.input_uncached);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.cost = self.cost.saturating_add(other.cost);
    }

    /// What a claim of this measure is settled to.
    #[must_use]
    pub const fn of(&self, claim: &Claim) -> u64 {
        match claim.measure {
            Measure::Message => claim.amount,
            Measure::Request | Measure::Reserved if self.attempted => claim.amount,
            Measure::Request | Measure::Reserved => 0,
            Measure::Tokens => self.input.saturating_add(self.output),
            Measure::Input => self.input_uncached,
            Measure::Output => self.output,
            Measure::Money => self.cost.get(),
        }
    }
}

impl Reservation {
    /// What `decision` took of `claims`. A ceiling that was deferred is no part of it until [`Reservation::extend`] adds it.
    #[must_use]
    pub fn new(
        id: ReservationId,
        customer: ScopeKey,
        claims: &[Claim],
        elastic: Option<&Elastic>,
        decision: &Decision,
        place: SettlePlace,
    ) -> Self {
        Self::of(id, customer, Line::taken(claims, elastic, decision), place)
    }

    /// The same, of lines that were taken.
    #[must_use]
    pub fn of(id: ReservationId, customer: ScopeKey, lines: Vec<Line>, mut place: SettlePlace) -> Self {
        place.hold(id, &customer);
        place.claimed(&lines);
        Self {
            settlement: Settlement { reservation: id, customer, lines },
            earlier: Vec::new(),
            attempted: false,
            used: None,
            place: Some(place),
            witness: None,
            served: None,
        }
    }

    /// Has this told what it comes to.
    #[must_use]
    pub fn told(self, witness: Box<dyn Witness>) -> Self {
        let mut told = self;
        told.witness = Some(witness);
        told
    }

    /// Says which model answered, by its own account.
    pub fn served_by(&mut self, model: &str) {
        self.served = Some(model.into());
    }

    /// An attempt is over and another may follow: what was claimed of the provider for it comes to this. Each attempt is counted there by
    /// itself, while the customer's limits are claimed once for all.
    pub fn attempt_ended(&mut self, actuals: &Actuals) {
        let lines = &mut self.settlement.lines;
        let (mut ended, rest): (Vec<_>, Vec<_>) =
            std::mem::take(lines).into_iter().partition(|line| matches!(line.claim.scope.scope, Scope::Pool | Scope::Share));
        *lines = rest;
        for line in &mut ended {
            line.actual = actuals.of(&line.claim);
        }
        self.earlier.append(&mut ended);
    }

    /// Adds what a further decision took: the ceiling at the start time, or that of a further attempt.
    pub fn extend(&mut self, claims: &[Claim], elastic: Option<&Elastic>, decision: &Decision) {
        let lines = Line::taken(claims, elastic, decision);
        if let Some(place) = &mut self.place {
            place.claimed(&lines);
        }
        self.settlement.lines.extend(lines);
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> ReservationId {
        self.settlement.reservation
    }

    /// The dollars that are held: the most of its claims, since they all stand for the same request.
    #[must_use]
    pub fn held(&self) -> NanoUsd {
        let money = self.settlement.lines.iter().filter(|line| line.claim.measure == Measure::Money);
        NanoUsd::new(money.map(|line| line.claim.amount).max().unwrap_or(0))
    }

    /// Where to tell what the request has used so far, should its gateway die before it settles.
    #[must_use]
    pub fn metered(&self) -> Option<Arc<Metered>> {
        self.place.as_ref()?.metered()
    }

    /// From now on a provider has seen the request: should nothing more become known, it is charged as held.
    pub const fn attempted(&mut self) {
        self.attempted = true;
        self.used = None;
    }

    /// All attempts so far have ended and used this: should there be no further one, dropping it settles to that.
    pub fn ended(&mut self, used: &Actuals) {
        self.used = Some(self.so_far(used));
    }

    /// Settles to what was used.
    pub fn settle(mut self, actuals: &Actuals) {
        let actuals = self.so_far(actuals);
        self.end(&actuals, |claim| actuals.of(claim));
    }

    /// Tells what was used, once.
    fn bear_witness(&mut self, used: &Actuals) {
        if let Some(witness) = self.witness.take() {
            witness.settled(used, self.served.as_deref());
        }
    }

    const fn so_far(&self, actuals: &Actuals) -> Actuals {
        Actuals { attempted: actuals.attempted || self.attempted, ..*actuals }
    }

    fn end(&mut self, used: &Actuals, actual: impl Fn(&Claim) -> u64) {
        let Some(place) = self.place.take() else { return };
        self.bear_witness(used);
        for line in &mut self.settlement.lines {
            line.actual = actual(&line.claim);
        }
        self.settlement.lines.append(&mut self.earlier);
        place.settle(Settlement {
            reservation: self.settlement.reservation,
            customer: self.settlement.customer.clone(),
            lines: std::mem::take(&mut self.settlement.lines),
        });
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("id", &self.settlement.reservation).finish_non_exhaustive()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.used {
            Some(used) => self.end(&used, |claim| used.of(claim)),
            None if self.attempted => {
                let held = Actuals { attempted: true, cost: self.held(), ..Actuals::default() };
                self.end(&held, |claim| claim.amount);
            }
            None => self.end(&Actuals::default(), |claim| Actuals::default().of(claim)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Boundaries, Period, Timestamp};
    use crate::limit::{Bucket, LimitName, Outcome, Rule, Verdict};
    use crate::store::settler::tests::{Recorder, recorded};

    fn claim(scope: Scope, measure: Measure, amount: u64) -> Claim {
        let bucket = Bucket::new(100_000, 100_000, 60_000_000).expect("exact");
        let (limit, rule) = match measure {
            Measure::Money => {
                let boundaries = Boundaries([0, 86_400, 172_800, 259_200]);
                (LimitName::Spend(Period::Day), Rule::Budget { cap: 1_000_000_000, boundaries })
            }
            _ => (LimitName::Tpm, Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false }),
        };
        Claim { scope: ScopeKey { scope, owner: "c".into() }, limit, rule, measure, amount }
    }

    fn claims() -> Vec<Claim> {
        let all = [
            (Measure::Message, 1),
            (Measure::Request, 1),
            (Measure::Tokens, 900),
            (Measure::Input, 500),
            (Measure::Output, 400),
            (Measure::Reserved, 700),
            (Measure::Money, 5_000),
        ];
        all.map(|(measure, amount)| claim(Scope::Customer, measure, amount)).to_vec()
    }

    fn decision(outcomes: &[Outcome], granted: Option<u64>) -> Decision {
        let verdict = |(booked, outcome): (usize, &Outcome)| Verdict {
            outcome: *outcome,
            used: 0,
            held: 0,
            remaining: 0,
            reset_in: 0,
            booked: booked as u64,
        };
        let verdicts = outcomes.iter().enumerate().map(verdict).collect();
        Decision { at: Timestamp(0), admitted: true, start_in: 0, granted, verdicts }
    }

    /// Claimed and actual amounts of the one settlement that `act` leads to.
    async fn settled(act: impl FnOnce(Reservation)) -> Vec<(u64, u64)> {
        let recorder = Recorder::default();
        let (settler, ledger) = recorded(recorder, 4);
        let place = settler.place().await.expect("room");
        let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let fits = decision(&[Outcome::Fits; 7], None);
        act(Reservation::new(ReservationId::new(7), customer, &claims(), None, &fits, place));
        assert_eq!(settler.drain(std::time::Duration::from_secs(5)).await, 0);
        let mut settled = ledger.take();
        assert_eq!(settled.len(), 1, "settled exactly once");
        settled.remove(0).lines.iter().map(|line| (line.claim.amount, line.actual)).collect()
    }

    #[tokio::test]
    async fn each_measure_settles_to_its_own_actual() {
        let actuals = Actuals {
            attempted: true,
            input: 600,
            input_uncached: 200,
            output: 50,
            cost: NanoUsd::new(3_500),
            ..Actuals::default()
        };
        let lines = settled(|reservation| reservation.settle(&actuals)).await;
        assert_eq!(lines, [(1, 1), (1, 1), (900, 650), (500, 200), (400, 50), (700, 700), (5_000, 3_500)]);
    }

    #[tokio::test]
    async fn what_was_never_attempted_is_given_back_but_for_the_message() {
        let right = [(1, 1), (1, 0), (900, 0), (500, 0), (400, 0), (700, 0), (5_000, 0)];
        assert_eq!(settled(drop).await, right);
        assert_eq!(settled(|reservation| reservation.settle(&Actuals::default())).await, right);
    }

    #[tokio::test]
    async fn what_was_attempted_and_dropped_is_charged_as_held() {
        let lines = settled(|mut reservation| reservation.attempted()).await;
        assert!(lines.iter().all(|(claimed, actual)| claimed == actual), "{lines:?}");
        let failed = settled(|mut reservation| {
            reservation.attempted();
            reservation.settle(&Actuals::default());
        });
        assert_eq!(failed.await, [(1, 1), (1, 1), (900, 0), (500, 0), (400, 0), (700, 700), (5_000, 0)]);
    }

    #[tokio::test]
    async fn a_deferred_ceiling_counts_once_it_is_claimed_and_a_lowered_cap_holds_less() {
        let (settler, ledger) = recorded(Recorder::default(), 4);
        let place = settler.place().await.expect("room");
        let claims = [claim(Scope::Customer, Measure::Money, 5_000), claim(Scope::Pool, Measure::Reserved, 700)];
        let elastic = Elastic::new(1_000_000, 1_000, 4_000, 16).expect("exact");
        let first = decision(&[Outcome::Fits, Outcome::Deferred], Some(1_500));
        let customer = claims[0].scope.clone();
        let mut reservation = Reservation::new(ReservationId::new(7), customer, &claims, Some(&elastic), &first, place);
        assert_eq!(reservation.held(), NanoUsd::new(2_500), "1,000 fixed and one for each of 1,500 tokens");
        let second = decision(&[Outcome::Starts(5)], None);
        reservation.extend(&claims[1..], None, &second);
        reservation.attempted();
        drop(reservation);
        assert_eq!(settler.drain(std::time::Duration::from_secs(5)).await, 0);
        let lines: Vec<_> = ledger.take().remove(0).lines.iter().map(|l| (l.claim.amount, l.actual, l.booked)).collect();
        assert_eq!(lines, [(2_500, 2_500, 0), (700, 700, 0)]);
    }
}
