//! What the scripts answered, read strictly: a reply of another length or type is a failure of the store, never a zero.

use super::stored::{self, StoredBudget};
use crate::domain::Timestamp;
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{BucketState, Claim, Decision, Outcome, Rule, Verdict};
use crate::store::{Balance, Known, StoreError};
use redis::Value;
use std::sync::Arc;

/// Numbers before those of the first claim: now, admitted, start, granted cap, budgets repaired.
const HEAD: usize = 5;
/// Numbers per claim.
const PER_CLAIM: usize = 6;

/// A decision as `claims.lua` packs it.
pub(super) struct Decided {
    /// The decision.
    pub(super) decision: Decision,
    /// Of the budget of each claim, how often what is spent was lowered on purpose; zero of what is no budget.
    pub(super) generations: Vec<u64>,
    /// Budgets of which the server had lost something.
    pub(super) repaired: u64,
}

/// The decision on these claims.
pub(super) fn decided<'a>(reply: &Value, claims: impl Iterator<Item = &'a Claim> + Clone) -> Result<Decided, StoreError> {
    let numbers = numbers("admit", reply)?;
    let count = claims.clone().count();
    if numbers.len() != HEAD + PER_CLAIM * count {
        return Err(StoreError::Failed(format!("admit gave {} numbers for {count} claims", numbers.len())));
    }
    let (head, rest) = numbers.split_at(HEAD);
    let granted = if head[3] == -1 { None } else { Some(natural(head[3])?) };
    let at = Timestamp(natural(head[0])?);
    let (of_claims, _) = rest.as_chunks::<PER_CLAIM>();
    let decision = Decision {
        at,
        admitted: head[1] == 1,
        start_in: natural(head[2])?,
        granted,
        verdicts: claims.zip(of_claims).map(|(claim, numbers)| verdict(at, claim, numbers)).collect::<Result<_, _>>()?,
    };
    let generations = of_claims.iter().map(|numbers| natural(numbers[PER_CLAIM - 1])).collect::<Result<_, _>>()?;
    Ok(Decided { decision, generations, repaired: natural(head[4])? })
}

/// What one limit said: outcome, wait, and how it stands, which is worked out here since here it costs less.
fn verdict(now: Timestamp, claim: &Claim, numbers: &[i64; PER_CLAIM]) -> Result<Verdict, StoreError> {
    let [outcome, wait, x, y, z, _] = *numbers;
    let wait = natural(wait)?;
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
    let (used, held, remaining, reset_in, booked) = match claim.rule {
        Rule::Bucket { bucket, .. } => {
            let state = BucketState::of(x, Timestamp(natural(y)?), bucket.unit());
            (bucket.used(state), 0, bucket.remaining(state), bucket.full_in(state, now), 0)
        }
        Rule::Window { limit, .. } => {
            let used = natural(x)?;
            (used, 0, limit.saturating_sub(used), natural(y)?, natural(z)?)
        }
        Rule::Budget { cap, boundaries } => {
            let (spent, held) = (natural(x)?, natural(y)?);
            let ends = Timestamp::from_secs(boundaries.at(now).1);
            (spent, held, cap.min(MAX_EXACT).saturating_sub(spent.saturating_add(held)), ends.since(now), natural(z)?)
        }
    };
    Ok(Verdict { outcome, used, held, remaining, reset_in, booked })
}

/// What is in force instead of what was known, if that is the answer to an admission.
pub(super) fn stale(reply: &Value) -> Result<Option<Known>, StoreError> {
    match numbers("admit", reply)?[..] {
        [-1, customer, plans] => Ok(Some(Known { customer: natural(customer)?, plans: natural(plans)? })),
        _ => Ok(None),
    }
}

