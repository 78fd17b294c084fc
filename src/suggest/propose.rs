//! Making the figures.

use super::{
    CustomerDay, Figure, LEAST_CUSTOMER_DAYS, LEAST_DAYS, Limit, PlanProposal, Proposal, Refused, SOUND_CUSTOMER_DAYS, Wish,
};
use crate::history::Use;
use std::collections::{BTreeMap, BTreeSet};

/// Nano-dollars of a cent: caps are whole cents, rounded up.
const CENT: u64 = 10_000_000;
/// Those of whom is said who they are.
const NAMED: usize = 10;
/// The plan of those whose plan is not known.
const NO_PLAN: &str = "";

/// Proposes limits from these days, or says why not.
#[must_use]
pub fn propose(days: &[CustomerDay], wish: &Wish) -> Option<Proposal> {
    let from = days.iter().map(|day| day.day).min()?;
    let to = days.iter().map(|day| day.day).max()?;
    let mut plans: BTreeMap<&str, Vec<&CustomerDay>> = BTreeMap::new();
    for day in days {
        plans.entry(day.used.plan().unwrap_or(NO_PLAN)).or_default().push(day);
    }
    plans.remove(NO_PLAN);
    let plans = plans.into_iter().map(|(name, days)| plan(name, &days, wish)).collect();
    Some(Proposal { from, to, plans, gateway_day: gateway(days, wish) })
}

fn plan(name: &str, days: &[&CustomerDay], wish: &Wish) -> PlanProposal {
    let customers: BTreeSet<_> = days.iter().map(|day| &day.customer).collect();
    let dates: BTreeSet<_> = days.iter().map(|day| day.day).collect();
    let mut proposal = PlanProposal {
        plan: name.to_owned(),
        customers: customers.len(),
        customer_days: days.len(),
        days: dates.len(),
        refused: None,
        remarks: Vec::new(),
        figures: Vec::new(),
    };
    if days.len() < LEAST_CUSTOMER_DAYS || dates.len() < LEAST_DAYS {
        proposal.refused = Some(format!(
            "{} of {} and {} of customers are too little: it takes {LEAST_DAYS} days and {LEAST_CUSTOMER_DAYS} days of customers",
            counted(dates.len(), "day"),
            counted(customers.len(), "customer"),
            counted(days.len(), "day"),
        ));
        return proposal;
    }
    if days.len() < SOUND_CUSTOMER_DAYS {
        proposal.remarks.push(format!(
            "of {} days of customers the 99.9th percentile is the largest one; from {SOUND_CUSTOMER_DAYS} on it leaves out runaways",
            days.len()
        ));
    }
    let refused: u64 = days.iter().map(|day| day.used.refused).sum();
    if refused > 0 {
        proposal
            .remarks
            .push(format!("{refused} requests were refused meanwhile: what they would have used is not in the figures"));
    }
    proposal.figures.extend(day_cap(days, wish));
    if let Some(price) = wish.prices.get(name).or_else(|| wish.prices.get("")) {
        proposal.figures.push(month_cap(days, *price, wish));
        proposal.remarks.push(margin(days, *price, dates.len(), customers.len()));
    }
    for (limit, peak) in PEAKS {
        proposal.figures.extend(rate(days, limit, peak, wish));
    }
    proposal
}

type Peak = fn(&Use) -> u64;

const PEAKS: [(Limit, Peak); 3] = [
    (Limit::Messages, |used| used.peak_messages),
    (Limit::Rpm, |used| used.peak_requests),
    (Limit::Tpm, |used| used.peak_tokens),
];

fn day_cap(days: &[&CustomerDay], wish: &Wish) -> Option<Figure> {
    let basis = percentile_999(days.iter().map(|day| day.used.cost_nano_usd));
    let value = up_to_cent(times(basis, wish.factor));
    (value > 0).then(|| Figure {
        limit: Limit::SpendDay,
        value,
        basis,
        observations: days.len(),
        how: format!("99.9th percentile of a customer's daily spend x {}", thousandths(wish.factor)),
        refused: over(days.iter().map(|day| (&*day.customer, day.used.requests, day.used.cost_nano_usd)), value, part_of_day),
    })
}

fn month_cap(days: &[&CustomerDay], price: u64, wish: &Wish) -> Figure {
    let value = times(price, 1_000_u64.saturating_sub(wish.margin)) / CENT * CENT;
    let mut months = BTreeMap::<(&str, (i16, i8)), (u64, u64)>::new();
    for day in days {
        let (requests, cost) = months.entry((&day.customer, day.day.month())).or_default();
        *requests += day.used.requests;
        *cost = cost.saturating_add(day.used.cost_nano_usd);
    }
    let observations = months.len();
    Figure {
        limit: Limit::SpendMonth,
        value,
        basis: price,
        observations,
        how: format!("the price less a margin of {} %", thousandths(wish.margin * 100)),
        refused: over(months.into_iter().map(|((id, _), (requests, cost))| (id, requests, cost)), value, part_of_day),
    }
}

