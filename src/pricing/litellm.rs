//! LiteLLM's price file: one JSON object, model name to a flat object of USD per single token.
//!
//! Every entry is read on its own, and a bad one is skipped and named: the file has thousands of entries by many hands, and one slip
//! must not cost the rest. A skipped entry means no price, which is refused, never free. Fields that are not understood (images,
//! seconds, off-peak hours, which only make it cheaper) are ignored, and so are entries that are not sold by the token.

use super::builtin::threshold;
use super::decimal::{MAX_PICO_PER_TOKEN, NumberError, scaled};
use super::listed::{Listed, ListedRates, ListedTier};
use super::{Price, PriceError};
use crate::domain::{NanoUsd, Rate};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;

/// How many times an alias may point to another alias.
const MAX_ALIASES: usize = 4;

/// Service tiers as the last part of a field's name, and what replies call them.
const TIERS: [(&str, &str); 7] = [
    ("_batches", "batch"),
    ("_flex", "flex"),
    ("_priority", "priority"),
    ("_fast", "fast"),
    ("_ultrafast", "ultrafast"),
    ("_balanced", "balanced"),
    ("_decisions", "decisions"),
];

/// Why a price file cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the price file is not a JSON object of models: {0}")]
pub struct PriceFileError(String);

/// An entry that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The entry's name, shortened when it is absurdly long.
    pub entry: Box<str>,
    /// What is wrong with it, as a sentence without capital and full stop.
    pub problem: Box<str>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "price of {:?} skipped: {}", self.entry, self.problem)
    }
}

/// What was in a file.
pub(super) struct File {
    pub(super) prices: Vec<(String, Price)>,
    pub(super) warnings: Vec<Warning>,
}

type Fields<'a> = HashMap<String, &'a RawValue>;

/// Reads a whole file.
pub(super) fn read(json: &[u8]) -> Result<File, PriceFileError> {
    let Entries(entries) = serde_json::from_slice(json).map_err(|error| PriceFileError(error.to_string()))?;
    let mut prices: HashMap<String, Price> = HashMap::with_capacity(entries.len());
    let mut aliases: HashMap<String, String> = HashMap::new();
    let mut warnings = Vec::new();
    // `sample_spec` documents the format, with strings where numbers belong.
    for (name, raw) in entries.into_iter().filter(|(name, _)| name != "sample_spec") {
        match entry(raw) {
            Ok(Entry::Price(price)) => drop(prices.insert(name, *price)),
            Ok(Entry::Alias(of)) => drop(aliases.insert(name, of)),
            Ok(Entry::NotByToken) => {}
            Err(problem) => warnings.push(warning(&name, problem)),
        }
    }
    for name in aliases.keys() {
        let end = std::iter::successors(Some(name), |name| aliases.get(*name)).take(MAX_ALIASES + 1).last();
        match end.and_then(|target| prices.get(target)).cloned() {
            Some(price) => drop(prices.insert(name.clone(), price)),
            None => warnings.push(warning(name, "it is an alias of nothing that has a price".to_owned())),
        }
    }
    warnings.sort_by(|a, b| a.entry.cmp(&b.entry));
    Ok(File { prices: prices.into_iter().collect(), warnings })
}

fn warning(name: &str, problem: String) -> Warning {
    let entry: String = name.chars().take(100).collect();
    Warning { entry: entry.into(), problem: problem.into() }
}

enum Entry {
    Price(Box<Price>),
    Alias(String),
    NotByToken,
}

