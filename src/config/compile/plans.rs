//! Plans and customers: shipped plans, the file's over them, each customer's own version of its plan.

use super::access::pool_names;
use super::limits::{Written, blocks_all, limits};
use super::overlay::Overlay;
use crate::config::book::Book;
use crate::config::file::{self, File};
use crate::config::policy::{Plan, Shadow, Step};
use crate::config::problem::{Findings, suggestion};
use crate::config::read::{At, Known as _, Named};
use crate::config::value::Limitable;
use crate::domain::CustomerId;
use foldhash::HashMap;
use std::sync::Arc;

/// The plan that a new customer gets when nothing else is said.
pub const DEFAULT_PLAN: &str = "individual";

/// All plans, as written and ready.
pub struct Plans {
    written: HashMap<Arc<str>, file::Plan>,
    /// By name.
    pub ready: HashMap<Arc<str>, Arc<Plan>>,
}

impl Plans {
    /// Lays the file's plans over the shipped ones and compiles them.
    pub fn compile(shipped: &Named<file::Plan>, file: &File, findings: &mut Findings) -> Self {
        let mut written: HashMap<Arc<str>, file::Plan> =
            shipped.0.iter().map(|(name, plan)| (name.value.as_str().into(), plan.clone())).collect();
        for (name, plan) in file.plans.iter().flat_map(|plans| &plans.0) {
            if name.value == "refuse" {
                findings.problem(
                    &name.place,
                    "is no name for a plan: `anonymous = \"refuse\"` means something else",
                    "rename it",
                );
            }
            if !written.contains_key(name.value.as_str()) {
                warn_unlimited(name, plan, findings);
            }
            let merged = match written.get(name.value.as_str()) {
                Some(base) => plan.clone().over(base),
                None => plan.clone(),
            };
            written.insert(name.value.as_str().into(), merged);
        }
        let ready = written.iter().map(|(name, plan)| (Arc::clone(name), Arc::new(ready(name, plan, findings)))).collect();
        Self { written, ready }
    }

    /// Everything as written, for what is laid over it at run time.
    pub fn book(&self, file: &File, default: &Arc<str>, allow_emails: bool) -> Book {
        let customers = file.customers.iter().flat_map(|customers| &customers.0);
        let customers = customers.map(|(id, customer)| (id.value.as_str().into(), customer.clone())).collect();
        let pools = pool_names(file).map(Into::into).collect();
        Book { plans: self.written.clone(), customers, default: Arc::clone(default), allow_emails, pools }
    }

    /// The plan with the name that stands at `at`.
    pub fn find(&self, at: &At<String>, findings: &mut Findings) -> Option<(&Arc<str>, &Arc<Plan>)> {
        let found = self.ready.get_key_value(at.value.as_str());
        if found.is_none() {
            let mut names: Vec<&str> = self.ready.keys().map(|name| &**name).collect();
            names.sort_unstable();
            findings.problem(&at.place, format!("there is no plan {:?}", at.value), suggestion(&at.value, names));
        }
        found
    }

    /// Each configured customer's version of its plan.
    pub fn customers(
        &self,
        file: &File,
        default: &Arc<Plan>,
        allow_emails: bool,
        findings: &mut Findings,
    ) -> HashMap<Arc<str>, Arc<Plan>> {
        let mut customers = HashMap::default();
        for (id, customer) in file.customers.iter().flat_map(|customers| &customers.0) {
            match CustomerId::parse(id.value.as_bytes(), allow_emails) {
                Ok(parsed) if parsed.as_str() == id.value => {}
                Ok(_) => findings.problem(&id.place, "has blanks around the id", "remove them"),
                Err(error) => findings.problem(&id.place, format!("the customer id {error}"), ""),
            }
            let plan = match &customer.plan {
                Some(at) => self.find(at, findings).map(|(name, _)| name),
                None => Some(&default.name),
            };
            let Some((name, base)) = plan.and_then(|name| self.written.get_key_value(name)) else { continue };
            // Only what the customer's own entry says can be wrong here; what it inherits was reported with its plan.
            let own = ready(name, &customer.overrides, findings);
            let unchanged = customer.overrides.is_empty();
            let merged = if unchanged {
                self.ready.get(name).cloned().unwrap_or_else(|| Arc::new(own))
            } else {
                Arc::new(ready(name, &customer.overrides.clone().over(base), &mut Findings::default()))
            };
            customers.insert(id.value.as_str().into(), merged);
        }
        customers
    }
}

