//! Names of the keys. Versioned (`tg1`), few per customer, and tagged so that a cluster keeps what one script touches in one slot.
//!
//! Everything of one customer, their users included, carries the tag `{c:CUSTOMER}`; what all customers share carries `{shared}`.
//! A customer costs at most `limits`, `holds` and `lost`, and one more per user; all of them expire. How reservations ended is kept by the
//! moment in which they were made, whoever's they are: those that end together are mostly of one moment, and so are looked up and
//! noted in one command.
//!
//! In a cluster the customer's tag is that of their part, `{gNN}` (see [`super::slots`]), and reservations that claim something shared
//! are kept there as well: the group `{shared}` has `holds` and `lost` of its own for each customer.

use super::slots::{Group, Tag};
use crate::domain::ReservationId;
use crate::limit::{LimitName, Scope, ScopeKey};
use foldhash::HashMap;
use redis::{RedisWrite, ToRedisArgs};
use std::fmt;
use std::sync::LazyLock;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shelf {
    /// Buckets, windows, budgets and quotas of a scope (string, see [`super::stored`]).
    Limits,
    /// Reservations of a customer that are in flight (hash, a field per reservation).
    Holds,
    /// Customers with reservations in flight (sorted set): one for all of them, or one for each tag of a cluster.
    Leases,
    /// Reservations of a customer that were booked for lost (hash, a field per reservation).
    Lost,
    /// Reservations that were made in this [moment](moment_of) and have ended (hash, a field per reservation).
    Ends(u64),
    /// Which overrides of a customer are in force (a number); kept as long as they are.
    Said,
    /// Which plans set at run time are in force (a number), whatever the scope; kept for ever.
    Plans,
}

impl Shelf {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Holds => "holds",
            Self::Leases => "leases",
            Self::Lost => "lost",
            Self::Ends(_) => "ends",
            Self::Said => "said",
            Self::Plans => "plans",
        }
    }
}

/// Where it is kept how a reservation ended.
impl From<ReservationId> for Shelf {
    fn from(reservation: ReservationId) -> Self {
        Self::Ends(moment_of(reservation))
    }
}

