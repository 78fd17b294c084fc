//! The calls of the scripts, argument by argument. Their contracts stand at the top of each, in `lua/`.

use super::command::{Call, Hex, Text};
use super::floor::Floors;
use super::keys::{Key, KeySet, Shelf};
use super::slots::Group;
use super::stored::Packed;
use super::sums;
use super::told::Told;
use crate::config::policy::LostHold;
use crate::domain::Timestamp;
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{Admission, Claim, Line, Measure, ScopeKey, Settlement};
use crate::store::{Known, Renewal};
use redis::Cmd;
use std::time::Duration;

/// The latest boundary of a period that still is an exact number of microseconds, in seconds (the year 2255).
pub(super) const MAX_SECOND: u64 = 9_000_000_000;
/// Numbers of an admission and of an end, before those of the claims and lines; the most of a line.
const OF_ADMISSION: usize = 14;
const OF_END: usize = 5;
const PER_LINE: usize = 4;

/// What becomes of claims that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are taken.
    Take,
    /// They are taken for now: unless the hold is confirmed it is given back when its lease is over.
    Provisional,
    /// Another group refused the request: nothing is taken but the message, and the answer says how it stands here.
    Refused,
}

/// What an admission asks of one group of books.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// The whole admission.
    pub(super) admission: &'a Admission,
    /// Which of its claims.
    pub(super) group: Group,
    /// What becomes of them.
    pub(super) mode: Mode,
    /// Microseconds until the hold is taken for lost.
    pub(super) lease: u64,
    /// Microseconds for which the request waits for limits of another group.
    pub(super) waits: u64,
    /// The output cap that another group granted, where it is smaller than the one wanted.
    pub(super) granted: Option<u64>,
    /// What must be in force for it to be decided; only on one server.
    pub(super) known: Option<Known>,
}

impl<'a> Ask<'a> {
    /// Takes everything an admission asks of this group.
    pub(super) const fn all(admission: &'a Admission, group: Group) -> Self {
        Self { admission, group, mode: Mode::Take, lease: admission.lease, waits: 0, granted: None, known: None }
    }

    /// Its claims, in the order of the admission.
    pub(super) fn claims(&self) -> impl Iterator<Item = &'a Claim> + Clone + use<'a> {
        let group = self.group;
        self.admission.claims.iter().filter(move |claim| group.keeps(claim.scope.scope))
    }

    /// What a claim of it asks for.
    pub(super) fn amount(&self, claim: &Claim) -> u64 {
        let lowered = self.admission.cost_of(self.granted);
        lowered.filter(|_| claim.measure == Measure::Money).unwrap_or(claim.amount)
    }

    fn name(&self, keys: &mut KeySet<'a>) {
        let customer = &self.admission.customer;
        for claim in self.claims() {
            keys.limits_of(self.group, &claim.scope);
        }
        if self.known.is_some() {
            known_keys(customer, self.group).into_iter().for_each(|key| keys.known(key));
        }
        for shelf in [Shelf::Holds, Shelf::Leases] {
            keys.other(self.group, customer, shelf);
        }
    }
}

/// Where the numbers stand that must be known: of the customer's overrides, of the plans.
pub(super) const fn known_keys(customer: &ScopeKey, group: Group) -> [Key<'_>; 2] {
    [Key { scope: customer, shelf: Shelf::Said, group }, Key { scope: customer, shelf: Shelf::Plans, group }]
}

/// `EVALSHA` of `admit.lua`: admissions of one group of books whose keys lie in one slot, decided one after the other. And the limits that
/// they are about.
pub(super) fn admit<'a>(sha: &str, asks: &[Ask<'a>], floors: &Floors, now: Option<Timestamp>) -> (Cmd, Told<'a>) {
    let mut keys = KeySet::default();
    asks.iter().for_each(|ask| ask.name(&mut keys));
    let told = Told::of(&keys, asks[0].group, floors, asks.iter().map(Ask::claims));
    let mut call = Call::begin(sha, &keys, &told, asks.iter().map(|ask| OF_ADMISSION + 2 * ask.admission.claims.len()).sum());
    call.head(now, &[keys.limits(), keys.values(), asks.len()]);
    told.write(&mut call.numbers);
    let mut claims = told.in_order();
    for ask in asks {
        if let Some(numbers) = ask.known {
            let [said, plans] = known_keys(&ask.admission.customer, ask.group);
            [said, plans].iter().for_each(|key| call.numbers.place(keys.place_of_known(key)));
            call.numbers.number(numbers.customer);
            call.numbers.number(numbers.plans);
        } else {
            (0..4).for_each(|_| call.numbers.number(0));
        }
        call.admission(&keys, ask, &mut claims);
    }
    let (records, sums) = sums::of_admissions(&keys, &told, asks, floors, now).unwrap_or_default();
    call.texts.extend(records.into_iter().map(Text::Held));
    call.texts.push(Text::Sums(sums));
    drop(claims);
    (call.done(), told)
}

