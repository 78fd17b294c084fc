//! The configuration as it was written, key by key: what a reload reports to have changed, and from what to what.
//!
//! Only for people. What is decided by is the compiled policy; two files that say the same in other words differ here in those words.
//! Values that may be secrets are never shown, only compared: those of the environment, and addresses, in which credentials hide.

use super::node::{Node, Table, Value};
use super::problem::{Place, Source, Warning};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The last parts of keys whose values may hold credentials.
const HIDDEN: [&str; 3] = ["url", "urls", "login"];

/// The longest value that is shown whole, characters.
const LONGEST: usize = 160;

/// A file that was read for the configuration: its own, and those that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The setting that names it; empty for the configuration's own.
    pub key: Arc<str>,
    /// Where it is.
    pub path: PathBuf,
    /// So many bytes were read at most.
    pub most: u64,
    /// The hash of what it held; `None` = it could not be read.
    pub hash: Option<[u8; 32]>,
}

/// All settings by their key paths, and the files they name.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    entries: BTreeMap<Arc<str>, Setting>,
    files: Vec<FileRead>,
    warnings: Vec<Warning>,
}

#[derive(Clone, Debug)]
struct Setting {
    text: Text,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Text {
    Shown(String),
    /// Its hash, to be compared.
    Hidden([u8; 32]),
}

/// One difference between two configurations. Displays as `plans.free.rpm: 60 -> 120`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key path.
    pub key: Arc<str>,
    /// What is different there.
    pub what: What,
}

/// See [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Another value; `None` = not set, so that the default holds.
    Value {
        /// What it was.
        before: Option<String>,
        /// What it is.
        after: Option<String>,
    },
    /// The same file, with other content.
    Content(PathBuf),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Content(path) => write!(f, "{}: the content of {} has changed", self.key, path.display()),
            What::Value { before, after } => {
                let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
                write!(f, "{}: {} -> {}", self.key, text(before), text(after))
            }
        }
    }
}

impl Settings {
    /// Those of a tree, in which the environment has its say already.
    pub(super) fn of(root: &Table, files: Vec<FileRead>, warnings: Vec<Warning>) -> Self {
        let mut settings = Self { entries: BTreeMap::new(), files, warnings };
        settings.flatten(root, &Place::root(Source::Shipped));
        settings
    }

    fn flatten(&mut self, table: &Table, place: &Place) {
        for (name, node) in &table.entries {
            let place = place.child(name, node.source.clone());
            match &node.value {
                Value::Table(inner) if !inner.entries.is_empty() => self.flatten(inner, &place),
                _ => {
                    let mut shown = String::new();
                    render(node, &mut shown);
                    let hidden = HIDDEN.contains(&name.as_str()) || from_a_variable(node);
                    let text = if hidden { Text::Hidden(*blake3::hash(shown.as_bytes()).as_bytes()) } else { Text::Shown(shown) };
                    self.entries.insert(place.key, Setting { text, source: place.source });
                }
            }
        }
    }

    /// The files that were read.
    #[must_use]
    pub fn files(&self) -> &[FileRead] {
        &self.files
    }

    /// What is odd about them.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Where a setting was written; `None` = it is not set.
    #[must_use]
    pub fn source(&self, key: &str) -> Option<&Source> {
        self.entries.get(key).map(|setting| &setting.source)
    }

    /// All settings as they are shown, by key, in the order of the keys.
    pub fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.entries.iter().map(|(key, setting)| (&**key, setting.show()))
    }

    /// What is different in `after`: settings in the order of their keys, then files.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (key, old) in &self.entries {
            let new = after.entries.get(key);
            if new.is_none_or(|new| new.text != old.text) {
                changes.push(value(key, Some(old.show()), new.map(Setting::show)));
            }
        }
        let added = after.entries.iter().filter(|(key, _)| !self.entries.contains_key(*key));
        changes.extend(added.map(|(key, new)| value(key, None, Some(new.show()))));
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        for new in after.files.iter().filter(|new| !new.key.is_empty()) {
            let old = self.files.iter().find(|old| old.key == new.key && old.path == new.path);
            if old.is_some_and(|old| old.hash != new.hash) {
                changes.push(Change { key: new.key.clone(), what: What::Content(new.path.clone()) });
            }
        }
        changes
    }
}

