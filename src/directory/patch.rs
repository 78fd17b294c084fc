//! What a change says, laid over what was said before it.

use super::change::DirectoryError;
use crate::config::Problem;
use crate::config::problem::{Place, Source};
use serde_json::{Map, Value};

/// The key that suspends a customer, beside those of `[customers.ID]`.
pub const SUSPENDED: &str = "suspended";

/// The keys of `[customers.ID]`, and what the key `suspended` beside them says; `None` = nothing.
pub(super) fn parted(id: &str, said: &Map<String, Value>) -> Result<(Map<String, Value>, Option<bool>), DirectoryError> {
    let mut fields = said.clone();
    let suspended = match fields.remove(SUSPENDED) {
        None => None,
        Some(Value::Bool(suspended)) => Some(suspended),
        Some(Value::Null) => Some(false),
        Some(_) => {
            let place = Place::root(Source::Stored).child("customers", Source::Stored).child(id, Source::Stored);
            let place = place.child(SUSPENDED, Source::Stored);
            let (reason, advice) = ("must be true or false".to_owned(), String::new());
            return Err(DirectoryError::Invalid(vec![Problem { place, reason, advice }]));
        }
    };
    Ok((fields, suspended))
}

/// Takes caps of zero dollars away, which suspend a customer.
pub(super) fn open(fields: &mut Map<String, Value>) {
    let zeros = fields.get("spend").and_then(Value::as_object).into_iter().flatten();
    let zeros = zeros.filter(|(_, cap)| cap.as_f64() == Some(0.0)).map(|(period, _)| (period.clone(), Value::Null));
    let zeros: Map<_, _> = zeros.collect();
    if !zeros.is_empty() {
        merge(fields, &Map::from_iter([("spend".to_owned(), Value::Object(zeros))]));
    }
}

/// A JSON merge patch. Nothing is left of a table whose last key is taken away.
pub(super) fn merge(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => drop(fields.remove(key)),
            Value::Object(inner) => {
                let mut table = match fields.remove(key) {
                    Some(Value::Object(table)) => table,
                    _ => Map::new(),
                };
                merge(&mut table, inner);
                if !table.is_empty() {
                    fields.insert(key.clone(), Value::Object(table));
                }
            }
            other => drop(fields.insert(key.clone(), other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_suspension_is_no_key_of_a_customer() {
        let said = |value: Value| value.as_object().cloned().expect("an object");
        for (value, right) in [(json!(true), Some(true)), (json!(false), Some(false)), (Value::Null, Some(false))] {
            let (fields, suspended) = parted("c", &said(json!({ "rpm": 5, "suspended": value }))).expect("sound");
            assert_eq!((Value::Object(fields), suspended), (json!({ "rpm": 5 }), right));
        }
        assert!(parted("c", &said(json!({ "suspended": 1 }))).is_err());
        let mut fields = said(json!({ "rpm": 5, "spend": { "day": 0, "week": 5, "month": 0.0 } }));
        open(&mut fields);
        assert_eq!(Value::Object(fields), json!({ "rpm": 5, "spend": { "week": 5 } }));
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_takes_away() {
        for (before, patch, after) in [
            (json!({}), json!({ "rpm": 5 }), json!({ "rpm": 5 })),
            (json!({ "rpm": 5, "tpm": 7 }), json!({ "rpm": null }), json!({ "tpm": 7 })),
            (json!({ "spend": { "day": 1 } }), json!({ "spend": { "week": 5 } }), json!({ "spend": { "day": 1, "week": 5 } })),
            (json!({ "spend": { "day": 1, "week": 5 } }), json!({ "spend": { "day": null } }), json!({ "spend": { "week": 5 } })),
            (json!({ "spend": { "day": 1 }, "rpm": 2 }), json!({ "spend": { "day": null } }), json!({ "rpm": 2 })),
            (json!({ "rpm": 5 }), json!({ "rpm": { "rate": "5/m" } }), json!({ "rpm": { "rate": "5/m" } })),
            (json!({ "on_spend": ["handoff"] }), json!({ "on_spend": [] }), json!({ "on_spend": [] })),
        ] {
            let (Value::Object(mut fields), Value::Object(patch)) = (before, patch) else { panic!("objects") };
            merge(&mut fields, &patch);
            assert_eq!(Value::Object(fields), after, "{patch:?}");
        }
    }
}
