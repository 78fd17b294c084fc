//! Changing what is said: checked by the configuration's own rules, written if nobody else did meanwhile, told to all gateways.

use super::kept::{Credit, Kept, Suspension};
use super::patch::{merge, open, parted};
use super::{Directory, number};
use crate::config::{Problem, Warning};
use crate::domain::{CustomerId, NanoUsd, Period, Timestamp};
use crate::limit::{Scope, ScopeKey};
use crate::store::StoreError;
use crate::store::documents::{Collection, Document, Expected, Write, Written};
use crate::trail::Change;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How often a change that expects nothing is tried again because somebody else was faster.
const TRIES: usize = 16;
/// How long gateways are told that something is not said any more, beyond what any of them remembers.
const AFTERWARDS: Duration = Duration::from_secs(86_400);

/// What is said of a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Changes with every change.
    pub version: u64,
    /// The keys of `[customers.ID]` that differ.
    pub fields: Map<String, Value>,
    /// Until when they hold; `None` = for ever.
    pub until: Option<Timestamp>,
    /// That it is suspended.
    pub suspended: Option<Suspension>,
    /// Dollars on top of caps.
    pub credits: Vec<Credit>,
}

impl Override {
    pub(super) fn of(version: u64, kept: Kept) -> Self {
        let Kept { fields, until, suspended, credits } = kept;
        Self { version, fields, until: until.map(Timestamp), suspended, credits }
    }

    /// Whether it says nothing: its time is over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.suspended.is_none() && self.credits.is_empty()
    }
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// It makes no sense, for these reasons.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
    /// Somebody else changed it: this is its version now, if there is anything.
    #[error("somebody else changed it meanwhile")]
    Conflict(Option<u64>),
    /// The store could not be asked; whether it is changed is not known, and the same again does no harm.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The version that stands; zero: nothing is said any more.
    pub version: u64,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
}

impl Directory {
    /// What is said of a customer; `None` for nothing.
    ///
    /// # Errors
    /// [`DirectoryError::Store`].
    pub async fn override_of(&self, id: &str) -> Result<Option<Override>, DirectoryError> {
        let Some(found) = self.documents.get(Collection::Overrides, id, None).await? else { return Ok(None) };
        Ok(Kept::read(&found.value)?.pruned(self.now()).map(|kept| Override::of(found.version, kept)))
    }

