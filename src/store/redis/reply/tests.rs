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

fn budget() -> Claim {
    let rule = Rule::Budget { cap: 90, boundaries: crate::domain::Boundaries([1, 2, 3, 4]) };
    Claim { rule, limit: LimitName::Spend(Period::Day), measure: Measure::Money, ..window() }
}

#[test]
fn a_decision_is_read_to_the_number() {
    let reply = packed(&[9_000, 1, 1_800_000, 512, 2, 1, 1_800_000, 10, 2_000_000, 5]);
    let verdict =
        Verdict { outcome: Outcome::Starts(1_800_000), used: 10, held: 0, remaining: 2, reset_in: 2_000_000, booked: 5 };
    let right =
        Decision { at: Timestamp(9_000), admitted: true, start_in: 1_800_000, granted: Some(512), verdicts: vec![verdict] };
    let Decided { decision, generations, repaired } = decided(&reply, [window()].iter()).expect("well-formed");
    assert_eq!((decision, generations, repaired), (right, vec![0], 2));
}

#[test]
fn several_decisions_are_read_one_behind_the_other() {
    let reply = packed(&[9_000, 2, 30, 20, 7, -1, 3, 4, 0, 0, -1, 0, 4, 0, 80, 11, 1, 6]);
    let claims = [budget()];
    let all = answers(&reply, (0..3).map(|_| claims.iter())).expect("well-formed");
    let [Answer::Decided(first), Answer::Stale(known), Answer::Decided(last)] = all.as_slice() else { panic!("three") };
    let verdict = Verdict { outcome: Outcome::Fits, used: 30, held: 20, remaining: 40, reset_in: 1_991_000, booked: 1 };
    assert_eq!((first.decision.admitted, &first.decision.verdicts, &first.generations), (true, &vec![verdict], &vec![7]));
    assert_eq!(*known, Known { customer: 3, plans: 4 });
    let verdict = Verdict { outcome: Outcome::Exhausted, used: 80, held: 11, remaining: 0, ..verdict };
    assert_eq!((last.decision.admitted, &last.decision.verdicts, &last.generations), (false, &vec![verdict], &vec![6]));
    assert!(decided(&packed(&[9, -1, 3, 4]), [].iter()).is_err(), "what compares nothing is not stale");
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
        (packed(&[9, 2, 5]), 1),
        (packed(&[9, 2, 5]), 0),
        (packed(&[9, 1, -3, -1, 0]), 0),
        (packed(&[9, 1, 0, -1, 0, 7, 0, 0, 0, 0]), 1),
    ] {
        assert!(matches!(decided(&reply, [window()].iter().take(claims)), Err(StoreError::Failed(_))), "{reply:?}");
    }
    for reply in [Value::Nil, Value::Int(1), packed(&[]), packed(&[1]), packed(&[0, 0]), packed(&[1, 0, 5]), packed(&[5, 0])] {
        assert!(matches!(settled(&reply, std::iter::once(1)), Err(StoreError::Failed(_))), "{reply:?}");
    }
}

#[test]
fn a_settlement_tells_what_is_left() {
    let read = |numbers: &[i32], budgets: &[usize]| {
        let all = settled(&packed(numbers), budgets.iter().copied());
        all.map(|all| all.into_iter().map(|settled| (settled.known, settled.repaired, settled.left)).collect::<Vec<_>>())
    };
    assert_eq!(read(&[1, 0, 5, 2, 6, 0], &[2]), Ok(vec![(true, 0, vec![[5, 2], [6, 0]])]));
    let several = vec![(false, 3, Vec::new()), (true, 0, Vec::new()), (false, 0, Vec::new()), (true, 1, vec![[8, 9]])];
    assert_eq!(read(&[2, 3, 0, 4, 3, 1, 8, 9], &[0, 2, 2, 1]), Ok(several));
}

#[test]
fn what_a_sweep_needs_declared_is_read() {
    let named = Value::Array(vec![Value::Int(2), text("tg1:{shared}:app:shop:limits")]);
    assert_eq!(swept(&named), Ok((2, vec![String::from("tg1:{shared}:app:shop:limits")])));
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
