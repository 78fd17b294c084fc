//! Requests of one call over the sums of what they ask of each limit, as `lua/together.lua` reads them.
//!
//! Where all fit, or all end as their holds say, a script changes each limit once and answers how it stands after all of them; what that
//! means for each is read in [`super::stands`]. The script sees for itself whether it is so; here is only left out what it never does so.

use super::call::{Ask, MAX_SECOND, Mode, changed_in, known_keys, of_an_end};
use super::command::part;
use super::floor::Floors;
use super::keys::{KeySet, Shelf};
use super::slots::Group;
use super::stored::{self, Packed, limit_number};
use super::told::{Limit, Told};
use crate::domain::Timestamp;
use crate::limit::bucket::MAX_EXACT;
use crate::limit::decide::DEFER_ABOVE;
use crate::limit::{Claim, LimitName, Line, Rule, Settlement};

/// Numbers of a sort of limits, and at most those of a limit.
const PER_SORT: usize = 6;
const PER_LIMIT: usize = 8;
const HEAD: usize = 8;
const KEYS_OF_AN_END: usize = 3;

/// What admissions ask for together, and of each what its hold record has behind the deadline.
pub(super) fn of_admissions(
    keys: &KeySet<'_>,
    told: &Told<'_>,
    asks: &[Ask<'_>],
    floors: &Floors,
    now: Option<Timestamp>,
) -> Option<(Vec<String>, Vec<u8>)> {
    let first = asks.first()?;
    let alike = |ask: &Ask<'_>| ask.mode == first.mode && ask.lease == first.lease && ask.waits <= DEFER_ABOVE;
    if first.mode == Mode::Refused || !asks.iter().all(alike) || !may_be_summed(told) {
        return None;
    }
    let place_of = |ask: &Ask<'_>, shelf| keys.place_of(ask.group, &ask.admission.customer, shelf);
    let leases = place_of(first, Shelf::Leases);
    if asks.iter().any(|ask| place_of(ask, Shelf::Leases) != leases) {
        return None;
    }
    let (sorts, of_limits) = sorts(told);
    let numbers = HEAD + asks.len() + keys.values() - keys.limits() + PER_SORT * sorts.len() + PER_LIMIT * told.count();
    let mut sums = Packed::with_capacity(numbers);
    sums.number(now.map_or(0, Timestamp::micros));
    [keys.limits(), keys.values(), asks.len(), leases].into_iter().for_each(|place| sums.place(place));
    sums.number(first.lease);
    sums.number(u64::from(first.mode == Mode::Provisional));
    sums.place(sorts.len());
    asks.iter().for_each(|ask| sums.place(place_of(ask, Shelf::Holds)));
    known(keys, asks)?.into_iter().for_each(|number| sums.number(number));
    sorts.iter().for_each(|sort| sort.write(&mut sums));

    // The period that begins while the call is on its way is one that the script knows better.
    let presumed = now.unwrap_or_else(|| floors.at());
    let start = |claim: &Claim| {
        if let Rule::Budget { boundaries, .. } = claim.rule { boundaries.at(presumed).0.min(MAX_SECOND) } else { 0 }
    };
    for ((limit, sort), total) in told.limits().iter().zip(of_limits).zip(totals(told, asks)) {
        [limit.place, sort].into_iter().for_each(|place| sums.place(place));
        sums.number(total);
        if limit.claim.is_budget() {
            of_budget_limit(&mut sums, limit, start(limit.claim));
        }
    }
    let record = |ask: &Ask<'_>| {
        let mut record = String::new();
        for claim in ask.claims().filter(|claim| claim.is_budget()) {
            part(&mut record, ask.group, claim, start(claim), ask.amount(claim));
        }
        record
    };
    Some((asks.iter().map(record).collect(), end(sums)))
}

