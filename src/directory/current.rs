//! What is in force, read anew: for operators, who may ask a gateway that has not served the customer since something was changed.
//!
//! A request goes by what is cached and lets the store say whether that is in force; here the documents are read. So a look costs a call
//! or two of the store, and never finds less than a request would.

use super::change::{DirectoryError, Override};
use super::kept::{Kept, Suspension};
use super::patch::parted;
use super::said::Entry;
use super::view::View;
use super::{Directory, said_plan};
use crate::config::policy::Plan;
use crate::config::{Policy, Warning};
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, MAX_PAGE, Page};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Who gave a customer its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assigned {
    /// An override set at run time.
    Override,
    /// The configuration file: `[customers.ID]`.
    Config,
    /// Nobody; it is the default plan.
    Default,
    /// Nobody, and the configuration refuses customers it does not know.
    Unknown,
}

/// The plan of a customer as it is in force, and why.
#[derive(Clone, Debug)]
pub struct Current {
    /// With everything that is said of the customer applied, credits included. Of an unknown customer what it would have.
    pub plan: Arc<Plan>,
    /// Who gave it.
    pub assigned: Assigned,
    /// Whether `[customers.ID]` of the configuration says something of the customer.
    pub configured: bool,
    /// The plan that is named for it at run time though there is none of that name any more. Everything else that is said holds.
    pub gone: Option<Box<str>>,
    /// What is said at run time.
    pub said: Option<Override>,
}

/// A change that was only thought through.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The plans in force.
    pub before: Arc<View>,
    /// The plans as they would be.
    pub after: Arc<View>,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
}

impl Directory {
    /// The plans in force over this configuration, read from the store.
    ///
    /// # Errors
    /// [`StoreError`] when they could not be read.
    pub async fn current_view(&self, policy: &Arc<Policy>) -> Result<Arc<View>, StoreError> {
        let view = self.view(policy).await?;
        if !self.ledger.tells() {
            return Ok(view); // one process knows what it changed
        }
        let said = self.all(Collection::Plans, said_plan).await?;
        Ok(if said == view.said {
            view
        } else {
            Arc::new(View::with(policy.clone(), view.number, said, view.keys.clone(), &self.uses))
        })
    }

    /// What is in force for a customer, read from the store.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be read.
    pub async fn current(&self, view: &Arc<View>, id: &str) -> Result<Current, StoreError> {
        Ok(self.current_with(view, id, self.said_of(id).await?))
    }

    /// What is said of a customer at run time, read from the store; `None` for nothing.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be read.
    pub async fn said_of(&self, id: &str) -> Result<Option<Override>, StoreError> {
        let Some(found) = self.documents.get(Collection::Overrides, id, None).await? else { return Ok(None) };
        Ok(Kept::read(&found.value)?.pruned(self.now()).map(|kept| Override::of(found.version, kept)))
    }

    /// What is in force for a customer of whom this is said at run time.
    #[must_use]
    pub fn current_with(&self, view: &Arc<View>, id: &str, said: Option<Override>) -> Current {
        let now = self.now();
        let configured = view.customer(id);
        let otherwise = || configured.unwrap_or_else(|| view.current(&view.policy.identity.default_plan)).clone();
        let entry = said.as_ref().map(|said| Entry::new(id, Some(kept(said)), &view.book, 0, now));
        let named = entry.as_ref().and_then(|entry| entry.assigns(now));
        let gone = named.filter(|plan| view.plan(plan).is_none()).map(Box::from);
        let gives = |entry: &Entry| entry.assigns(now).is_some_and(|plan| view.plan(plan).is_some());
        let assigned = match () {
            () if entry.as_ref().is_some_and(gives) => Assigned::Override,
            () if configured.is_some() => Assigned::Config,
            () if view.policy.identity.unknown_customers || said.is_some() => Assigned::Default,
            () => Assigned::Unknown,
        };
        let plan = entry.and_then(|entry| entry.plan(view, id, None, now)).unwrap_or_else(otherwise);
        Current { plan, assigned, configured: configured.is_some(), gone, said }
    }

    /// What is said of customers at run time, by id, after this one.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be read.
    pub async fn overrides(&self, after: &str, limit: usize) -> Result<Vec<(String, Override)>, StoreError> {
        let page = Page { after: Some((0, after.to_owned())), up_to: None, limit };
        let now = self.now();
        let mut all = Vec::new();
        for one in self.documents.list(Collection::Overrides, &page, None).await? {
            // One whose time has just come is still a line of its page, or the page would look like the last one.
            let kept = Kept::read(&one.document.value)?.pruned(now).unwrap_or_default();
            all.push((one.id, Override::of(one.document.version, kept)));
        }
        Ok(all)
    }

    /// Customers whose override names this plan, by id: the first `most`, and whether there are more. Looks at every override.
    ///
    /// # Errors
    /// [`StoreError`] when they could not be read.
    pub async fn named_in_overrides(&self, plan: &str, most: usize) -> Result<(Vec<String>, bool), StoreError> {
        let (mut named, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.overrides(&after, MAX_PAGE).await?;
            let full = page.len() == MAX_PAGE;
            for (id, said) in page {
                if said.fields.get("plan").is_some_and(|named| named == plan) {
                    if named.len() == most {
                        return Ok((named, true));
                    }
                    named.push(id.clone());
                }
                after = id;
            }
            if !full {
                return Ok((named, false));
            }
        }
    }

    /// What a customer's plan would be with these keys of `[customers.ID]` instead of what is said now; credits stay. Changes nothing.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn draft_override(
        &self,
        view: &Arc<View>,
        id: &str,
        fields: &Map<String, Value>,
        until: Option<Timestamp>,
    ) -> Result<(Current, Current, Vec<Warning>), DirectoryError> {
        let (fields, suspended) = parted(id, fields)?;
        let before = self.said_of(id).await?;
        let same_plan = before.as_ref().and_then(|said| said.fields.get("plan")) == fields.get("plan");
        let said = Value::Object(fields.clone());
        let said = if same_plan { view.book.customer_kept(id, &said) } else { view.book.customer(id, &said) };
        let warnings = said.map_err(DirectoryError::Invalid)?.warnings;
        let credits = before.as_ref().map(|said| said.credits.clone()).unwrap_or_default();
        let suspended = suspended.unwrap_or_default().then(|| Suspension { until: until.map(Timestamp::micros) });
        let draft = Override { version: 0, fields, until, suspended, credits };
        let draft = Some(draft).filter(|draft| !draft.is_empty());
        Ok((self.current_with(view, id, before), self.current_with(view, id, draft), warnings))
    }

    /// What the plans would be with this one set, or (`None`) no longer set. Changes nothing.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn draft_plan(
        &self,
        policy: &Arc<Policy>,
        name: &str,
        fields: Option<&Map<String, Value>>,
    ) -> Result<Draft, DirectoryError> {
        let before = self.current_view(policy).await?;
        let mut said: Vec<_> = before.said.iter().filter(|(known, _)| **known != *name).cloned().collect();
        let mut warnings = Vec::new();
        if let Some(fields) = fields {
            let fields = Value::Object(fields.clone());
            warnings = policy.book.with_plan(name, &fields).map_err(DirectoryError::Invalid)?.1;
            said.push((name.into(), fields));
        }
        let after = Arc::new(View::with(policy.clone(), before.number, said, before.keys.clone(), &self.uses));
        Ok(Draft { before, after, warnings })
    }
}

fn kept(said: &Override) -> Kept {
    let Override { version: _, fields, until, suspended, credits } = said.clone();
    Kept { fields, until: until.map(Timestamp::micros), suspended, credits }
}
