//! What the scripts answered, read strictly: a reply of another length or type is a failure of the store, never a zero.

use super::call::MAX_SECOND;
use super::stored::{self, StoredBudget};
use crate::domain::{Boundaries, Timestamp};
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{Bucket, BucketState, Claim, Decision, Outcome, Rule, Verdict};
use crate::store::{Balance, Known, StoreError};
use redis::Value;
use std::sync::Arc;

/// A decision as `claims.lua` has it.
pub(super) struct Decided {
    /// The decision.
    pub(super) decision: Decision,
    /// Of the budget of each claim, how often what is spent was lowered on purpose; zero of what is no budget.
    pub(super) generations: Vec<u64>,
    /// Budgets of which the server had lost something.
    pub(super) repaired: u64,
}

/// The numbers that a script answered, read one behind the other.
pub(super) struct Answers {
    script: &'static str,
    numbers: std::vec::IntoIter<i64>,
}

impl Answers {
    pub(super) fn of(script: &'static str, reply: &Value) -> Result<Self, StoreError> {
        Ok(Self { script, numbers: numbers(script, reply)?.into_iter() })
    }

    pub(super) fn next(&mut self) -> Result<i64, StoreError> {
        self.numbers.next().ok_or_else(|| StoreError::Failed(format!("{} gave too few numbers", self.script)))
    }

    pub(super) fn natural(&mut self) -> Result<u64, StoreError> {
        self.next().and_then(natural)
    }

    pub(super) fn end(self) -> Result<(), StoreError> {
        match self.numbers.len() {
            0 => Ok(()),
            more => Err(StoreError::Failed(format!("{} gave {more} numbers too many", self.script))),
        }
    }

    /// The decision on these claims, or what is in force instead of what was known.
    fn decision<'a>(&mut self, at: Timestamp, claims: impl Iterator<Item = &'a Claim>) -> Result<Answer, StoreError> {
        let how = self.next()?;
        if how == -1 {
            return Ok(Answer::Stale(Known { customer: self.natural()?, plans: self.natural()? }));
        }
        if !(0..=2).contains(&how) {
            return Err(StoreError::Failed(format!("admit gave the answer {how}")));
        }
        let plain = how == 2;
        let (start_in, granted, repaired) = if plain { (0, -1, 0) } else { (self.natural()?, self.next()?, self.natural()?) };
        let granted = if granted == -1 { None } else { Some(natural(granted)?) };
        let (mut verdicts, mut generations) = (Vec::new(), Vec::new());
        for claim in claims {
            let (verdict, generation) = if plain { self.plain(at, claim)? } else { self.verdict(at, claim)? };
            verdicts.push(verdict);
            generations.push(generation);
        }
        let decision = Decision { at, admitted: how != 0, start_in, granted, verdicts };
        Ok(Answer::Decided(Decided { decision, generations, repaired }))
    }

    /// How a limit stands in which everything fitted at once; and the generation of a budget.
    fn plain(&mut self, now: Timestamp, claim: &Claim) -> Result<(Verdict, u64), StoreError> {
        match claim.rule {
            Rule::Bucket { bucket, .. } => {
                let state = BucketState::of(self.next()?, now, bucket.unit());
                Ok((of_bucket(Outcome::Fits, bucket, state, now), 0))
            }
            Rule::Budget { cap, boundaries } => {
                let [spent, held, generation] = [self.natural()?, self.natural()?, self.natural()?];
                let start = boundaries.at(now).0.min(MAX_SECOND);
                Ok((of_budget(Outcome::Fits, cap, boundaries, [spent, held, start], now), generation))
            }
            Rule::Window { .. } => Err(StoreError::Failed(String::from("admit calls a window plain"))),
        }
    }

    /// What one limit said, and how it stands, which is worked out here since here it costs less; and the generation of a budget.
    fn verdict(&mut self, now: Timestamp, claim: &Claim) -> Result<(Verdict, u64), StoreError> {
        let (outcome, wait) = (self.next()?, self.natural()?);
        let outcome = match outcome {
            0 => Outcome::Fits,
            1 => Outcome::Starts(wait),
            2 => Outcome::Refused(wait),
            3 => Outcome::InFlight,
            4 => Outcome::Exhausted,
            5 => Outcome::Never,
            6 => Outcome::Deferred,
            other => return Err(StoreError::Failed(format!("admit gave the outcome {other}"))),
        };
        match claim.rule {
            Rule::Bucket { bucket, .. } => {
                let state = BucketState::of(self.next()?, Timestamp(self.natural()?), bucket.unit());
                Ok((of_bucket(outcome, bucket, state, now), 0))
            }
            Rule::Window { limit, .. } => {
                let [used, reset_in, booked] = [self.natural()?, self.natural()?, self.natural()?];
                Ok((Verdict { outcome, used, held: 0, remaining: limit.saturating_sub(used), reset_in, booked }, 0))
            }
            Rule::Budget { cap, boundaries } => {
                let [spent, held, start, generation] = [self.natural()?, self.natural()?, self.natural()?, self.natural()?];
                Ok((of_budget(outcome, cap, boundaries, [spent, held, start], now), generation))
            }
        }
    }
}

