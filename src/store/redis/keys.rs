//! Names of the keys. Versioned (`tg1`), few per customer, and tagged so that a cluster keeps what one script touches in one slot.
//!
//! Everything of one customer, their users included, carries the tag `{c:CUSTOMER}`; what all customers share carries `{shared}`.
//! A customer costs at most `rates`, `budgets`, `holds`, `lost`, `ends0` and `ends1`, and two more per user; all of them expire.
//!
//! In a cluster the customer's tag is that of their part, `{gNN}` (see [`super::slots`]), and reservations that claim something shared
//! are kept there as well: the group `{shared}` has `holds`, `lost`, `ends0` and `ends1` of its own for each customer.

use super::slots::{Group, Tag};
use crate::domain::Period;
use crate::limit::{LimitName, Scope, ScopeKey};
use redis::{RedisWrite, ToRedisArgs};
use std::fmt;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shelf {
    /// Buckets and windows of a scope (hash, a field per limit).
    Rates,
    /// Budgets and quotas of a scope (hash, a field per limit).
    Budgets,
    /// Reservations of a customer that are in flight (hash, a field per reservation).
    Holds,
    /// Customers with reservations in flight (sorted set): one for all of them, or one for each tag of a cluster.
    Leases,
    /// Reservations of a customer that were booked for lost (hash, a field per reservation).
    Lost,
    /// Reservations of a customer that ended in an even hour (hash, a field per reservation).
    EvenEnds,
    /// The same, in an odd hour.
    OddEnds,
    /// Which overrides of a customer are in force (a number); kept as long as they are.
    Said,
    /// Which plans set at run time are in force (a number), whatever the scope; kept for ever.
    Plans,
}

impl Shelf {
    /// Where the state of a limit is kept.
    pub(super) const fn of(limit: LimitName) -> Self {
        if limit.period().is_some() { Self::Budgets } else { Self::Rates }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rates => "rates",
            Self::Budgets => "budgets",
            Self::Holds => "holds",
            Self::Leases => "leases",
            Self::Lost => "lost",
            Self::EvenEnds => "ends0",
            Self::OddEnds => "ends1",
            Self::Said => "said",
            Self::Plans => "plans",
        }
    }
}

/// The key of one shelf of one scope, written straight into a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    /// Whose.
    pub(super) scope: &'a ScopeKey,
    /// What.
    pub(super) shelf: Shelf,
    /// In which group of books. Limits lie where their scope does; what is kept of a reservation lies in each group it claims from.
    pub(super) group: Group,
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, shelf) = (&*self.scope.owner, self.shelf.as_str());
        match self.scope.scope {
            _ if self.shelf == Shelf::Plans => write!(f, "tg1:{{shared}}:{shelf}"),
            _ if self.shelf == Shelf::Leases => match self.group {
                Group::Whole | Group::Shared => write!(f, "tg1:{{shared}}:{shelf}"),
                Group::Customer => write!(f, "{}", Index::Customers(Tag::of(owner))),
            },
            Scope::Customer => match self.group {
                Group::Whole => write!(f, "tg1:{{c:{owner}}}:{shelf}"),
                Group::Customer => write!(f, "tg1:{}:c:{owner}:{shelf}", Tag::of(owner)),
                Group::Shared => write!(f, "tg1:{{shared}}:c:{owner}:{shelf}"),
            },
            Scope::User => {
                // Encoded ids hold no slash, so the first one ends the customer's.
                let (customer, user) = owner.split_once('/').unwrap_or((owner, ""));
                match self.group {
                    Group::Whole => write!(f, "tg1:{{c:{customer}}}:user:{user}:{shelf}"),
                    _ => write!(f, "tg1:{}:c:{customer}:user:{user}:{shelf}", Tag::of(customer)),
                }
            }
            Scope::App | Scope::Share | Scope::Pool | Scope::Gateway => {
                write!(f, "tg1:{{shared}}:{}:{owner}:{shelf}", self.scope.scope.as_str())
            }
        }
    }
}

impl ToRedisArgs for Key<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self);
    }
}

/// An index of leases, where to look for holds that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// Of all customers on one server.
    Whole,
    /// Of the customers of one part of a cluster.
    Customers(Tag),
    /// Of what reservations hold of the shared books of a cluster.
    Shared,
}

impl Index {
    /// The group whose holds it knows.
    pub(super) const fn group(self) -> Group {
        match self {
            Self::Whole => Group::Whole,
            Self::Customers(_) => Group::Customer,
            Self::Shared => Group::Shared,
        }
    }

    /// Where it lies.
    pub(super) fn slot(self) -> u16 {
        match self {
            Self::Customers(tag) => tag.slot(),
            Self::Whole | Self::Shared => self.group().slot(""),
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Customers(tag) => write!(f, "tg1:{tag}:leases"),
            Self::Whole | Self::Shared => f.write_str("tg1:{shared}:leases"),
        }
    }
}

/// The distinct keys of one call in the order in which the script gets them.
#[derive(Debug)]
pub(super) struct KeySet<'a>(Vec<Key<'a>>);

