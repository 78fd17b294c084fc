//! How far a provider's own count lies from ours, learned per model.
//!
//! Where the encoding is not the model's own, each reply's usage moves the model's factor an eighth of the way. The factor stays between half and twice
//! what its family begins with, so that one odd reply (a cache that hides input, a prompt the provider added) cannot ruin the estimate.

use foldhash::HashMap;

use parking_lot::RwLock;

/// Models that are learned; a provider serves hundreds, and names come from clients.
const MAX_MODELS: usize = 4_096;
/// Longer names are not learned.
const MAX_NAME: usize = 256;
/// A sample moves the factor by this part of the difference.
const WEIGHT: i64 = 8;
/// Parts in 1 for the learned value: fine enough that an eighth of a thousandth still counts.
const ONE: u64 = 1_000_000;
/// Shorter prompts tell more about framing than about text.
const SMALLEST_SAMPLE: u64 = 64;

/// The learned factors, in millionths.
#[derive(Debug, Default)]
pub(crate) struct Factors {
    learned: RwLock<HashMap<Box<str>, u64>>,
}

impl Factors {
    /// The factor of `model` in thousandths, for a family that begins with `start`.
    pub(crate) fn permille(&self, model: &str, start: u32) -> u32 {
        let learned = self.learned.read().get(model).copied();
        learned.map_or(start, |millionths| u32::try_from(bounded(millionths, start) / 1_000).unwrap_or(start))
    }

    /// Learns that text counted as `raw` tokens was `actual` for the provider.
    pub(crate) fn learn(&self, model: &str, start: u32, raw: u64, actual: u64) {
        if raw < SMALLEST_SAMPLE || actual == 0 || model.len() > MAX_NAME {
            return;
        }
        let sample = u64::try_from(u128::from(actual) * u128::from(ONE) / u128::from(raw)).unwrap_or(u64::MAX);
        let sample = bounded(sample, start);
        let mut learned = self.learned.write();
        let full = learned.len() >= MAX_MODELS;
        match learned.get_mut(model) {
            Some(factor) => {
                let from = bounded(*factor, start);
                *factor = from.saturating_add_signed((sample.cast_signed() - from.cast_signed()) / WEIGHT);
            }
            None if full => {}
            None => {
                let from = u64::from(start) * 1_000;
                let first = from.saturating_add_signed((sample.cast_signed() - from.cast_signed()) / WEIGHT);
                learned.insert(model.into(), first);
            }
        }
    }
}

/// Between half and twice the start.
fn bounded(millionths: u64, start: u32) -> u64 {
    let start = u64::from(start) * 1_000;
    millionths.clamp(start / 2, start * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_with_the_familys_factor_and_moves_an_eighth_of_the_way() {
        let factors = Factors::default();
        assert_eq!(factors.permille("m", 1_200), 1_200);
        factors.learn("m", 1_200, 1_000, 2_000);
        assert_eq!(factors.permille("m", 1_200), 1_300);
        factors.learn("m", 1_200, 1_000, 500); // bounded to 600
        assert_eq!(factors.permille("m", 1_200), 1_212);
        assert_eq!(factors.permille("other", 1_200), 1_200);
    }

    #[test]
    fn arrives_at_what_the_provider_says() {
        let factors = Factors::default();
        for _ in 0..200 {
            factors.learn("m", 1_000, 10_000, 11_370);
        }
        assert!((1_136..=1_137).contains(&factors.permille("m", 1_000)), "{}", factors.permille("m", 1_000));
    }

    #[test]
    fn stays_between_half_and_twice() {
        let factors = Factors::default();
        for _ in 0..200 {
            factors.learn("high", 1_560, 100, u64::MAX);
            factors.learn("low", 1_560, u64::MAX, 1);
        }
        assert_eq!(factors.permille("high", 1_560), 3_119, "twice, less the rounding");
        assert_eq!(factors.permille("low", 1_560), 780);
    }

    #[test]
    fn short_prompts_and_missing_numbers_teach_nothing() {
        let factors = Factors::default();
        factors.learn("m", 1_000, 63, 120);
        factors.learn("m", 1_000, 1_000, 0);
        assert_eq!(factors.permille("m", 1_000), 1_000);
    }

    #[test]
    fn the_number_of_models_is_bounded() {
        let factors = Factors::default();
        for n in 0..MAX_MODELS + 100 {
            factors.learn(&format!("m{n}"), 1_000, 100, 200);
        }
        factors.learn(&"x".repeat(MAX_NAME + 1), 1_000, 100, 200);
        assert_eq!(factors.learned.read().len(), MAX_MODELS);
    }
}