    /// Says in which keys of `[customers.ID]` a customer differs, instead of what was said before; credits stay. `by` is for the trail. The
    /// key `suspended` beside them suspends it for as long.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn set_override(
        &self,
        by: &str,
        id: &str,
        fields: &Map<String, Value>,
        until: Option<Timestamp>,
        expected: Expected,
    ) -> Result<Set, DirectoryError> {
        let (fields, suspended) = parted(id, fields)?;
        let until = until.map(Timestamp::micros);
        let suspended = suspended.unwrap_or_default().then_some(Suspension { until });
        self.change_customer(by, id, expected, |kept| {
            Ok(Kept { fields: fields.clone(), until, suspended, credits: kept.credits })
        })
        .await
    }

    /// Changes some keys of what is said of a customer, as a JSON merge patch (RFC 7396) does: `null` takes a key away. `until`: until when
    /// what is set holds from now on; `None` leaves that as it is. A suspension has an end of its own: where the patch sets `suspended` it is
    /// that end too, and only that end where it sets nothing else.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn patch_override(
        &self,
        by: &str,
        id: &str,
        patch: &Map<String, Value>,
        until: Option<Option<Timestamp>>,
        expected: Expected,
    ) -> Result<Set, DirectoryError> {
        let (patch, suspended) = parted(id, patch)?;
        let until = until.map(|until| until.map(Timestamp::micros));
        self.change_customer(by, id, expected, |mut kept| {
            merge(&mut kept.fields, &patch);
            if let Some(suspended) = suspended {
                kept.suspended = suspended.then(|| Suspension { until: until.flatten() });
            }
            if let Some(until) = until.filter(|_| suspended.is_none() || !patch.is_empty()) {
                kept.until = until;
            }
            Ok(kept)
        })
        .await
    }

    /// Lets a suspended customer in again: takes the suspension away and caps of zero dollars, and leaves the rest of what is said.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn lift(&self, by: &str, id: &str) -> Result<Set, DirectoryError> {
        self.change_customer(by, id, Expected::Anything, |mut kept| {
            kept.suspended = None;
            open(&mut kept.fields);
            Ok(kept)
        })
        .await
    }

    /// Takes all credits of a customer back.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn clear_credits(&self, by: &str, id: &str) -> Result<Set, DirectoryError> {
        self.change_customer(by, id, Expected::Anything, |kept| Ok(Kept { credits: Vec::new(), ..kept })).await
    }

    /// Assigns a plan to a customer, beside what else is said of it.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn assign_plan(&self, by: &str, id: &str, plan: &str) -> Result<Set, DirectoryError> {
        self.change_customer(by, id, Expected::Anything, |mut kept| {
            kept.fields.insert("plan".into(), json!(plan));
            Ok(kept)
        })
        .await
    }

    /// Says nothing of a customer any more, credits included.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn clear_override(&self, by: &str, id: &str, expected: Expected) -> Result<Set, DirectoryError> {
        self.change_customer(by, id, expected, |_| Ok(Kept::default())).await
    }

    /// Adds dollars to a customer's cap for the present day, week or month; several add up.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn add_credit(&self, by: &str, id: &str, period: Period, amount: NanoUsd) -> Result<Set, DirectoryError> {
        let now = self.now();
        let credit = Credit::of(period, self.view.load().policy.zone.boundaries(period, now), now, amount);
        self.change_customer(by, id, Expected::Anything, |mut kept| {
            let same = |other: &&mut Credit| other.period == credit.period && other.start == credit.start;
            match kept.credits.iter_mut().find(same) {
                Some(other) => other.nano_usd = NanoUsd::new(other.nano_usd).saturating_add(amount).get(),
                None => kept.credits.push(credit.clone()),
            }
            Ok(kept)
        })
        .await
    }

    /// The plans set at run time, with their versions, by name.
    ///
    /// # Errors
    /// [`DirectoryError::Store`].
    pub async fn plans(&self) -> Result<Vec<(Arc<str>, u64, Value)>, DirectoryError> {
        let read = |one: &_| super::said_plan(one).map(|(name, said)| (name, one.document.version, said));
        Ok(self.all(Collection::Plans, read).await?)
    }

    /// Sets a plan: the keys of `[plans.NAME]`, laid over the configured plan of that name.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn set_plan(
        &self,
        by: &str,
        name: &str,
        fields: &Map<String, Value>,
        expected: Expected,
    ) -> Result<Set, DirectoryError> {
        let said = Value::Object(fields.clone());
        let (_, warnings) = self.view.load().policy.book.with_plan(name, &said).map_err(DirectoryError::Invalid)?;
        let version = self.change_plan(by, name, Some(&said), expected).await?;
        Ok(Set { version, warnings })
    }

    /// From now on the plan is the configured one of that name. Customers whose plan is gone have the default.
    ///
    /// # Errors
    /// As of [`DirectoryError`].
    pub async fn clear_plan(&self, by: &str, name: &str, expected: Expected) -> Result<Set, DirectoryError> {
        let version = self.change_plan(by, name, None, expected).await?;
        Ok(Set { version, warnings: Vec::new() })
    }

    async fn change_customer(
        &self,
        by: &str,
        id: &str,
        expected: Expected,
        edit: impl Fn(Kept) -> Result<Kept, DirectoryError> + Send + Sync,
    ) -> Result<Set, DirectoryError> {
        let scope = ScopeKey { scope: Scope::Customer, owner: CustomerId::from_trusted(id).key().as_ref().into() };
        for _ in 0..TRIES {
            let now = self.now();
            let found = self.documents.get(Collection::Overrides, id, None).await?;
            check(expected, found.as_ref())?;
            let before = found.as_ref().map(|found| Kept::read(&found.value)).transpose()?.and_then(|kept| kept.pruned(now));
            let after = edit(before.clone().unwrap_or_default())?.pruned(now);
            let said = Value::Object(after.as_ref().map(|kept| kept.fields.clone()).unwrap_or_default());
            // A plan that is gone since it was said stands in the way of no other change, a suspension least of all.
            let plan = |kept: &Option<Kept>| kept.as_ref().and_then(|kept| kept.fields.get("plan").cloned());
            let book = self.view.load().book.clone();
            let said = if plan(&before) == plan(&after) { book.customer_kept(id, &said) } else { book.customer(id, &said) };
            let said = said.map_err(DirectoryError::Invalid)?;
            let over = after.as_ref().map_or(Some(now), Kept::over);
            let keep = over.map(|over| Duration::from_micros(over.since(now)));
            let write = Write {
                collection: Collection::Overrides,
                id: id.to_owned(),
                expected: found.as_ref().map_or(Expected::Nothing, |found| Expected::Version(found.version)),
                value: after.as_ref().map(Kept::write).transpose()?,
                keep: keep.filter(|_| after.is_some()),
                rank: 0,
            };
            // Before, so that whoever reads from now on reads again afterwards.
            self.ledger.tell(Some(&scope), number(), None).await?;
            let Written::Done(version) = self.documents.put(&write, None).await? else { continue };
            let number = number();
            self.ledger.tell(Some(&scope), number, keep.map(|keep| keep.saturating_add(AFTERWARDS))).await?;
            // Not what was just written: somebody else may have written after that and told before us.
            self.read(id, number).await?;
            let shown = |kept: &Option<Kept>| kept.as_ref().map(|kept| json!(kept));
            let (before, after) = (shown(&before), shown(&after));
            self.trail.changed(&Change { by, kind: "override", name: id, before: before.as_ref(), after: after.as_ref() }).await;
            return Ok(Set { version, warnings: said.warnings });
        }
        Err(DirectoryError::Conflict(None))
    }

    async fn change_plan(&self, by: &str, name: &str, said: Option<&Value>, expected: Expected) -> Result<u64, DirectoryError> {
        let found = self.documents.get(Collection::Plans, name, None).await?;
        check(expected, found.as_ref())?;
        let write = Write {
            collection: Collection::Plans,
            id: name.to_owned(),
            expected,
            value: said.map(|said| Bytes::from(said.to_string())),
            keep: None,
            rank: 0,
        };
        self.ledger.tell(None, number(), None).await?;
        let version = match self.documents.put(&write, None).await? {
            Written::Done(version) => version,
            Written::Found(found) => return Err(DirectoryError::Conflict(found.map(|found| found.version))),
        };
        self.publish().await?;
        let before = found.and_then(|found| serde_json::from_slice::<Value>(&found.value).ok());
        self.trail.changed(&Change { by, kind: "plan", name, before: before.as_ref(), after: said }).await;
        Ok(version)
    }
}

fn check(expected: Expected, found: Option<&Document>) -> Result<(), DirectoryError> {
    let as_expected = match expected {
        Expected::Anything => true,
        Expected::Nothing => found.is_none(),
        Expected::Version(version) => found.is_some_and(|found| found.version == version),
    };
    if as_expected { Ok(()) } else { Err(DirectoryError::Conflict(found.map(|found| found.version))) }
}