/// What is left of the price at the use that was recorded.
fn margin(days: &[&CustomerDay], price: u64, dates: usize, customers: usize) -> String {
    let cost: u64 = days.iter().map(|day| day.used.cost_nano_usd).fold(0, u64::saturating_add);
    let monthly = u128::from(cost) * 30 / (dates.max(1) as u128 * customers.max(1) as u128);
    let left = i128::from(price) - i128::try_from(monthly).unwrap_or(i128::MAX);
    let permille = left * 1_000 / i128::from(price.max(1));
    let (sign, permille) = (if permille < 0 { "-" } else { "" }, permille.unsigned_abs());
    format!(
        "at the recorded use a customer costs {} in 30 days, which leaves {sign}{}.{} % of the price",
        super::write::dollars(u64::try_from(monthly).unwrap_or(u64::MAX)),
        permille / 10,
        permille % 10
    )
}

fn rate(days: &[&CustomerDay], limit: Limit, peak: Peak, wish: &Wish) -> Option<Figure> {
    let basis = percentile_999(days.iter().map(|day| peak(&day.used)));
    let value = times(basis, wish.headroom);
    (value > 0).then(|| Figure {
        limit,
        value,
        basis,
        observations: days.len(),
        how: format!("99.9th percentile of a customer's largest minute of a day x {}", thousandths(wish.headroom)),
        refused: over(
            days.iter().map(|day| (&*day.customer, day.used.requests, peak(&day.used))),
            value,
            |requests, used, cap| {
                match limit {
                    // The part of the minute's tokens, in requests of the day's average size, is not known; the day's part is no bound.
                    Limit::Tpm => part_of_day(requests, used, cap).min(requests),
                    _ => used - cap,
                }
            },
        ),
    })
}

fn gateway(days: &[CustomerDay], wish: &Wish) -> Option<Figure> {
    let mut sums: BTreeMap<_, u64> = BTreeMap::new();
    for day in days {
        let sum = sums.entry(day.day).or_default();
        *sum = sum.saturating_add(day.used.cost_nano_usd);
    }
    if sums.len() < LEAST_DAYS {
        return None;
    }
    let all: u128 = sums.values().map(|sum| u128::from(*sum)).sum();
    let basis = u64::try_from(all / sums.len() as u128).unwrap_or(u64::MAX);
    let value = up_to_cent(times(basis, wish.ceiling));
    let periods = sums.values().filter(|sum| **sum > value).count();
    (value > 0).then(|| Figure {
        limit: Limit::SpendDay,
        value,
        basis,
        observations: sums.len(),
        how: format!("the average day x {}", thousandths(wish.ceiling)),
        refused: Refused { periods, ..Refused::default() },
    })
}

/// Whom a limit would have refused: `(customer, requests, used)` of each period.
fn over<'a>(periods: impl Iterator<Item = (&'a str, u64, u64)>, cap: u64, refused: impl Fn(u64, u64, u64) -> u64) -> Refused {
    let mut customers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut all = Refused::default();
    for (id, requests, used) in periods.filter(|(_, _, used)| *used > cap) {
        let lost = refused(requests, used, cap);
        all.periods += 1;
        all.requests = all.requests.saturating_add(lost);
        *customers.entry(id).or_default() += lost;
    }
    all.customers = customers.len();
    let mut worst: Vec<_> = customers.into_iter().collect();
    worst.sort_by_key(|(id, lost)| (std::cmp::Reverse(*lost), *id));
    all.ids = worst.into_iter().take(NAMED).map(|(id, _)| id.to_owned()).collect();
    all
}

/// Of a day's requests the part beyond the cap, rounded up.
fn part_of_day(requests: u64, used: u64, cap: u64) -> u64 {
    let beyond = u128::from(used - cap) * u128::from(requests);
    u64::try_from(beyond.div_ceil(u128::from(used.max(1)))).unwrap_or(u64::MAX)
}

/// The smallest value that 99.9 % of them do not exceed (nearest rank).
fn percentile_999(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    let rank = (values.len() * 999).div_ceil(1_000);
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// So many thousandths of it, rounded up.
fn times(value: u64, thousandths: u64) -> u64 {
    u64::try_from((u128::from(value) * u128::from(thousandths)).div_ceil(1_000)).unwrap_or(u64::MAX)
}

const fn up_to_cent(nano: u64) -> u64 {
    nano.div_ceil(CENT).saturating_mul(CENT)
}

fn thousandths(n: u64) -> String {
    let text = format!("{}.{:03}", n / 1_000, n % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests;
