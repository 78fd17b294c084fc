//! The configuration as a tree in which every value knows where it was written, and every number keeps its digits.
//!
//! Deserialising straight into structs would stop at the first error and would turn `0.1` into a float. The tree is
//! what file and environment are merged into before it is read.

use super::problem::{Finding, Place, Source};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where.
    pub source: Source,
}

/// A value as written.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// A number, digit by digit, without `_` and without a leading `+`.
    Number(String),
    /// `true` or `false`.
    Bool(bool),
    /// A date or time; no setting takes one.
    Time,
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

impl Value {
    /// What it is, for error messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Time => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// A table, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Keys with their values.
    pub entries: Vec<(String, Node)>,
}

impl Table {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, node)| node)
    }
}

/// Reads a TOML text.
///
/// # Errors
/// All syntax errors, with their lines.
pub fn parse(text: &str, name: &str) -> Result<Table, Vec<Finding>> {
    let lines =
        Lines { name: name.into(), starts: std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(lines.table(table.get_ref()));
    }
    let finding = |e: &toml::de::Error| Finding {
        place: Place::root(lines.at(e.span().map_or(0, |span| span.start))),
        reason: format!("is not TOML here: {}", e.message()),
        advice: String::new(),
    };
    Err(errors.iter().map(finding).collect())
}

/// Reads one value written in TOML, such as `["a", "b"]`, all of it from `source`; `None` when it is not TOML.
#[must_use]
pub fn parse_value(text: &str, source: &Source) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    let mut node = Lines { name: "".into(), starts: vec![0] }.node(&value);
    relocate(&mut node, source);
    Some(node)
}

/// The same table, all of it shipped with the program.
#[must_use]
pub fn as_shipped(table: Table) -> Node {
    let mut node = Node { value: Value::Table(table), source: Source::Shipped };
    relocate(&mut node, &Source::Shipped);
    node
}

/// A value written in JSON, said at run time. `null` is no value: leave the key out.
#[must_use]
pub fn of_json(value: &serde_json::Value) -> Option<Node> {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => return None,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Number(plain(&n.to_string())),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().filter_map(of_json).collect()),
        Json::Object(fields) => {
            let entry = |(key, value): (&String, &Json)| Some((key.clone(), of_json(value)?));
            Value::Table(Table { entries: fields.iter().filter_map(entry).collect() })
        }
    };
    Some(Node { value, source: Source::Stored })
}

/// The digits of a number without an exponent, as one writes it in the file: `0.000001` for `1e-6`.
fn plain(number: &str) -> String {
    let Some((mantissa, exponent)) = number.split_once(['e', 'E']) else { return number.to_owned() };
    let Ok(exponent) = exponent.parse::<i32>() else { return number.to_owned() };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{decimals}");
    // Where the point stands among the digits; a double has at most 308 places before it and 324 behind.
    let point = i32::try_from(whole.len()).unwrap_or(i32::MAX).saturating_add(exponent).clamp(-400, 400);
    let Ok(length) = i32::try_from(digits.len()) else { return number.to_owned() };
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    match usize::try_from(point) {
        Ok(0) | Err(_) => format!("{sign}0.{}{digits}", zeros(-point)),
        Ok(_) if point >= length => format!("{sign}{digits}{}", zeros(point - length)),
        Ok(at) => format!("{sign}{}.{}", &digits[..at], &digits[at..]),
    }
}

fn relocate(node: &mut Node, source: &Source) {
    node.source = source.clone();
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, source)),
        Value::Table(table) => table.entries.iter_mut().for_each(|(_, node)| relocate(node, source)),
        _ => {}
    }
}

/// Finds the line of an offset.
struct Lines {
    name: Arc<str>,
    starts: Vec<usize>,
}

impl Lines {
    fn at(&self, offset: usize) -> Source {
        Source::File { name: Arc::clone(&self.name), line: self.starts.partition_point(|start| *start <= offset) }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            // The key's own line: the span of a `[table]` or of a long list may begin elsewhere.
            (key.get_ref().to_string(), Node { source: self.at(key.span().start), ..self.node(value) })
        };
        Table { entries: entries.into_iter().map(entry).collect() }
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let source = self.at(value.span().start);
        let number = |text: String| Value::Number(text.trim_start_matches('+').replace('_', ""));
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(n) => number(n.to_string()),
            DeValue::Float(n) => number(n.to_string()),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Datetime(_) => Value::Time,
            DeValue::Array(items) => Value::List(items.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
        };
        Node { value, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_keys_their_lines_and_order() {
        let table = parse("[z]\nday = 0.10\n\n[a]\nn = 1_000\nlist = [\n  1,\n  2,\n]\n", "f").expect("TOML");
        assert_eq!(table.entries.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>(), ["z", "a"]);
        let Value::Table(z) = &table.entries[0].1.value else { panic!("a table") };
        let day = z.get("day").expect("set");
        assert!(matches!(&day.value, Value::Number(text) if text == "0.10"));
        assert_eq!(day.source, Source::File { name: "f".into(), line: 2 });
        let Value::Table(a) = &table.entries[1].1.value else { panic!("a table") };
        assert!(matches!(&a.get("n").expect("set").value, Value::Number(text) if text == "1000"));
        let Value::List(items) = &a.get("list").expect("set").value else { panic!("a list") };
        assert_eq!(items[1].source, Source::File { name: "f".into(), line: 8 });
    }

    #[test]
    fn a_number_of_json_is_read_as_one_writes_it_in_the_file() {
        for (json, right) in [
            ("0.000001", "0.000001"),
            ("1e-6", "0.000001"),
            ("0.00000125", "0.00000125"),
            ("-2.5e-7", "-0.00000025"),
            ("2.5e-1", "0.25"),
            ("1.25e20", "125000000000000000000"),
            ("12.5", "12.5"),
            ("60", "60"),
        ] {
            let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
            let Some(Node { value: Value::Number(digits), .. }) = of_json(&value) else { panic!("{json} is a number") };
            assert_eq!(digits.trim_end_matches(".0"), right, "{json}");
        }
        assert_eq!([plain("1e0"), plain("1.5e2"), plain("1.25e1")], ["1", "150", "12.5"]);
    }

    #[test]
    fn every_syntax_error_is_reported_with_its_line() {
        let errors = parse("a = \nb = 1\nb = 2\nc = [1\n", "f").expect_err("not TOML");
        let lines: Vec<_> = errors.iter().map(|e| e.place.source.to_string()).collect();
        assert!(lines.contains(&"f:1".to_owned()) && lines.contains(&"f:3".to_owned()), "{errors:?}");
    }
}
