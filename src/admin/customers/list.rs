//! Known customers by id, from three sources that are each in that order: seen, configured, overridden.

use crate::admin::Fault;
use crate::directory::{Assigned, Override};
use crate::domain::{CustomerId, NanoUsd};
use crate::limit::{LimitName, Scope, ScopeKey};
use crate::records::Seen;
use crate::reply::rfc3339;
use crate::stack::Gateway;
use crate::store::StoreError;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Customers whose balances are read at once.
const AT_ONCE: usize = 16;

/// A page of customers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CustomerPage {
    /// By id.
    pub customers: Vec<CustomerLine>,
    /// What to send as `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// A customer in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CustomerLine {
    /// The exact id.
    pub customer: String,
    /// The plan in force.
    pub plan: String,
    /// Who gave it.
    pub assigned: Assigned,
    /// Whether an operator has suspended it, with `suspended` or a dollar cap of zero in its override.
    pub suspended: bool,
    /// Whether something is set for it at run time.
    pub overridden: bool,
    /// Dollars against each cap in its present period.
    pub spend: Vec<SpendLine>,
    /// When it was last noted as seen, RFC 3339; it may have been seen up to a day later. Null: not in the last three months.
    pub seen_at: Option<String>,
}

/// Dollars against a cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpendLine {
    /// `day`, `week` or `month`.
    pub period: String,
    /// Settled in the present period, nano-dollars.
    pub spent: u64,
    /// Held by requests in flight, nano-dollars.
    pub held: u64,
    /// The cap, credits included, nano-dollars.
    pub cap: u64,
}

/// What is known of a customer without asking for it alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// When it was seen.
    pub seen: Option<Seen>,
    /// What is set for it at run time.
    pub said: Option<Override>,
}

/// Customers that are known, by id: at most `limit`, those whose id begins with `prefix` and comes after `after`. And whether there are more.
///
/// # Errors
/// [`StoreError`] when the store could not be asked.
pub async fn known(
    gateway: &Gateway,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<(String, Known)>, bool), StoreError> {
    let mut all: BTreeMap<String, Known> = BTreeMap::new();
    let from = match after.filter(|after| *after >= prefix) {
        Some(after) => after,
        None => {
            // Listings begin behind an id, and the prefix may be one.
            if !prefix.is_empty() {
                let (seen, said) = (gateway.records.seen(prefix).await?, gateway.directory.said_of(prefix).await?);
                if seen.is_some() || said.is_some() {
                    all.insert(prefix.to_owned(), Known { seen, said });
                }
            }
            prefix
        }
    };
    for (id, seen) in gateway.records.customers(from, limit + 1).await? {
        all.entry(id).or_default().seen = Some(seen);
    }
    for (id, said) in gateway.directory.overrides(from, limit + 1).await? {
        // One whose time is over says nothing any more.
        if !said.is_empty() {
            all.entry(id).or_default().said = Some(said);
        }
    }
    let policy = gateway.policy.load();
    let behind = |id: &str| after.map_or(id >= from, |after| id > after && id >= from);
    for id in policy.customers.keys().filter(|id| behind(id)) {
        all.entry(id.to_string()).or_default();
    }
    let mut page: Vec<_> = all.into_iter().filter(|(id, _)| id.starts_with(prefix)).take(limit + 1).collect();
    let more = page.len() > limit;
    page.truncate(limit);
    Ok((page, more))
}

/// A page of customers with their plan and what they spent.
///
/// # Errors
/// [`Fault::StoreUnavailable`].
pub async fn list(gateway: &Gateway, prefix: &str, after: Option<&str>, limit: usize) -> Result<CustomerPage, Fault> {
    let (page, more) = known(gateway, prefix, after, limit).await?;
    let next = page.last().filter(|_| more).map(|(id, _)| id.clone());
    Ok(CustomerPage { customers: lines(gateway, page).await?, next })
}

/// These customers with their plan and what they spent, in this order.
///
/// # Errors
/// [`Fault::StoreUnavailable`].
pub async fn lines(gateway: &Gateway, page: Vec<(String, Known)>) -> Result<Vec<CustomerLine>, Fault> {
    let policy = gateway.policy.load_full();
    let view = gateway.directory.current_view(&policy).await?;
    let now = gateway.clock.now();
    let line = |(id, known): (String, Known)| {
        let (view, policy) = (&view, &policy);
        async move {
            let overridden = known.said.is_some();
            let current = gateway.directory.current_with(view, &id, known.said);
            let scope = ScopeKey { scope: Scope::Customer, owner: CustomerId::from_trusted(&id).key().as_ref().into() };
            let balances = gateway.ledger.read(&scope).await?;
            let spend = |(period, cap): &(_, NanoUsd)| {
                let (start, _) = gateway.boundaries(&policy.zone, *period, now).at(now);
                let found = balances.iter().find(|balance| balance.limit == LimitName::Spend(*period) && balance.period == start);
                let (spent, held) = found.map_or((0, 0), |balance| (balance.spent, balance.held));
                SpendLine { period: period.as_str().to_owned(), spent, held, cap: cap.get() }
            };
            let spend: Vec<_> = current.plan.limits.spend.iter().map(spend).collect();
            Ok::<_, StoreError>(CustomerLine {
                plan: current.plan.name.to_string(),
                assigned: current.assigned,
                suspended: current.plan.suspended,
                overridden,
                spend,
                seen_at: known.seen.as_ref().map(Seen::when).map(rfc3339),
                customer: id,
            })
        }
    };
    Ok(stream::iter(page).map(line).buffered(AT_ONCE).try_collect().await?)
}