/// `EVALSHA` of `replace.lua`: takes what is asked in the place of the lines that lie in the same group.
pub(super) fn replace(sha: &str, old: &Settlement, ask: &Ask<'_>, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let mut keys = KeySet::default();
    name_end(&mut keys, ask.group, old, changed_in(ask.group, old));
    ask.name(&mut keys);
    let claimed: Vec<_> = changed_in(ask.group, old).map(|line| &line.claim).collect();
    let asked: Vec<_> = ask.claims().collect();
    let told = Told::of(&keys, ask.group, floors, [claimed, asked].into_iter().map(Vec::into_iter));
    let numbers = OF_END + PER_LINE * old.lines.len() + OF_ADMISSION + 2 * ask.admission.claims.len();
    let mut call = Call::begin(sha, &keys, &told, numbers);
    call.head(now, &[keys.limits()]);
    told.write(&mut call.numbers);
    let mut limits = told.in_order();
    call.end(&keys, ask.group, old, true, changed_in(ask.group, old).zip(&mut limits));
    call.admission(&keys, ask, &mut limits);
    call.done()
}

/// `EVALSHA` of `look.lua`.
pub(super) fn look(sha: &str, ask: &Ask<'_>, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let mut keys = KeySet::default();
    ask.name(&mut keys);
    let told = Told::of(&keys, ask.group, floors, std::iter::once(ask.claims()));
    let mut call = Call::begin(sha, &keys, &told, OF_ADMISSION + 2 * ask.admission.claims.len());
    call.head(now, &[keys.limits()]);
    told.write(&mut call.numbers);
    call.admission(&keys, ask, &mut told.in_order());
    call.done()
}

/// `SET` of what must be known of a customer, or of the plans.
pub(super) fn tell(key: Key<'_>, number: u64, keep: Option<Duration>) -> Cmd {
    let mut call = redis::cmd("SET");
    call.arg(key).arg(number.min(MAX_EXACT));
    if let Some(keep) = keep {
        call.arg("EX").arg(keep.as_secs().clamp(1, MAX_SECOND));
    }
    call
}

/// `EVALSHA` of `settle.lua`: the ends of reservations, as far as they lie in this group and their keys in one slot. With each, whether its
/// rates were charged as far as other groups know. And the limits that they are about.
pub(super) fn settle<'a>(
    sha: &str,
    group: Group,
    ends: &[(&'a Settlement, bool)],
    floors: &Floors,
    now: Option<Timestamp>,
) -> (Cmd, Told<'a>) {
    let mut keys = KeySet::default();
    ends.iter().for_each(|(end, _)| name_end(&mut keys, group, end, changed_in(group, end)));
    let told = Told::of(&keys, group, floors, ends.iter().map(|(end, _)| changed_in(group, end).map(|line| &line.claim)));
    let mut call = Call::begin(sha, &keys, &told, ends.iter().map(|(end, _)| OF_END + PER_LINE * end.lines.len()).sum());
    call.head(now, &[keys.limits(), ends.len()]);
    told.write(&mut call.numbers);
    let mut limits = told.in_order();
    for (end, charged) in ends {
        call.end(&keys, group, end, *charged, changed_in(group, end).zip(&mut limits));
    }
    drop(limits);
    call.texts.push(Text::Sums(sums::of_ends(&keys, &told, group, ends, now).unwrap_or_default()));
    (call.done(), told)
}

/// `EVALSHA` of `lower.lua`: takes claims of this group back, down to what the lines give as used.
pub(super) fn lower(sha: &str, group: Group, lines: &Settlement, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let mut keys = KeySet::default();
    name_end(&mut keys, group, lines, lines_in(group, lines));
    let told = Told::of(&keys, group, floors, std::iter::once(lines_in(group, lines).map(|line| &line.claim)));
    let mut call = Call::begin(sha, &keys, &told, OF_END + PER_LINE * lines.lines.len());
    call.head(now, &[keys.limits()]);
    told.write(&mut call.numbers);
    call.end(&keys, group, lines, true, lines_in(group, lines).zip(told.in_order()));
    call.done()
}

/// Where it stands how a reservation goes and went.
pub(super) fn of_an_end(end: &Settlement) -> [Shelf; 3] {
    [Shelf::Holds, end.reservation.into(), Shelf::Lost]
}

fn name_end<'a>(keys: &mut KeySet<'a>, group: Group, end: &'a Settlement, lines: impl Iterator<Item = &'a Line>) {
    for line in lines {
        keys.limits_of(group, &line.claim.scope);
    }
    of_an_end(end).into_iter().for_each(|shelf| keys.other(group, &end.customer, shelf));
}