impl Setting {
    fn show(&self) -> String {
        match (&self.text, &self.source) {
            (Text::Hidden(_), Source::Variable(name)) => format!("(from {})", name.escape_debug()),
            (Text::Hidden(_), _) => "(not shown)".to_owned(),
            (Text::Shown(text), _) => match text.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text.clone(),
            },
        }
    }
}

fn value(key: &Arc<str>, before: Option<String>, after: Option<String>) -> Change {
    Change { key: key.clone(), what: What::Value { before, after } }
}

fn from_a_variable(node: &Node) -> bool {
    let inside = match &node.value {
        Value::List(items) => items.iter().any(from_a_variable),
        Value::Table(table) => table.entries.iter().any(|(_, node)| from_a_variable(node)),
        _ => false,
    };
    inside || matches!(node.source, Source::Variable(_))
}

/// As it would be written in the file, on one line.
fn render(node: &Node, out: &mut String) {
    match &node.value {
        Value::Text(text) => out.push_str(&format!("{text:?}")),
        Value::Number(digits) => out.push_str(digits),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Time => out.push_str("a time"),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                render(item, out);
            }
            out.push(']');
        }
        Value::Table(table) => {
            out.push('{');
            for (i, (key, node)) in table.entries.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                out.push_str(key);
                out.push_str(" = ");
                render(node, out);
            }
            out.push_str(if table.entries.is_empty() { "}" } else { " }" });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Env, Policy};

    fn changes(before: &str, after: &str, env: &[(&str, &str)]) -> Vec<String> {
        let env: Env = env.iter().map(|(k, v)| (*k, *v)).collect();
        let read = |text: &str| Policy::parse(text, "t.toml", &env).unwrap_or_else(|problems| panic!("{problems:#?}")).0;
        read(before).settings.changes(&read(after).settings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_difference_is_one_line_from_what_to_what() {
        let before = "[plans.a]\nrpm = 60\nspend = { day = 0.5 }\n[plans.gone]\nrpm = 1\n[customers.\"b.c\"]\nplan = \"a\"\n";
        let after =
            "[plans.a]\nrpm = 120\non_spend = [\"handoff\"]\nspend = { day = 0.5 }\n[customers.\"b.c\"]\nplan = \"individual\"\n";
        assert_eq!(
            changes(before, after, &[]),
            [
                "customers.\"b.c\".plan: \"a\" -> \"individual\"",
                "plans.a.on_spend: not set -> [\"handoff\"]",
                "plans.a.rpm: 60 -> 120",
                "plans.gone.rpm: 1 -> not set",
            ]
        );
        assert_eq!(changes(before, &format!("# a remark\n\n{}", before.replace("60", "6_0")), &[]), Vec::<String>::new());
    }

    #[test]
    fn what_may_be_a_secret_is_only_said_to_have_changed() {
        let hook = |url: &str| format!("[triage]\nwebhook = {{ url = \"https://{url}.example/T0/secret\" }}\n");
        assert_eq!(changes(&hook("one"), &hook("two"), &[]), ["triage.webhook.url: (not shown) -> (not shown)"]);
        let env = [("TOLLGATE_ADMIN__TOKEN", "0123456789abcdef0123")];
        assert_eq!(changes("", "[admin]\n", &env), Vec::<String>::new(), "the variable holds before and after");
        assert_eq!(
            changes("[handoff]\nmessage = \"a\"\n", "[handoff]\n", &[("TOLLGATE_PLANS__INDIVIDUAL__RPM", "7")]),
            ["handoff: not set -> {}", "handoff.message: \"a\" -> not set"]
        );
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = format!("[handoff]\nmessage = \"{}\"\n", "é".repeat(1_000));
        let said = changes("", &long, &[]).remove(0);
        assert!(said.ends_with("é...") && said.chars().count() < 250, "{said}");
    }
}
