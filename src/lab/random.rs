//! Numbers that look random and are the same in every run: SplitMix64, whose few lines no update of a dependency changes.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// The step of the generator: the golden ratio in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The stream number `stream` of a seed. What one crowd or request draws leaves the others' draws as they are, so that a scenario
    /// with one crowd less has the very same traffic otherwise.
    pub const fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(STEP).rotate_left(31));
        random.next();
        random
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero when that is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product is even enough: the bias is bound / 2^64.
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// `value` give or take `spread` millionths of it.
    pub fn around(&mut self, value: u64, spread: u32) -> u64 {
        let part = u64::try_from(u128::from(value) * u128::from(spread) / 1_000_000).unwrap_or(0);
        value - part + self.below(2 * part + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever_and_each_stream_its_own() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..3).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 0), draw(7, 0));
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
        let mut random = Random::new(1, 2);
        let mean =
            (0..10_000).map(|_| random.around(1_000, 300_000)).inspect(|n| assert!((700..=1_300).contains(n))).sum::<u64>();
        assert!((9_900_000..10_100_000).contains(&mean), "{mean}");
        assert_eq!((random.below(0), random.below(1), random.around(5, 0)), (0, 0, 5));
    }
}
