//! `/admin/customers/{id}/override` and `/credits`, `/admin/overrides`: what differs for one customer, in force with the next request on
//! every gateway.
//!
//! Only what differs is kept. It may have an end; credits end with the period they were given in. The key `suspended` suspends a customer,
//! with an end of its own, and so does a dollar cap of zero; the key `plan` assigns a plan.

mod routes;

pub(super) use routes::routes;

use super::fault::words;
use super::shown::PlanShape;
use super::{Fault, input, name};
use crate::config::policy::Plan;
use crate::directory::{Assigned, Credit, Override, SUSPENDED};
use crate::domain::{NanoUsd, Period, Timestamp};
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::store::documents::Expected;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;
use utoipa::ToSchema;

/// The longest time an override may be set for; without one it has no end.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// What `for` says to take an end away.
const FOR_EVER: &str = "forever";
/// The largest credit, dollars: the largest cap there is.
const MOST_DOLLARS: u32 = 9_000_000;

/// What differs for a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OverrideView {
    /// The keys of `[customers.ID]` that differ, and `suspended: true` where the customer is suspended beside them.
    #[schema(value_type = Object)]
    pub set: Map<String, Value>,
    /// Until when they hold, RFC 3339; null: until they are taken back.
    pub until: Option<String>,
    /// Until when `suspended` holds, RFC 3339; null: until it is lifted, or it is not set.
    pub suspended_until: Option<String>,
    /// Changes with every change.
    pub version: u64,
    /// Dollars on top of caps.
    pub credits: Vec<CreditView>,
}

/// Dollars on top of a cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreditView {
    /// `day`, `week` or `month`: of which cap.
    pub period: String,
    /// How much, nano-dollars.
    pub nano_usd: u64,
    /// When the period is over, and the credit with it, RFC 3339.
    pub until: String,
}

impl OverrideView {
    /// Of what is said.
    #[must_use]
    pub fn of(said: &Override) -> Self {
        let credit = |credit: &Credit| CreditView {
            period: credit.period.to_string(),
            nano_usd: credit.nano_usd,
            until: rfc3339(Timestamp::from_secs(credit.end)),
        };
        let credits = said.credits.iter().map(credit).collect();
        let mut set = said.fields.clone();
        if said.suspended.is_some() {
            set.insert(SUSPENDED.to_owned(), Value::Bool(true));
        }
        let suspended_until = said.suspended.and_then(|suspended| suspended.until).map(|until| rfc3339(Timestamp(until)));
        Self { set, until: said.until.map(rfc3339), suspended_until, version: said.version, credits }
    }
}

/// What is set for one customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CustomerOverride {
    /// The customer.
    pub customer: String,
    /// Null: nothing.
    #[serde(rename = "override")]
    pub said: Option<OverrideView>,
    /// What is odd about a change that was just made, though it does what it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A page of overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OverridePage {
    /// By customer.
    pub overrides: Vec<CustomerOverride>,
    /// What to send as `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// A change.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideWish {
    /// The keys of `[customers.ID]`; only those that differ. `suspended: true` beside them suspends the customer. In a `PATCH` a key that is
    /// null is taken away.
    #[schema(value_type = Object)]
    pub set: Map<String, Value>,
    /// For how long, such as `12h` or `7days`, at most 366 days; `forever`, or absent: until it is taken back. In a `PATCH` absent leaves
    /// the end as it is. Of a `PATCH` that sets `suspended` and nothing else it is the end of the suspension, and the rest keeps its own.
    #[serde(rename = "for")]
    pub lasts: Option<String>,
    /// Only over this version of what is set; zero: only over nothing.
    pub version: Option<u64>,
    /// Who says so.
    #[schema(min_length = 1, max_length = 128)]
    pub by: String,
}

/// A change to be thought through.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideDraft {
    /// The keys of `[customers.ID]`, instead of what is set now.
    #[schema(value_type = Object)]
    pub set: Map<String, Value>,
}

/// What a change of an override would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OverridePreview {
    /// The customer.
    pub customer: String,
    /// The plan in force.
    pub before: PlanShape,
    /// Who gives it.
    pub assigned_before: Assigned,
    /// The plan as it would be.
    pub after: PlanShape,
    /// Who would give it.
    pub assigned_after: Assigned,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

