//! What the scripts answered, read strictly: a reply of another length or type is a failure of the store, never a zero.

use super::keys::budget_named;
use crate::domain::Timestamp;
use crate::limit::{Decision, Outcome, Verdict};
use crate::store::{Balance, Known, StoreError};
use redis::Value;
use std::sync::Arc;

/// Integers before those of the first claim.
const HEAD: usize = 4;
/// Integers per claim.
const PER_CLAIM: usize = 7;

/// The reply of `admit.lua` or `replace.lua` to this many claims.
pub(super) fn decision(reply: &Value, claims: usize) -> Result<Decision, StoreError> {
    // Behind them the floor's, see `floor.rs`.
    let numbers = integers("admit", reply, HEAD + PER_CLAIM * claims + 1 + claims)?;
    let (head, rest) = numbers.split_at(HEAD);
    let granted = if head[3] == -1 { None } else { Some(natural(head[3])?) };
    Ok(Decision {
        at: Timestamp(natural(head[0])?),
        admitted: head[1] == 1,
        start_in: natural(head[2])?,
        granted,
        verdicts: rest.chunks_exact(PER_CLAIM).take(claims).map(verdict).collect::<Result<_, _>>()?,
    })
}

fn verdict(numbers: &[i64]) -> Result<Verdict, StoreError> {
    let n = |i: usize| natural(numbers[i]);
    let outcome = match numbers[0] {
        0 => Outcome::Fits,
        1 => Outcome::Starts(n(1)?),
        2 => Outcome::Refused(n(1)?),
        3 => Outcome::InFlight,
        4 => Outcome::Exhausted,
        5 => Outcome::Never,
        6 => Outcome::Deferred,
        other => return Err(StoreError::Failed(format!("admit gave the outcome {other}"))),
    };
    Ok(Verdict { outcome, used: n(2)?, held: n(3)?, remaining: n(4)?, reset_in: n(5)?, booked: n(6)? })
}

