//! The environment: an injected snapshot, and the `TOLLGATE_*` overrides in it.
//!
//! `TOLLGATE_` and the key path in capitals, `__` between its parts, sets that key: `TOLLGATE_SERVER__LISTEN`,
//! `TOLLGATE_PLANS__INDIVIDUAL__RPM`. A part stands for the existing key that reads the same in capitals with `-`, `.` and every
//! other sign as `_` (`GPT_4O` is `gpt-4o`); when there is none it stands for itself in small letters. Numbers, `true`, `false`,
//! `[lists]` and `{ tables }` are written as in TOML; anything else is a string. A variable that sets no known key is a problem.

use super::node::{Node, Table, Value, parse_value};
use super::problem::{Findings, Place, Source};
use std::collections::{BTreeMap, HashSet};

/// Variables with our prefix that are not settings: the command line and the log read them.
pub const RESERVED: [&str; 4] = ["TOLLGATE_CONFIG", "TOLLGATE_LOG", "TOLLGATE_LOG_FILE", "TOLLGATE_ADMIN_TOKEN"];

/// Kubernetes sets these for a Service named `tollgate`; they are not settings either.
const SERVICE_LINKS: [&str; 3] = ["TOLLGATE_SERVICE_", "TOLLGATE_PORT_", "TOLLGATE_PORT"];

const PREFIX: &str = "TOLLGATE_";

/// A snapshot of environment variables. Its values may be secrets and do not show in `Debug`.
#[derive(Clone, Default)]
pub struct Env(BTreeMap<String, String>);

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Env {
    /// The variables of this process; for the command line, nothing below it asks the process.
    #[must_use]
    pub fn of_process() -> Self {
        // What is not UTF-8 becomes a replacement character, which no setting and no secret accepts.
        std::env::vars_os().map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned())).collect()
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets `TOLLGATE_*` variables in the tree, except those that the tree itself names as the source of a secret.
    pub(super) fn overlay(&self, root: &mut Table, findings: &mut Findings) {
        let mut named = HashSet::new();
        secret_names(root, &mut named);
        for (name, value) in self.0.range(PREFIX.to_owned()..).take_while(|(name, _)| name.starts_with(PREFIX)) {
            let link = SERVICE_LINKS.iter().any(|link| name == link || (link.ends_with('_') && name.starts_with(link)));
            if link || named.contains(name) || RESERVED.contains(&name.as_str()) {
                continue;
            }
            let source = Source::Variable(name.as_str().into());
            let path: Vec<&str> = name[PREFIX.len()..].split("__").collect();
            if path.iter().any(|part| part.is_empty()) {
                findings.problem(&Place::root(source), "names no setting", "write TOLLGATE_TABLE__KEY");
            } else if let Err(place) = set(root, &Place::root(source.clone()), &path, override_value(value, &source)) {
                findings.problem(&place, "is not a table, so nothing can be set in it", "override the whole setting instead");
            }
        }
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(vars: I) -> Self {
        Self(vars.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

/// A number, boolean, list or table when it looks like one; otherwise the text itself.
fn override_value(text: &str, source: &Source) -> Node {
    let toml = parse_value(text.trim(), source).filter(|node| match node.value {
        Value::Text(_) | Value::Time => text.trim_start().starts_with(['"', '\'']),
        _ => true,
    });
    toml.unwrap_or_else(|| Node { value: Value::Text(text.to_owned()), source: source.clone() })
}

/// Puts `node` at `path`; the place in the way when something there is no table.
fn set(table: &mut Table, at: &Place, path: &[&str], node: Node) -> Result<(), Place> {
    let Some((part, rest)) = path.split_first() else { return Ok(()) };
    let index = table.entries.iter().position(|(key, _)| in_capitals(key) == *part).unwrap_or_else(|| {
        let empty = Node { value: Value::Table(Table::default()), source: node.source.clone() };
        table.entries.push((part.to_lowercase(), empty));
        table.entries.len() - 1
    });
    let (key, there) = &mut table.entries[index];
    if rest.is_empty() {
        *there = node;
        return Ok(());
    }
    let place = at.child(key, at.source.clone());
    match &mut there.value {
        Value::Table(inner) => set(inner, &place, rest, node),
        _ => Err(place),
    }
}

fn in_capitals(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Names in `{ env = "NAME" }`.
fn secret_names(table: &Table, into: &mut HashSet<String>) {
    for (key, node) in &table.entries {
        match &node.value {
            Value::Text(name) if key == "env" => drop(into.insert(name.clone())),
            Value::Table(inner) => secret_names(inner, into),
            Value::List(items) => {
                for item in items {
                    if let Value::Table(inner) = &item.value {
                        secret_names(inner, into);
                    }
                }
            }
            _ => {}
        }
    }
}
