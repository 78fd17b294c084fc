//! A price as lists state it, with gaps, and how the gaps are filled.
//!
//! Lists leave out what equals something else. The rules, which are LiteLLM's: a cached, written or audio input token without a rate
//! of its own costs the input rate, a long-lived cache write the short-lived one, audio or reasoning output the output rate; a
//! service tier or long-context step that does not restate a rate keeps the one it would have without the tier or step.

use super::price::{LongContext, Price, Rates, Schedule};
use crate::domain::{NanoUsd, Rate};
use jiff::civil::Date;
use std::collections::BTreeSet;

/// Rates as a list states them; `None` = not stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedRates {
    /// Input; the one rate every model must have.
    pub input: Option<Rate>,
    /// Input read from the prompt cache. A stated zero is a price.
    pub cached_input: Option<Rate>,
    /// Cache write, short lifetime.
    pub cache_write: Option<Rate>,
    /// Cache write, long lifetime.
    pub cache_write_long: Option<Rate>,
    /// Output; must be stated, if as zero for models that only read.
    pub output: Option<Rate>,
    /// Reasoning output.
    pub reasoning: Option<Rate>,
    /// Audio input.
    pub audio_input: Option<Rate>,
    /// Audio output.
    pub audio_output: Option<Rate>,
}

/// What a list states for one service tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedTier {
    /// The tier's name as replies spell it: `flex`, `priority`, `batch`.
    pub name: Box<str>,
    /// Rates that differ.
    pub rates: ListedRates,
    /// Long-context rates that differ: input tokens above which they apply, and the rates.
    pub long: Vec<(u64, ListedRates)>,
}

/// What a list states for one model: the way to make a [`Price`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The standard tier.
    pub rates: ListedRates,
    /// Long-context rates: input tokens above which they apply, and the rates.
    pub long: Vec<(u64, ListedRates)>,
    /// Other service tiers.
    pub tiers: Vec<ListedTier>,
    /// One web search by a server-side tool.
    pub web_search: Option<NanoUsd>,
    /// The most input tokens.
    pub max_input_tokens: Option<u64>,
    /// The most output tokens.
    pub max_output_tokens: Option<u64>,
    /// The day the provider retires the model.
    pub deprecation_date: Option<Date>,
}

/// Why a listed price is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// No input rate.
    #[error("has no price per input token")]
    NoInput,
    /// No output rate; a model that only reads states zero.
    #[error("has no price per output token")]
    NoOutput,
}

impl Listed {
    /// Fills the gaps.
    ///
    /// # Errors
    /// When the input or output rate is missing: a price with a hole would be free by accident.
    pub fn resolve(&self) -> Result<Price, PriceError> {
        let tiers = self.tiers.iter().map(|tier| Ok((tier.name.clone(), self.schedule(tier.rates, &tier.long)?)));
        Ok(Price {
            standard: self.schedule(ListedRates::default(), &[])?,
            tiers: tiers.collect::<Result<_, PriceError>>()?,
            web_search: self.web_search,
            max_input_tokens: self.max_input_tokens,
            max_output_tokens: self.max_output_tokens,
            deprecation_date: self.deprecation_date,
        })
    }

    fn schedule(&self, rates: ListedRates, long: &[(u64, ListedRates)]) -> Result<Schedule, PriceError> {
        let stated = |list: &[(u64, ListedRates)], above: u64| {
            list.iter().find(|(at, _)| *at == above).map(|(_, rates)| *rates).unwrap_or_default()
        };
        let mut running = rates.or(self.rates);
        let base = running.resolve()?;
        let steps: BTreeSet<u64> = self.long.iter().chain(long).map(|(above, _)| *above).collect();
        let long = steps.into_iter().map(|above| {
            running = stated(long, above).or(stated(&self.long, above)).or(running);
            Ok(LongContext { above, rates: running.resolve()? })
        });
        Ok(Schedule { base, long: long.collect::<Result<_, PriceError>>()? })
    }
}