impl Plans {
    /// `[shadow.plans.*]`: by the name of the plan that they stand behind.
    pub fn shadows(&self, file: &File, findings: &mut Findings) -> HashMap<Arc<str>, Arc<Shadow>> {
        let written = file.shadow.as_ref().and_then(|shadow| shadow.plans.as_ref()).into_iter().flat_map(|plans| &plans.0);
        let mut shadows = HashMap::default();
        for (name, plan) in written {
            let file::ShadowPlan { place: _, messages, rpm, tpm, spend, quota, user } = plan;
            let Some((known, _)) = self.find(name, findings) else { continue };
            let (messages, rpm, tpm) = (messages.as_ref(), rpm.as_ref(), tpm.as_ref());
            let own = Written { messages, rpm, tpm, spend: spend.as_ref(), quota: quota.as_ref() };
            let shadow = Shadow { limits: limits(own, findings), user: limits(of_user(user.as_ref()), findings) };
            shadows.insert(Arc::clone(known), Arc::new(shadow));
        }
        shadows
    }
}

fn of_user(user: Option<&file::User>) -> Written<'_> {
    user.map_or_else(Written::default, |user| Written {
        messages: user.messages.as_ref(),
        rpm: user.rpm.as_ref(),
        tpm: user.tpm.as_ref(),
        spend: user.spend.as_ref(),
        quota: user.quota.as_ref(),
    })
}

/// A new plan inherits nothing, so what it leaves out is unlimited; that should be meant.
fn warn_unlimited(name: &At<String>, plan: &file::Plan, findings: &mut Findings) {
    let lacking = [
        ("messages", plan.messages.is_none() && plan.rpm.is_none()),
        ("tpm", plan.tpm.is_none()),
        ("spend", plan.spend.is_none()),
        ("max_output_tokens", plan.max_output_tokens.is_none()),
    ];
    let lacking: Vec<_> = lacking.iter().filter(|(_, lacks)| *lacks).map(|(key, _)| *key).collect();
    if !lacking.is_empty() {
        let reason = format!("does not say {}, so that is unlimited", lacking.join(", "));
        findings.warn(&name.place, reason, "set it, or write \"unlimited\" (spend = { day = \"unlimited\" }) to say so");
    }
}

/// A plan as written, compiled.
pub fn ready(name: &Arc<str>, plan: &file::Plan, findings: &mut Findings) -> Plan {
    let customer = Written {
        messages: plan.messages.as_ref(),
        rpm: plan.rpm.as_ref(),
        tpm: plan.tpm.as_ref(),
        spend: plan.spend.as_ref(),
        quota: plan.quota.as_ref(),
    };
    Plan {
        name: Arc::clone(name),
        limits: limits(customer, findings),
        user: limits(of_user(plan.user.as_ref()), findings),
        max_output_tokens: most(plan.max_output_tokens.as_ref()).and_then(|(at, tokens)| {
            if tokens == 0 {
                findings.problem(&at.place, "is 0, and no answer is that short", "write at least 1");
            }
            Some(tokens).filter(|tokens| *tokens > 0)
        }),
        max_in_flight: most(plan.max_in_flight.as_ref()).map(|(at, requests)| {
            if requests == 0 {
                blocks_all(&at.place, findings);
            }
            u32::try_from(requests).unwrap_or(u32::MAX)
        }),
        upgrade_url: plan.upgrade_url.as_ref().and_then(|at| upgrade_url(at, findings)),
        on_spend: steps(plan.on_spend.as_ref(), &[Step::Cheaper, Step::Handoff], findings),
        on_tokens: steps(plan.on_tokens.as_ref(), &[], findings),
        on_provider: steps(plan.on_provider.as_ref(), &[Step::Cheaper, Step::Handoff], findings),
        suspended: false,
    }
}

fn most(at: Option<&At<Limitable<u64>>>) -> Option<(&At<Limitable<u64>>, u64)> {
    match at.map(|at| (at, at.value)) {
        Some((at, Limitable::Set(n))) => Some((at, n)),
        _ => None,
    }
}

fn upgrade_url(at: &At<String>, findings: &mut Findings) -> Option<Arc<str>> {
    match at.value.parse::<http::Uri>() {
        Ok(uri) if matches!(uri.scheme_str(), Some("https" | "http")) && uri.host().is_some() => Some(at.value.as_str().into()),
        _ => {
            findings.problem(&at.place, format!("{:?} is not a URL", at.value), "write https://..");
            None
        }
    }
}

/// A chain: each step at most once, and nothing after the hand-off, which always answers.
fn steps(at: Option<&At<Vec<Step>>>, default: &[Step], findings: &mut Findings) -> Vec<Step> {
    let Some(at) = at else { return default.to_vec() };
    if at.iter().enumerate().any(|(i, step)| at[..i].contains(step)) {
        findings.problem(&at.place, "names a step twice", "name each step once");
    }
    if at.iter().rev().skip(1).any(|step| *step == Step::Handoff) {
        findings.problem(&at.place, "has a step after \"handoff\", which always answers", "put \"handoff\" last");
    }
    at.value.clone()
}
