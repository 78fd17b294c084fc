//! What an audit reads: names of keys, hold records, stored budgets, and replies of its scripts.

use super::super::keys::{Index, budget_named};
use super::super::slots;
use super::super::stored::{self, StoredBudget};
use crate::limit::LimitName;
use crate::store::StoreError;
use redis::Value;

/// One budget in one period.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store::redis) struct Held {
    /// The key it is kept in.
    pub(in crate::store::redis) key: String,
    /// Its limit.
    pub(in crate::store::redis) limit: LimitName,
    /// Start of the period, Unix seconds.
    pub(in crate::store::redis) period: u64,
}

/// The holds of one customer in one group of books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Their hash.
    pub(super) holds: String,
    /// The index that says when to look at it.
    pub(super) index: String,
    /// The customer, as the index has them.
    pub(super) customer: String,
}

/// Where the holds of a budget are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    /// The index of customers who have some.
    pub(super) index: String,
    /// What stands before a customer in the name of their holds; empty where the next but one says it all.
    pub(super) before: String,
    /// What stands behind.
    pub(super) after: &'static str,
    /// The only hash of holds there is: the budget is a customer's, on one server.
    pub(super) only: Option<String>,
}

/// How names of hashes of holds end.
pub(super) const HOLDS: &str = ":holds";
/// How names of keys end in which limits live.
pub(super) const LIMITS: &str = ":limits";
/// The index on one server, and of what all share in a cluster.
const SHARED: &str = "tg1:{shared}";

impl Names {
    /// What a key is, should it be one of holds.
    pub(super) fn of(key: &str, clustered: bool) -> Option<Self> {
        let owner = key.strip_suffix(HOLDS)?;
        let (index, customer) = if clustered {
            let (tag, rest) = owner.split_once('}')?;
            (format!("{tag}}}:leases"), rest.strip_prefix(":c:")?)
        } else {
            (Index::Whole.to_string(), owner.strip_prefix("tg1:{c:")?.strip_suffix('}')?)
        };
        Some(Self { holds: key.to_owned(), index, customer: customer.to_owned() })
    }

    /// Where holds of a budget under this key would be.
    pub(super) fn beside(key: &str, clustered: bool) -> Beside {
        let tag = format!("tg1:{{{}}}", slots::tag_of(key));
        if !clustered && tag != SHARED {
            return Beside { index: format!("{SHARED}:leases"), before: String::new(), after: "", only: Some(tag + HOLDS) };
        }
        let (before, after) = if clustered { (format!("{tag}:c:"), HOLDS) } else { (String::from("tg1:{c:"), "}:holds") };
        Beside { index: format!("{tag}:leases"), before, after, only: None }
    }
}

/// What one reservation holds.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct HoldRecord {
    /// When it is taken for lost, microseconds.
    pub(in crate::store::redis) deadline: u64,
    /// Of which budgets, and how much.
    pub(in crate::store::redis) parts: Vec<(Held, u64)>,
}

impl HoldRecord {
    /// `<deadline>[ <metered or p>]|<key> <limit> <period start> <amount>|...`
    pub(in crate::store::redis) fn read(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.split('|');
        let mut head = parts.next()?.split(' ');
        let (deadline, mark) = (head.next()?, head.next().unwrap_or("p"));
        let deadline = number(deadline)?;
        if head.next().is_some() || (mark != "p" && number(mark).is_none()) {
            return None;
        }
        let part = |part: &str| {
            let mut words = part.split(' ');
            let (key, limit) = (words.next()?, budget_named(words.next()?.as_bytes())?);
            let (period, amount) = (number(words.next()?)?, number(words.next()?)?);
            let ours = key.starts_with("tg1:") && words.next().is_none();
            ours.then(|| (Held { key: key.to_owned(), limit, period }, amount))
        };
        let held = parts.map(part).collect::<Option<Vec<_>>>()?;
        (!held.is_empty()).then_some(Self { deadline, parts: held })
    }
}