/// Reads one entry, or says what is wrong with it.
fn entry(raw: &RawValue) -> Result<Entry, String> {
    let fields: Fields<'_> = parse(raw).ok_or("it is not an object")?;
    if let Some(of) = fields.get("alias_of").and_then(|raw| parse(raw)) {
        return Ok(Entry::Alias(of));
    }
    let mode: Option<String> = fields.get("mode").and_then(|raw| parse(raw));
    let reads_only = match mode.as_deref() {
        None | Some("chat" | "responses" | "completion") => false,
        Some("embedding") => true,
        Some(_) => return Ok(Entry::NotByToken),
    };
    let provider: String = fields.get("litellm_provider").and_then(|raw| parse(raw)).unwrap_or_default();

    let mut listed = Listed::default();
    collect(&mut listed, &fields, &provider)?;
    if let Some(ranges) = fields.get("tiered_pricing").and_then(|raw| parse::<Vec<Fields<'_>>>(raw)) {
        by_range(&mut listed, &ranges, &provider)?;
    }
    if listed.rates == ListedRates::default() {
        return Ok(Entry::NotByToken);
    }
    if reads_only {
        listed.rates.output.get_or_insert(Rate::ZERO);
    }
    multiply(&mut listed, &fields)?;
    listed.web_search = web_search(&fields)?;
    listed.max_input_tokens = count(&fields, "max_input_tokens");
    // Older files only have `max_tokens`, which mostly means the output.
    listed.max_output_tokens = count(&fields, "max_output_tokens").or_else(|| count(&fields, "max_tokens"));
    listed.deprecation_date = fields.get("deprecation_date").and_then(|raw| parse::<String>(raw)?.parse().ok());
    listed.resolve().map(|price| Entry::Price(Box::new(price))).map_err(|error: PriceError| format!("it {error}"))
}

/// Puts every rate of an entry where it belongs.
fn collect(listed: &mut Listed, fields: &Fields<'_>, provider: &str) -> Result<(), String> {
    for (key, raw) in fields {
        let Some((bucket, above, tier)) = field(key) else { continue };
        let Some(rate) = rate(key, raw)? else { continue };
        let above = above.map(|above| threshold(provider, above));
        let (rates, long) = match tier {
            None => (&mut listed.rates, &mut listed.long),
            Some(name) => {
                let tier = tier_of(&mut listed.tiers, name);
                (&mut tier.rates, &mut tier.long)
            }
        };
        *bucket(above.map_or(rates, |above| step_of(long, above))) = Some(rate);
    }
    Ok(())
}