/// The replies of a script that answers many questions: one to each.
pub(super) fn each(script: &str, reply: Value, questions: usize) -> Result<Vec<Value>, StoreError> {
    match reply {
        Value::Array(replies) if replies.len() == questions => Ok(replies),
        Value::Array(replies) => {
            Err(StoreError::Failed(format!("{script} gave {} answers to {questions} questions", replies.len())))
        }
        other => Err(unexpected(script, &other)),
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

/// The answer to one settlement.
pub(super) fn settled(reply: &Value) -> Result<Settled, StoreError> {
    let numbers = numbers("settle", reply)?.into_iter().map(natural).collect::<Result<Vec<_>, _>>()?;
    let known = |how: u64| !matches!(how, 2 | 4);
    match numbers[..] {
        [how @ (0 | 4)] => Ok(Settled { known: known(how), repaired: 0, left: Vec::new() }),
        [how @ 1..=3, repaired, ref left @ ..] if left.len() % 2 == 0 => {
            Ok(Settled { known: known(how), repaired, left: left.as_chunks().0.to_vec() })
        }
        _ => Err(unexpected("settle", reply)),
    }
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

/// The balances under a key of budgets. What is not as a gateway writes it is skipped: the scripts treat it as never seen.
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
pub(super) mod tests {
    use super::*;
    use crate::domain::Period;
    use crate::limit::{LimitName, Measure, Scope, ScopeKey};

    /// Packed numbers, as scripts answer.
    pub(in crate::store::redis) fn packed(numbers: &[i32]) -> Value {
        Value::BulkString(numbers.iter().flat_map(|n| f64::from(*n).to_le_bytes()).collect())
    }

    /// A claim on a window of twelve.
    fn window() -> Claim {
        let scope = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let rule = Rule::Window { limit: 12, max_wait: 0 };
        Claim { scope, limit: LimitName::Rpm, rule, measure: Measure::Request, amount: 1 }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_decision_is_read_to_the_number() {
        let reply = packed(&[9_000, 1, 1_800_000, 512, 2, 1, 1_800_000, 10, 2_000_000, 5, 7]);
        let verdict =
            Verdict { outcome: Outcome::Starts(1_800_000), used: 10, held: 0, remaining: 2, reset_in: 2_000_000, booked: 5 };
        let right =
            Decision { at: Timestamp(9_000), admitted: true, start_in: 1_800_000, granted: Some(512), verdicts: vec![verdict] };
        let Decided { decision, generations, repaired } = decided(&reply, [window()].iter()).expect("well-formed");
        assert_eq!((decision, generations, repaired), (right, vec![7], 2));
        assert_eq!(stale(&reply), Ok(None));
        assert_eq!(stale(&packed(&[-1, 3, 4])), Ok(Some(Known { customer: 3, plans: 4 })));
    }

    #[test]
    fn a_reply_of_another_shape_is_a_failure_and_not_a_zero() {
        for (reply, claims) in [
            (Value::Nil, 0),
            (Value::Okay, 0),
            (Value::Int(1), 0),
            (Value::Array(Vec::new()), 0),
            (text("9, 1, 0, -1, 0 and then"), 0),
            (packed(&[9, 1, 0, -1]), 0),
            (packed(&[9, 1, 0, -1, 0]), 1),
            (packed(&[9, 1, -3, -1, 0]), 0),
            (packed(&[9, 1, 0, -1, 0, 7, 0, 0, 0, 0, 0]), 1),
        ] {
            assert!(matches!(decided(&reply, [window()].iter().take(claims)), Err(StoreError::Failed(_))), "{reply:?}");
        }
        for reply in [Value::Nil, Value::Int(1), packed(&[]), packed(&[1]), packed(&[0, 0]), packed(&[1, 0, 5]), packed(&[5, 0])]
        {
            assert!(matches!(settled(&reply), Err(StoreError::Failed(_))), "{reply:?}");
        }
        assert!(each("admit", Value::Array(vec![Value::Nil]), 2).is_err() && each("admit", Value::Nil, 0).is_err());
    }

    #[test]
    fn a_settlement_tells_what_is_left() {
        let read = |numbers: &[i32]| settled(&packed(numbers)).map(|settled| (settled.known, settled.repaired, settled.left));
        assert_eq!(read(&[1, 0, 5, 2, 6, 0]), Ok((true, 0, vec![[5, 2], [6, 0]])));
        assert_eq!(read(&[2, 3]), Ok((false, 3, Vec::new())));
        assert_eq!((read(&[0]), read(&[4])), (Ok((true, 0, Vec::new())), Ok((false, 0, Vec::new()))));
    }

    #[test]
    fn what_a_sweep_needs_declared_is_read() {
        let named = Value::Array(vec![Value::Int(2), text("tg1:{shared}:app:shop:budgets")]);
        assert_eq!(swept(&named), Ok((2, vec![String::from("tg1:{shared}:app:shop:budgets")])));
        assert_eq!(swept(&Value::Array(vec![Value::Int(0)])), Ok((0, Vec::new())));
        assert_eq!(lowered(&packed(&[1, 2, 3, 4, 5, 6, 7, 8]), 2), Ok(vec![[1, 2, 3, 4], [5, 6, 7, 8]]));
        for reply in [Value::Nil, Value::Array(Vec::new()), Value::Array(vec![Value::Int(-1)])] {
            assert!(matches!(swept(&reply), Err(StoreError::Failed(_))), "{reply:?}");
            assert!(matches!(lowered(&reply, 1), Err(StoreError::Failed(_))), "{reply:?}");
        }
    }

    #[test]
    fn balances_skip_what_is_not_ours() {
        let day = LimitName::TokenQuota(Period::Day);
        let stored = Value::BulkString(stored::tests::stored(day, [86_400.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0]));
        assert_eq!(balances(&stored), Ok(vec![Balance { limit: day, period: 86_400, spent: 5, held: 6 }]));
        let broken = Value::BulkString(stored::tests::stored(day, [86_400.0, -5.0, 6.0, 0.0, 0.0, 0.0, 0.0]));
        assert_eq!((balances(&broken), balances(&text("odd")), balances(&Value::Nil)), (Ok(vec![]), Ok(vec![]), Ok(vec![])));
        assert!(balances(&Value::Int(1)).is_err());
    }
}
