//! Which limit of a plan binds: one customer who always asks for more, over sizes of requests.

use super::books::{self, Books};
use super::gateway::{Ask, Calendar};
use super::scenario::Sweep;
use super::tally::per_minute;
use crate::config::policy::{Limit, LimitKind, Limits, Plan};
use crate::domain::{Priority, ReservationId};
use crate::limit::{Admission, LimitName, Refusal, Remedy};
use crate::stack::token_rate::Demand;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the sweep found.
#[derive(Debug, PartialEq, Eq)]
pub struct Swept {
    /// The plan.
    pub plan: String,
    /// Its limits per minute.
    pub limits: Vec<(LimitName, u64)>,
    /// One row per size.
    pub rows: Vec<Row>,
}

/// One size of request.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Tokens per request, input and output together.
    pub tokens: u64,
    /// Requests per minute that pass once the burst is spent.
    pub requests: u64,
    /// Tokens per minute.
    pub used: u64,
    /// What stands in the way of more; `None` when nothing does.
    pub binds: Option<LimitName>,
    /// Whether not even one passes.
    pub never: bool,
}

/// Passes at one instant after which a size is taken to be unlimited.
const UNLIMITED: u64 = 1_000_000;

/// Tries every size.
pub fn sweep(sweep: &Sweep) -> Swept {
    let limits = sweep.plan.limits.rates.iter().map(|limit| {
        let most = match limit.kind {
            LimitKind::Bucket(bucket) => bucket.per_minute(),
            LimitKind::Sliding(most) => most,
        };
        (limit.name, most)
    });
    Swept {
        plan: sweep.plan.name.to_string(),
        limits: limits.collect(),
        rows: sweep.tokens.iter().map(|tokens| row(sweep, *tokens)).collect(),
    }
}

/// The plan's requests and tokens per minute, without waits: what binds per minute is asked here, not what a day costs.
fn rates_only(plan: &Plan) -> Limits {
    let rates = plan.limits.rates.iter().map(|limit| Limit { max_wait: Duration::ZERO, ..*limit });
    Limits { rates: rates.collect(), ..Limits::default() }
}

fn row(sweep: &Sweep, tokens: u64) -> Row {
    let mut books = Books::default();
    let (customer, limits, mut calendar) = (books::customer("lab"), rates_only(&sweep.plan), Calendar::default());
    let ask = Ask {
        scopes: vec![(customer.clone(), &limits)],
        model: "lab".into(),
        priority: Priority::Live,
        demand: Demand { input: tokens, cap: 0, expected: 0 },
        floor: 0,
        message: false,
        level: 0,
    };
    let (mut at, mut passed, mut in_a_row) = (0, 0_u64, 0_u64);
    let mut refused: BTreeMap<LimitName, u64> = BTreeMap::new();
    let mut never = None;
    while at < sweep.length && in_a_row < UNLIMITED {
        let now = books::instant(at);
        let (claims, _) = ask.claims(&sweep.policy, None, &mut calendar, now);
        let admission =
            Admission { reservation: ReservationId::new(0), customer: customer.clone(), claims, elastic: None, lease: 0 };
        let decision = books.admit(now, &admission);
        if decision.admitted {
            // What the first instant gives is the burst.
            passed += u64::from(at > 0);
            in_a_row += 1;
            continue;
        }
        in_a_row = 0;
        let refusal = Refusal::worst(&admission.claims, &decision).expect("what is not admitted was refused by a limit");
        *refused.entry(refusal.limit).or_default() += 1;
        match refusal.remedy {
            Remedy::Wait(wait) => at += wait.max(1),
            _ => {
                never = Some(refusal.limit);
                break;
            }
        }
    }
    let binds = refused.into_iter().max_by_key(|(_, times)| *times).map(|(limit, _)| limit);
    let requests = per_minute(passed, sweep.length);
    Row { tokens, requests, used: per_minute(passed * tokens, sweep.length), binds: never.or(binds), never: never.is_some() }
}
