//! The algorithms side by side, each with one limit for all crowds and with a limit for each customer.

use super::algorithms::{Algorithm, Kind};
use super::provider::Trailing;
use super::scenario::{Compare, Scenario};
use crate::limit::Bucket;
use std::collections::HashMap;

/// One limit, and what it let through.
type Limit = (Box<dyn Algorithm>, Trailing);

/// What came of the comparison.
#[derive(Debug, PartialEq, Eq)]
pub struct Compared {
    /// The crowds' names, with how many requests each sent.
    pub crowds: Vec<(String, u64)>,
    /// One row per algorithm and set-up.
    pub rows: Vec<Row>,
}

/// An algorithm in one set-up.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub kind: Kind,
    /// Whether all share one limit.
    pub shared: bool,
    /// Accepted requests per crowd.
    pub accepted: Vec<u64>,
    /// The most that one limit accepted in any 60 s.
    pub in_a_minute: u64,
    /// The largest state of one limit, bytes.
    pub bytes: usize,
}

/// Plays the crowds against every algorithm.
pub fn compare(scenario: &Scenario, compare: &Compare) -> Compared {
    let mut requests: Vec<(u64, usize, u64)> = Vec::new();
    let mut crowds = Vec::new();
    for (column, index) in compare.crowds.iter().enumerate() {
        let crowd = &scenario.crowds[*index];
        let mut stream = crowd.arrivals(scenario.seed, *index as u64, compare.length);
        let before = requests.len();
        requests.extend(std::iter::from_fn(|| stream.next(crowd)).map(|arrival| (arrival.at, column, arrival.customer)));
        crowds.push((crowd.name.to_string(), (requests.len() - before) as u64));
    }
    // At equal times in the order of the file.
    requests.sort_by_key(|(at, column, _)| (*at, *column));
    let bucket = Bucket::new(compare.burst, compare.amount, compare.period).expect("checked when the scenario was read");
    let pairs = Kind::ALL.into_iter().flat_map(|kind| [true, false].map(|shared| (kind, shared)));
    let rows = pairs.map(|(kind, shared)| row(kind, shared, &requests, crowds.len(), bucket)).collect();
    Compared { crowds, rows }
}

fn row(kind: Kind, shared: bool, requests: &[(u64, usize, u64)], columns: usize, bucket: Bucket) -> Row {
    let mut limits: HashMap<Option<(usize, u64)>, Limit> = HashMap::new();
    let mut row = Row { kind, shared, accepted: vec![0; columns], in_a_minute: 0, bytes: 0 };
    for (at, column, customer) in requests {
        let key = (!shared).then_some((*column, *customer));
        let (limit, passed) = limits.entry(key).or_insert_with(|| (kind.start(bucket), Trailing::default()));
        if limit.admit(*at) {
            row.accepted[*column] += 1;
            passed.add(*at, 1);
        }
        row.in_a_minute = row.in_a_minute.max(passed.most);
        row.bytes = row.bytes.max(limit.bytes());
    }
    row
}