/// The sum of the claims on each limit, of buckets in units. It may be more than is exact, which is more than fits.
pub(super) fn totals(told: &Told<'_>, asks: &[Ask<'_>]) -> Vec<u64> {
    let mut totals = vec![0_u64; told.count()];
    let claims = asks.iter().flat_map(|ask| ask.claims().map(|claim| (claim, ask.amount(claim))));
    for ((claim, amount), place) in claims.zip(told.in_order()) {
        let unit = if let Rule::Bucket { bucket, .. } = claim.rule { bucket.unit() } else { 1 };
        let total = &mut totals[place - 1];
        *total = total.saturating_add(amount.saturating_mul(unit));
    }
    totals
}

/// What ends change together. With each, whether its rates were charged.
pub(super) fn of_ends(
    keys: &KeySet<'_>,
    told: &Told<'_>,
    group: Group,
    ends: &[(&Settlement, bool)],
    now: Option<Timestamp>,
) -> Option<Vec<u8>> {
    let repeated =
        |(n, (end, _)): (usize, &(&Settlement, bool))| ends[..n].iter().any(|(other, _)| other.reservation == end.reservation);
    if !may_be_summed(told) || ends.iter().any(|(_, charged)| !charged) || ends.iter().enumerate().any(repeated) {
        return None;
    }
    let (sorts, of_limits) = sorts(told);
    let numbers = HEAD + KEYS_OF_AN_END * ends.len() + PER_SORT * sorts.len() + PER_LIMIT * told.count();
    let mut sums = Packed::with_capacity(numbers);
    sums.number(now.map_or(0, Timestamp::micros));
    [keys.limits(), ends.len(), sorts.len()].into_iter().for_each(|count| sums.place(count));
    for (end, _) in ends {
        of_an_end(end).into_iter().for_each(|shelf| sums.place(keys.place_of(group, &end.customer, shelf)));
    }
    sorts.iter().for_each(|sort| sort.write(&mut sums));

    let mut changes: Vec<_> = told.limits().iter().map(|limit| Change::of(limit.claim)).collect::<Option<_>>()?;
    let lines = ends.iter().flat_map(|(end, _)| changed_in(group, end));
    for (line, limit) in lines.zip(told.in_order()) {
        changes[limit - 1].add(line)?;
    }
    for ((limit, sort), change) in told.limits().iter().zip(of_limits).zip(changes) {
        [limit.place, sort].into_iter().for_each(|place| sums.place(place));
        match change {
            Change::Steps(steps) => {
                sums.place(steps.len().saturating_sub(1));
                sums.change(steps.first().copied().unwrap_or_default());
                steps.iter().skip(1).for_each(|step| sums.change(*step));
            }
            Change::Sums { claimed, actual, booked } => {
                sums.number(claimed);
                sums.number(actual);
                booked.into_iter().for_each(|period| of_budget_limit(&mut sums, limit, period));
            }
        }
    }
    Some(end(sums))
}

/// What the ends of a call change in one limit.
enum Change {
    /// Of a bucket that mirrors nothing, in units: what is given back, or taken where it is negative. Never two of one direction in a row.
    Steps(Vec<i64>),
    /// What was claimed and what was used: of a mirror in units, of a budget with the period in which all of it is booked.
    Sums { claimed: u64, actual: u64, booked: Option<u64> },
}

impl Change {
    /// None yet. `None` of a window.
    const fn of(claim: &Claim) -> Option<Self> {
        match claim.rule {
            Rule::Bucket { mirrors: false, .. } => Some(Self::Steps(Vec::new())),
            Rule::Bucket { .. } | Rule::Budget { .. } => Some(Self::Sums { claimed: 0, actual: 0, booked: None }),
            Rule::Window { .. } => None,
        }
    }