impl ListedRates {
    /// Rate by rate, this one or else the other.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            input: self.input.or(other.input),
            cached_input: self.cached_input.or(other.cached_input),
            cache_write: self.cache_write.or(other.cache_write),
            cache_write_long: self.cache_write_long.or(other.cache_write_long),
            output: self.output.or(other.output),
            reasoning: self.reasoning.or(other.reasoning),
            audio_input: self.audio_input.or(other.audio_input),
            audio_output: self.audio_output.or(other.audio_output),
        }
    }

    fn resolve(self) -> Result<Rates, PriceError> {
        let input = self.input.ok_or(PriceError::NoInput)?;
        let output = self.output.ok_or(PriceError::NoOutput)?;
        let cache_write = self.cache_write.unwrap_or(input);
        Ok(Rates {
            input,
            cached_input: self.cached_input.unwrap_or(input),
            cache_write,
            cache_write_long: self.cache_write_long.unwrap_or(cache_write),
            audio_input: self.audio_input.unwrap_or(input),
            output,
            reasoning: self.reasoning.unwrap_or(output),
            audio_output: self.audio_output.unwrap_or(output),
        })
    }

    /// Every stated rate times `millionths` / 1,000,000, rounded up.
    pub(super) fn times(self, millionths: u64) -> Self {
        let scale = |rate: Option<Rate>| {
            let pico = rate?.times(millionths).div_ceil(1_000_000);
            Some(Rate::from_pico(u64::try_from(pico).unwrap_or(u64::MAX)))
        };
        Self {
            input: scale(self.input),
            cached_input: scale(self.cached_input),
            cache_write: scale(self.cache_write),
            cache_write_long: scale(self.cache_write_long),
            output: scale(self.output),
            reasoning: scale(self.reasoning),
            audio_input: scale(self.audio_input),
            audio_output: scale(self.audio_output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(input: u64, output: u64) -> ListedRates {
        ListedRates { input: Some(Rate::from_pico(input)), output: Some(Rate::from_pico(output)), ..ListedRates::default() }
    }

    #[test]
    fn what_is_not_stated_costs_what_it_equals() {
        let price = Listed { rates: rates(10, 50), ..Listed::default() }.resolve().expect("a price");
        let right = Rates {
            input: Rate::from_pico(10),
            cached_input: Rate::from_pico(10),
            cache_write: Rate::from_pico(10),
            cache_write_long: Rate::from_pico(10),
            audio_input: Rate::from_pico(10),
            output: Rate::from_pico(50),
            reasoning: Rate::from_pico(50),
            audio_output: Rate::from_pico(50),
        };
        assert_eq!(*price.rates(), right);

        let written = ListedRates { cache_write: Some(Rate::from_pico(12)), cached_input: Some(Rate::ZERO), ..rates(10, 50) };
        let price = Listed { rates: written, ..Listed::default() }.resolve().expect("a price");
        assert_eq!(price.rates().cache_write_long, Rate::from_pico(12), "the short-lived rate");
        assert_eq!(price.rates().cached_input, Rate::ZERO, "a stated zero is a price");
    }

    #[test]
    fn a_price_with_a_hole_is_none() {
        for (listed, right) in [
            (ListedRates { input: None, ..rates(1, 1) }, PriceError::NoInput),
            (ListedRates { output: None, ..rates(1, 1) }, PriceError::NoOutput),
        ] {
            assert_eq!(Listed { rates: listed, ..Listed::default() }.resolve(), Err(right));
        }
    }

    #[test]
    fn steps_inherit_from_the_step_below_and_tiers_from_the_standard() {
        let only = |input: u64| ListedRates { input: Some(Rate::from_pico(input)), ..ListedRates::default() };
        let listed = Listed {
            rates: rates(10, 50),
            long: vec![(200, ListedRates { output: Some(Rate::from_pico(75)), ..only(20) }), (400, only(40))],
            tiers: vec![ListedTier { name: "priority".into(), rates: rates(25, 100), long: vec![(200, only(45))] }],
            ..Listed::default()
        };
        let price = listed.resolve().expect("a price");
        let picos = |long: &[LongContext]| -> Vec<_> {
            long.iter().map(|l| (l.above, l.rates.input.pico(), l.rates.output.pico())).collect()
        };
        assert_eq!(picos(price.long_context()), [(200, 20, 75), (400, 40, 75)]);
        let (_, priority) = &price.tiers[0];
        assert_eq!((priority.base.input.pico(), priority.base.output.pico()), (25, 100));
        assert_eq!(picos(&priority.long), [(200, 45, 75), (400, 40, 75)]);
    }
}