/// The eight seconds in which a reservation was made, by the clock of its gateway, which is part of its id: long enough that most that end
/// together share one, and short enough that the server forgets the ends of one in some milliseconds.
const fn moment_of(reservation: ReservationId) -> u64 {
    reservation.made_at_millis() >> 13
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
            (Shelf::Plans, _) | (Shelf::Leases | Shelf::Ends(_), Group::Whole | Group::Shared) => Self { scope: &ALL, ..self },
            _ => self,
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, shelf) = (&*self.scope.owner, self.shelf.as_str());
        if let Shelf::Ends(moment) = self.shelf {
            return match self.group {
                Group::Whole | Group::Shared => write!(f, "tg1:{{shared}}:{shelf}:{moment:x}"),
                Group::Customer => write!(f, "tg1:{}:{shelf}:{moment:x}", Tag::of(owner)),
            };
        }
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
    /// Names what the limits of a scope live in.
    pub(super) fn limits_of(&mut self, group: Group, scope: &'a ScopeKey) {
        self.limits.add(Key { scope, shelf: Shelf::Limits, group });
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

    /// The script's place (from one) of the key in which the limits of a scope live.
    pub(super) fn place_of_limits(&self, group: Group, scope: &ScopeKey) -> usize {
        self.limits.place(&Key { scope, shelf: Shelf::Limits, group })
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
    use crate::domain::{Period, Timestamp};

    fn scope(scope: Scope, owner: &str) -> ScopeKey {
        ScopeKey { scope, owner: owner.into() }
    }

    fn made_at(millis: u64) -> ReservationId {
        ReservationId::at(Timestamp(millis * 1_000), u128::MAX)
    }

    #[test]
    fn a_customer_and_their_users_share_a_tag_and_the_rest_another() {
        for (whose, owner, shelf, name) in [
            (Scope::Customer, "cust_42", Shelf::Limits, "tg1:{c:cust_42}:limits"),
            (Scope::Customer, "cust_42", Shelf::Ends(26), "tg1:{shared}:ends:1a"),
            (Scope::User, "cust_42/#ab", Shelf::Limits, "tg1:{c:cust_42}:user:#ab:limits"),
            (Scope::Customer, "cust_42", Shelf::Leases, "tg1:{shared}:leases"),
            (Scope::App, "shop", Shelf::Limits, "tg1:{shared}:app:shop:limits"),
            (Scope::Share, "mini/background", Shelf::Limits, "tg1:{shared}:share:mini/background:limits"),
            (Scope::Gateway, "", Shelf::Limits, "tg1:{shared}:gateway::limits"),
        ] {
            assert_eq!(Key { scope: &scope(whose, owner), shelf, group: Group::Whole }.to_string(), name);
        }
    }

    #[test]
    fn in_a_cluster_each_group_has_one_tag() {
        let part = Tag::of("cust_42");
        for (whose, owner, shelf, group, name) in [
            (Scope::Customer, "cust_42", Shelf::Limits, Group::Customer, format!("tg1:{part}:c:cust_42:limits")),
            (Scope::User, "cust_42/#ab", Shelf::Limits, Group::Customer, format!("tg1:{part}:c:cust_42:user:#ab:limits")),
            (Scope::Customer, "cust_42", Shelf::Ends(26), Group::Customer, format!("tg1:{part}:ends:1a")),
            (Scope::Customer, "cust_42", Shelf::Ends(26), Group::Shared, String::from("tg1:{shared}:ends:1a")),
            (Scope::Customer, "cust_42", Shelf::Leases, Group::Customer, format!("tg1:{part}:leases")),
            (Scope::Customer, "cust_42", Shelf::Holds, Group::Shared, String::from("tg1:{shared}:c:cust_42:holds")),
            (Scope::Customer, "cust_42", Shelf::Leases, Group::Shared, String::from("tg1:{shared}:leases")),
            (Scope::App, "shop", Shelf::Limits, Group::Shared, String::from("tg1:{shared}:app:shop:limits")),
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
        set.other(Group::Whole, &customer, Shelf::Holds);
        set.known(said);
        for scope in [&pool, &customer, &pool] {
            set.limits_of(Group::Whole, scope);
        }
        set.other(Group::Whole, &customer, Shelf::Holds);
        // All customers share these.
        let another = scope(Scope::Customer, "d");
        for whose in [&customer, &another] {
            set.other(Group::Whole, whose, Shelf::Leases);
            set.other(Group::Whole, whose, Shelf::from(made_at(8_191)));
            set.known(Key { scope: whose, shelf: Shelf::Plans, group: Group::Whole });
        }
        let names: Vec<_> = set.keys().map(ToString::to_string).collect();
        let right = [
            "tg1:{shared}:pool:mini:limits",
            "tg1:{c:c}:limits",
            "tg1:{c:c}:said",
            "tg1:{shared}:plans",
            "tg1:{c:c}:holds",
            "tg1:{shared}:leases",
            "tg1:{shared}:ends:0",
        ];
        assert_eq!((names.as_slice(), set.limits(), set.values(), set.count()), (&right.map(String::from)[..], 2, 4, 7));
        assert_eq!([&pool, &customer].map(|scope| set.place_of_limits(Group::Whole, scope)), [1, 2]);
        assert_eq!((set.place_of_known(&said), set.place_of(Group::Whole, &customer, Shelf::Holds)), (3, 5));
        for (shelf, place) in [(Shelf::Leases, 6), (Shelf::from(made_at(0)), 7)] {
            assert_eq!([&customer, &another].map(|whose| set.place_of(Group::Whole, whose, shelf)), [place; 2]);
        }
        assert_eq!(Shelf::from(made_at(8_192)), Shelf::Ends(1), "of the next moment");
    }

    #[test]
    fn every_budget_is_found_by_its_name() {
        assert_eq!(budget_named(b"spend_day"), Some(LimitName::Spend(Period::Day)));
        assert_eq!(budget_named(b"tokens_month"), Some(LimitName::TokenQuota(Period::Month)));
        assert_eq!(budget_named(b"rpm"), None);
    }
}
