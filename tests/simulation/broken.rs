//! Ledgers that are broken on purpose: the simulation must notice each of them.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashSet;
use tollgate::domain::{ReservationId, Timestamp};
use tollgate::limit::{Admission, Decision, Measure, Rule, ScopeKey, Settlement};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Balance, Ledger, StoreError};

/// What is wrong with a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A settlement that is repeated is booked again.
    SettlesTwice,
    /// Now and then a settlement is acknowledged and lost.
    LosesSettlements,
    /// Now and then a hold is forgotten, so that its settlement frees nothing.
    ForgetsHolds,
    /// Money is admitted without being held.
    HoldsNothing,
    /// More than was claimed is given back to buckets.
    RefundsTooMuch,
    /// A window takes back what is long used.
    RefundsWindows,
    /// Money is booked in the present period, not in that of the admission.
    BooksToday,
    /// Whoever waits is told a tenth too early.
    StartsEarly,
    /// Now and then what fits is refused.
    RefusesWhatFits,
    /// A refused request pays for its request and tokens all the same.
    ChargesTheRefused,
    /// What takes the place of a reservation is admitted, and the old one goes on holding.
    ForgetsTheReplaced,
    /// What does not fit in the place of a reservation has ended it all the same.
    EndsWhatStands,
}

pub const FAULTS: [Fault; 12] = [
    Fault::SettlesTwice,
    Fault::LosesSettlements,
    Fault::ForgetsHolds,
    Fault::HoldsNothing,
    Fault::RefundsTooMuch,
    Fault::RefundsWindows,
    Fault::BooksToday,
    Fault::StartsEarly,
    Fault::RefusesWhatFits,
    Fault::ChargesTheRefused,
    Fault::ForgetsTheReplaced,
    Fault::EndsWhatStands,
];

pub struct Broken {
    pub inner: EmbeddedLedger,
    pub fault: Fault,
    seen: Mutex<(HashSet<ReservationId>, u128)>,
}

impl Broken {
    pub fn new(inner: EmbeddedLedger, fault: Fault) -> Self {
        Self { inner, fault, seen: Mutex::default() }
    }

    /// One in so many.
    fn unlucky(&self, one_in: u128) -> bool {
        let mut seen = self.seen.lock();
        seen.1 += 1;
        seen.1.is_multiple_of(one_in)
    }

    fn spoil(&self, mut settlement: Settlement, now: Timestamp) -> Option<Settlement> {
        let unknown = |id: ReservationId, n: u128| ReservationId::new(id.bits() + (n << 64));
        match self.fault {
            Fault::SettlesTwice if !self.seen.lock().0.insert(settlement.reservation) => {
                let n = {
                    let mut seen = self.seen.lock();
                    seen.1 += 1;
                    seen.1
                };
                settlement.reservation = unknown(settlement.reservation, n);
            }
            Fault::LosesSettlements if self.unlucky(9) => return None,
            Fault::ForgetsHolds if self.unlucky(9) => settlement.reservation = unknown(settlement.reservation, 1),
            Fault::RefundsTooMuch => {
                let lines = settlement.lines.iter_mut().filter(|line| matches!(line.claim.rule, Rule::Bucket { .. }));
                lines.for_each(|line| line.claim.amount += line.claim.amount.saturating_sub(line.actual));
            }
            Fault::RefundsWindows => {
                let lines = settlement.lines.iter_mut().filter(|line| matches!(line.claim.rule, Rule::Window { .. }));
                lines.for_each(|line| line.actual = 0);
            }
            Fault::BooksToday => {
                for line in &mut settlement.lines {
                    if let Rule::Budget { boundaries, .. } = line.claim.rule {
                        line.booked = boundaries.at(now).0;
                    }
                }
            }
            _ => {}
        }
        Some(settlement)
    }

    async fn admit_badly(&self, admission: &Admission, now: Option<Timestamp>) -> Result<Decision, StoreError> {
        let mut asked = admission.clone();
        if self.fault == Fault::HoldsNothing {
            asked.claims.iter_mut().filter(|claim| claim.is_budget()).for_each(|claim| claim.amount = 0);
            asked.elastic = None;
        }
        if self.fault == Fault::RefusesWhatFits && self.unlucky(50) {
            asked.claims.iter_mut().for_each(|claim| claim.amount = claim.amount.saturating_mul(1_000));
        }
        let mut decision = self.inner.admit(&asked, now).await?;
        if self.fault == Fault::StartsEarly {
            decision.start_in -= decision.start_in / 10;
        }
        if self.fault == Fault::ChargesTheRefused && !decision.admitted {
            let rates = |measure| matches!(measure, Measure::Request | Measure::Tokens);
            asked.claims.retain(|claim| rates(claim.measure) && !claim.is_budget());
            self.inner.admit(&asked, now).await?;
        }
        Ok(decision)
    }
}

impl Ledger for Broken {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.admit_badly(admission, now).boxed()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let at = batch_time(&self.inner).await;
            let spoiled: Vec<_> = batch.iter().filter_map(|settlement| self.spoil(settlement.clone(), at)).collect();
            self.inner.settle(&spoiled, now).await
        }
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        async move {
            match self.fault {
                Fault::ForgetsTheReplaced => self.inner.admit(admission, now).await,
                Fault::EndsWhatStands => {
                    self.inner.settle(std::slice::from_ref(old), now).await?;
                    self.inner.admit(admission, now).await
                }
                _ => self.inner.replace(old, admission, now).await,
            }
        }
        .boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.inner.read(scope)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ping()
    }
}

/// The store's present time: what it says of an admission that asks for nothing.
async fn batch_time(ledger: &EmbeddedLedger) -> Timestamp {
    let customer = ScopeKey { scope: tollgate::limit::Scope::Customer, owner: "nobody".into() };
    let nothing = Admission { reservation: ReservationId::new(0), customer, claims: Vec::new(), elastic: None, lease: 0 };
    ledger.admit(&nothing, None).await.map_or(Timestamp(0), |decision| decision.at)
}
