//! What requests tell the alerts: small, cheap to make, and dropped where nobody has the time to look.

use crate::domain::{CustomerId, Period, UserId};
use crate::limit::{Claim, Decision, LimitName, Outcome, Rule, ScopeKey};
use std::sync::Arc;

/// Whose cap it is, as people know them.
#[derive(Clone, Debug)]
pub enum Owner {
    /// A customer.
    Customer(CustomerId),
    /// A user inside a customer.
    User(CustomerId, UserId),
    /// An application.
    App(Arc<str>),
    /// The whole gateway.
    Gateway,
}

impl Owner {
    /// What it is, and its name.
    #[must_use]
    pub fn name(&self) -> (&'static str, String) {
        match self {
            Self::Customer(id) => ("customer", id.to_string()),
            Self::User(customer, user) => ("user", format!("{customer}/{user}")),
            Self::App(name) => ("app", name.to_string()),
            Self::Gateway => ("gateway", "all".to_owned()),
        }
    }
}

/// A spend cap in one of its periods.
#[derive(Clone, Debug)]
pub struct Cap {
    /// Where it is kept.
    pub scope: ScopeKey,
    /// Whose it is.
    pub owner: Owner,
    /// The plan it is from; of a customer or user.
    pub plan: Option<Arc<str>>,
    /// What kind of period.
    pub period: Period,
    /// When the period began, Unix seconds.
    pub start: u64,
    /// When it ends, Unix seconds.
    pub end: u64,
    /// Nano-dollars.
    pub cap: u64,
}

/// Something that was seen on a request's path.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// What is spent and held comes near a cap, or is refused for it.
    Spend { cap: Cap, refused: bool },
    /// The same prompt, so often within a minute.
    Loop { customer: CustomerId, app: Arc<str>, model: String, times: u32 },
    /// A provider refuses the account.
    Provider { upstream: Arc<str>, status: u16, used_up: bool },
    /// A model without a price.
    Unpriced { model: String, app: Arc<str> },
}

/// A cap that a decision shows to be near: from this percentage on, spent and held together, or refused for what is spent.
pub(super) fn near(claim: &Claim, decision: &Decision, index: usize, percent: u8) -> Option<(u64, u64, u64, bool)> {
    let (LimitName::Spend(_), Rule::Budget { cap, boundaries }) = (claim.limit, claim.rule) else { return None };
    let verdict = decision.verdicts.get(index)?;
    // A cap of nothing is a closed door: an operator's wish, and no news.
    if cap == 0 {
        return None;
    }
    let refused = verdict.outcome == Outcome::Exhausted;
    let used = u128::from(verdict.used) + u128::from(verdict.held);
    if !refused && used * 100 < u128::from(cap) * u128::from(percent) {
        return None;
    }
    let (start, end) = boundaries.at(decision.at);
    Some((cap, start, end, refused))
}
