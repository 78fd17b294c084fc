//! The fixed window: a count that starts anew with each window. Twice the limit may pass within a moment, around the turn.

use super::Algorithm;

#[derive(Debug)]
pub struct FixedWindow {
    limit: u64,
    window: u64,
    number: u64,
    count: u64,
}

impl FixedWindow {
    pub const fn new(limit: u64, window: u64) -> Self {
        Self { limit, window, number: 0, count: 0 }
    }
}

impl Algorithm for FixedWindow {
    fn admit(&mut self, at: u64) -> bool {
        if at / self.window != self.number {
            (self.number, self.count) = (at / self.window, 0);
        }
        let fits = self.count < self.limit;
        self.count += u64::from(fits);
        fits
    }

    fn bytes(&self) -> usize {
        size_of::<(u64, u64)>()
    }
}
