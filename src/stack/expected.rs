//! The output a request will likely use: a running 95th percentile per model and plan, from the cap downwards.

use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Models times plans remembered.
const CAPACITY: usize = 10_000;
/// Observations after which the older ones count half: recent habits win.
const MEMORY: u32 = 1_000;
/// Steps per doubling: an estimate is at most a quarter above the true percentile.
const STEPS: u32 = 4;
/// Enough for outputs up to 2³².
const BUCKETS: usize = 32 * STEPS as usize;

/// Estimates by model and plan.
#[derive(Debug, Default)]
pub struct Expected(Mutex<HashMap<ModelAndPlan, Seen>>);

type ModelAndPlan = (Arc<str>, Arc<str>);

/// A histogram with buckets that grow geometrically.
#[derive(Debug)]
struct Seen {
    counts: Box<[u16; BUCKETS]>,
    total: u32,
}

impl Expected {
    /// What a request with this cap is expected to put out, at most the cap. Without experience it is the cap; after some twenty
    /// replies it is what nineteen in twenty stay under.
    #[must_use]
    pub fn output(&self, model: &Arc<str>, plan: &Arc<str>, cap: u64) -> u64 {
        self.0.lock().get(&(model.clone(), plan.clone())).map_or(cap, |seen| seen.percentile_95().min(cap))
    }

    /// Learns from what a request put out.
    pub fn learn(&self, model: &Arc<str>, plan: &Arc<str>, output: u64) {
        let mut map = self.0.lock();
        let known = map.len();
        match map.entry((model.clone(), plan.clone())) {
            std::collections::hash_map::Entry::Occupied(mut seen) => seen.get_mut().add(output),
            std::collections::hash_map::Entry::Vacant(entry) if known < CAPACITY => entry.insert(Seen::new()).add(output),
            std::collections::hash_map::Entry::Vacant(_) => {}
        }
    }
}

impl Seen {
    /// Begins with one reply that used any cap to the full, so that the first estimates are careful.
    fn new() -> Self {
        let mut seen = Self { counts: Box::new([0; BUCKETS]), total: 1 };
        seen.counts[BUCKETS - 1] = 1;
        seen
    }

    fn add(&mut self, output: u64) {
        self.counts[bucket_of(output)] += 1;
        self.total += 1;
        if self.total > MEMORY {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().map(|count| u32::from(*count)).sum();
        }
    }

    fn percentile_95(&self) -> u64 {
        let above = self.total / 20; // observations that may lie above
        let mut passed = 0;
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            passed += u32::from(*count);
            if passed > above {
                return largest_of(bucket);
            }
        }
        0
    }
}

/// The bucket of an output: small ones exactly, larger ones in [`STEPS`] steps a doubling.
fn bucket_of(output: u64) -> usize {
    let value = output + u64::from(STEPS);
    let doubling = value.ilog2() - STEPS.ilog2();
    let step = (value >> doubling) - u64::from(STEPS);
    (doubling as usize * STEPS as usize + usize::try_from(step).unwrap_or(0)).min(BUCKETS - 1)
}

/// The largest output in a bucket.
fn largest_of(bucket: usize) -> u64 {
    if bucket >= BUCKETS - 1 {
        return u64::MAX;
    }
    let next = bucket + 1;
    let (doubling, step) = (next / STEPS as usize, next % STEPS as usize);
    ((u64::from(STEPS) + step as u64) << doubling) - u64::from(STEPS) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_lies_in_its_bucket() {
        for output in (0..5_000).chain([65_535, 65_536, 1_000_000]) {
            let bucket = bucket_of(output);
            assert!(output <= largest_of(bucket), "{output} in {bucket}");
            assert!(bucket == 0 || output > largest_of(bucket - 1), "{output} in {bucket}");
            assert!(largest_of(bucket) <= output + output / 4 + 1, "{output}: {}", largest_of(bucket));
        }
    }

    #[test]
    fn comes_down_from_the_cap_to_the_95th_percentile() {
        let (expected, model, plan): (_, Arc<str>, Arc<str>) = (Expected::default(), "m".into(), "p".into());
        assert_eq!(expected.output(&model, &plan, 4_096), 4_096, "no experience: the cap");
        for i in 0..40 {
            expected.learn(&model, &plan, 100 + i % 10);
        }
        assert!((109..=140).contains(&expected.output(&model, &plan, 4_096)), "after forty replies");
        for i in 0..20_000_u64 {
            expected.learn(&model, &plan, (i * 7_919) % 1_000); // uniform over 0..1000
        }
        let estimate = expected.output(&model, &plan, 4_096);
        assert!((950..=1_190).contains(&estimate), "{estimate}");
        assert_eq!(expected.output(&model, &plan, 100), 100, "never above the cap");
    }
}