/// Digits only: no sign, no fraction.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Fields and values of a hash.
pub(super) fn fields(reply: &Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Value::Array(items) = reply else { return Vec::new() };
    let pair = |pair: &[Value]| match pair {
        [Value::BulkString(field), Value::BulkString(value)] => Some((field.clone(), value.clone())),
        _ => None,
    };
    items.chunks_exact(2).filter_map(pair).collect()
}

/// The reply of `SCAN`: the next cursor, and keys whose names are text.
pub(super) fn scanned(reply: &Value) -> Result<(Vec<u8>, Vec<String>), StoreError> {
    let strange = || StoreError::Failed(String::from("SCAN answered something strange"));
    let Value::Array(parts) = reply else { return Err(strange()) };
    let [Value::BulkString(cursor), Value::Array(keys)] = parts.as_slice() else { return Err(strange()) };
    let name = |key: &Value| match key {
        Value::BulkString(name) => String::from_utf8(name.clone()).ok(),
        _ => None,
    };
    Ok((cursor.clone(), keys.iter().filter_map(name).collect()))
}

/// Members and scores of a sorted set.
pub(super) fn entries(reply: &Value) -> Result<Vec<(String, u64)>, StoreError> {
    let strange = || StoreError::Failed(String::from("ZRANGEBYSCORE answered something strange"));
    let Value::Array(items) = reply else { return Err(strange()) };
    let entry = |pair: &[Value]| {
        let [Value::BulkString(member), Value::BulkString(score)] = pair else { return None };
        Some((String::from_utf8_lossy(member).into_owned(), std::str::from_utf8(score).ok()?.parse().unwrap_or(0)))
    };
    items.chunks_exact(2).map(|pair| entry(pair).ok_or_else(strange)).collect()
}

/// The reply of `audit_lease.lua`: the earliest deadline, and when a sweeper looks.
pub(super) fn lease(reply: &Value) -> Result<[Option<u64>; 2], StoreError> {
    let strange = || StoreError::Failed(String::from("the audit of a lease answered something strange"));
    let Value::Array(items) = reply else { return Err(strange()) };
    let [due, looks] = items.as_slice() else { return Err(strange()) };
    let time = |value: &Value| match value {
        Value::Nil => Ok(None),
        Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(number).map(Some).ok_or_else(strange),
        _ => Err(strange()),
    };
    Ok([time(due)?, time(looks)?])
}

