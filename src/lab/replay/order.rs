//! From the order of endings to the order of arrivals, holding back no more than it takes.

use super::line::Request;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A request that took longer than this may be decided after later ones, microseconds.
const HOLD_BACK: u64 = 3_600_000_000;
/// The most requests that are held back.
const MOST: usize = 1_000_000;

/// Requests on their way from one order to the other.
#[derive(Default)]
pub struct InOrder {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    requests: BTreeMap<u64, Request>,
    number: u64,
    /// The latest ending seen.
    ended: u64,
    /// The latest arrival given out.
    given: u64,
    /// Requests that came too late for their place.
    pub late: u64,
}

impl InOrder {
    /// Takes the next line's request; gives those before which no other can come any more.
    pub fn push(&mut self, mut request: Request) -> Vec<Request> {
        self.ended = self.ended.max(request.arrived.saturating_add(request.took));
        if request.arrived < self.given {
            self.late += 1;
            request.arrived = self.given;
        }
        self.number += 1;
        self.order.push(Reverse((request.arrived, self.number)));
        self.requests.insert(self.number, request);
        let mut ready = Vec::new();
        while let Some(Reverse((arrived, _))) = self.order.peek()
            && (arrived.saturating_add(HOLD_BACK) < self.ended || self.order.len() > MOST)
        {
            ready.extend(self.next());
        }
        ready
    }

    fn next(&mut self) -> Option<Request> {
        let Reverse((arrived, number)) = self.order.pop()?;
        self.given = arrived;
        self.requests.remove(&number)
    }

    /// The rest, in order.
    pub fn rest(&mut self) -> impl Iterator<Item = Request> + '_ {
        std::iter::from_fn(|| self.next())
    }
}