/// Dollars on top of a cap, in the present period.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gift {
    /// `day`, `week` or `month`.
    pub period: GiftPeriod,
    /// How many dollars.
    #[schema(exclusive_minimum = 0.0, maximum = 9_000_000.0)]
    pub dollars: f64,
    /// Who says so.
    #[schema(min_length = 1, max_length = 128)]
    pub by: String,
}

/// Of which cap.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GiftPeriod {
    /// Of the day.
    Day,
    /// Of the week.
    Week,
    /// Of the month.
    Month,
}

/// How long something lasts: `None` = not said, `Some(None)` = for ever.
fn lasting(lasts: Option<&str>) -> Result<Option<Option<Duration>>, Fault> {
    match lasts {
        None => Ok(None),
        Some(FOR_EVER) => Ok(Some(None)),
        Some(text) => {
            let lasts = humantime::parse_duration(text).ok();
            let lasts = lasts.filter(|lasts| *lasts >= Duration::from_secs(1) && *lasts <= LONGEST);
            let lasts = lasts.ok_or_else(|| {
                Fault::InvalidRequest(
                    "`for` is a duration such as \"12h\" or \"7days\", from 1 s to 366 days, or \"forever\".".to_owned(),
                )
            })?;
            Ok(Some(Some(lasts)))
        }
    }
}

/// What a version in a request says.
pub(super) const fn expected(version: Option<u64>) -> Expected {
    match version {
        None => Expected::Anything,
        Some(0) => Expected::Nothing,
        Some(version) => Expected::Version(version),
    }
}

fn until(gateway: &Gateway, lasts: Duration) -> Timestamp {
    gateway.clock.now().plus(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX))
}

/// What is set for a customer.
///
/// # Errors
/// [`Fault::StoreUnavailable`].
pub async fn read(gateway: &Gateway, id: &str) -> Result<CustomerOverride, Fault> {
    let said = gateway.directory.said_of(id).await?;
    Ok(CustomerOverride { customer: id.to_owned(), said: said.as_ref().map(OverrideView::of), warnings: Vec::new() })
}

/// Sets what differs for a customer instead of what was set; `patch` changes only what it names.
///
/// # Errors
/// [`Fault::InvalidRequest`] in the words of the configuration, [`Fault::Changed`], [`Fault::StoreUnavailable`].
pub async fn set(gateway: &Gateway, id: &str, wish: &OverrideWish, patch: bool) -> Result<CustomerOverride, Fault> {
    if !patch {
        input::without_nulls(&wish.set)?;
    }
    let by = name("by", &wish.by)?;
    let until = lasting(wish.lasts.as_deref())?.map(|lasts| lasts.map(|lasts| until(gateway, lasts)));
    let (directory, expected) = (&gateway.directory, expected(wish.version));
    let set = if patch {
        directory.patch_override(by, id, &wish.set, until, expected).await?
    } else {
        directory.set_override(by, id, &wish.set, until.flatten(), expected).await?
    };
    let warnings = set.warnings.iter().map(words).collect();
    Ok(CustomerOverride { warnings, ..read(gateway, id).await? })
}

/// Suspends a customer, beside whatever else is set for it, which keeps its end. `lasts`: for how long; `None` = until it is lifted.
///
/// # Errors
/// As of [`set`].
pub async fn suspend(gateway: &Gateway, id: &str, lasts: Option<&str>, by: &str) -> Result<CustomerOverride, Fault> {
    let suspended = Map::from_iter([(SUSPENDED.to_owned(), Value::Bool(true))]);
    let wish = OverrideWish { set: suspended, lasts: lasts.map(str::to_owned), version: None, by: by.to_owned() };
    set(gateway, id, &wish, true).await
}

/// Lets a suspended customer in again: takes `suspended` and caps of zero away; what else is set holds as before.
///
/// # Errors
/// As of [`set`].
pub async fn lift(gateway: &Gateway, id: &str, by: &str) -> Result<CustomerOverride, Fault> {
    gateway.directory.lift(name("by", by)?, id).await?;
    read(gateway, id).await
}

/// Takes back what is set for a customer, credits included.
///
/// # Errors
/// [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn clear(gateway: &Gateway, id: &str, by: &str) -> Result<CustomerOverride, Fault> {
    gateway.directory.clear_override(name("by", by)?, id, Expected::Anything).await?;
    read(gateway, id).await
}

