//! The sliding log: the instant of every request of the last window. Exact, and as large as the limit.

use super::Algorithm;
use std::collections::VecDeque;

#[derive(Debug)]
pub struct SlidingLog {
    limit: u64,
    window: u64,
    passed: VecDeque<u64>,
}

impl SlidingLog {
    pub const fn new(limit: u64, window: u64) -> Self {
        Self { limit, window, passed: VecDeque::new() }
    }
}

impl Algorithm for SlidingLog {
    fn admit(&mut self, at: u64) -> bool {
        while self.passed.front().is_some_and(|then| then + self.window <= at) {
            self.passed.pop_front();
        }
        let fits = (self.passed.len() as u64) < self.limit;
        if fits {
            self.passed.push_back(at);
        }
        fits
    }

    fn bytes(&self) -> usize {
        size_of::<VecDeque<u64>>() + self.passed.len() * size_of::<u64>()
    }
}
