//! The sliding counter: the count of this window, and of the last one in proportion to what of it still lies within a window's length.
//! Small, and wrong as far as the last window's requests were not spread evenly.

use super::Algorithm;

#[derive(Debug)]
pub struct SlidingCounter {
    limit: u64,
    window: u64,
    number: u64,
    last: u64,
    count: u64,
}

impl SlidingCounter {
    pub const fn new(limit: u64, window: u64) -> Self {
        Self { limit, window, number: 0, last: 0, count: 0 }
    }
}

impl Algorithm for SlidingCounter {
    fn admit(&mut self, at: u64) -> bool {
        let number = at / self.window;
        if number != self.number {
            self.last = if number == self.number + 1 { self.count } else { 0 };
            (self.number, self.count) = (number, 0);
        }
        // In units of one request times the window, so that nothing is rounded.
        let left = u128::from(self.window - at % self.window);
        let used = u128::from(self.last) * left + u128::from(self.count) * u128::from(self.window);
        let fits = used + u128::from(self.window) <= u128::from(self.limit) * u128::from(self.window);
        self.count += u64::from(fits);
        fits
    }

    fn bytes(&self) -> usize {
        size_of::<(u64, u64, u64)>()
    }
}
