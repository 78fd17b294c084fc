//! Plans and customers as they were written, and what is said of them at run time, by the same keys and with the same checks.
//!
//! A plan that is set at run time is laid over the configured one of its name, as the file's are over the shipped ones. What is said of
//! a customer is laid over its `[customers.ID]`, and that over its plan.

use super::compile::access::{FindsPlan, app};
use super::compile::overlay::Overlay;
use super::compile::plans::ready;
use super::file::{Customer, Key, Plan as WrittenPlan};
use super::node::of_json;
use super::policy::{App, Plan};
use super::problem::{Findings, Place, Problem, Source, Warning, suggestion};
use super::read::{At, Read, as_table};
use super::value::Limitable;
use crate::domain::{CustomerId, NanoUsd};
use foldhash::HashMap;
use serde_json::Value;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Book {
    pub(super) plans: HashMap<Arc<str>, WrittenPlan>,
    pub(super) customers: HashMap<Arc<str>, Customer>,
    pub(super) default: Arc<str>,
    pub(super) allow_emails: bool,
    /// The names of the configured pools.
    pub(super) pools: Vec<Arc<str>>,
}

/// What was said of a customer, read and found sound.
#[derive(Clone, Debug)]
pub struct Said {
    written: Customer,
    /// What is odd about it, though it does what it says.
    pub warnings: Vec<Warning>,
}

impl Said {
    /// The plan it assigns.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        self.written.plan.as_ref().map(|at| &*at.value)
    }

    /// Whether one of its own dollar caps is zero, which suspends the customer.
    #[must_use]
    pub fn closes(&self) -> bool {
        let caps = self.written.overrides.spend.iter().flat_map(|spend| [&spend.day, &spend.week, &spend.month]);
        caps.flatten().any(|at| matches!(at.value, Limitable::Set(NanoUsd::ZERO)))
    }
}

impl Book {
    /// Reads what is said of a customer: the keys of `[customers.ID]`.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the words of the configuration.
    pub fn customer(&self, id: &str, said: &Value) -> Result<Said, Vec<Problem>> {
        self.read_customer(id, said, false)
    }

