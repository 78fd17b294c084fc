//! Rows as they lie in a process: adding to them, and the minutes behind a peak.

use super::{Addition, Batch, Row, RowKey};
use foldhash::HashMap;
use foldhash::quality::RandomState;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// Minutes that may still grow: settlements come as late as their answers are long, and each is counted in the minute of its admission.
const OPEN_MINUTES: u64 = 15;
/// Minutes of counters that are kept at most. Beyond it a minute that was sent in two batches counts as two.
const MOST_MINUTES: usize = 400_000;

/// The minutes that may still grow, of one process: of each the sums by a hash of whose and which they are. With the names themselves a
/// hundred thousand customers took twenty megabytes; two of so many share a hash of 64 bits once in a billion times, and then it is a
/// peak that is wrong.
#[derive(Debug, Default)]
pub struct Minutes {
    sums: BTreeMap<u64, HashMap<u64, u64>>,
    count: usize,
    hasher: RandomState,
}

impl Minutes {
    /// Adds to a minute and gives its sum.
    fn add(&mut self, key: &RowKey, name: &str, minute: u64, amount: u64) -> u64 {
        let whose = self.hasher.hash_one((key, name));
        let sums = self.sums.entry(minute).or_default();
        match sums.get_mut(&whose) {
            Some(sum) => {
                *sum = sum.saturating_add(amount);
                *sum
            }
            None => {
                if self.count < MOST_MINUTES {
                    sums.insert(whose, amount);
                    self.count += 1;
                }
                amount
            }
        }
    }

    /// Forgets minutes that do not grow any more.
    pub fn close(&mut self, batch: &Batch) {
        let minutes = batch.additions.iter().flat_map(|addition| &addition.peaks).map(|peak| peak.minute);
        let Some(latest) = minutes.max() else { return };
        self.sums = self.sums.split_off(&latest.saturating_sub(OPEN_MINUTES));
        self.count = self.sums.values().map(HashMap::len).sum();
    }
}

/// Adds to a row.
pub fn add(row: &mut Row, addition: &Addition, minutes: &mut Minutes) {
    for (name, amount) in &addition.sums {
        let counter = row.entry(name.to_string()).or_default();
        *counter = counter.saturating_add(*amount);
    }
    for peak in &addition.peaks {
        let sum = minutes.add(&addition.key, &peak.name, peak.minute, peak.amount);
        let counter = row.entry(peak.name.to_string()).or_default();
        *counter = (*counter).max(sum);
    }
}

/// A row as bytes: length and bytes of each name, and its number.
pub fn encode(row: &Row) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(row.len() * 12);
    for (name, value) in row {
        // Names are short: see `MAX_NAME`.
        bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(&name.as_bytes()[..name.len().min(usize::from(u8::MAX))]);
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// What [`encode`] wrote; `None` where it is something else.
pub fn decode(mut bytes: &[u8]) -> Option<Row> {
    let mut row = Row::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (value, rest) = rest.split_first_chunk::<8>()?;
        row.insert(std::str::from_utf8(name).ok()?.to_owned(), u64::from_le_bytes(*value));
        bytes = rest;
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::series::{Kind, Peak};

    fn batch(minute: u64) -> Batch {
        let key = RowKey { kind: Kind::CustomerDay, day: 0, id: "c".to_owned() };
        let peaks = vec![Peak { name: "rpm".into(), minute, amount: 1 }];
        Batch { gateway: 1, number: 1, today: 0, additions: vec![Addition { key, sums: Vec::new(), peaks, keep: 1 }] }
    }

    #[test]
    fn minutes_are_apart_by_whose_and_which_they_are_until_they_close() {
        let mut minutes = Minutes::default();
        let key = |id: &str| RowKey { kind: Kind::CustomerDay, day: 0, id: id.to_owned() };
        assert_eq!([2, 3].map(|amount| minutes.add(&key("a"), "rpm", 100, amount)), [2, 5]);
        for (id, name, minute) in [("b", "rpm", 100), ("a", "tpm", 100), ("a", "rpm", 101)] {
            assert_eq!(minutes.add(&key(id), name, minute, 1), 1, "{id} {name} {minute}");
        }
        minutes.close(&batch(100 + OPEN_MINUTES));
        assert_eq!((minutes.count, minutes.add(&key("a"), "rpm", 100, 1)), (4, 6), "it may still grow");
        minutes.close(&batch(101 + OPEN_MINUTES));
        assert_eq!((minutes.count, minutes.add(&key("a"), "rpm", 100, 1)), (1, 1), "closed, and begun anew");
        minutes.count = MOST_MINUTES;
        assert_eq!([minutes.add(&key("new"), "rpm", 101, 1), minutes.add(&key("new"), "rpm", 101, 1)], [1, 1], "not kept");
        assert_eq!(minutes.add(&key("a"), "rpm", 101, 1), 2, "what is kept goes on");
    }

    #[test]
    fn a_row_reads_as_it_was_written_and_half_of_one_does_not() {
        let row = Row::from([("n".to_owned(), u64::MAX), ("x:customer.tpm".to_owned(), 0), (String::new(), 7)]);
        let bytes = encode(&row);
        assert_eq!(decode(&bytes), Some(row));
        assert_eq!(decode(&[]), Some(Row::new()));
        for cut in 1..bytes.len() {
            // A cut between two counters is a shorter row; any other is no row.
            assert!(decode(&bytes[..cut]).is_none_or(|row| row.len() < 3), "{cut}");
        }
        assert_eq!(decode(&[200, b'a']), None);
    }
}
