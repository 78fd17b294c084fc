//! What the tests of this module ask and settle: one dollar limit of one customer.

use crate::domain::{Boundaries, Period, ReservationId, Timestamp};
use crate::limit::{Admission, Claim, Decision, LimitName, Line, Measure, Outcome, Rule, Scope, ScopeKey, Settlement, Verdict};

/// The start of a day.
pub const DAY: Timestamp = Timestamp::from_secs(864_000);

pub fn customer(id: &str) -> ScopeKey {
    ScopeKey { scope: Scope::Customer, owner: id.into() }
}

pub fn admission(id: u128, who: &str, amount: u64) -> Admission {
    let boundaries = Boundaries([9, 10, 11, 12].map(|day| day * 86_400));
    let rule = Rule::Budget { cap: 1_000_000, boundaries };
    let claim = Claim { scope: customer(who), limit: LimitName::Spend(Period::Day), rule, measure: Measure::Money, amount };
    let reservation = ReservationId::new(id);
    Admission { reservation, customer: customer(who), claims: vec![claim], elastic: None, lease: 60_000_000 }
}

pub fn decision(at: u64, remaining: u64) -> Decision {
    let verdict = Verdict { outcome: Outcome::Fits, used: 0, held: 0, remaining, reset_in: 0, booked: DAY.secs() };
    Decision { at: Timestamp(at), admitted: true, start_in: 0, granted: None, verdicts: vec![verdict] }
}

pub fn settlement(id: u128, who: &str, claimed: u64, actual: u64, day: Timestamp) -> Settlement {
    let Admission { reservation, customer, claims, .. } = admission(id, who, claimed);
    let lines = claims.into_iter().map(|claim| Line { claim, actual, booked: day.secs() }).collect();
    Settlement { reservation, customer, lines }
}