impl<'a> KeySet<'a> {
    /// The script's fixed keys, then those of the limits: what lives with customers before what is shared.
    pub(super) fn new<L>(group: Group, customer: &'a ScopeKey, fixed: &[Shelf], limits: L) -> Self
    where
        L: Iterator<Item = (&'a ScopeKey, LimitName)> + Clone,
    {
        let mut keys: Vec<_> = fixed.iter().map(|&shelf| Key { scope: customer, shelf, group }).collect();
        for customers in [true, false] {
            for (scope, limit) in limits.clone().filter(|(scope, _)| scope.scope.is_customers() == customers) {
                let key = Key { scope, shelf: Shelf::of(limit), group };
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        Self(keys)
    }

    /// The same with more keys behind them.
    pub(super) fn with(mut self, last: &[Key<'a>]) -> Self {
        self.0.extend_from_slice(last);
        self
    }

    /// The keys.
    pub(super) fn keys(&self) -> &[Key<'a>] {
        &self.0
    }

    /// The script's index (from one) of the key in which a limit is kept.
    pub(super) fn index(&self, scope: &ScopeKey, limit: LimitName) -> usize {
        let shelf = Shelf::of(limit);
        let at = self.0.iter().position(|key| key.shelf == shelf && key.scope == scope);
        1 + at.expect("the set was made from these limits")
    }
}

/// The budget or quota that a field of a `budgets` hash is about.
pub(super) fn budget_named(field: &[u8]) -> Option<LimitName> {
    let kinds = [LimitName::Spend, LimitName::RequestQuota, LimitName::TokenQuota];
    let names = kinds.iter().flat_map(|kind| Period::ALL.map(kind));
    names.into_iter().find(|name| name.as_str().as_bytes() == field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(scope: Scope, owner: &str) -> ScopeKey {
        ScopeKey { scope, owner: owner.into() }
    }

    #[test]
    fn a_customer_and_their_users_share_a_tag_and_the_rest_another() {
        for (whose, owner, shelf, name) in [
            (Scope::Customer, "cust_42", Shelf::Rates, "tg1:{c:cust_42}:rates"),
            (Scope::Customer, "cust_42", Shelf::EvenEnds, "tg1:{c:cust_42}:ends0"),
            (Scope::User, "cust_42/#ab", Shelf::Budgets, "tg1:{c:cust_42}:user:#ab:budgets"),
            (Scope::Customer, "cust_42", Shelf::Leases, "tg1:{shared}:leases"),
            (Scope::App, "shop", Shelf::Budgets, "tg1:{shared}:app:shop:budgets"),
            (Scope::Share, "mini/background", Shelf::Rates, "tg1:{shared}:share:mini/background:rates"),
            (Scope::Gateway, "", Shelf::Budgets, "tg1:{shared}:gateway::budgets"),
        ] {
            assert_eq!(Key { scope: &scope(whose, owner), shelf, group: Group::Whole }.to_string(), name);
        }
    }

    #[test]
    fn in_a_cluster_each_group_has_one_tag() {
        let part = Tag::of("cust_42");
        for (whose, owner, shelf, group, name) in [
            (Scope::Customer, "cust_42", Shelf::Rates, Group::Customer, format!("tg1:{part}:c:cust_42:rates")),
            (Scope::User, "cust_42/#ab", Shelf::Budgets, Group::Customer, format!("tg1:{part}:c:cust_42:user:#ab:budgets")),
            (Scope::Customer, "cust_42", Shelf::Leases, Group::Customer, format!("tg1:{part}:leases")),
            (Scope::Customer, "cust_42", Shelf::Holds, Group::Shared, String::from("tg1:{shared}:c:cust_42:holds")),
            (Scope::Customer, "cust_42", Shelf::Leases, Group::Shared, String::from("tg1:{shared}:leases")),
            (Scope::App, "shop", Shelf::Budgets, Group::Shared, String::from("tg1:{shared}:app:shop:budgets")),
        ] {
            assert_eq!(Key { scope: &scope(whose, owner), shelf, group }.to_string(), name);
        }
        for index in [Index::Whole, Index::Shared] {
            assert_eq!(index.to_string(), "tg1:{shared}:leases");
        }
        assert_eq!(
            (Index::Customers(part).to_string(), Index::Customers(part).slot()),
            (format!("tg1:{part}:leases"), part.slot())
        );
    }

    #[test]
    fn keys_are_distinct_and_the_customers_come_first() {
        let (pool, customer) = (scope(Scope::Pool, "mini"), scope(Scope::Customer, "c"));
        let limits = [
            (&pool, LimitName::Tpm),
            (&customer, LimitName::Messages),
            (&customer, LimitName::Spend(Period::Day)),
            (&customer, LimitName::Rpm),
        ];
        let set = KeySet::new(Group::Whole, &customer, &[Shelf::Holds], limits.iter().copied());
        let names: Vec<_> = set.keys().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["tg1:{c:c}:holds", "tg1:{c:c}:rates", "tg1:{c:c}:budgets", "tg1:{shared}:pool:mini:rates"]);
        assert_eq!(limits.map(|(scope, limit)| set.index(scope, limit)), [4, 2, 3, 2]);
    }

    #[test]
    fn every_budget_is_found_by_its_name() {
        assert_eq!(budget_named(b"spend_day"), Some(LimitName::Spend(Period::Day)));
        assert_eq!(budget_named(b"tokens_month"), Some(LimitName::TokenQuota(Period::Month)));
        assert_eq!(budget_named(b"rpm"), None);
    }
}
