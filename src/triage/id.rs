//! Ids of tickets: whoever knows one may be shown an answer, so nobody can guess one.

use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "tt_";

/// The id of a ticket: `tt_` and 128 bits in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(u128);

/// Not the id of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a ticket")]
pub struct NoTicketId;

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:032x}", self.0)
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TicketId {
    type Err = NoTicketId;

    /// One spelling only, so that an id is equal to itself everywhere.
    fn from_str(text: &str) -> Result<Self, NoTicketId> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 32).ok_or(NoTicketId)?;
        if !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(NoTicketId);
        }
        u128::from_str_radix(digits, 16).map(Self).map_err(|_| NoTicketId)
    }
}

impl serde::Serialize for TicketId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for TicketId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Makes ids without ever asking anybody: a keyed hash of a counter, with a key that the system drew when the process started.
pub(super) struct Ids {
    key: [u8; 32],
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).expect("a system without random bytes runs no TLS either");
        Self { key, next: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> TicketId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let hash = blake3::keyed_hash(&self.key, &count.to_le_bytes());
        let (half, _) = hash.as_bytes().split_first_chunk().expect("a hash is 32 bytes");
        TicketId(u128::from_le_bytes(*half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_read_back_in_their_one_spelling_and_never_repeat() {
        let (one, other) = (Ids::new(), Ids::new());
        let ids: Vec<TicketId> = (0..100).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 200, "each process has a key of its own");
        for id in &ids {
            assert_eq!(id.to_string().parse(), Ok(*id));
            assert_eq!(id.to_string().len(), 35);
        }
        let id = ids[0].to_string();
        for text in [
            "",
            "tt_",
            &id[..34],
            &format!("{id}0"),
            &id.to_uppercase(),
            &id.replace("tt_", "tg_"),
            "tt_+0000000000000000000000000000001",
        ] {
            assert_eq!(text.parse::<TicketId>(), Err(NoTicketId), "{text}");
        }
    }
}