pub(super) fn of_bucket(outcome: Outcome, bucket: Bucket, state: BucketState, now: Timestamp) -> Verdict {
    let (used, remaining) = (bucket.used(state), bucket.remaining(state));
    Verdict { outcome, used, held: 0, remaining, reset_in: bucket.full_in(state, now), booked: 0 }
}

pub(super) fn of_budget(outcome: Outcome, cap: u64, boundaries: Boundaries, stands: [u64; 3], now: Timestamp) -> Verdict {
    let [spent, held, booked] = stands;
    let ends = Timestamp::from_secs(boundaries.at(now).1);
    let remaining = cap.min(MAX_EXACT).saturating_sub(spent.saturating_add(held));
    Verdict { outcome, used: spent, held, remaining, reset_in: ends.since(now), booked }
}

/// What `admit.lua` said of one admission.
pub(super) enum Answer {
    /// It was decided.
    Decided(Decided),
    /// Other numbers are in force than were known.
    Stale(Known),
}

/// The answers to admissions with these claims.
pub(super) fn answers<'a, C>(reply: &Value, admissions: impl Iterator<Item = C>) -> Result<Vec<Answer>, StoreError>
where
    C: Iterator<Item = &'a Claim>,
{
    let mut answers = Answers::of("admit", reply)?;
    let at = Timestamp(answers.natural()?);
    let all = admissions.map(|claims| answers.decision(at, claims)).collect::<Result<_, _>>()?;
    answers.end()?;
    Ok(all)
}

/// The decision on these claims where only one is asked for, and it compares nothing.
pub(super) fn decided<'a>(reply: &Value, claims: impl Iterator<Item = &'a Claim>) -> Result<Decided, StoreError> {
    match answers(reply, std::iter::once(claims))?.pop() {
        Some(Answer::Decided(decided)) => Ok(decided),
        _ => Err(unexpected("admit", reply)),
    }
}

/// A number that `GET` answered; nothing is zero.
pub(super) fn number(reply: &Value) -> Result<u64, StoreError> {
    match reply {
        Value::Nil => Ok(0),
        Value::BulkString(digits) => {
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(|| unexpected("GET", reply))
        }
        _ => Err(unexpected("GET", reply)),
    }
}

/// What `settle.lua` said of one reservation.
pub(super) struct Settled {
    /// Whether the hold was known, now or when it was settled before. Whether something was booked is the script's business.
    pub(super) known: bool,
    /// Budgets of which the server had lost something.
    pub(super) repaired: u64,
    /// Of each budget line, what is spent in its period and the generation; empty if it was settled before.
    pub(super) left: Vec<[u64; 2]>,
}

/// The answers to settlements that have so many budget lines.
pub(super) fn settled(reply: &Value, budgets: impl Iterator<Item = usize>) -> Result<Vec<Settled>, StoreError> {
    let mut answers = Answers::of("settle", reply)?;
    let mut one = |budgets: usize| match answers.natural()? {
        how @ (0 | 4) => Ok(Settled { known: how == 0, repaired: 0, left: Vec::new() }),
        how @ 1..=3 => {
            let repaired = answers.natural()?;
            let left = (0..budgets).map(|_| Ok([answers.natural()?, answers.natural()?])).collect::<Result<_, StoreError>>()?;
            Ok(Settled { known: how != 2, repaired, left })
        }
        other => Err(StoreError::Failed(format!("settle gave the answer {other}"))),
    };
    let all = budgets.map(&mut one).collect::<Result<_, _>>()?;
    answers.end()?;
    Ok(all)
}

