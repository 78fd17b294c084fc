//! The price of one model and the cost of one request.

use crate::domain::{NanoUsd, Rate};
use crate::wire::Usage;
use jiff::civil::Date;

/// Rates of every bucket of [`Usage`], with nothing left to fall back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Text input that no cache served or stored.
    pub input: Rate,
    /// Input read from the provider's prompt cache.
    pub cached_input: Rate,
    /// Input written to the prompt cache at the short lifetime.
    pub cache_write: Rate,
    /// Input written to the prompt cache at the long lifetime.
    pub cache_write_long: Rate,
    /// Audio input.
    pub audio_input: Rate,
    /// Output other than audio and reasoning.
    pub output: Rate,
    /// Reasoning; the output rate for all but a few models.
    pub reasoning: Rate,
    /// Audio output.
    pub audio_output: Rate,
}

/// Rates that hold for a whole request once its input, all buckets together, is above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongContext {
    /// Input tokens above which (not at which) these rates apply.
    pub above: u64,
    /// The rates.
    pub rates: Rates,
}

/// The rates of one service tier, by the length of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) base: Rates,
    /// Ascending by threshold.
    pub(super) long: Box<[LongContext]>,
}

/// What a model costs, with the facts about it that price lists state. Immutable; made by [`super::Listed::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    pub(super) standard: Schedule,
    /// Service tiers other than the standard one, by name.
    pub(super) tiers: Box<[(Box<str>, Schedule)]>,
    /// One web search by a server-side tool; `None` = not stated, which is not free (see [`Price::gaps`]).
    pub web_search: Option<NanoUsd>,
    /// The most input tokens the model takes.
    pub max_input_tokens: Option<u64>,
    /// The most output tokens the model gives.
    pub max_output_tokens: Option<u64>,
    /// The day the provider retires the model.
    pub deprecation_date: Option<Date>,
}

/// What of a reply has no price of its own. To be counted and logged: the cost is then a guess, if a careful one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// It ran in a service tier the table does not know; the dearest rates were taken.
    pub tier: bool,
    /// It made web searches and the table has no price for them; they were left out.
    pub web_searches: bool,
}

impl Gaps {
    /// Whether anything is amiss.
    #[must_use]
    pub const fn any(self) -> bool {
        self.tier || self.web_searches
    }
}

// === impl Price ===

impl Price {
    /// The rates of the standard service tier for short inputs.
    #[must_use]
    pub const fn rates(&self) -> &Rates {
        &self.standard.base
    }

    /// The long-context rates of the standard service tier, ascending by threshold.
    #[must_use]
    pub const fn long_context(&self) -> &[LongContext] {
        &self.standard.long
    }

    /// What a request cost, summed unrounded and rounded up once.
    ///
    /// The service tier is the one the reply names ([`Usage::service_tier`]), since that is what the provider bills; where the reply
    /// names none, the one asked for. A tier without a price costs the dearest rates of the model, each bucket on its own; see
    /// [`Price::gaps`]. The same function prices our own counts where a provider sent no usage.
    #[must_use]
    pub fn cost(&self, usage: &Usage, asked_tier: Option<&str>) -> NanoUsd {
        let tier = usage.service_tier.as_deref().or(asked_tier);
        let input = usage.input();
        let rates = match self.schedule(tier) {
            Some(schedule) => *schedule.at(input),
            None => self.schedules().map(|schedule| *schedule.at(input)).fold(*self.standard.at(input), Rates::dearer),
        };
        NanoUsd::from_pico_ceil(rates.cost(usage).saturating_add(self.searches(usage.web_searches)))
    }

    /// What of a reply the table has no price for.
    #[must_use]
    pub fn gaps(&self, usage: &Usage, asked_tier: Option<&str>) -> Gaps {
        Gaps {
            tier: self.schedule(usage.service_tier.as_deref().or(asked_tier)).is_none(),
            web_searches: usage.web_searches > 0 && self.web_search.is_none(),
        }
    }

    /// Whether a service tier that a request asks for has a price. `auto`, `default`, `standard` and `standard_only` always do.
    #[must_use]
    pub fn has_tier(&self, tier: &str) -> bool {
        self.schedule(Some(tier)).is_some()
    }

