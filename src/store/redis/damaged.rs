//! Replies of a server that nobody vouches for: whatever comes is read or is a failure of the store, and never a panic or a made-up number.

use super::call::{self, Ask};
use super::floor::Floors;
use super::slots::Group;
use super::topology::{Address, Topology};
use super::{documents, look, reply, series, stands, stored};
use crate::domain::{Boundaries, Period, ReservationId};
use crate::limit::{Admission, Bucket, Claim, LimitName, Line, Measure, Rule, Scope, ScopeKey, Settlement};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use redis::Value;

/// Numbers as scripts pack them: those of a sound reply, those at the edges of what is exact, and those that are none.
fn packed() -> impl Strategy<Value = Vec<u8>> {
    vec(number(), 0..40).prop_map(|numbers| numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-2..9_i32).prop_map(f64::from),
        2 => (0..64_i32).prop_map(|bit| 2_f64.powi(bit)),
        1 => any::<f64>(),
        1 => Just(0.5),
    ]
}

/// What the scripts store: a head, and states that say what kind they are of, which need not be true.
fn states() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![stored::BUCKET, stored::WINDOW, stored::BUDGET, b'?']);
    let state = (0..16_u8, kind, packed()).prop_map(|(limit, kind, numbers)| [vec![limit, kind], numbers].concat());
    vec(state, 0..4).prop_map(|states| [vec![1], 0_f64.to_le_bytes().to_vec(), states.concat()].concat())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = vec!["", "0", "-1", "18446744073709551616", "1e400", "nan", "ffffffffffffffff", "127.0.0.1", "tg1:{c:c}:limits"];
    prop_oneof![
        prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        "[0-9]{1,20}( [0-9p]{1,4})?(\\|tg1:\\{c:c\\}:limits spend_day [0-9]{1,20} [0-9]{1,20}){0,3}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..40),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        prop_oneof![-2..20_000_i64, any::<i64>()].prop_map(Value::Int),
        any::<f64>().prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        packed().prop_map(Value::BulkString),
        states().prop_map(Value::BulkString),
        text().prop_map(Value::BulkString),
        "\\PC{0,10}".prop_map(Value::SimpleString),
    ];
    leaf.prop_recursive(4, 60, 8, |inner| {
        prop_oneof![
            3 => vec(inner.clone(), 0..8).prop_map(Value::Array),
            1 => vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    })
}

