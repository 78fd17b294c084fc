//! The most a request can cost, before it is sent: what its dollar claim holds.

use super::Price;
use super::price::Rates;
use crate::domain::NanoUsd;
use crate::limit::Elastic;

/// Which prompt cache writes a request can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWrites {
    /// None: an Anthropic request without `cache_control`.
    No,
    /// At the short lifetime. OpenAI writes on its own accord, so this is the least to assume there.
    Short,
    /// At the long lifetime, or unknown.
    Long,
}

/// What is known of a request before it is sent, for its worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// An upper bound of the input tokens.
    pub input: u64,
    /// `service_tier` of the request.
    pub tier: Option<&'a str>,
    /// Which cache writes it can cause.
    pub cache_writes: CacheWrites,
    /// Whether it may carry audio.
    pub audio_input: bool,
    /// Whether it may be answered in audio.
    pub audio_output: bool,
    /// How many choices it asks for (`n`); each may be as long as the output cap.
    pub choices: u64,
    /// The most web searches it may cause.
    pub web_searches: u64,
}

impl<'a> Asked<'a> {
    /// A request of which only a bound of the input and the asked service tier are known: everything else at its dearest.
    #[must_use]
    pub const fn new(input: u64, tier: Option<&'a str>) -> Self {
        Self { input, tier, cache_writes: CacheWrites::Long, audio_input: true, audio_output: true, choices: 1, web_searches: 0 }
    }
}

/// The most a request can cost: `fixed_pico + cap x per_output_token_pico` pico-dollars at an output cap of `cap` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Pico-dollars that do not depend on the output cap.
    pub fixed_pico: u128,
    /// Pico-dollars per token of the output cap, all choices together.
    pub per_output_token_pico: u128,
}

impl Worst {
    /// The dollar claim at this output cap.
    #[must_use]
    pub fn at(&self, cap: u64) -> NanoUsd {
        let output = self.per_output_token_pico.saturating_mul(u128::from(cap));
        NanoUsd::from_pico_ceil(self.fixed_pico.saturating_add(output))
    }

    /// How the claim may shrink with the output cap; `None` when there is nothing to shrink or the numbers are too large.
    #[must_use]
    pub fn elastic(&self, wanted: u64, floor: u64) -> Option<Elastic> {
        Elastic::new(self.fixed_pico, self.per_output_token_pico, wanted, floor)
    }
}

impl Price {
    /// The most a request can cost.
    ///
    /// All input at the dearest input rate that could apply: a cache write where the model has a rate for it, every long-context
    /// step the input bound lies above, the asked service tier as well as the standard one (a provider may fall back to it). A tier
    /// without a price counts at the dearest rates, though such a request is normally refused before (see [`Price::has_tier`]).
    #[must_use]
    pub fn worst(&self, asked: &Asked<'_>) -> Worst {
        let asked_schedule = self.schedule(asked.tier);
        let candidates = self.schedules().filter(|schedule| {
            std::ptr::eq(*schedule, &raw const self.standard) || asked_schedule.is_none_or(|s| std::ptr::eq(s, *schedule))
        });
        let rates = candidates.flat_map(|schedule| schedule.up_to(asked.input)).fold(Rates::FREE, |a, b| a.dearer(*b));
        let mut input = rates.input.max(rates.cached_input);
        match asked.cache_writes {
            CacheWrites::No => {}
            CacheWrites::Short => input = input.max(rates.cache_write),
            CacheWrites::Long => input = input.max(rates.cache_write).max(rates.cache_write_long),
        }
        if asked.audio_input {
            input = input.max(rates.audio_input);
        }
        let mut output = rates.output.max(rates.reasoning);
        if asked.audio_output {
            output = output.max(rates.audio_output);
        }
        Worst {
            fixed_pico: input.times(asked.input).saturating_add(self.searches(asked.web_searches)),
            per_output_token_pico: output.times(asked.choices),
        }
    }
}
