//! The `limit` member of an error body: the refusal for programs.

use super::rejection::Rejection;
use super::shape::{is_crowded, is_oversize};
use super::text::rfc3339;
use crate::domain::NanoUsd;
use crate::limit::{LimitName, Measure, Refusal, Remedy, Scope};
use serde_json::{Map, Value, json};

/// Whether the numbers of a scope belong to the customer. Those of an app, a share or the gateway are made of other customers' use.
pub(super) const fn is_open(scope: Scope) -> bool {
    matches!(scope, Scope::User | Scope::Customer)
}

/// The member, where a limit is the cause and the client may know which.
pub(super) fn member(rejection: &Rejection, plan: Option<&str>) -> Option<Value> {
    match rejection {
        Rejection::Limit(refusal) | Rejection::Suspended(refusal) | Rejection::OutputFloor { refusal, .. } => {
            of_refusal(refusal, plan)
        }
        Rejection::Concurrent { limit, in_flight } => Some(json!({
            "name": "max_in_flight", "scope": "customer", "plan": plan, "unit": "requests",
            "limit": limit, "used": in_flight, "asked": 1, "period": null, "resets_at": null,
        })),
        _ => None,
    }
}

fn of_refusal(refusal: &Refusal, plan: Option<&str>) -> Option<Value> {
    if is_crowded(refusal) || refusal.scope == Scope::Pool {
        return None;
    }
    let budget = refusal.limit.period().is_some();
    let money = refusal.measure == Measure::Money;
    let amount = |n: u64| if money { usd(NanoUsd::new(n)) } else { Value::from(n) };
    let mut member = Map::new();
    let mut put = |name: &str, value: Value| drop(member.insert(name.to_owned(), value));
    put("name", refusal.limit.as_str().into());
    put("scope", refusal.scope.as_str().into());
    put("unit", unit(refusal.measure).into());
    put("period", period(refusal.limit).into());
    if is_open(refusal.scope) {
        put("plan", plan.into());
        put("limit", amount(refusal.max));
        put("used", amount(refusal.used));
        put("asked", amount(refusal.asked));
        if budget {
            put("held", amount(refusal.held));
        }
    }
    // The end of a calendar period is no secret; when a shared bucket is full again says how others use it.
    if budget || is_open(refusal.scope) {
        let resets = !is_oversize(refusal) && refusal.remedy != Remedy::Never;
        put("resets_at", if resets { rfc3339(refusal.resets_at).into() } else { Value::Null });
    }
    Some(Value::Object(member))
}

const fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Message | Measure::Request => "requests",
        Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => "tokens",
        Measure::Money => "usd",
    }
}

/// The message bucket has a rate of any period, which a refusal does not know.
const fn period(limit: LimitName) -> Option<&'static str> {
    match limit {
        LimitName::Messages => None,
        LimitName::Rpm | LimitName::Tpm | LimitName::InputTpm | LimitName::OutputTpm => Some("minute"),
        LimitName::Rpd | LimitName::Tpd => Some("day"),
        LimitName::Spend(p) | LimitName::RequestQuota(p) | LimitName::TokenQuota(p) => Some(p.as_str()),
    }
}

/// Dollars as a JSON number. Printed from the nearest double, which gives back every digit down to the nano-dollar below $8 million.
fn usd(amount: NanoUsd) -> Value {
    let text = amount.to_string();
    text.trim_start_matches('$').parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_keep_every_digit() {
        for (nano, right) in [
            (0, "0.0"),
            (500_000_000, "0.5"),
            (498_500_001, "0.498500001"),
            (1, "1e-9"),
            (750, "7.5e-7"),
            (40_000_000_000, "40.0"),
            (7_999_999_999_999_999, "7999999.999999999"),
        ] {
            assert_eq!(usd(NanoUsd::new(nano)).to_string(), right);
        }
    }
}