    /// Adds that of a line. `None` where it does not add up exactly, or where a budget is booked in two periods.
    fn add(&mut self, line: &Line) -> Option<()> {
        let unit = if let Rule::Bucket { bucket, .. } = line.claim.rule { bucket.unit() } else { 1 };
        let in_units = |amount: u64| amount.min(MAX_EXACT).checked_mul(unit).filter(|units| *units <= MAX_EXACT);
        match self {
            Self::Steps(steps) => {
                let (claimed, actual) = (line.claim.amount.min(MAX_EXACT), line.actual.min(MAX_EXACT));
                let back = in_units(claimed.abs_diff(actual))?.cast_signed();
                let step = if claimed < actual { -back } else { back };
                match steps.last_mut() {
                    Some(last) if last.signum() * step.signum() >= 0 => {
                        *last += step;
                        return (last.unsigned_abs() <= MAX_EXACT).then_some(());
                    }
                    _ if step == 0 => {}
                    _ => steps.push(step),
                }
            }
            Self::Sums { claimed, actual, booked } => {
                *claimed += in_units(line.claim.amount)?;
                *actual += in_units(line.actual)?;
                let elsewhere = line.claim.is_budget() && *booked.get_or_insert(line.booked) != line.booked;
                if elsewhere || (*claimed).max(*actual) > MAX_EXACT {
                    return None;
                }
            }
        }
        Some(())
    }
}

/// Whether the limits of a call are such as the script changes by sums.
fn may_be_summed(told: &Told<'_>) -> bool {
    let window = |claim: &&Claim| matches!(claim.rule, Rule::Window { .. });
    !told.twice() && !told.rules().iter().any(window)
}

/// The numbers that must be in force, by their places. `None` where the requests do not know the same.
fn known(keys: &KeySet<'_>, asks: &[Ask<'_>]) -> Option<Vec<u64>> {
    let mut numbers = vec![None; keys.values() - keys.limits()];
    for ask in asks {
        let Some(known) = ask.known else { continue };
        for (key, number) in known_keys(&ask.admission.customer, ask.group).iter().zip([known.customer, known.plans]) {
            let place = keys.place_of_known(key) - keys.limits() - 1;
            if *numbers[place].get_or_insert(number) != number {
                return None;
            }
        }
    }
    numbers.into_iter().collect()
}

/// Limits of one name and one rule.
#[derive(PartialEq, Eq)]
struct Sort<'a> {
    limit: LimitName,
    rule: &'a Rule,
}

/// The sorts of limits in a call, and which one each limit is of, counted from one.
fn sorts<'a>(told: &Told<'a>) -> (Vec<Sort<'a>>, Vec<usize>) {
    let mut sorts: Vec<Sort<'a>> = Vec::new();
    let mut of_limits = Vec::with_capacity(told.count());
    for limit in told.limits() {
        let sort = Sort { limit: limit.claim.limit, rule: &limit.claim.rule };
        let place = sorts.iter().position(|other| *other == sort).unwrap_or_else(|| {
            sorts.push(sort);
            sorts.len() - 1
        });
        of_limits.push(place + 1);
    }
    (sorts, of_limits)
}

impl Sort<'_> {
    fn write(&self, sums: &mut Packed) {
        let coded = |kind: u8| u64::from(limit_number(self.limit)) + 256 * u64::from(kind);
        match self.rule {
            Rule::Bucket { bucket, forgive, mirrors, .. } => {
                sums.number(coded(stored::BUCKET));
                let full = bucket.capacity() * bucket.unit();
                let (mirrors, forgives) = (u64::from(*mirrors), u64::from(*forgive));
                [full, bucket.gain(), bucket.unit(), mirrors, forgives].into_iter().for_each(|number| sums.number(number));
            }
            Rule::Budget { cap, boundaries } => {
                sums.number(coded(stored::BUDGET));
                sums.number(*cap);
                boundaries.0.iter().for_each(|start| sums.number((*start).min(MAX_SECOND)));
            }
            Rule::Window { .. } => unreachable!("no call with a window is summed"),
        }
    }
}

/// What those of a budget end with.
fn of_budget_limit(sums: &mut Packed, limit: &Limit<'_>, booked: u64) {
    [booked, limit.floor.period, limit.floor.generation, limit.floor.spent].into_iter().for_each(|number| sums.number(number));
}

/// The argument, with what stands behind the last limit.
fn end(mut sums: Packed) -> Vec<u8> {
    (0..4).for_each(|_| sums.number(0));
    sums.bytes().to_vec()
}