/// `tiered_pricing`: ranges of the input, each with its rates; the lowest is the base, often in place of plain rates.
fn by_range(listed: &mut Listed, ranges: &[Fields<'_>], provider: &str) -> Result<(), String> {
    let mut steps = Vec::with_capacity(ranges.len());
    for range in ranges {
        let bounds: Vec<&RawValue> = range.get("range").and_then(|raw| parse(raw)).unwrap_or_default();
        let from = bounds.first().ok_or("its tiered_pricing lacks a range")?;
        let from = scaled(from.get(), 0).map_err(|error| format!("a range of its tiered_pricing {error}"))?;
        let mut one = Listed::default();
        collect(&mut one, range, provider)?;
        steps.push((from, one.rates));
    }
    steps.sort_by_key(|(from, _)| *from);
    let mut steps = steps.into_iter();
    if let Some((_, lowest)) = steps.next() {
        listed.rates = listed.rates.or(lowest);
    }
    for (from, rates) in steps {
        let step = step_of(&mut listed.long, from);
        *step = step.or(rates);
    }
    Ok(())
}

/// `provider_specific_entry.fast`: the fast tier as a multiple, where no rates are stated for it.
fn multiply(listed: &mut Listed, fields: &Fields<'_>) -> Result<(), String> {
    let factors: Option<Fields<'_>> = fields.get("provider_specific_entry").and_then(|raw| parse(raw));
    let Some(raw) = factors.as_ref().and_then(|factors| factors.get("fast")) else { return Ok(()) };
    if listed.tiers.iter().any(|tier| *tier.name == *"fast") {
        return Ok(());
    }
    let millionths = scaled(raw.get(), 6).map_err(|error| format!("its multiplier for fast {error}"))?;
    let long = listed.long.iter().map(|(above, rates)| (*above, rates.times(millionths))).collect();
    listed.tiers.push(ListedTier { name: "fast".into(), rates: listed.rates.times(millionths), long });
    Ok(())
}

/// The dearest of the prices per web search, which go by how much of the results is read.
fn web_search(fields: &Fields<'_>) -> Result<Option<NanoUsd>, String> {
    let sizes: Option<Fields<'_>> = fields.get("search_context_cost_per_query").and_then(|raw| parse(raw));
    let mut dearest = None;
    for raw in sizes.iter().flat_map(Fields::values) {
        let nano = scaled(raw.get(), 9).map_err(|error| format!("its search_context_cost_per_query {error}"))?;
        dearest = dearest.max(Some(NanoUsd::new(nano)));
    }
    Ok(dearest)
}

type Bucket = fn(&mut ListedRates) -> &mut Option<Rate>;

/// Which bucket, long-context threshold and service tier a field's name means; `None` for every other field.
fn field(key: &str) -> Option<(Bucket, Option<u64>, Option<&'static str>)> {
    let buckets: [(&str, Bucket); 9] = [
        ("cache_creation_input_token_cost_above_12hr", |rates| &mut rates.cache_write_long),
        ("cache_creation_input_token_cost_above_1hr", |rates| &mut rates.cache_write_long),
        ("cache_creation_input_token_cost", |rates| &mut rates.cache_write),
        ("cache_read_input_token_cost", |rates| &mut rates.cached_input),
        ("input_cost_per_token", |rates| &mut rates.input),
        ("output_cost_per_token", |rates| &mut rates.output),
        ("output_cost_per_reasoning_token", |rates| &mut rates.reasoning),
        ("input_cost_per_audio_token", |rates| &mut rates.audio_input),
        ("output_cost_per_audio_token", |rates| &mut rates.audio_output),
    ];
    let (mut rest, bucket) = buckets.into_iter().find_map(|(name, bucket)| Some((key.strip_prefix(name)?, bucket)))?;
    let tier = TIERS.into_iter().find_map(|(suffix, name)| Some((rest.strip_suffix(suffix)?, name)));
    if let Some((before, _)) = tier {
        rest = before;
    }
    let above = match rest {
        "" => None,
        step => {
            let thousands: u64 = step.strip_prefix("_above_")?.strip_suffix("k_tokens")?.parse().ok()?;
            Some(thousands.checked_mul(1_000)?)
        }
    };
    Some((bucket, above, tier.map(|(_, name)| name)))
}

fn tier_of<'a>(tiers: &'a mut Vec<ListedTier>, name: &str) -> &'a mut ListedTier {
    let index = tiers.iter().position(|tier| *tier.name == *name).unwrap_or_else(|| {
        tiers.push(ListedTier { name: name.into(), ..ListedTier::default() });
        tiers.len() - 1
    });
    &mut tiers[index]
}

fn step_of(long: &mut Vec<(u64, ListedRates)>, above: u64) -> &mut ListedRates {
    let index = long.iter().position(|(at, _)| *at == above).unwrap_or_else(|| {
        long.push((above, ListedRates::default()));
        long.len() - 1
    });
    &mut long[index].1
}

/// A rate in USD per token; `null` counts as not stated.
fn rate(key: &str, raw: &RawValue) -> Result<Option<Rate>, String> {
    if raw.get() == "null" {
        return Ok(None);
    }
    let pico =
        scaled(raw.get(), 12).and_then(|pico| if pico > MAX_PICO_PER_TOKEN { Err(NumberError::TooLarge) } else { Ok(pico) });
    pico.map(|pico| Some(Rate::from_pico(pico))).map_err(|error| format!("its {key} {error}"))
}

/// A count that is only informative: what is no number is ignored.
fn count(fields: &Fields<'_>, key: &str) -> Option<u64> {
    fields.get(key).and_then(|raw| scaled(raw.get(), 0).ok()).filter(|count| *count > 0)
}

fn parse<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// The entries of the file, unread, in its order.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    // `NaN` and `Infinity` are no JSON, so they end the reading; say in which entry.
                    let value = map.next_value().map_err(|error| M::Error::custom(format!("entry {name:.100?}: {error}")))?;
                    entries.push((name, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests;
