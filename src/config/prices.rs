//! The join to the price table: built-in prices, then the price file, then the prices of `[models.*]`.

use super::file::{File, LongContext, ModelPrice};
use super::problem::Findings;
use super::read::At;
use crate::pricing::{Listed, ListedRates, Price, PriceTable};

/// A price file beyond this is something else. LiteLLM's own has 2 MB.
const MOST_BYTES: u64 = 64 << 20;

/// So many skipped entries of a price file are named; the rest is counted.
const MOST_NAMED: usize = 10;

/// Builds the table.
pub fn table(file: &File, findings: &mut Findings) -> PriceTable {
    let mut table = PriceTable::builtin();
    if let Some(path) = file.pricing.as_ref().and_then(|pricing| pricing.file.as_ref()) {
        add_file(&mut table, path, findings);
    }
    for (name, model) in file.models.iter().flat_map(|models| &models.0) {
        if let Some(price) = model.price.as_ref().and_then(|price| to_price(price, findings)) {
            table.set(&name.value, price);
        }
    }
    table
}

/// Whether requests for this model can be priced.
pub fn is_priced(table: &PriceTable, model: &str) -> bool {
    table.get(model).is_some()
}

fn add_file(table: &mut PriceTable, path: &At<String>, findings: &mut Findings) {
    const ADVICE: &str = "name a file in the format of LiteLLM's model_prices_and_context_window.json";
    let json = match findings.read_file(&path.place, &path.value, MOST_BYTES) {
        Ok(json) => json,
        Err(error) => {
            findings.problem(&path.place, format!("the price file {:?} cannot be read: {error}", path.value), ADVICE);
            return;
        }
    };
    match table.add_litellm(&json) {
        Ok(skipped) => {
            for warning in skipped.iter().take(MOST_NAMED) {
                findings.warn(&path.place, warning.to_string(), "the model keeps the price it had, if any");
            }
            if skipped.len() > MOST_NAMED {
                findings.warn(&path.place, format!("{} more entries of the price file skipped", skipped.len() - MOST_NAMED), "");
            }
        }
        Err(error) => findings.problem(&path.place, format!("the price file {:?}: {error}", path.value), ADVICE),
    }
}

fn to_price(price: &ModelPrice, findings: &mut Findings) -> Option<Price> {
    let ModelPrice { place, input, cached_input, cache_write, cache_write_long, output, .. } = price;
    let ModelPrice { reasoning, audio_input, audio_output, long_context, web_search_call, .. } = price;
    for (key, missing) in [("input", input.is_none()), ("output", output.is_none())] {
        if missing {
            findings.missing(place, key, format!("write {key} = dollars per million tokens, 0 if it costs nothing"));
        }
    }
    let long = long_context.as_ref().and_then(|long| long_rates(long, findings));
    let listed = Listed {
        rates: ListedRates {
            input: *input,
            cached_input: *cached_input,
            cache_write: *cache_write,
            cache_write_long: *cache_write_long,
            output: *output,
            reasoning: *reasoning,
            audio_input: *audio_input,
            audio_output: *audio_output,
        },
        long: long.into_iter().collect(),
        web_search: *web_search_call,
        ..Listed::default()
    };
    listed.resolve().ok()
}

fn long_rates(long: &LongContext, findings: &mut Findings) -> Option<(u64, ListedRates)> {
    let LongContext { place, above, input, cached_input, cache_write, cache_write_long, output } = long;
    if above.is_none() {
        findings.missing(place, "above", "write the input tokens above which these prices hold, such as above = 200_000");
    }
    let rates = ListedRates {
        input: *input,
        cached_input: *cached_input,
        cache_write: *cache_write,
        cache_write_long: *cache_write_long,
        output: *output,
        ..ListedRates::default()
    };
    Some((above.as_ref()?.value, rates))
}
