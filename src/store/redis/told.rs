//! The limits that a call is about, each told once however many requests claim it, as `lua/call.lua` reads them.

use super::call::MAX_SECOND;
use super::floor::{Floor, Floors};
use super::keys::KeySet;
use super::slots::Group;
use super::stored::{self, Packed, limit_number};
use crate::limit::{Claim, Measure, Rule};
use foldhash::HashMap;

/// The limits of a call in the order of its keys, and which of them each claim is about.
pub(super) struct Told<'a> {
    /// Of each the first claim on it, and its rule.
    limits: Vec<Limit<'a>>,
    /// Of each rule a claim that has it.
    rules: Vec<&'a Claim>,
    /// The limit of each claim, counted from one.
    claims: Vec<usize>,
}

pub(super) struct Limit<'a> {
    /// The place of its key.
    pub(super) place: usize,
    /// The first claim on it.
    pub(super) claim: &'a Claim,
    /// Its rule, counted from zero.
    pub(super) rule: usize,
    /// What was last seen spent of a budget.
    pub(super) floor: Floor,
    /// Its place among the limits as they were named.
    named: usize,
}

impl<'a> Told<'a> {
    /// Those of these claims, by request. All of their keys have their places.
    pub(super) fn of<C>(keys: &KeySet<'_>, group: Group, floors: &Floors, requests: impl Iterator<Item = C>) -> Self
    where
        C: Iterator<Item = &'a Claim>,
    {
        let mut limits: Vec<Limit<'a>> = Vec::new();
        let mut rules: Vec<&Claim> = Vec::new();
        let mut first: HashMap<(usize, u8), usize> = HashMap::default();
        let mut named = Vec::new();
        for request in requests {
            let before = named.len();
            for claim in request {
                let place = keys.place_of_limits(group, &claim.scope);
                let next = limits.len();
                let at = *first.entry((place, limit_number(claim.limit))).or_insert(next);
                // Under another rule it is another one (a plan or a period changed between two requests), which is seldom; and so is one
                // that a request claims twice, where each claim is decided as if it were the only one.
                let same =
                    |limit: &Limit<'_>| limit.place == place && limit.claim.limit == claim.limit && alike(limit.claim, claim);
                let mut known = (at..next).filter(|n| same(&limits[*n]));
                let known = known.find(|n| !named[before..].contains(n));
                named.push(known.unwrap_or(next));
                if known.is_none() {
                    let rule = rules.iter().position(|other| alike(other, claim)).unwrap_or_else(|| {
                        rules.push(claim);
                        rules.len() - 1
                    });
                    let floor = if claim.is_budget() { floors.of(&claim.scope, claim.limit) } else { Floor::default() };
                    limits.push(Limit { place, claim, rule, floor, named: next });
                }
            }
        }
        limits.sort_by_key(|limit| (limit.place, limit_number(limit.claim.limit)));
        let mut places = vec![0; limits.len()];
        for (place, limit) in (1..).zip(&limits) {
            places[limit.named] = place;
        }
        let claims = named.into_iter().map(|named| places[named]).collect();
        Self { limits, rules, claims }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.limits.len()
    }

    /// All of them.
    pub(super) fn limits(&self) -> &[Limit<'a>] {
        &self.limits
    }

    /// Of each rule a claim that has it.
    pub(super) fn rules(&self) -> &[&'a Claim] {
        &self.rules
    }

    /// Whether any is told twice: under different rules, or since a request claims it twice.
    pub(super) fn twice(&self) -> bool {
        let twice = |pair: &[Limit<'_>]| pair[0].place == pair[1].place && pair[0].claim.limit == pair[1].claim.limit;
        self.limits.windows(2).any(twice)
    }

    /// The limit of each claim, counted from one, in the order of the claims.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> {
        self.claims.iter().copied()
    }

    /// Writes rules and limits.
    pub(super) fn write(&self, numbers: &mut Packed) {
        for count in [self.rules.len(), self.limits.len(), usize::from(self.twice())] {
            numbers.place(count);
        }
        self.rules.iter().for_each(|claim| rule(numbers, claim));
        for Limit { place, claim, rule, floor, named: _ } in &self.limits {
            numbers.place(*place);
            numbers.number(u64::from(limit_number(claim.limit)));
            numbers.place(rule + 1);
            if claim.is_budget() {
                for number in [floor.period, floor.generation, floor.spent] {
                    numbers.number(number);
                }
            }
        }
    }
}

/// Whether they are decided alike but for their amounts.
fn alike(one: &Claim, other: &Claim) -> bool {
    one.rule == other.rule && measure(one) == measure(other) && one.is_ceiling() == other.is_ceiling()
}

/// What scripts know of a measure.
const fn measure(claim: &Claim) -> u64 {
    match claim.measure {
        Measure::Message => 1,
        Measure::Money => 2,
        Measure::Request | Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => 0,
    }
}

fn rule(numbers: &mut Packed, claim: &Claim) {
    let (kind, max_wait, forgives) = match claim.rule {
        Rule::Bucket { max_wait, forgive, .. } => (stored::BUCKET, max_wait, forgive),
        Rule::Window { max_wait, .. } => (stored::WINDOW, max_wait, false),
        Rule::Budget { .. } => (stored::BUDGET, 0, false),
    };
    for number in [u64::from(kind), max_wait, measure(claim), u64::from(claim.is_ceiling()), u64::from(forgives)] {
        numbers.number(number);
    }
    match &claim.rule {
        Rule::Bucket { bucket, mirrors, .. } => {
            for number in [bucket.capacity(), bucket.gain(), bucket.unit(), u64::from(*mirrors)] {
                numbers.number(number);
            }
        }
        Rule::Window { limit, .. } => numbers.number(*limit),
        Rule::Budget { cap, boundaries } => {
            numbers.number(*cap);
            boundaries.0.iter().for_each(|start| numbers.number((*start).min(MAX_SECOND)));
        }
    }
}
