//! What is asked of the limits, what they say, and what is told them in the end. Decided in [`super::decide`].

use super::bucket::Fit;
use super::budget::BudgetFit;
use super::claim::{Claim, Elastic, Measure, Rule, ScopeKey};
use crate::domain::{ReservationId, Timestamp};

/// What a request asks of the store.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The reservation these claims become.
    pub reservation: ReservationId,
    /// The customer whose request it is; the reservation is kept with them.
    pub customer: ScopeKey,
    /// Everything asked, decided together.
    pub claims: Vec<Claim>,
    /// How the [`Measure::Money`] claims may shrink.
    pub elastic: Option<Elastic>,
    /// Microseconds until the hold is taken for lost unless it is renewed.
    pub lease: u64,
}

impl Admission {
    /// What an admitting decision took: a line per claim that was not deferred, with the amount that is really held and nothing used
    /// yet.
    #[must_use]
    pub fn lines(&self, decision: &Decision) -> Vec<Line> {
        Line::taken(&self.claims, self.elastic.as_ref(), decision)
    }

    /// Nano-dollars that its money claims hold at this output cap; `None` where nothing smaller than asked for was granted.
    #[must_use]
    pub fn cost_of(&self, granted: Option<u64>) -> Option<u64> {
        self.elastic.zip(granted).map(|(elastic, cap)| elastic.cost(cap).get())
    }
}

/// What the limits said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// By the deciding clock, when it was decided.
    pub at: Timestamp,
    /// Whether the claims were taken.
    pub admitted: bool,
    /// Microseconds after `at` at which the request may start.
    pub start_in: u64,
    /// The output cap that was granted, where it is smaller than the one asked for.
    pub granted: Option<u64>,
    /// One verdict per claim, in order.
    pub verdicts: Vec<Verdict>,
}

impl Decision {
    /// Whether the ceiling is still to be claimed, at the start time.
    #[must_use]
    pub fn deferred(&self) -> bool {
        self.verdicts.iter().any(|v| v.outcome == Outcome::Deferred)
    }
}

/// What one limit said, and how it stands after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Yes, no, or when.
    pub outcome: Outcome,
    /// What is used of the limit: tokens missing from the bucket, the window's sum, or what is spent in the period.
    pub used: u64,
    /// What requests in flight hold of a budget; zero for buckets and windows.
    pub held: u64,
    /// What is left, zero when in debt.
    pub remaining: u64,
    /// Microseconds until the bucket is full, the window empty, or the period over.
    pub reset_in: u64,
    /// Where it was booked: the start of the period or the second of the slot, Unix seconds; zero for a bucket.
    pub booked: u64,
}

/// The answer of one limit to one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It fits now.
    Fits,
    /// It fits after this many microseconds, within the claim's `max_wait`.
    Starts(u64),
    /// It will be admitted after this many microseconds.
    Refused(u64),
    /// Only requests in flight stand in the way.
    InFlight,
    /// The period's budget leaves too little room.
    Exhausted,
    /// More than the limit itself.
    Never,
    /// Not asked yet: the ceiling of a request that must first wait for its own limits.
    Deferred,
}

impl Outcome {
    /// Whether this limit lets the request through.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Fits | Self::Starts(_) | Self::Deferred)
    }
}

/// The end of a reservation, an upsert by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which reservation.
    pub reservation: ReservationId,
    /// The customer it is kept with.
    pub customer: ScopeKey,
    /// One line per claim that was taken.
    pub lines: Vec<Line>,
}

/// One claim and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The claim as it was taken (`amount` is what is held).
    pub claim: Claim,
    /// What was used instead.
    pub actual: u64,
    /// [`Verdict::booked`] of the admission.
    pub booked: u64,
}

impl Line {
    /// See [`Admission::lines`].
    #[must_use]
    pub fn taken(claims: &[Claim], elastic: Option<&Elastic>, decision: &Decision) -> Vec<Self> {
        Self::all_taken(claims.iter().cloned(), elastic, decision)
    }

    /// The same of claims that are not needed otherwise, so that none is copied.
    #[must_use]
    pub fn taken_over(claims: Vec<Claim>, elastic: Option<&Elastic>, decision: &Decision) -> Vec<Self> {
        Self::all_taken(claims.into_iter(), elastic, decision)
    }

    /// The same of the budgets and quotas alone: what a store must never lose.
    #[must_use]
    pub fn budgets_taken(admission: &Admission, decision: &Decision) -> Vec<Self> {
        let taken = |(claim, verdict): &(&Claim, &Verdict)| claim.is_budget() && verdict.outcome != Outcome::Deferred;
        let lowered = admission.cost_of(decision.granted);
        let lines = admission.claims.iter().zip(&decision.verdicts).filter(taken);
        lines.map(move |(claim, verdict)| Self::of(claim.clone(), lowered, verdict)).collect()
    }

    fn all_taken(claims: impl Iterator<Item = Claim>, elastic: Option<&Elastic>, decision: &Decision) -> Vec<Self> {
        let lowered = elastic.zip(decision.granted).map(|(elastic, cap)| elastic.cost(cap).get());
        // Nearly always all of them; they are kept as long as the reply streams, so without room to grow.
        let mut lines = Vec::with_capacity(decision.verdicts.len());
        let taken = claims.zip(&decision.verdicts).filter(|(_, verdict)| verdict.outcome != Outcome::Deferred);
        lines.extend(taken.map(|(claim, verdict)| Self::of(claim, lowered, verdict)));
        lines
    }

    /// Whether its end changes anything: a bucket or window from which just as much was used as was claimed stays as it is. (Of a mirror
    /// what was claimed is given back and what was used is charged.)
    #[must_use]
    pub const fn changes(&self) -> bool {
        match self.claim.rule {
            Rule::Bucket { mirrors: false, .. } | Rule::Window { .. } => self.actual != self.claim.amount,
            Rule::Bucket { .. } | Rule::Budget { .. } => true,
        }
    }

    fn of(mut claim: Claim, lowered: Option<u64>, verdict: &Verdict) -> Self {
        if let Some(amount) = lowered.filter(|_| claim.measure == Measure::Money) {
            claim.amount = amount;
        }
        Self { claim, actual: 0, booked: verdict.booked }
    }
}

impl From<Fit> for Outcome {
    fn from(fit: Fit) -> Self {
        match fit {
            Fit::Now => Self::Fits,
            Fit::Starts(wait) => Self::Starts(wait),
            Fit::Refused(wait) => Self::Refused(wait),
            Fit::Never => Self::Never,
        }
    }
}

impl From<BudgetFit> for Outcome {
    fn from(fit: BudgetFit) -> Self {
        match fit {
            BudgetFit::Fits => Self::Fits,
            BudgetFit::InFlight => Self::InFlight,
            BudgetFit::Exhausted => Self::Exhausted,
        }
    }
}