/// Of the reply of `admit.lua` behind `known.lua`: what is in force instead, if that is what it says.
pub(super) fn stale(reply: &Value) -> Result<Option<Known>, StoreError> {
    match reply {
        Value::Array(parts) if matches!(parts.as_slice(), [Value::Int(-1), ..]) => {
            let numbers = integers("known", reply, 3)?;
            Ok(Some(Known { customer: natural(numbers[1])?, plans: natural(numbers[2])? }))
        }
        _ => Ok(None),
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

/// The reply of `settle.lua`: whether the hold was known, now or when it was settled before. Whether something was booked is the
/// script's business.
pub(super) fn settled(reply: &Value) -> Result<bool, StoreError> {
    let Value::Array(items) = reply else { return Err(unexpected("settle", reply)) };
    Ok(!matches!(integers("settle", reply, items.len().max(2))?[1], 2 | 4))
}

/// The reply of `renew.lua`. A hold that is not there is no fault: it may just have been settled.
pub(super) fn renewed(reply: &Value) -> Result<(), StoreError> {
    integers("renew", reply, 2).map(drop)
}

/// The reply of `sweep.lua`: how many holds it booked, and hashes that it needs declared to book more.
pub(super) fn swept(reply: &Value) -> Result<(usize, Vec<String>), StoreError> {
    let Value::Array(items) = reply else { return Err(unexpected("sweep", reply)) };
    let [Value::Int(_), Value::Int(booked), named @ ..] = items.as_slice() else { return Err(unexpected("sweep", reply)) };
    let name = |item: &Value| match item {
        Value::BulkString(name) => String::from_utf8(name.clone()).map_err(|_| unexpected("sweep", item)),
        other => Err(unexpected("sweep", other)),
    };
    let booked = usize::try_from(*booked).map_err(|_| StoreError::Failed(format!("sweep booked {booked} holds")))?;
    Ok((booked, named.iter().map(name).collect::<Result<_, _>>()?))
}

/// The reply of `lower.lua` to this many lines: used, held, remaining and time to reset of each.
pub(super) fn lowered(reply: &Value, lines: usize) -> Result<Vec<[u64; 4]>, StoreError> {
    let numbers = integers("lower", reply, 1 + 4 * lines)?;
    let line = |n: &[i64]| Ok([natural(n[0])?, natural(n[1])?, natural(n[2])?, natural(n[3])?]);
    numbers[1..].chunks_exact(4).map(line).collect()
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

/// A `budgets` hash. A field that is not ours or not readable is skipped: the scripts treat it as never seen.
pub(super) fn balances(reply: &Value) -> Result<Vec<Balance>, StoreError> {
    let Value::Array(items) = reply else { return Err(unexpected("read", reply)) };
    let mut balances: Vec<_> = items.chunks_exact(2).filter_map(|pair| balance(&pair[0], &pair[1])).collect();
    balances.sort_by_key(|balance| balance.limit);
    Ok(balances)
}

/// `<start> <spent> <held>` of the present period, then the same of the one before, and the generation.
fn balance(field: &Value, value: &Value) -> Option<Balance> {
    let (Value::BulkString(field), Value::BulkString(value)) = (field, value) else { return None };
    let mut numbers = std::str::from_utf8(value).ok()?.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (period, spent, held) = (next()?, next()?, next()?);
    Some(Balance { limit: budget_named(field)?, period, spent, held })
}

fn integers(script: &str, reply: &Value, count: usize) -> Result<Vec<i64>, StoreError> {
    let Value::Array(items) = reply else { return Err(unexpected(script, reply)) };
    if items.len() != count {
        return Err(StoreError::Failed(format!("{script} gave {} values instead of {count}", items.len())));
    }
    let integer = |item: &Value| match item {
        Value::Int(n) => Ok(*n),
        other => Err(unexpected(script, other)),
    };
    items.iter().map(integer).collect()
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
mod tests {
    use super::*;
    use crate::domain::Period;
    use crate::limit::LimitName;

    fn ints(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect())
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_decision_is_read_to_the_number() {
        let reply = ints(&[9_000, 1, 1_800_000, 512, 1, 1_800_000, 10, 0, 0, 2_000_000, 5, 0, 7]);
        let verdict =
            Verdict { outcome: Outcome::Starts(1_800_000), used: 10, held: 0, remaining: 0, reset_in: 2_000_000, booked: 5 };
        let right =
            Decision { at: Timestamp(9_000), admitted: true, start_in: 1_800_000, granted: Some(512), verdicts: vec![verdict] };
        assert_eq!(decision(&reply, 1).expect("well-formed"), right);
    }

    #[test]
    fn a_reply_of_another_shape_is_a_failure_and_not_a_zero() {
        let mut nil_inside = vec![Value::Int(1); 13];
        nil_inside[5] = Value::Nil;
        for (reply, claims) in [
            (Value::Nil, 0),
            (Value::Okay, 0),
            (Value::Int(1), 0),
            (Value::Array(Vec::new()), 0),
            (ints(&[9, 1, 0, -1]), 1),
            (ints(&[9, 1, 0, -1, 0, 0]), 0),
            (ints(&[9, 1, -3, -1, 0]), 0),
            (ints(&[9, 1, 0, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0]), 1),
            (Value::Array(nil_inside), 1),
        ] {
            assert!(matches!(decision(&reply, claims), Err(StoreError::Failed(_))), "{reply:?}");
        }
        for reply in [Value::Nil, ints(&[9]), Value::Array(vec![Value::Int(1), Value::Nil])] {
            assert!(matches!(settled(&reply), Err(StoreError::Failed(_))), "{reply:?}");
        }
    }

    #[test]
    fn what_a_sweep_needs_declared_is_read() {
        let named = Value::Array(vec![Value::Int(9), Value::Int(2), text("tg1:{shared}:app:shop:budgets")]);
        assert_eq!(swept(&named), Ok((2, vec![String::from("tg1:{shared}:app:shop:budgets")])));
        assert_eq!(swept(&ints(&[9, 0])), Ok((0, Vec::new())));
        assert_eq!(lowered(&ints(&[9, 1, 2, 3, 4, 5, 6, 7, 8]), 2), Ok(vec![[1, 2, 3, 4], [5, 6, 7, 8]]));
        for reply in [Value::Nil, ints(&[9]), ints(&[9, -1]), ints(&[9, 1, 1])] {
            assert!(matches!(swept(&reply), Err(StoreError::Failed(_))), "{reply:?}");
            assert!(matches!(lowered(&reply, 1), Err(StoreError::Failed(_))), "{reply:?}");
        }
    }

    #[test]
    fn balances_skip_what_is_not_ours() {
        let fields =
            ["tokens_day", "86400 5 6 0 0 0 0", "spend_day", "86400 7 8 0 1 2 3", "spend_week", "abc", "other", "1 2 3 4 5 6 7"];
        let read = balances(&Value::Array(fields.map(text).to_vec())).expect("an array");
        let right = [
            Balance { limit: LimitName::Spend(Period::Day), period: 86_400, spent: 7, held: 8 },
            Balance { limit: LimitName::TokenQuota(Period::Day), period: 86_400, spent: 5, held: 6 },
        ];
        assert_eq!(read, right);
        assert!(balances(&Value::Nil).is_err());
    }
}
