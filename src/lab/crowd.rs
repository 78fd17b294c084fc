//! When a crowd's requests arrive, and how large each is.

use super::random::Random;
use super::scenario::{Arrivals, Crowd, Recorded, Timing};
use std::sync::Arc;

/// One request of a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Microseconds since the run began.
    pub at: u64,
    /// Which of the crowd's customers asks.
    pub customer: u64,
    /// Input tokens.
    pub input: u64,
    /// Output tokens of a full answer.
    pub output: u64,
}

/// A crowd's requests, in order.
pub struct Stream {
    times: Times,
    next: usize,
    draw: Random,
}

enum Times {
    Burst { at: u64, count: u64 },
    Even { amount: u64, period: u64, from: u64, count: u64 },
    At(Vec<u64>),
    Recorded(Arc<[Recorded]>),
}

impl Crowd {
    /// How many requests arrive in a run of this length.
    #[must_use]
    pub fn requests(&self, length: u64) -> u64 {
        match &self.timing {
            Timing::Burst { at, count } => count * u64::from(*at < length),
            Timing::Recorded(requests) => requests.len() as u64,
            Timing::Rate { amount, period, arrivals, from, lasts, count } => {
                let lasts = lasts.unwrap_or(u64::MAX).min(length.saturating_sub(*from));
                let product = u128::from(lasts) * u128::from(*amount);
                // At equal distances the first comes at once, so a part of one is one.
                let so_many = if *arrivals == Arrivals::Even {
                    product.div_ceil(u128::from(*period))
                } else {
                    product / u128::from(*period)
                };
                u64::try_from(so_many).unwrap_or(u64::MAX).min(count.unwrap_or(u64::MAX))
            }
        }
    }

    /// The requests that arrive in a run of this length; `stream` is the crowd's number.
    pub fn arrivals(&self, seed: u64, stream: u64, length: u64) -> Stream {
        let mut draw = Random::new(seed, stream);
        let requests = self.requests(length);
        let times = match &self.timing {
            Timing::Burst { at, .. } => Times::Burst { at: *at, count: requests },
            Timing::Recorded(requests) => Times::Recorded(Arc::clone(requests)),
            Timing::Rate { amount, period, arrivals: Arrivals::Even, from, .. } => {
                Times::Even { amount: *amount, period: *period, from: *from, count: requests }
            }
            Timing::Rate { amount, period, from, lasts, .. } => {
                // So many instants drawn evenly from the time: what a Poisson process is, given how many came. Where a count ends it
                // before its time, that time is shorter.
                let whole = lasts.unwrap_or(u64::MAX).min(length.saturating_sub(*from));
                let needed = u128::from(requests) * u128::from(*period) / u128::from(*amount);
                let span = u64::try_from(needed).unwrap_or(u64::MAX).clamp(1, whole.max(1));
                let mut times: Vec<u64> = (0..requests).map(|_| from + draw.below(span)).collect();
                times.sort_unstable();
                Times::At(times)
            }
        };
        Stream { times, next: 0, draw }
    }
}

impl Stream {
    /// The next request.
    pub fn next(&mut self, crowd: &Crowd) -> Option<Arrival> {
        let n = self.next;
        let k = n as u64;
        let (at, recorded) = match &self.times {
            Times::Burst { at, count } => ((k < *count).then_some(*at)?, None),
            Times::Even { amount, period, from, count } => {
                let after = u128::from(k) * u128::from(*period) / u128::from(*amount);
                ((k < *count).then(|| from + u64::try_from(after).unwrap_or(u64::MAX))?, None)
            }
            Times::At(times) => (*times.get(n)?, None),
            Times::Recorded(requests) => {
                let recorded = requests.get(n)?;
                (recorded.at, Some((recorded.input, recorded.output)))
            }
        };
        self.next += 1;
        let customer = if crowd.customers > 1 { self.draw.below(crowd.customers) } else { 0 };
        let mut sizes = || (self.draw.around(crowd.input, crowd.spread), self.draw.around(crowd.output, crowd.spread));
        let (input, output) = recorded.unwrap_or_else(&mut sizes);
        Some(Arrival { at, customer, input, output })
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::scenario::Scenario;

    fn arrivals(keys: &str) -> Vec<u64> {
        let text =
            format!("title = \"t\"\n[[runs]]\nname = \"r\"\ngateway = \"none\"\n[crowds.c]\ninput = 1\noutput = 1\n{keys}");
        let scenario = Scenario::parse(&text, "t").unwrap_or_else(|problems| panic!("{problems:?}"));
        let crowd = &scenario.crowds[0];
        let mut arrivals = crowd.arrivals(1, 0, 60_000_000);
        std::iter::from_fn(|| arrivals.next(crowd)).map(|arrival| arrival.at).collect()
    }

    #[test]
    fn requests_come_when_the_file_says() {
        assert_eq!(arrivals("count = 3\nfrom = \"2s\""), [2_000_000; 3]);
        assert_eq!(arrivals("count = 3\nfrom = \"2m\""), [0_u64; 0], "after the end of the run");
        assert_eq!(
            arrivals("rate = \"3/s\"\narrivals = \"even\"\nlasts = \"1s\"\nfrom = \"1s\""),
            [1_000_000, 1_333_333, 1_666_666]
        );
        assert_eq!(arrivals("rate = \"2/s\"\narrivals = \"even\"\ncount = 2"), [0, 500_000]);
        let random = arrivals("rate = \"2/s\"\nfrom = \"20s\"\nlasts = \"10s\"");
        assert_eq!(random.len(), 20, "exactly so many");
        assert!(random.is_sorted() && random[0] >= 20_000_000 && random[19] < 30_000_000, "{random:?}");
        let counted = arrivals("rate = \"2/s\"\ncount = 10");
        assert!(counted.len() == 10 && counted[9] < 5_000_000, "ten at two a second take five seconds: {counted:?}");
    }
}
