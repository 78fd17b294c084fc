//! The output a request will likely use: a running 95th percentile per model and plan, from the cap downwards.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Models times plans remembered.
const CAPACITY: usize = 10_000;
/// Parts of the estimate that one observation moves it by, at most: a twentieth up, and so a 380th down (19 : 1 is the 95th percentile).
const STEP: u64 = 20;

/// Estimates by model and plan.
#[derive(Debug, Default)]
pub struct Expected(Mutex<HashMap<(Arc<str>, Arc<str>), u64>>);

impl Expected {
    /// What a request with this cap is expected to put out, at most the cap. Without experience it is the cap.
    #[must_use]
    pub fn output(&self, model: &Arc<str>, plan: &Arc<str>, cap: u64) -> u64 {
        self.0.lock().get(&(model.clone(), plan.clone())).map_or(cap, |milli| milli.div_ceil(1_000).min(cap))
    }

    /// Learns from what a request with this cap did put out.
    pub fn learn(&self, model: &Arc<str>, plan: &Arc<str>, cap: u64, output: u64) {
        let mut map = self.0.lock();
        if map.len() >= CAPACITY && !map.contains_key(&(model.clone(), plan.clone())) {
            return;
        }
        // Kept in thousandths so that small estimates can still move down.
        let estimate = map.entry((model.clone(), plan.clone())).or_insert(cap.saturating_mul(1_000));
        let output = output.saturating_mul(1_000);
        if output > *estimate {
            *estimate += (*estimate / STEP).max(1_000).min(output - *estimate);
        } else {
            *estimate -= (*estimate / (STEP * 19)).min(*estimate - output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_near_the_95th_percentile() {
        let (expected, model, plan): (_, Arc<str>, Arc<str>) = (Expected::default(), "m".into(), "p".into());
        assert_eq!(expected.output(&model, &plan, 4_096), 4_096, "no experience: the cap");
        for i in 0..20_000_u64 {
            expected.learn(&model, &plan, 4_096, (i * 7_919) % 1_000); // uniform over 0..1000
        }
        let estimate = expected.output(&model, &plan, 4_096);
        assert!((900..=990).contains(&estimate), "{estimate}");
        assert_eq!(expected.output(&model, &plan, 100), 100, "never above the cap");
    }
}
