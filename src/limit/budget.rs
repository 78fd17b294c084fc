//! A budget or quota: spent + held + asked <= cap, per calendar period.

use crate::domain::{Boundaries, Timestamp};

/// What one period has used. Identified by its start in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodState {
    /// Start of the period, Unix seconds.
    pub start: u64,
    /// Settled: nano-dollars, tokens or requests.
    pub spent: u64,
    /// Reserved by requests in flight.
    pub held: u64,
}

/// The present period and the one before it, in which late requests still settle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetState {
    /// The period in which new requests are admitted.
    pub current: PeriodState,
    /// The one before.
    pub previous: PeriodState,
}

/// Whether an amount fits a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetFit {
    /// It fits.
    Fits,
    /// It fits what is spent; only requests in flight stand in the way.
    InFlight,
    /// What is spent leaves too little room.
    Exhausted,
}

impl BudgetState {
    /// Moves on to the period in which `now` lies. Time that runs back stays in the newer period.
    pub fn advance(&mut self, boundaries: &Boundaries, now: Timestamp) {
        let (start, _) = boundaries.at(now);
        if start > self.current.start {
            self.previous = self.current;
            self.current = PeriodState { start, spent: 0, held: 0 };
        }
    }

    /// Whether `asked` fits the present period of an advanced state.
    #[must_use]
    pub const fn fit(&self, cap: u64, asked: u64) -> BudgetFit {
        let PeriodState { spent, held, .. } = self.current;
        if spent.saturating_add(asked) > cap {
            BudgetFit::Exhausted
        } else if spent + asked + held > cap {
            BudgetFit::InFlight
        } else {
            BudgetFit::Fits
        }
    }

    /// Reserves `amount` in the present period.
    pub const fn hold(&mut self, amount: u64) {
        self.current.held += amount;
    }

    /// Books `actual` in the period that started at `start` and gives back `held` there. A period longer gone is history.
    pub fn settle(&mut self, start: u64, held: u64, actual: u64) {
        for period in [&mut self.current, &mut self.previous] {
            if period.start == start {
                period.held = period.held.saturating_sub(held);
                period.spent = period.spent.saturating_add(actual);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Boundaries = Boundaries([0, 86_400, 172_800, 259_200]);

    #[test]
    fn in_flight_is_told_apart_from_spent() {
        let mut budget = BudgetState::default();
        budget.advance(&DAY, Timestamp::from_secs(90_000));
        budget.settle(86_400, 0, 90);
        budget.hold(5);
        assert_eq!(budget.fit(100, 5), BudgetFit::Fits);
        assert_eq!(budget.fit(100, 6), BudgetFit::InFlight);
        assert_eq!(budget.fit(100, 11), BudgetFit::Exhausted);
        assert_eq!(budget.fit(0, 1), BudgetFit::Exhausted);
    }

    #[test]
    fn a_reservation_settles_in_the_period_of_its_admission() {
        let mut budget = BudgetState::default();
        budget.advance(&DAY, Timestamp::from_secs(172_799));
        budget.hold(10);
        budget.advance(&DAY, Timestamp::from_secs(172_801));
        budget.settle(86_400, 10, 7);
        assert_eq!(budget.previous, PeriodState { start: 86_400, spent: 7, held: 0 });
        assert_eq!(budget.current, PeriodState { start: 172_800, spent: 0, held: 0 });
        budget.settle(0, 10, 7); // long gone
        assert_eq!(budget.current.spent, 0);
    }
}
