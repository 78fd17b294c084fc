//! What `look.lua` answers: how limits stand, and the holds of a customer.

use super::audit::HoldRecord;
use super::reply;
use crate::domain::{NanoUsd, ReservationId, Timestamp};
use crate::limit::{Claim, LimitName};
use crate::store::{Holding, Seen, StoreError};
use redis::Value;

/// The reply of `look.lua` to these claims.
pub(super) fn seen(reply: &Value, claims: &[Claim]) -> Result<Seen, StoreError> {
    let strange = || StoreError::Failed(String::from("look answered something strange"));
    let Value::Array(parts) = reply else { return Err(strange()) };
    let [decision, Value::Array(fields)] = parts.as_slice() else { return Err(strange()) };
    let decision = reply::decided(decision, claims.iter())?.decision;
    let mut holds = Vec::with_capacity(fields.len() / 2);
    for pair in fields.chunks_exact(2) {
        let [Value::BulkString(id), Value::BulkString(record)] = pair else { return Err(strange()) };
        // What a gateway would not write so counts as never seen, here as anywhere; the audit tells of it.
        holds.extend(holding(id, record));
    }
    holds.sort_unstable_by_key(|hold| hold.reservation.bits());
    Ok(Seen { at: decision.at, verdicts: decision.verdicts, holds })
}

fn holding(id: &[u8], record: &[u8]) -> Option<Holding> {
    let id = u128::from_str_radix(std::str::from_utf8(id).ok()?, 16).ok()?;
    let HoldRecord { deadline, parts } = HoldRecord::read(record)?;
    let money = parts.iter().filter(|(held, _)| matches!(held.limit, LimitName::Spend(_)));
    let money = NanoUsd::new(money.map(|(_, amount)| *amount).max().unwrap_or(0));
    Some(Holding { reservation: ReservationId::new(id), until: Some(Timestamp(deadline)), money })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn holds_are_read_and_what_is_not_one_is_left_out() {
        let decision = reply::tests::packed(&[9_000, 0, 0, -1, 0]);
        let record = "9500 p|tg1:{c:x}:limits spend_day 86400 70|tg1:{c:x}:limits requests_day 86400 1";
        let holds = Value::Array([text("0a"), text(record), text("0b"), text("nonsense")].to_vec());
        let right = Seen {
            at: Timestamp(9_000),
            verdicts: Vec::new(),
            holds: vec![Holding { reservation: ReservationId::new(10), until: Some(Timestamp(9_500)), money: NanoUsd::new(70) }],
        };
        assert_eq!(seen(&Value::Array(vec![decision.clone(), holds]), &[]), Ok(right));
        for reply in [Value::Nil, Value::Array(vec![decision.clone()]), Value::Array(vec![decision, Value::Nil])] {
            assert!(seen(&reply, &[]).is_err(), "{reply:?}");
        }
    }
}
