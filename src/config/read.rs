//! From the tree to typed tables: every key optional, every unknown key a problem, nothing stops at the first.

use super::node::{Node, Table, Value};
use super::problem::{Findings, Place, Source, suggestion};
use std::ops::Deref;

/// Something that can be read from a value. `None` means that a problem was noted.
pub trait Read: Sized {
    /// Reads `node`, which stands at `place`.
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self>;
}

/// A value together with the place where it was written.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where.
    pub place: Place,
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Read> Read for At<T> {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        Some(Self { value: T::read(node, place, findings)?, place: place.clone() })
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let split;
        let items = match (&node.value, &node.source) {
            (Value::List(items), _) => items,
            // `a,b` in a variable is a list: brackets and quotes are a nuisance in a shell.
            (Value::Text(text), source @ Source::Variable(_)) => {
                let item = |part: &str| Node { value: Value::Text(part.trim().to_owned()), source: source.clone() };
                split = text.split(',').map(item).collect();
                &split
            }
            (other, _) => {
                findings.problem(place, format!("must be a list, not {}", other.kind()), "write [..]");
                return None;
            }
        };
        let read = |(i, item): (usize, &Node)| T::read(item, &place.item(i, item.source.clone()), findings);
        let read: Vec<_> = items.iter().enumerate().map(read).collect();
        read.into_iter().collect()
    }
}

/// Tables under names of the operator's choice, such as `[plans.*]`, in the order of the file.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(At<String>, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    /// The table with this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(key, _)| key.value == name).map(|(_, table)| table)
    }
}

impl<T: Read> Read for Named<T> {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let table = as_table(node, place, findings)?;
        let mut read = Vec::with_capacity(table.entries.len());
        for (key, node) in &table.entries {
            let place = place.child(key, node.source.clone());
            if key.is_empty() || key.len() > 512 || key.chars().any(char::is_control) {
                findings.problem(&place, "is no name", "use 1 to 512 printable characters");
            } else if let Some(value) = T::read(node, &place, findings) {
                read.push((At { value: key.clone(), place }, value));
            }
        }
        Some(Self(read))
    }
}

/// The table that must stand here.
pub fn as_table<'a>(node: &'a Node, place: &Place, findings: &mut Findings) -> Option<&'a Table> {
    match &node.value {
        Value::Table(table) => Some(table),
        other => {
            findings.problem(place, format!("must be a table, not {}", other.kind()), "");
            None
        }
    }
}

/// Notes every key of `table` that is not among `known`.
pub fn only(table: &Table, place: &Place, known: &[&str], findings: &mut Findings) {
    for (key, node) in table.entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        let place = place.child(key, node.source.clone());
        findings.problem(&place, "is not a setting", suggestion(key, known.iter().copied()));
    }
}

/// The value of `key`, if it is set and readable.
pub fn field<T: Read>(table: &Table, key: &str, place: &Place, findings: &mut Findings) -> Option<T> {
    let node = table.get(key)?;
    T::read(node, &place.child(key, node.source.clone()), findings)
}

/// The text that must stand here; a number from a variable is taken as the text it was.
pub fn text<'a>(node: &'a Node, place: &Place, expected: &str, findings: &mut Findings) -> Option<&'a str> {
    match (&node.value, &node.source) {
        (Value::Text(text), _) | (Value::Number(text), Source::Variable(_)) => Some(text),
        (other, _) => {
            findings.problem(place, format!("must be a string, not {}", other.kind()), format!("write {expected}"));
            None
        }
    }
}

/// The digits of the number that must stand here.
pub fn number<'a>(node: &'a Node, place: &Place, expected: &str, findings: &mut Findings) -> Option<&'a str> {
    match &node.value {
        Value::Number(digits) => Some(digits),
        Value::Text(text) => {
            findings.problem(place, format!("must be a number, not the string {text:?}"), format!("write {expected}"));
            None
        }
        other => {
            findings.problem(place, format!("must be a number, not {}", other.kind()), format!("write {expected}"));
            None
        }
    }
}

/// A table of the file whose keys are known.
pub trait Known: Sized {
    /// The keys it may have.
    const KEYS: &'static [&'static str];

    /// The table with nothing set.
    fn empty(place: Place) -> Self;

    /// Reads the known keys and leaves others alone.
    fn fields(table: &Table, place: &Place, findings: &mut Findings) -> Self;

    /// Whether nothing is set.
    fn is_empty(&self) -> bool;

    /// Where it was written.
    fn place(&self) -> &Place;
}

/// Declares tables of the file: structs of optional fields that read themselves and refuse keys they do not have.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            /// Where the table is.
            pub place: Place,
            $($(#[$about])* pub $field: Option<$type>,)*
        }

        impl crate::config::read::Known for $name {
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn empty(place: Place) -> Self {
                Self { place, $($field: None,)* }
            }

            fn fields(table: &crate::config::node::Table, place: &Place, findings: &mut Findings) -> Self {
                Self {
                    place: place.clone(),
                    $($field: crate::config::read::field(table, stringify!($field), place, findings),)*
                }
            }

            fn is_empty(&self) -> bool {
                true $(&& self.$field.is_none())*
            }

            fn place(&self) -> &Place {
                &self.place
            }
        }

        impl Read for $name {
            fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
                let table = crate::config::read::as_table(node, place, findings)?;
                crate::config::read::only(table, place, <Self as crate::config::read::Known>::KEYS, findings);
                Some(crate::config::read::Known::fields(table, place, findings))
            }
        }
    )*};
}

pub(crate) use table;
