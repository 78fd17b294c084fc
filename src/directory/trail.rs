//! Who changed what: told of every change, before and after.

use serde_json::Value;

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Who, as the caller names itself.
    pub by: &'a str,
    /// `override`, `plan` or `key`.
    pub kind: &'static str,
    /// Of which customer, plan or key.
    pub name: &'a str,
    /// What was there; `None` = nothing.
    pub before: Option<&'a Value>,
    /// What is there now; `None` = nothing.
    pub after: Option<&'a Value>,
}

/// Keeps changes for those who ask later.
pub trait Trail: Send + Sync + 'static {
    /// Something was changed, and is in force.
    fn changed(&self, change: &Change<'_>);
}

/// Keeps them in the process log, target `audit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTrail;

impl Trail for LogTrail {
    fn changed(&self, change: &Change<'_>) {
        let Change { by, kind, name, before, after } = change;
        let text = |value: &Option<&Value>| value.map(ToString::to_string);
        tracing::info!(target: "audit", by, kind, name, before = text(before), after = text(after), "changed at run time");
    }
}
