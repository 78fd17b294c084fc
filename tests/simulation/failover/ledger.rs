//! The limits of a run, and what the ledger and its gateways know, in plain numbers.

use std::collections::HashMap;
use tollgate::domain::{Period, ReservationId, Timestamp, Zone};
use tollgate::limit::{Claim, LimitName, Measure, Rule, Scope, ScopeKey};

pub const SECOND: u64 = 1_000_000;
pub const LEASE: u64 = 120 * SECOND;
/// Noon of 30 November 2026, UTC; a run ends long before midnight.
pub const NOON: u64 = 1_796_040_000 * SECOND;
pub const LIMIT: LimitName = LimitName::Spend(Period::Day);
/// Budgets: of two customers, and of the app that both use.
pub const CAPS: [u64; 3] = [10_000, 6_000, 13_000];

/// One reservation as its gateway knows it.
#[derive(Clone, Debug)]
pub struct Request {
    pub customer: usize,
    pub amount: u64,
    pub at: u64,
    /// What it used, once it ended.
    pub actual: Option<u64>,
}

/// What the ledger has of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub spent: u64,
    pub held: u64,
    pub generation: u64,
}

/// What the ledger knows of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Held { due: u64 },
    Swept,
    Settled,
}

/// All that a copy of the ledger has.
#[derive(Clone, Debug, Default)]
pub struct Books {
    pub budgets: [Budget; 3],
    pub known: HashMap<u64, Known>,
}

/// What a gateway remembers: generation and spent, by budget; and what it was last told, or less where others corrected that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub floor: [(u64, u64); 3],
    pub told: [u64; 3],
}

pub fn scope(budget: usize) -> ScopeKey {
    match budget {
        2 => ScopeKey { scope: Scope::App, owner: "shop".into() },
        n => ScopeKey { scope: Scope::Customer, owner: format!("c{n}").into() },
    }
}

pub fn claim(budget: usize, amount: u64) -> Claim {
    let boundaries = Zone::default().boundaries(Period::Day, Timestamp(NOON));
    let rule = Rule::Budget { cap: CAPS[budget], boundaries };
    Claim { scope: scope(budget), limit: LIMIT, rule, measure: Measure::Money, amount }
}

pub fn id(request: usize) -> ReservationId {
    ReservationId::new(1 + request as u128)
}
