//! Exports as the providers' administration APIs give them: pages of buckets of results.

use super::super::money::decimal;
use super::{Export, Provider, Sums, Theirs, Unreadable, day_of, model_of, other_currency};
use crate::history::Day;
use serde_json::{Deserializer, Value};

pub(super) fn read(text: &str) -> Result<Export, Unreadable> {
    let mut pages = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        match value.map_err(|error| damaged(&format!("line {}", error.line()), "it is no JSON, or is cut off"))? {
            Value::Array(list) => pages.extend(list),
            page => pages.push(page),
        }
    }
    let (mut sums, mut provider, mut more, mut credits) = (Sums::default(), None, false, 0);
    for (n, page) in pages.iter().enumerate() {
        let page_at = format!("page {}", n + 1);
        let Some(buckets) = page.get("data").and_then(Value::as_array) else {
            return Err(Unreadable::Unknown(format!("{page_at} has no list named data")));
        };
        more = page.get("has_more").and_then(Value::as_bool) == Some(true);
        for (m, bucket) in buckets.iter().enumerate() {
            let place = format!("{page_at}, bucket {}", m + 1);
            let day = bucket_day(bucket).ok_or_else(|| damaged(&place, "it has no start_time or starting_at that is a time"))?;
            for result in bucket.get("results").and_then(Value::as_array).into_iter().flatten() {
                let (whose, theirs) = result_of(result, day, &place)?;
                if provider.replace(whose).is_some_and(|before| before != whose) {
                    return Err(damaged(&place, "it is of another provider than the results before"));
                }
                match theirs {
                    Some(theirs) => sums.add(theirs),
                    None => credits += 1,
                }
            }
            // Days without any use tell whose they are by how they spell their time.
            let spelt = if bucket.get("starting_at").is_some() { Provider::Anthropic } else { Provider::OpenAi };
            provider = provider.or(Some(spelt));
        }
    }
    let provider = provider.ok_or(Unreadable::Empty)?;
    let mut remarks = Vec::new();
    if more {
        remarks.push(
            "the last page says that there are more: what is missing looks like traffic of ours that they do not have".to_owned(),
        );
    }
    if credits > 0 {
        remarks.push(format!("{credits} credits were passed over"));
    }
    Ok(sums.export(provider, remarks))
}

fn damaged(place: &str, reason: &str) -> Unreadable {
    Unreadable::Damaged { place: place.to_owned(), reason: reason.to_owned() }
}

fn bucket_day(bucket: &Value) -> Option<Day> {
    match bucket.get("start_time").or_else(|| bucket.get("starting_at"))? {
        Value::Number(seconds) => day_of(&seconds.to_string()),
        Value::String(instant) => day_of(instant),
        _ => None,
    }
}

/// A member that is a text.
fn text<'a>(result: &'a Value, name: &str) -> &'a str {
    result.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Members that are counts: their sum; `None` where none of them is there.
fn count(result: &Value, names: &[&str], place: &str) -> Result<Option<u64>, Unreadable> {
    let mut sum = None;
    for name in names {
        let pointer = format!("/{}", name.replace('.', "/"));
        match result.pointer(&pointer) {
            None | Some(Value::Null) => {}
            Some(value) => {
                let n = value.as_u64().ok_or_else(|| damaged(place, &format!("{name} is {value}, which is no count")))?;
                sum = Some(sum.unwrap_or(0_u64).saturating_add(n));
            }
        }
    }
    Ok(sum)
}

/// What a result says; nothing where it is a credit.
fn result_of(result: &Value, day: Day, place: &str) -> Result<(Provider, Option<Theirs>), Unreadable> {
    let object = text(result, "object");
    if object == "organization.costs.result" {
        let amount = result.get("amount").unwrap_or(&Value::Null);
        return Ok((Provider::OpenAi, openai_cost(result, amount, day, place)?));
    }
    if object.starts_with("organization.usage.") {
        let requests = count(result, &["num_model_requests"], place)?;
        let batch = result.get("batch").and_then(Value::as_bool) == Some(true);
        let theirs = Theirs {
            day,
            model: text(result, "model").to_owned(),
            requests,
            input: count(result, &["input_tokens"], place)?,
            cached: count(result, &["input_cached_tokens"], place)?,
            output: count(result, &["output_tokens"], place)?,
            cost: None,
            batch: if batch { requests.unwrap_or(0) } else { 0 },
        };
        return Ok((Provider::OpenAi, Some(theirs)));
    }
    let batch = text(result, "service_tier") == "batch";
    if result.get("uncached_input_tokens").is_some() {
        let names = [
            "uncached_input_tokens",
            "cache_creation.ephemeral_5m_input_tokens",
            "cache_creation.ephemeral_1h_input_tokens",
            "cache_read_input_tokens",
        ];
        let input = count(result, &names, place)?;
        let theirs = Theirs {
            day,
            model: text(result, "model").to_owned(),
            requests: None,
            input,
            cached: count(result, &["cache_read_input_tokens"], place)?,
            output: count(result, &["output_tokens"], place)?,
            cost: None,
            batch: if batch { input.unwrap_or(0) } else { 0 },
        };
        return Ok((Provider::Anthropic, Some(theirs)));
    }
    if let (Some(amount), Some(currency)) = (result.get("amount"), result.get("currency")) {
        return Ok((Provider::Anthropic, anthropic_cost(result, amount, currency, (day, batch), place)?));
    }
    Err(Unreadable::Unknown(format!("{place} has a result that is neither usage nor cost")))
}

/// An amount as it is written, be it a number or a text.
fn written(amount: &Value) -> String {
    amount.as_str().map_or_else(|| amount.to_string(), str::to_owned)
}

fn openai_cost(result: &Value, amount: &Value, day: Day, place: &str) -> Result<Option<Theirs>, Unreadable> {
    let currency = text(amount, "currency");
    if !currency.eq_ignore_ascii_case("usd") {
        return Err(other_currency(place, currency));
    }
    let value = written(amount.get("value").unwrap_or(&Value::Null));
    if value.starts_with('-') {
        return Ok(None);
    }
    let cost = decimal(&value, 9).ok_or_else(|| damaged(place, &format!("amount.value is {value}, which is no amount")))?;
    let item = text(result, "line_item");
    let batch = if item.contains("batch") { cost } else { 0 };
    Ok(Some(Theirs { day, model: model_of(item), cost: Some(cost), batch, ..Theirs::default() }))
}

/// In cents, as a decimal.
fn anthropic_cost(
    result: &Value,
    amount: &Value,
    currency: &Value,
    (day, batch): (Day, bool),
    place: &str,
) -> Result<Option<Theirs>, Unreadable> {
    if currency.as_str() != Some("USD") {
        return Err(other_currency(place, &written(currency)));
    }
    let value = written(amount);
    if value.starts_with('-') {
        return Ok(None);
    }
    let cost = decimal(&value, 7).ok_or_else(|| damaged(place, &format!("amount is {value}, which is no amount")))?;
    let model = text(result, "model").to_owned();
    Ok(Some(Theirs { day, model, cost: Some(cost), batch: if batch { cost } else { 0 }, ..Theirs::default() }))
}