/// The reply of `audit.lua` about one period: what is stored as held (`None`: no budget) and what the holds add up to, where they differ.
pub(super) fn budget(reply: &Value, limit: LimitName, period: u64) -> Result<Option<(Option<u64>, u64)>, StoreError> {
    let strange = || StoreError::Failed(String::from("the audit of a budget answered something strange"));
    let Value::Array(items) = reply else { return Err(strange()) };
    let (stored, sums) = items.split_first().ok_or_else(strange)?;
    let text = |value: &Value| match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(number).ok_or_else(strange),
        _ => Err(strange()),
    };
    let mut holds = 0;
    for pair in sums.chunks_exact(2) {
        if text(&pair[0])? == period {
            holds = text(&pair[1])?;
        }
    }
    let stored = if let Value::BulkString(stored) = stored { stored::budgets(stored) } else { None };
    let budget = stored.and_then(|budgets| budgets.into_iter().flatten().find(|budget| budget.limit == limit));
    let Some(StoredBudget { periods: known, .. }) = budget else { return Ok((holds > 0).then_some((None, holds))) };
    Ok(match known.iter().find(|(start, ..)| *start == period) {
        Some((.., held)) => (*held != holds).then_some((Some(*held), holds)),
        // What ended in a period that is long over is held nowhere any more.
        None if period < known[0].0 => None,
        None => (holds > 0).then_some((Some(0), holds)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(key: &str, limit: &str, period: u64) -> Held {
        Held { key: key.into(), limit: budget_named(limit.as_bytes()).expect("a budget"), period }
    }

    #[test]
    fn a_hold_is_read_as_the_scripts_write_it() {
        let parts = vec![(held("tg1:{c:a}:limits", "spend_day", 5), 7), (held("tg1:{shared}:app:x:limits", "tokens_day", 6), 0)];
        let text = "|tg1:{c:a}:limits spend_day 5 7|tg1:{shared}:app:x:limits tokens_day 6 0";
        for head in ["1800", "1800 p", "1800 25"] {
            let right = HoldRecord { deadline: 1_800, parts: parts.clone() };
            assert_eq!(HoldRecord::read(format!("{head}{text}").as_bytes()), Some(right), "{head}");
        }
        for bad in ["", "1800", "-5|tg1:{c:a}:limits spend_day 5 7", "1800 q|tg1:{c:a}:limits spend_day 5 7"] {
            assert_eq!(HoldRecord::read(bad.as_bytes()), None, "{bad}");
        }
        for bad in ["tg1:k spend_day 5 -7", "tg1:k spend_day 5", "tg1:k rpm 5 7", "k spend_day 5 7", "tg1:k spend_day 5 7 9", ""]
        {
            assert_eq!(HoldRecord::read(format!("1800|{bad}").as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn names_tell_whose_holds_they_are_and_where_budgets_are_held() {
        let of = |key, clustered| Names::of(key, clustered).map(|names| (names.index, names.customer));
        let named = |index: &str, customer: &str| Some((index.to_owned(), customer.to_owned()));
        assert_eq!(of("tg1:{c:a:b}:holds", false), named("tg1:{shared}:leases", "a:b"));
        assert_eq!(of("tg1:{g0f}:c:a:b:holds", true), named("tg1:{g0f}:leases", "a:b"));
        assert_eq!(of("tg1:{shared}:c:a:holds", true), named("tg1:{shared}:leases", "a"));
        assert_eq!((of("tg1:{c:a}:limits", false), of("tg1:{shared}:pool:x:holds", true)), (None, None));

        let own = Names::beside("tg1:{c:a}:user:u:limits", false);
        assert_eq!((own.only.as_deref(), own.before.as_str()), (Some("tg1:{c:a}:holds"), ""));
        for (key, clustered, name) in [
            ("tg1:{shared}:app:x:limits", false, "tg1:{c:CUSTOMER}:holds"),
            ("tg1:{shared}:app:x:limits", true, "tg1:{shared}:c:CUSTOMER:holds"),
            ("tg1:{g0f}:c:a:limits", true, "tg1:{g0f}:c:CUSTOMER:holds"),
        ] {
            let beside = Names::beside(key, clustered);
            assert_eq!((format!("{}CUSTOMER{}", beside.before, beside.after), beside.only), (name.to_owned(), None));
        }
    }

    #[test]
    fn what_is_held_is_compared_with_the_period_it_belongs_to() {
        let day = budget_named(b"spend_day").expect("a budget");
        let reply = |state: &str, sums: &[&str]| {
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            let mut numbers = state.split(' ').map(|number| number.parse().unwrap_or(0.0));
            let numbers = std::array::from_fn(|_| numbers.next().unwrap_or(0.0));
            let state = if state.is_empty() { Value::Nil } else { Value::BulkString(stored::tests::stored(day, numbers)) };
            Value::Array([state].into_iter().chain(sums.iter().map(|sum| text(sum))).collect())
        };
        for (state, sums, found) in [
            ("200 5 7 100 5 0 0", ["200", "7"], None),
            ("200 5 7 100 5 0 0", ["200", "8"], Some((Some(7), 8))),
            ("200 5 7 100 5 0 0", ["300", "8"], Some((Some(7), 0))),
            ("100 5 7 0 0 0 0", ["200", "8"], Some((Some(0), 8))),
            ("300 5 7 250 5 0 0", ["200", "8"], None),
            ("100 5 0 200 5 7 0", ["200", "7"], None),
            ("200 5 -7 100 5 0 0", ["200", "7"], Some((None, 7))),
            ("", ["200", "8"], Some((None, 8))),
            ("", ["300", "8"], None),
        ] {
            assert_eq!(budget(&reply(state, &sums), day, 200).expect("well-formed"), found, "{state} {sums:?}");
        }
        assert!(budget(&Value::Int(1), day, 200).is_err());
    }
}