    /// The same of what was found sound when it was said. A plan that is gone since then is warned of, and the other keys hold.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn customer_kept(&self, id: &str, said: &Value) -> Result<Said, Vec<Problem>> {
        self.read_customer(id, said, true)
    }

    fn read_customer(&self, id: &str, said: &Value, kept: bool) -> Result<Said, Vec<Problem>> {
        let mut findings = Findings::default();
        let place = Place::root(Source::Stored).child("customers", Source::Stored).child(id, Source::Stored);
        match CustomerId::parse(id.as_bytes(), self.allow_emails) {
            Ok(parsed) if parsed.as_str() == id => {}
            Ok(_) => findings.problem(&place, "has blanks around the id", "remove them"),
            Err(error) => findings.problem(&place, format!("the customer id {error}"), ""),
        }
        let written: Option<Customer> = read(said, &place, &mut findings);
        if let Some(written) = &written {
            if let Some(at) = written.plan.as_ref().filter(|at| !self.plans.contains_key(at.value.as_str())) {
                let reason = format!("there is no plan {:?}", at.value);
                if kept {
                    findings.warn(
                        &at.place,
                        format!("{reason} any more"),
                        "name another, or take the key away; the other keys hold",
                    );
                } else {
                    findings.problem(&at.place, reason, suggestion(&at.value, self.names()));
                }
            }
            ready(&self.default, &written.overrides, &mut findings);
        }
        match written.filter(|_| findings.problems.is_empty()) {
            Some(written) => Ok(Said { written, warnings: findings.warnings }),
            None => Err(findings.problems),
        }
    }

    /// The same plans with one more laid over them: the keys of `[plans.NAME]`. Gives what is odd about it, too.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the words of the configuration.
    pub fn with_plan(&self, name: &str, said: &Value) -> Result<(Self, Vec<Warning>), Vec<Problem>> {
        let mut findings = Findings::default();
        let place = Place::root(Source::Stored).child("plans", Source::Stored).child(name, Source::Stored);
        if name.is_empty() || name.len() > 512 || name == "refuse" || name.chars().any(char::is_control) {
            findings.problem(&place, "is no name for a plan", "use 1 to 512 printable characters, and not \"refuse\"");
        }
        let written: Option<WrittenPlan> = read(said, &place, &mut findings);
        let name: Arc<str> = name.into();
        if let Some(written) = &written {
            ready(&name, written, &mut findings);
        }
        let Some(written) = written.filter(|_| findings.problems.is_empty()) else { return Err(findings.problems) };
        let mut book = self.clone();
        let merged = match book.plans.get(&name) {
            Some(base) => written.over(base),
            None => written,
        };
        book.plans.insert(name, merged);
        Ok((book, findings.warnings))
    }

    /// What a gateway key made at run time may do: the keys of `[keys.NAME]`, but for the key itself. Gives what is odd about it, too.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the words of the configuration.
    pub fn app(&self, name: &str, said: &Value) -> Result<(App, Vec<Warning>), Vec<Problem>> {
        let pools: Vec<&str> = self.pools.iter().map(|name| &**name).collect();
        let mut plan_named = |at: &At<String>, findings: &mut Findings| {
            let found = self.plans.get_key_value(at.value.as_str()).map(|(name, _)| Arc::clone(name));
            if found.is_none() {
                findings.problem(&at.place, format!("there is no plan {:?}", at.value), suggestion(&at.value, self.names()));
            }
            found
        };
        read_app(name, said, &mut plan_named, Some(&pools))
    }

    /// The same of a key that was found sound when it was made. Plans and pools that are gone since do it no harm: it may not use them.
    ///
    /// # Errors
    /// What cannot be read, since a scope that is not understood would let the key do more.
    pub fn app_kept(&self, name: &str, said: &Value) -> Result<App, Vec<Problem>> {
        read_app(name, said, &mut |at, _| Some(at.value.as_str().into()), None).map(|(app, _)| app)
    }

    /// A plan of this book, compiled.
    #[must_use]
    pub fn plan(&self, name: &str) -> Option<Arc<Plan>> {
        let (name, written) = self.plans.get_key_value(name)?;
        Some(Arc::new(ready(name, written, &mut Findings::default())))
    }

    /// All plans of this book, compiled.
    #[must_use]
    pub fn all_plans(&self) -> HashMap<Arc<str>, Arc<Plan>> {
        self.plans.keys().filter_map(|name| Some((Arc::clone(name), self.plan(name)?))).collect()
    }

    /// The configured customers' own versions of their plans, compiled.
    #[must_use]
    pub fn all_customers(&self) -> HashMap<Arc<str>, Arc<Plan>> {
        self.customers.keys().filter_map(|id| Some((Arc::clone(id), self.plan_of(id, None, None)?))).collect()
    }

    /// A customer's version of its plan: that which was said last, else that of its `[customers.ID]`, else `otherwise`, else the default.
    #[must_use]
    pub fn plan_of(&self, id: &str, said: Option<&Said>, otherwise: Option<&str>) -> Option<Arc<Plan>> {
        let configured = self.customers.get(id);
        let named = [said.and_then(Said::plan), configured.and_then(|customer| customer.plan.as_ref().map(|at| &*at.value))];
        // A plan that is gone since it was assigned is as good as none.
        let named = named.into_iter().flatten().chain(otherwise.filter(|_| configured.is_none())).chain([&*self.default]);
        let (name, base) = named.into_iter().find_map(|name| self.plans.get_key_value(name))?;
        let mut written = base.clone();
        for over in [configured, said.map(|said| &said.written)].into_iter().flatten() {
            written = over.overrides.clone().over(&written);
        }
        Some(Arc::new(ready(name, &written, &mut Findings::default())))
    }

    /// Whether there is a plan of this name.
    #[must_use]
    pub fn has_plan(&self, name: &str) -> bool {
        self.plans.contains_key(name)
    }

    /// Whether `[customers.ID]` says anything of a customer.
    #[must_use]
    pub fn configures(&self, id: &str) -> bool {
        self.customers.contains_key(id)
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.plans.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }
}

fn read_app(
    name: &str,
    said: &Value,
    plan_named: &mut FindsPlan<'_>,
    pools: Option<&[&str]>,
) -> Result<(App, Vec<Warning>), Vec<Problem>> {
    let mut findings = Findings::default();
    let place = Place::root(Source::Stored).child("keys", Source::Stored).child(name, Source::Stored);
    let written: Option<Key> = read(said, &place, &mut findings);
    let app = written.map(|key| {
        if key.hash.is_some() || key.key.is_some() {
            findings.problem(&place, "names a key of its own", "leave hash and key out: the gateway makes the key");
        }
        app(name, &key, plan_named, pools, &mut findings)
    });
    match app.filter(|_| findings.problems.is_empty()) {
        Some(app) => Ok((app, findings.warnings)),
        None => Err(findings.problems),
    }
}

fn read<T: Read>(said: &Value, place: &Place, findings: &mut Findings) -> Option<T> {
    let node = of_json(said).or_else(|| {
        findings.problem(place, "is null", "write a table of settings");
        None
    })?;
    as_table(&node, place, findings)?;
    T::read(&node, place, findings)
}
