//! Names of the keys. Versioned (`tg1`), few per customer, and tagged so that a cluster keeps what one script touches in one slot.
//!
//! Everything of one customer, their users included, carries the tag `{c:CUSTOMER}`; what all customers share carries `{shared}`.
//! A customer costs at most `rates`, `budgets`, `holds`, `lost`, `ends0` and `ends1`, and two more per user; all of them expire.
//!
//! In a cluster the customer's tag is that of their part, `{gNN}` (see [`super::slots`]), and reservations that claim something shared
//! are kept there as well: the group `{shared}` has `holds`, `lost`, `ends0` and `ends1` of its own for each customer.

use super::slots::{Group, Tag};
use crate::limit::{LimitName, Scope, ScopeKey};
use foldhash::HashMap;
use redis::{RedisWrite, ToRedisArgs};
use std::fmt;
use std::sync::LazyLock;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shelf {
    /// Buckets and windows of a scope (string, see [`super::stored`]).
    Rates,
    /// Budgets and quotas of a scope (string, see [`super::stored`]).
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    /// Whose.
    pub(super) scope: &'a ScopeKey,
    /// What.
    pub(super) shelf: Shelf,
    /// In which group of books. Limits lie where their scope does; what is kept of a reservation lies in each group it claims from.
    pub(super) group: Group,
}

/// Whose the shelves are that all customers share.
static ALL: LazyLock<ScopeKey> = LazyLock::new(|| ScopeKey { scope: Scope::Gateway, owner: "".into() });

impl Key<'_> {
    /// The same key: of shelves that customers share there is one, whoever asks for it.
    fn shared(self) -> Self {
        match (self.shelf, self.group) {
            (Shelf::Plans, _) | (Shelf::Leases, Group::Whole | Group::Shared) => Self { scope: &ALL, ..self },
            _ => self,
        }
    }
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

/// The distinct keys of one call, in the order in which a script gets them: what limits live in, numbers that must be known, all others.
/// Made in two steps: all of them are named before the place of any is asked.
#[derive(Debug, Default)]
pub(super) struct KeySet<'a> {
    limits: Kept<'a>,
    known: Kept<'a>,
    others: Kept<'a>,
}

/// Distinct keys and the order in which they were named.
#[derive(Debug, Default)]
struct Kept<'a> {
    keys: Vec<Key<'a>>,
    places: HashMap<Key<'a>, usize>,
}

impl<'a> Kept<'a> {
    fn add(&mut self, key: Key<'a>) {
        let key = key.shared();
        let next = self.keys.len();
        if *self.places.entry(key).or_insert(next) == next {
            self.keys.push(key);
        }
    }

    /// Counted from one.
    fn place(&self, key: &Key<'_>) -> usize {
        1 + self.places.get(&key.shared()).copied().expect("it was named before")
    }
}

impl<'a> KeySet<'a> {
    /// Names what a limit lives in.
    pub(super) fn limit(&mut self, group: Group, scope: &'a ScopeKey, limit: LimitName) {
        self.limits.add(Key { scope, shelf: Shelf::of(limit), group });
    }

    /// Names a number that must be known.
    pub(super) fn known(&mut self, key: Key<'a>) {
        self.known.add(key);
    }

    /// Names any other key.
    pub(super) fn other(&mut self, group: Group, scope: &'a ScopeKey, shelf: Shelf) {
        self.others.add(Key { scope, shelf, group });
    }

    /// How many keys limits live in.
    pub(super) const fn limits(&self) -> usize {
        self.limits.keys.len()
    }

    /// How many keys there are before the others.
    pub(super) const fn values(&self) -> usize {
        self.limits() + self.known.keys.len()
    }

    /// The script's place (from one) of the key in which a limit lives.
    pub(super) fn place_of_limit(&self, group: Group, scope: &ScopeKey, limit: LimitName) -> usize {
        self.limits.place(&Key { scope, shelf: Shelf::of(limit), group })
    }

    /// The place of a number that must be known.
    pub(super) fn place_of_known(&self, key: &Key<'_>) -> usize {
        self.limits() + self.known.place(key)
    }

    /// The place of any other key.
    pub(super) fn place_of(&self, group: Group, scope: &ScopeKey, shelf: Shelf) -> usize {
        self.values() + self.others.place(&Key { scope, shelf, group })
    }

    /// How many there are in all.
    pub(super) const fn count(&self) -> usize {
        self.values() + self.others.keys.len()
    }

    /// All of them, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key<'a>> {
        self.limits.keys.iter().chain(&self.known.keys).chain(&self.others.keys)
    }
}

/// The budget or quota of this name.
pub(super) fn budget_named(name: &[u8]) -> Option<LimitName> {
    LimitName::ALL.into_iter().find(|limit| limit.period().is_some() && limit.as_str().as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Period;

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
    fn keys_are_distinct_and_have_their_places() {
        let (pool, customer) = (scope(Scope::Pool, "mini"), scope(Scope::Customer, "c"));
        let said = Key { scope: &customer, shelf: Shelf::Said, group: Group::Whole };
        let mut set = KeySet::default();
        let limits = [
            (&pool, LimitName::Tpm),
            (&customer, LimitName::Messages),
            (&customer, LimitName::Spend(Period::Day)),
            (&customer, LimitName::Rpm),
        ];
        set.other(Group::Whole, &customer, Shelf::Holds);
        set.known(said);
        for (scope, limit) in limits {
            set.limit(Group::Whole, scope, limit);
        }
        set.other(Group::Whole, &customer, Shelf::Holds);
        // All customers share these.
        let another = scope(Scope::Customer, "d");
        for whose in [&customer, &another] {
            set.other(Group::Whole, whose, Shelf::Leases);
            set.known(Key { scope: whose, shelf: Shelf::Plans, group: Group::Whole });
        }
        let names: Vec<_> = set.keys().map(ToString::to_string).collect();
        let right = [
            "tg1:{shared}:pool:mini:rates",
            "tg1:{c:c}:rates",
            "tg1:{c:c}:budgets",
            "tg1:{c:c}:said",
            "tg1:{shared}:plans",
            "tg1:{c:c}:holds",
            "tg1:{shared}:leases",
        ];
        assert_eq!((names.as_slice(), set.limits(), set.values(), set.count()), (&right.map(String::from)[..], 3, 5, 7));
        assert_eq!(limits.map(|(scope, limit)| set.place_of_limit(Group::Whole, scope, limit)), [1, 2, 3, 2]);
        assert_eq!((set.place_of_known(&said), set.place_of(Group::Whole, &customer, Shelf::Holds)), (4, 6));
        assert_eq!([&customer, &another].map(|whose| set.place_of(Group::Whole, whose, Shelf::Leases)), [7, 7]);
    }

    #[test]
    fn every_budget_is_found_by_its_name() {
        assert_eq!(budget_named(b"spend_day"), Some(LimitName::Spend(Period::Day)));
        assert_eq!(budget_named(b"tokens_month"), Some(LimitName::TokenQuota(Period::Month)));
        assert_eq!(budget_named(b"rpm"), None);
    }
}
