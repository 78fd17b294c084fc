//! The built-in price table: `prices.csv`, USD per million tokens.
//!
//! The figures are those of LiteLLM's price file as packaged in `litellm` 1.110.2 (November 2026); they are a start, not a promise.
//! Prices change weekly, so an operator who bills by them adds a fresh file or sets prices of their own. `gpt-4o-2024-05-13` is the
//! one snapshot that costs other than its family and so has a row of its own.

use super::listed::{Listed, ListedRates, ListedTier};
use crate::domain::Rate;
use crate::domain::money::MoneyError;

/// The table as shipped.
const CSV: &str = include_str!("prices.csv");

/// Columns, in the order of the file's first line.
const COLUMNS: usize = 21;

/// Why a row of the table cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RowError {
    #[error("has another number of columns than the first line")]
    Columns,
    #[error("{0} {1}")]
    Rate(&'static str, MoneyError),
    #[error("{0} is not a whole number")]
    Count(&'static str),
    #[error("deprecation_date is not a date")]
    Date,
}

/// The rows: model and what is listed for it, or the model and what is wrong.
pub(super) fn rows() -> impl Iterator<Item = Result<(&'static str, Listed), (&'static str, RowError)>> {
    CSV.lines().skip(1).filter(|line| !line.is_empty()).map(|line| {
        let model = line.split(',').next().unwrap_or_default();
        row(line).map(|listed| (model, listed)).map_err(|error| (model, error))
    })
}

fn row(line: &str) -> Result<Listed, RowError> {
    let fields: Vec<&str> = line.split(',').collect();
    let fields: [&str; COLUMNS] = fields.try_into().map_err(|_| RowError::Columns)?;
    let [
        _model,
        provider,
        mode,
        input,
        cached_input,
        cache_write,
        cache_write_long,
        _long_lifetime,
        output,
        above,
        tier_input,
        tier_cached_input,
        tier_cache_write,
        tier_output,
        batch_input,
        batch_output,
        audio_input,
        audio_output,
        max_input_tokens,
        max_output_tokens,
        deprecation_date,
    ] = fields;
    let output = if output.is_empty() && mode == "embedding" { "0" } else { output };
    let above = count("tier_above_tokens", above)?;
    let (short, long) = (rate("cache_write", cache_write)?, rate("cache_write_long", cache_write_long)?);
    let tier_short = rate("tier_cache_write", tier_cache_write)?;
    let step = ListedRates {
        input: rate("tier_input", tier_input)?,
        cached_input: rate("tier_cached_input", tier_cached_input)?,
        cache_write: tier_short,
        cache_write_long: in_proportion(tier_short, short, long),
        output: rate("tier_output", tier_output)?,
        ..ListedRates::default()
    };
    let batch = ListedRates {
        input: rate("batch_input", batch_input)?,
        output: rate("batch_output", batch_output)?,
        ..ListedRates::default()
    };
    Ok(Listed {
        rates: ListedRates {
            input: rate("input", input)?,
            cached_input: rate("cached_input", cached_input)?,
            cache_write: short,
            cache_write_long: long,
            output: rate("output", output)?,
            reasoning: None,
            audio_input: rate("audio_input", audio_input)?,
            audio_output: rate("audio_output", audio_output)?,
        },
        long: above.map(|above| (threshold(provider, above), step)).into_iter().collect(),
        tiers: batch.input.map(|_| ListedTier { name: "batch".into(), rates: batch, long: Vec::new() }).into_iter().collect(),
        web_search: None,
        max_input_tokens: count("max_input_tokens", max_input_tokens)?,
        max_output_tokens: count("max_output_tokens", max_output_tokens)?,
        deprecation_date: match deprecation_date {
            "" => None,
            date => Some(date.parse().map_err(|_| RowError::Date)?),
        },
    })
}

/// A long-context step's rate for long-lived cache writes, which has no column: dearer than its short-lived one by as much as below the
/// step. That is what LiteLLM's file states for every model of the table that has both.
fn in_proportion(step_short: Option<Rate>, short: Option<Rate>, long: Option<Rate>) -> Option<Rate> {
    let pico = long?.times(step_short?.pico()).checked_div(u128::from(short?.pico()))?;
    u64::try_from(pico).ok().map(Rate::from_pico)
}

/// Input tokens above which long-context rates apply: xAI's apply from the stated number on, the others' above it.
pub(super) fn threshold(provider: &str, stated: u64) -> u64 {
    if provider == "xai" { stated.saturating_sub(1) } else { stated }
}

fn rate(column: &'static str, text: &str) -> Result<Option<Rate>, RowError> {
    match text {
        "" => Ok(None),
        text => Rate::per_million(text).map(Some).map_err(|error| RowError::Rate(column, error)),
    }
}

fn count(column: &'static str, text: &str) -> Result<Option<u64>, RowError> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| RowError::Count(column)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pricing::PriceTable;

    #[test]
    fn every_row_is_a_price() {
        for row in rows() {
            let (model, listed) = row.expect("a readable row");
            listed.resolve().unwrap_or_else(|error| panic!("{model} {error}"));
        }
        assert_eq!(PriceTable::builtin().len(), 73);
    }

    #[test]
    fn spot_prices_are_those_of_the_list() {
        let table = PriceTable::builtin();
        for (model, input, cached, write, long_write, output) in [
            ("gpt-4o", 2_500_000, 1_250_000, 2_500_000, 2_500_000, 10_000_000),
            ("gpt-4o-2024-08-06", 2_500_000, 1_250_000, 2_500_000, 2_500_000, 10_000_000),
            ("gpt-4o-2024-05-13", 5_000_000, 5_000_000, 5_000_000, 5_000_000, 15_000_000),
            ("gpt-4o-mini", 150_000, 75_000, 150_000, 150_000, 600_000),
            ("gpt-6-luna", 100_000, 10_000, 125_000, 250_000, 500_000),
            ("claude-sonnet-4-6", 3_000_000, 300_000, 3_750_000, 6_000_000, 15_000_000),
            ("gemini-2.5-pro", 1_250_000, 125_000, 1_250_000, 1_250_000, 10_000_000),
            ("deepseek/deepseek-v4-pro", 1_320_000, 44_000, 0, 0, 3_960_000),
            ("text-embedding-3-small", 20_000, 20_000, 20_000, 20_000, 0),
            ("mistral-embed", 100_000, 100_000, 100_000, 100_000, 0),
            ("openai/gpt-oss-120b", 150_000, 75_000, 150_000, 150_000, 600_000),
        ] {
            let price = table.get(model).unwrap_or_else(|| panic!("{model} has a price"));
            let rates = price.rates();
            let picos =
                [rates.input, rates.cached_input, rates.cache_write, rates.cache_write_long, rates.output].map(Rate::pico);
            assert_eq!(picos, [input, cached, write, long_write, output], "{model}");
        }
        for (model, right) in [("gpt-6-sol", 10_000_000), ("claude-haiku-5-5", 1_000_000), ("gpt-5.5", 10_000_000)] {
            let price = table.get(model).expect("a price");
            assert_eq!(price.long_context()[0].rates.cache_write_long.pico(), right, "{model} above its step");
        }
        let audio = table.get("gpt-audio-1.5").expect("a price");
        assert_eq!((audio.rates().audio_input.pico(), audio.rates().audio_output.pico()), (32_000_000, 64_000_000));
        let sonnet = table.get("claude-sonnet-4-5-20250929").expect("a price");
        assert_eq!(sonnet.max_output_tokens, Some(64_000));
        assert_eq!(sonnet.deprecation_date, Some(jiff::civil::date(2026, 11, 30)));
        assert_eq!(table.get("grok-4.7").expect("a price").long_context()[0].above, 199_999, "xAI's step includes the number");
    }

    #[test]
    fn a_bad_row_says_what_is_wrong() {
        for (line, right) in [
            ("m,p,chat,1", RowError::Columns),
            ("m,p,chat,-1,,,,,2,,,,,,,,,,,,", RowError::Rate("input", MoneyError::NotDecimal)),
            ("m,p,chat,nan,,,,,2,,,,,,,,,,,,", RowError::Rate("input", MoneyError::NotDecimal)),
            ("m,p,chat,1,,,,,2,,,,,,,,,,x,,", RowError::Count("max_input_tokens")),
            ("m,p,chat,1,,,,,2,,,,,,,,,,,,soon", RowError::Date),
        ] {
            assert_eq!(row(line), Err(right), "{line}");
        }
    }
}