/// The lines of a settlement that lie in a group.
pub(super) fn lines_in(group: Group, settlement: &Settlement) -> impl Iterator<Item = &Line> + Clone {
    settlement.lines.iter().filter(move |line| group.keeps(line.claim.scope.scope))
}

/// Those of them that change anything: a rate that was used as claimed stands as it does.
pub(super) fn changed_in(group: Group, settlement: &Settlement) -> impl Iterator<Item = &Line> + Clone {
    lines_in(group, settlement).filter(|line| line.changes())
}

/// `EVALSHA` of `renew.lua`.
pub(super) fn renew(sha: &str, group: Group, renewal: &Renewal, now: Option<Timestamp>) -> Cmd {
    let Renewal { reservation, customer, lease, metered } = renewal;
    let mut keys = KeySet::default();
    [Shelf::Holds, Shelf::Leases].into_iter().for_each(|shelf| keys.other(group, customer, shelf));
    let mut head = Packed::with_capacity(3);
    for number in [now.map_or(0, Timestamp::micros), *lease, *metered] {
        head.number(number);
    }
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(sha).arg(keys.count());
    for key in keys.keys() {
        cmd.arg(key);
    }
    cmd.arg(head.bytes()).arg(Hex(*reservation)).arg(&*customer.owner);
    cmd
}

/// One call of `sweep.lua`.
#[derive(Clone, Copy)]
pub(super) struct Sweep<'a> {
    /// Whose holds.
    pub(super) customer: &'a ScopeKey,
    /// Of which group.
    pub(super) group: Group,
    /// What becomes of them.
    pub(super) lost_hold: LostHold,
    /// How many of them at most.
    pub(super) most: u64,
    /// Further budgets that their records name; in a cluster only records whose budgets are declared are booked.
    pub(super) named: &'a [String],
}

impl Sweep<'_> {
    /// `EVALSHA` of `sweep.lua`.
    pub(super) fn command(&self, sha: &str, now: Option<Timestamp>) -> Cmd {
        let Self { customer, group, lost_hold, most, named } = *self;
        let clustered = group != Group::Whole;
        let own = [Shelf::Holds, Shelf::Leases, Shelf::Lost].map(|shelf| Key { scope: customer, shelf, group });
        let mut keys: Vec<String> = own.iter().map(ToString::to_string).collect();
        if group == Group::Customer {
            keys.push(Key { scope: customer, shelf: Shelf::Limits, group }.to_string());
        }
        let more: Vec<_> = named.iter().filter(|key| !keys.contains(key)).cloned().collect();
        keys.extend(more);
        let mut head = Packed::with_capacity(4);
        let charges = u64::from(lost_hold == LostHold::Charge);
        for number in [now.map_or(0, Timestamp::micros), charges, most, u64::from(clustered)] {
            head.number(number);
        }
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(sha).arg(keys.len()).arg(keys).arg(head.bytes()).arg(&*customer.owner);
        cmd
    }
}

#[cfg(test)]
mod tests;