    /// The same price with the facts it does not state taken from `older`: an operator who overrides the rates of a model does not
    /// thereby forget how long its answers may be.
    #[must_use]
    pub(super) fn completed_by(mut self, older: &Self) -> Self {
        self.web_search = self.web_search.or(older.web_search);
        self.max_input_tokens = self.max_input_tokens.or(older.max_input_tokens);
        self.max_output_tokens = self.max_output_tokens.or(older.max_output_tokens);
        self.deprecation_date = self.deprecation_date.or(older.deprecation_date);
        self
    }

    /// Whether no token of it costs anything.
    pub(super) fn is_free(&self) -> bool {
        let all = self.schedules().flat_map(|schedule| schedule.up_to(u64::MAX)).fold(Rates::FREE, |a, b| a.dearer(*b));
        all == Rates::FREE
    }

    /// Whether both ask the same for everything.
    pub(super) fn charges_as(&self, other: &Self) -> bool {
        self.standard == other.standard && self.tiers == other.tiers && self.web_search == other.web_search
    }

    pub(super) fn schedules(&self) -> impl Iterator<Item = &Schedule> {
        std::iter::once(&self.standard).chain(self.tiers.iter().map(|(_, schedule)| schedule))
    }

    /// The schedule of a tier, under the names both providers use.
    pub(super) fn schedule(&self, tier: Option<&str>) -> Option<&Schedule> {
        let named = |name: &str| self.tiers.iter().find(|(tier, _)| **tier == *name).map(|(_, schedule)| schedule);
        match tier {
            None | Some("" | "auto" | "default" | "standard" | "standard_only") => Some(&self.standard),
            // OpenAI runs a requested `fast` as `priority`.
            Some("fast") => named("fast").or_else(|| named("priority")),
            Some(name) => named(name),
        }
    }

    pub(super) fn searches(&self, count: u64) -> u128 {
        self.web_search.map_or(0, |each| u128::from(each.get()) * 1_000 * u128::from(count))
    }
}

// === impl Schedule ===

impl Schedule {
    /// The rates for an input of exactly this many tokens.
    fn at(&self, input: u64) -> &Rates {
        self.long.iter().rev().find(|long| input > long.above).map_or(&self.base, |long| &long.rates)
    }

    /// The rates for every input of at most this many tokens.
    pub(super) fn up_to(&self, input: u64) -> impl Iterator<Item = &Rates> {
        let long = self.long.iter().filter(move |long| input > long.above).map(|long| &long.rates);
        std::iter::once(&self.base).chain(long)
    }
}

// === impl Rates ===

impl Rates {
    /// Nothing costs anything.
    pub(super) const FREE: Self = Self {
        input: Rate::ZERO,
        cached_input: Rate::ZERO,
        cache_write: Rate::ZERO,
        cache_write_long: Rate::ZERO,
        audio_input: Rate::ZERO,
        output: Rate::ZERO,
        reasoning: Rate::ZERO,
        audio_output: Rate::ZERO,
    };

    /// Bucket by bucket the dearer of two.
    #[must_use]
    pub(super) fn dearer(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            cached_input: self.cached_input.max(other.cached_input),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_long: self.cache_write_long.max(other.cache_write_long),
            audio_input: self.audio_input.max(other.audio_input),
            output: self.output.max(other.output),
            reasoning: self.reasoning.max(other.reasoning),
            audio_output: self.audio_output.max(other.audio_output),
        }
    }

    /// Pico-dollars, unrounded. Saturates instead of overflowing: a provider may report any number of tokens.
    fn cost(&self, usage: &Usage) -> u128 {
        let reasoning = usage.reasoning.min(usage.output);
        [
            self.input.times(usage.uncached_input),
            self.cached_input.times(usage.cache_read),
            self.cache_write.times(usage.cache_write),
            self.cache_write_long.times(usage.cache_write_long),
            self.audio_input.times(usage.audio_input),
            self.output.times(usage.output - reasoning),
            self.reasoning.times(reasoning),
            self.audio_output.times(usage.audio_output),
        ]
        .into_iter()
        .fold(0, u128::saturating_add)
    }
}

#[cfg(test)]
mod tests;