/// A claim of each kind.
fn claims() -> Vec<Claim> {
    let bucket = Bucket::new(7, 7, 60_000_000).expect("exact");
    let boundaries = Boundaries([20_786, 20_787, 20_788, 20_789].map(|day| day * 86_400));
    let rules = [
        (LimitName::Rpm, Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: false }),
        (LimitName::Tpm, Rule::Window { limit: 12, max_wait: 0 }),
        (LimitName::Spend(Period::Day), Rule::Budget { cap: 1_000, boundaries }),
    ];
    let scope = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    let claim = |(limit, rule)| Claim { scope: scope.clone(), limit, rule, measure: Measure::Request, amount: 1 };
    rules.into_iter().map(claim).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_reply_is_read_or_a_failure(value in value()) {
        let claims = claims();
        for count in 0..=claims.len() {
            if let Ok(decided) = reply::decided(&value, claims[..count].iter()) {
                prop_assert_eq!((decided.decision.verdicts.len(), decided.generations.len()), (count, count));
            }
            if let Ok(seen) = look::seen(&value, &claims[..count]) {
                prop_assert_eq!(seen.verdicts.len(), count);
            }
            if let Ok(answers) = reply::answers(&value, (0..count).map(|some| claims[..some].iter())) {
                prop_assert_eq!(answers.len(), count);
            }
            if let Ok(settled) = reply::settled(&value, 0..count) {
                prop_assert_eq!(settled.len(), count);
            }
            if let Ok(lowered) = reply::lowered(&value, count) {
                prop_assert_eq!(lowered.len(), count);
            }
        }
        for balance in reply::balances(&value).unwrap_or_default() {
            prop_assert!(balance.limit.period().is_some() && balance.spent.max(balance.held) <= 1 << 53, "{:?}", balance);
        }
        let _ = (reply::number(&value), reply::renewed(&value));
        let _ = (reply::swept(&value), reply::time(&value), reply::owners(&value));
        let _ = (documents::written(value.clone()), documents::listed(value.clone(), &mut Vec::new()));
        let _ = (series::row(value.clone()), series::score_of(value.clone()));
        let from = Address { host: "h".into(), port: 1 };
        if let Some(topology) = Topology::read(&value, &from) {
            prop_assert!(!topology.nodes.is_empty());
        }
    }

    #[test]
    fn what_is_said_of_sums_is_read_or_a_failure(value in value(), (kind, numbers) in (prop::sample::select(vec![3, 5]), vec(number(), 3..6))) {
        let claims: Vec<_> = claims().into_iter().filter(|claim| !matches!(claim.rule, Rule::Window { .. })).collect();
        let (reservation, customer) = (ReservationId::new(1), claims[0].scope.clone());
        let lines = claims.iter().map(|claim| Line { claim: claim.clone(), actual: 2, booked: 0 }).collect();
        let end = Settlement { reservation, customer: customer.clone(), lines };
        let admission = Admission { reservation, customer, claims, elastic: None, lease: 60 };
        let (asks, floors) = ([Ask::all(&admission, Group::Whole)], Floors::new(9));
        let (_, admitted) = call::admit("SHA", &asks, &floors, None);
        let (_, ended) = call::settle("SHA", Group::Whole, &[(&end, true)], &floors, None);
        let mut said: Vec<f64> = if kind == 3 { vec![9.0, 3.0] } else { vec![5.0] };
        said.extend(numbers);
        let said = Value::BulkString(said.iter().flat_map(|number| number.to_le_bytes()).collect());
        for value in [value, said] {
            if let Ok(Some(decided)) = stands::decided(&value, &admitted, &asks) {
                prop_assert_eq!(decided.iter().map(|one| one.decision.verdicts.len()).collect::<Vec<_>>(), [2]);
            }
            if let Ok(Some(settled)) = stands::settled(&value, &ended, std::iter::once(end.lines.iter())) {
                prop_assert_eq!(settled.iter().map(|one| one.left.len()).collect::<Vec<_>>(), [1]);
            }
        }
    }

    #[test]
    fn what_is_stored_is_read_whole_or_not_at_all(states in states(), damages in vec((any::<Index>(), any::<u8>()), 0..3)) {
        let mut bytes = states;
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for budget in stored::budgets(&bytes).unwrap_or_default().into_iter().flatten() {
            let numbers = budget.periods.iter().flat_map(|(start, spent, held)| [start, spent, held]);
            prop_assert!(numbers.chain([&budget.generation]).all(|number| *number <= 1 << 53), "{:?}", budget);
        }
    }

    #[test]
    fn a_decision_that_is_cut_anywhere_is_a_failure(mut numbers in vec(0..6_i32, 5 + 4 + 5 + 6), cut: Index, more in vec(any::<u8>(), 1..9)) {
        let claims = claims();
        // Refused or admitted, with everything that each limit says.
        numbers[1] %= 2;
        let whole: Vec<u8> = numbers.iter().flat_map(|number| f64::from(*number).to_le_bytes()).collect();
        prop_assert!(reply::decided(&Value::BulkString(whole.clone()), claims.iter()).is_ok());
        let longer = [whole.clone(), more].concat();
        prop_assert!(reply::decided(&Value::BulkString(longer), claims.iter()).is_err());
        let shorter = whole[..cut.index(whole.len())].to_vec();
        prop_assert!(reply::decided(&Value::BulkString(shorter), claims.iter()).is_err());
    }
}
