//! How documents lie on disk: three key spaces and their keys.
//!
//! ```text
//! documents   collection 00 id             ->  version rank until value
//! order       collection 00 rank id        ->  nothing       (listed collections)
//! ends        until collection 00 id       ->  nothing       (documents with an end)
//!             until 00 version             ->  documents     (the same, of those that a batch wrote without a look at what was there)
//! ```
//!
//! Numbers are eight bytes, the most significant first, so that keys sort as they should. A collection is spelled by its name and not
//! by a number: the names are in other stores as well, and none holds a zero byte.

use crate::domain::Timestamp;
use crate::store::documents::{Collection, Document};
use bytes::Bytes;

/// Bytes of a record before the value.
const HEAD: usize = 24;
/// The end of what has none.
const NEVER: u64 = u64::MAX;

/// A document as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What a reader gets.
    pub document: Document,
    /// Where it stands in a listing.
    pub rank: u64,
    /// The first instant at which it is forgotten.
    pub until: Option<Timestamp>,
}

impl Record {
    /// Whether it is still to be seen.
    pub fn lives(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Document { version, value } = &self.document;
        let until = self.until.map_or(NEVER, Timestamp::micros);
        let mut bytes = Vec::with_capacity(HEAD + value.len());
        for number in [*version, self.rank, until] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(value);
        bytes
    }

    /// From its bytes; `None` when they are none of ours.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = number(bytes)?;
        let (rank, rest) = number(rest)?;
        let (until, value) = number(rest)?;
        let until = (until != NEVER).then_some(Timestamp(until));
        Some(Self { document: Document { version, value: Bytes::copy_from_slice(value) }, rank, until })
    }
}

/// The key of a document.
pub fn document_key(collection: Collection, id: &str) -> Vec<u8> {
    joined(&[collection.as_str().as_bytes(), &[0], id.as_bytes()])
}

/// The collection and the id in the key of a document.
pub fn read_document_key(key: &[u8]) -> Option<(Collection, &str)> {
    let name = key.iter().position(|byte| *byte == 0)?;
    Some((Collection::named(&key[..name])?, std::str::from_utf8(&key[name + 1..]).ok()?))
}

/// The key that keeps a document's place in a listing.
pub fn order_key(collection: Collection, rank: u64, id: &str) -> Vec<u8> {
    joined(&[collection.as_str().as_bytes(), &[0], &rank.to_be_bytes(), id.as_bytes()])
}

/// The rank and the id in such a key.
pub fn read_order_key(collection: Collection, key: &[u8]) -> Option<(u64, &str)> {
    let (rank, id) = number(key.get(collection.as_str().len() + 1..)?)?;
    Some((rank, std::str::from_utf8(id).ok()?))
}

/// The key under which a document's end is found.
pub fn end_key(until: Timestamp, document: &[u8]) -> Vec<u8> {
    joined(&[&until.micros().to_be_bytes(), document])
}

fn read_end_key(key: &[u8]) -> Option<(Timestamp, &[u8])> {
    number(key).map(|(until, document)| (Timestamp(until), document))
}

/// The key under which the ends of several documents are found. No other batch has its version.
pub fn common_end_key(until: Timestamp, version: u64) -> Vec<u8> {
    joined(&[&until.micros().to_be_bytes(), &[0], &version.to_be_bytes()])
}

/// What is found there: the key of each document behind its length.
pub fn common_end_value<'a>(documents: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for key in documents {
        // Ids are short: see `check_id`.
        bytes.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend_from_slice(key);
    }
    bytes
}

/// When they end, and the keys of the documents that an entry of the ends is about.
pub fn read_end<'a>(key: &'a [u8], value: &'a [u8]) -> Option<(Timestamp, Vec<&'a [u8]>)> {
    let (until, document) = read_end_key(key)?;
    if document.first() != Some(&0) {
        return Some((until, vec![document]));
    }
    let (mut documents, mut rest) = (Vec::new(), value);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (document, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        documents.push(document);
        rest = behind;
    }
    Some((until, documents))
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_keys_are_read_as_written() {
        for until in [None, Some(Timestamp(7))] {
            let document = Document { version: 3, value: Bytes::from_static(b"\0value") };
            let record = Record { document, rank: u64::MAX, until };
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        assert_eq!(Record::decode(&[0; 23]), None);
        for id in ["", "a\0b", "\u{0}", "{x}", "ä"] {
            let key = document_key(Collection::Tickets, id);
            assert_eq!(read_document_key(&key), Some((Collection::Tickets, id)));
            let order = order_key(Collection::Tickets, 258, id);
            assert_eq!(read_order_key(Collection::Tickets, &order), Some((258, id)));
            assert_eq!(read_end(&end_key(Timestamp(9), &key), &[]), Some((Timestamp(9), vec![&*key])));
        }
        let keys = ["", "a\0b", "ä"].map(|id| document_key(Collection::Requests, id));
        let value = common_end_value(keys.iter().map(Vec::as_slice));
        let (end, all) = (common_end_key(Timestamp(9), 3), keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(read_end(&end, &value), Some((Timestamp(9), all)));
        assert_eq!(read_end(&end, &value[..value.len() - 1]), None, "cut off");
        assert_ne!(end, common_end_key(Timestamp(9), 4));
        assert_eq!(read_document_key(b"nothing we know\0id"), None);
    }

    #[test]
    fn keys_sort_by_rank_and_then_by_id() {
        let key = |rank, id| order_key(Collection::Jobs, rank, id);
        let sorted = [key(0, "z"), key(1, ""), key(1, "a"), key(1, "a\0"), key(255, "a"), key(256, "a"), key(u64::MAX, "")];
        assert!(sorted.is_sorted());
    }
}