/// Adds dollars to a cap of the present period.
///
/// # Errors
/// [`Fault::InvalidRequest`], [`Fault::StoreUnavailable`].
pub async fn credit(gateway: &Gateway, id: &str, gift: &Gift) -> Result<CustomerOverride, Fault> {
    let period = match gift.period {
        GiftPeriod::Day => Period::Day,
        GiftPeriod::Week => Period::Week,
        GiftPeriod::Month => Period::Month,
    };
    let Some(amount) = nano_usd(gift.dollars) else {
        return Err(Fault::InvalidRequest(format!("`dollars` is an amount above 0, at most {MOST_DOLLARS}.")));
    };
    let by = name("by", &gift.by)?;
    let cap = cap_of(gateway, id, period).await?.ok_or_else(|| {
        let period = period.as_str();
        Fault::InvalidRequest(format!(
            "`period` is one of which the customer has a dollar cap, and it has none of the {period}, so a credit would do nothing: set \
             `spend.{period}` first, or name another period."
        ))
    })?;
    if cap.get().saturating_add(amount.get()) > NanoUsd::MAX.get() {
        return Err(Fault::InvalidRequest(format!(
            "`dollars` is too much: with the cap and its credits of {cap} it would be more than {}, the most there can be.",
            NanoUsd::MAX
        )));
    }
    gateway.directory.add_credit(by, id, period, amount).await?;
    read(gateway, id).await
}

/// What a credit of this period would be on top of: the cap with its credits, as it is without a suspension. A customer to whom nobody gave
/// a plan may have had one named by its application: then that plan's counts as well.
async fn cap_of(gateway: &Gateway, id: &str, period: Period) -> Result<Option<NanoUsd>, Fault> {
    let view = gateway.directory.current_view(&gateway.policy.load_full()).await?;
    let said = gateway.directory.said_of(id).await?.map(|said| Override { suspended: None, ..said });
    let current = gateway.directory.current_with(&view, id, said);
    let cap = |plan: &Plan| plan.limits.spend.iter().find(|(of, _)| *of == period).map(|(_, cap)| *cap);
    let own = cap(&current.plan);
    if own.is_some() || matches!(current.assigned, Assigned::Override | Assigned::Config) {
        return Ok(own);
    }
    let seen = gateway.records.seen(id).await?.and_then(|seen| seen.plan);
    Ok(seen.and_then(|plan| view.plan(&plan).and_then(|plan| cap(plan))))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds just checked")]
fn nano_usd(dollars: f64) -> Option<NanoUsd> {
    let sound = dollars > 0.0 && dollars <= f64::from(MOST_DOLLARS);
    let nano = (dollars * 1e9).round();
    (sound && nano >= 1.0).then(|| NanoUsd::new(nano as u64))
}

/// What a change would do. Changes nothing.
///
/// # Errors
/// As of [`set`].
pub async fn preview(gateway: &Gateway, id: &str, draft: &OverrideDraft) -> Result<OverridePreview, Fault> {
    input::without_nulls(&draft.set)?;
    let policy = gateway.policy.load_full();
    let view = gateway.directory.current_view(&policy).await?;
    let (before, after, warnings) = gateway.directory.draft_override(&view, id, &draft.set, None).await?;
    Ok(OverridePreview {
        customer: id.to_owned(),
        before: PlanShape::of(&before.plan),
        assigned_before: before.assigned,
        after: PlanShape::of(&after.plan),
        assigned_after: after.assigned,
        warnings: warnings.iter().map(words).collect(),
    })
}

/// Everything that is set, by customer.
///
/// # Errors
/// [`Fault::StoreUnavailable`].
pub async fn list(gateway: &Gateway, after: Option<&str>, limit: usize) -> Result<OverridePage, Fault> {
    let mut all = gateway.directory.overrides(after.unwrap_or_default(), limit + 1).await?;
    let more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| more).map(|(id, _)| id.clone());
    all.retain(|(_, said)| !said.is_empty());
    let one = |(customer, said): (String, Override)| CustomerOverride {
        customer,
        said: Some(OverrideView::of(&said)),
        warnings: Vec::new(),
    };
    Ok(OverridePage { overrides: all.into_iter().map(one).collect(), next })
}