/// The reply of `renew.lua`. A hold that is not there is no fault: it may just have been settled.
pub(super) fn renewed(reply: &Value) -> Result<(), StoreError> {
    if matches!(reply, Value::Int(0 | 1)) { Ok(()) } else { Err(unexpected("renew", reply)) }
}

/// The reply of `sweep.lua`: how many holds it booked, and keys that it needs declared to book more.
pub(super) fn swept(reply: &Value) -> Result<(usize, Vec<String>), StoreError> {
    let Value::Array(items) = reply else { return Err(unexpected("sweep", reply)) };
    let [Value::Int(booked), named @ ..] = items.as_slice() else { return Err(unexpected("sweep", reply)) };
    let name = |item: &Value| match item {
        Value::BulkString(name) => String::from_utf8(name.clone()).map_err(|_| unexpected("sweep", item)),
        other => Err(unexpected("sweep", other)),
    };
    let booked = usize::try_from(*booked).map_err(|_| StoreError::Failed(format!("sweep booked {booked} holds")))?;
    Ok((booked, named.iter().map(name).collect::<Result<_, _>>()?))
}

/// The reply of `lower.lua` to this many lines: used, held, remaining and time to reset of each.
pub(super) fn lowered(reply: &Value, lines: usize) -> Result<Vec<[u64; 4]>, StoreError> {
    let numbers = numbers("lower", reply)?.into_iter().map(natural).collect::<Result<Vec<_>, _>>()?;
    let (lowered, rest) = numbers.as_chunks();
    if rest.is_empty() && lowered.len() == lines { Ok(lowered.to_vec()) } else { Err(unexpected("lower", reply)) }
}

/// The reply of `TIME`.
pub(super) fn time(reply: &Value) -> Result<Timestamp, StoreError> {
    let Value::Array(parts) = reply else { return Err(unexpected("TIME", reply)) };
    let number = |part: Option<&Value>| match part {
        Some(Value::BulkString(digits)) => std::str::from_utf8(digits).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    match (number(parts.first()), number(parts.get(1))) {
        (Some(seconds), Some(micros)) => Ok(Timestamp::from_secs(seconds).plus(micros)),
        _ => Err(unexpected("TIME", reply)),
    }
}

/// The members of a sorted set.
pub(super) fn owners(reply: &Value) -> Result<Vec<Arc<str>>, StoreError> {
    let Value::Array(members) = reply else { return Err(unexpected("ZRANGEBYSCORE", reply)) };
    let owner = |member: &Value| match member {
        Value::BulkString(owner) => std::str::from_utf8(owner).map(Arc::from).map_err(|_| unexpected("ZRANGEBYSCORE", member)),
        _ => Err(unexpected("ZRANGEBYSCORE", member)),
    };
    members.iter().map(owner).collect()
}

/// The balances among the limits under a key. What is not as a gateway writes it is skipped: the scripts treat it as never seen.
pub(super) fn balances(reply: &Value) -> Result<Vec<Balance>, StoreError> {
    let stored = match reply {
        Value::Nil => return Ok(Vec::new()),
        Value::BulkString(stored) => stored::budgets(stored).unwrap_or_default(),
        _ => return Err(unexpected("read", reply)),
    };
    let mut balances: Vec<_> = stored.into_iter().flatten().map(balance).collect();
    balances.sort_by_key(|balance| balance.limit);
    Ok(balances)
}

const fn balance(stored: StoredBudget) -> Balance {
    let (period, spent, held) = stored.periods[0];
    Balance { limit: stored.limit, period, spent, held }
}

fn numbers(script: &str, reply: &Value) -> Result<Vec<i64>, StoreError> {
    match reply {
        Value::BulkString(packed) => stored::unpacked(packed).ok_or_else(|| unexpected(script, reply)),
        _ => Err(unexpected(script, reply)),
    }
}

fn natural(n: i64) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| StoreError::Failed(format!("a script gave the negative number {n}")))
}

/// Names the type only: the content may be anything.
fn unexpected(script: &str, value: &Value) -> StoreError {
    let kind = match value {
        Value::Nil => "nil",
        Value::Int(_) => "an integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a string",
        Value::Array(_) => "an array",
        _ => "another type",
    };
    StoreError::Failed(format!("{script} answered {kind}"))
}

#[cfg(test)]
pub(super) mod tests;
