//! A value that fits a JSON schema, for tool arguments and structured answers.

use serde_json::{Map, Value, json};

/// Schemas may refer to themselves; below this depth only the shortest values are made.
const DEPTH: usize = 12;

/// The simplest interesting value that fits `schema`.
pub(super) fn example(schema: &Value) -> Value {
    value(schema, schema, 0)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > DEPTH {
        return Value::Null;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(Value::Null, |found| value(found, root, depth + 1));
    }
    if let Some(fixed) = schema.get("const").or_else(|| schema.get("enum")?.get(0)).or_else(|| schema.get("default")) {
        return fixed.clone();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(choice).and_then(|list| list.get(0)) {
            return value(first, root, depth + 1);
        }
    }
    let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    match kind {
        Some("string") => Value::from(text(schema)),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") => {
            let item = value(schema.get("items").unwrap_or(&Value::Null), root, depth + 1);
            let length = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 16);
            Value::Array(vec![item; length as usize])
        }
        _ => {
            let mut object = Map::new();
            if let Some(Value::Object(properties)) = schema.get("properties") {
                object.extend(properties.iter().map(|(name, inner)| (name.clone(), value(inner, root, depth + 1))));
            } else if kind.is_none() {
                object.insert("answer".to_owned(), json!("yes"));
            }
            Value::Object(object)
        }
    }
}

fn text(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-11-30",
        Some("date-time") => "2026-11-30T08:00:00Z",
        Some("email") => "someone@example.com",
        Some("uuid") => "6f1c1a1e-5d1b-4b7e-9d57-0c2f3f0a9b11",
        Some("uri") => "https://example.com/",
        _ => "Lisbon",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_their_schema() {
        let table = [
            (
                json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}),
                json!({"city": "Lisbon", "days": 1}),
            ),
            (
                json!({"$defs": {"Unit": {"enum": ["c", "f"]}}, "type": "object", "properties": {"unit": {"$ref": "#/$defs/Unit"}}}),
                json!({"unit": "c"}),
            ),
            (json!({"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 2}), json!([true, true])),
            (json!({"anyOf": [{"type": "number", "minimum": 3}, {"type": "null"}]}), json!(3)),
            (Value::Null, json!({"answer": "yes"})),
        ];
        for (schema, fits) in table {
            assert_eq!(example(&schema), fits, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(example(&schema).is_object());
    }
}
