//! Which books lie together, and where: hash tags and the slots of a cluster.
//!
//! A script touches keys of one slot only. On one server there is nothing to divide ([`Group::Whole`]). In a cluster the books fall into
//! two kinds of groups: those of the customers, in 256 parts of a tag each, and those that all customers share, under one tag.
//!
//! A tag for each part, not for each customer: so what belongs to a part but to no customer (the index of its leases) can lie beside it,
//! and 256 keys with known names say where holds may be due. The number of parts can never change: it is in the names of the keys.

use crate::limit::Scope;
use std::fmt;

/// Parts of the customers' books in a cluster.
pub(super) const PARTS: u16 = 256;
/// Slots of a cluster.
const SLOTS: u16 = 16_384;
/// The slot of what all customers share.
const SHARED: u16 = crc16(b"shared") % SLOTS;
/// The slot of each part, in order.
const CUSTOMERS: [u16; PARTS as usize] = {
    let digits = b"0123456789abcdef";
    let mut slots = [0; PARTS as usize];
    let mut part = 0;
    while part < slots.len() {
        slots[part] = crc16(&[b'g', digits[part / 16], digits[part % 16]]) % SLOTS;
        part += 1;
    }
    slots
};

/// Books that one script can touch at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// All of them: there is one server.
    Whole,
    /// Those of a customer and their users, in a cluster.
    Customer,
    /// Those of apps, shares, pools and the gateway, in a cluster.
    Shared,
}

impl Group {
    /// The groups of one server.
    pub(super) const ONE: &'static [Self] = &[Self::Whole];
    /// The groups of a cluster, in the order in which an admission asks them.
    pub(super) const CLUSTER: &'static [Self] = &[Self::Customer, Self::Shared];

    /// Whether the limits of this scope lie in it.
    pub(super) const fn keeps(self, scope: Scope) -> bool {
        match self {
            Self::Whole => true,
            Self::Customer => scope.is_customers(),
            Self::Shared => !scope.is_customers(),
        }
    }

    /// The slot in which it lies for a customer. Means nothing for [`Group::Whole`].
    pub(super) fn slot(self, customer: &str) -> u16 {
        match self {
            Self::Whole => 0,
            Self::Customer => CUSTOMERS[usize::from(part_of(customer))],
            Self::Shared => SHARED,
        }
    }
}

/// The hash tag of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(pub(super) u16);

impl Tag {
    /// The tag of a customer's books in a cluster.
    pub(super) fn of(customer: &str) -> Self {
        Self(part_of(customer))
    }

    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..PARTS).map(Self)
    }

    /// Where it lies.
    pub(super) const fn slot(self) -> u16 {
        CUSTOMERS[(self.0 % PARTS) as usize]
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{g{:02x}}}", self.0)
    }
}

/// The slot of any key: of what is between its first `{` and the next `}`, or of all of it.
pub(super) fn of_key(key: &str) -> u16 {
    let tag = tag_of(key);
    crc16(if tag.is_empty() { key } else { tag }.as_bytes()) % SLOTS
}

/// What is between the first `{` of a key and the next `}`.
pub(super) fn tag_of(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(tag, _)| tag)
}

/// The part of a customer: the low byte of what a cluster would hash their id to.
pub(super) fn part_of(customer: &str) -> u16 {
    crc16(customer.as_bytes()) % PARTS
}

/// The checksum that clusters hash keys with: CRC-16/XMODEM (polynomial 0x1021, from zero).
const fn crc16(bytes: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    let mut i = 0;
    while i < bytes.len() {
        crc ^= (bytes[i] as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        i += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_cluster() {
        // The check value of the CRC, and what CLUSTER KEYSLOT says of these keys.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!((crc16(b"foo") % SLOTS, crc16(b"somekey") % SLOTS), (12_182, 11_058));
        assert_eq!(Group::Shared.slot("anybody"), crc16(b"shared") % SLOTS);
        assert_eq!(Tag(0x3f).slot(), crc16(b"g3f") % SLOTS);
        for (key, same) in [("foo", "{foo}x"), ("a{foo}b}c", "foo"), ("{}foo", "{}foo"), ("tg1:{g3f}:leases", "g3f")] {
            assert_eq!(of_key(key), of_key(same), "{key}");
        }
        assert_eq!((of_key("foo"), of_key("{}foo")), (12_182, crc16(b"{}foo") % SLOTS));
    }

    #[test]
    fn customers_spread_over_all_parts_and_parts_over_the_slots() {
        let mut customers = [0_u32; PARTS as usize];
        for n in 0..25_600 {
            customers[usize::from(part_of(&format!("cust_{n}")))] += 1;
        }
        assert!(customers.iter().all(|n| (20..=400).contains(n)), "{customers:?}");
        for masters in [2_usize, 3, 6, 16] {
            let mut parts = vec![0; masters];
            Tag::all().for_each(|tag| parts[usize::from(tag.slot()) * masters / usize::from(SLOTS)] += 1);
            let fair = usize::from(PARTS) / masters;
            assert!(parts.iter().all(|n| (fair / 3..=fair * 2).contains(n)), "{masters} masters: {parts:?}");
        }
    }

    #[test]
    fn a_tag_reads_as_it_always_did() {
        // Changing either would lose the books of every cluster.
        assert_eq!((Tag(0).to_string(), Tag(255).to_string()), (String::from("{g00}"), String::from("{gff}")));
        assert_eq!(Tag::of("123456789"), Tag(0xc3));
    }
}
