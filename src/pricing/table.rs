//! Prices by model name.

use super::litellm::{self, PriceFileError, Warning};
use super::{Price, builtin};
use foldhash::HashMap;
use std::fmt;
use std::sync::Arc;

/// Longer names are no model's; they are not even looked up.
const MAX_NAME: usize = 256;

/// Prices by model name: filled once, then only read.
#[derive(Clone, Default)]
pub struct PriceTable {
    prices: HashMap<Arc<str>, Arc<Price>>,
    /// Name without its first path segment, to the full names: `gemini-2.5-pro` to `gemini/gemini-2.5-pro`.
    unprefixed: HashMap<Box<str>, Vec<Arc<str>>>,
}

impl PriceTable {
    /// The prices that come with the program.
    #[must_use]
    pub fn builtin() -> Self {
        let mut table = Self::default();
        // A test reads every row, so none can be missing here; were one, its model would have no price and be refused.
        for (model, price) in builtin::rows().flatten().filter_map(|(model, listed)| Some((model, listed.resolve().ok()?))) {
            table.insert(model, price);
        }
        table
    }

    /// Adds a file in LiteLLM's format; its entries replace those of the same name. Entry by entry: a bad one is skipped and named in
    /// a warning, and its model keeps the price it had, if any.
    ///
    /// # Errors
    /// When the bytes are no JSON object. Nothing is added then.
    pub fn add_litellm(&mut self, json: &[u8]) -> Result<Vec<Warning>, PriceFileError> {
        let file = litellm::read(json)?;
        for (model, price) in file.prices {
            self.insert(&model, price);
        }
        Ok(file.warnings)
    }

    /// Sets the operator's own price. What it does not state besides rates (longest answer, web search, retirement) is kept.
    pub fn set(&mut self, model: &str, price: Price) {
        let price = match self.prices.get(model) {
            Some(older) => price.completed_by(older),
            None => price,
        };
        self.insert(model, price);
    }

    /// The price of a model, by the name a request or reply gives it; `None` = it has none, which is never the same as free.
    ///
    /// Names match exactly, case and blanks included. Failing that, a provider's prefix may be missing (`gemini-2.5-pro` for
    /// `gemini/gemini-2.5-pro`), but only if every provider in the table asks the same and not nothing, since it is not known here
    /// whose model is meant. Failing that, the name's date is left out (`-2025-08-07`, `-20250929`): a snapshot costs what its
    /// family costs unless it is listed on its own.
    #[must_use]
    pub fn get(&self, model: &str) -> Option<Arc<Price>> {
        if model.len() > MAX_NAME {
            return None;
        }
        self.lookup(model).or_else(|| self.lookup(without_date(model)?))
    }

    /// Whether the table lists a model under exactly this name. Names that only resolve to an entry (by a date behind them) are without
    /// number; those of the entries are few.
    #[must_use]
    pub fn lists(&self, model: &str) -> bool {
        self.prices.contains_key(model)
    }

    /// As [`PriceTable::get`], for a model of a known provider or host (`azure`, `groq`): its own entry (`azure/gpt-4o`) comes first,
    /// since hosts ask different prices for a model of one name.
    #[must_use]
    pub fn get_at(&self, provider: &str, model: &str) -> Option<Arc<Price>> {
        if model.len() > MAX_NAME || provider.len() > MAX_NAME {
            return None;
        }
        let own = |model: &str| self.prices.get(&*format!("{provider}/{model}")).map(Arc::clone);
        own(model).or_else(|| own(without_date(model)?)).or_else(|| self.get(model))
    }

    /// How many models have a price.
    #[must_use]
    pub fn len(&self) -> usize {
        self.prices.len()
    }

    /// Whether no model has a price.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.prices.is_empty()
    }

    fn lookup(&self, model: &str) -> Option<Arc<Price>> {
        if let Some(price) = self.prices.get(model) {
            return Some(Arc::clone(price));
        }
        let mut candidates = self.unprefixed.get(model)?.iter().filter_map(|name| self.prices.get(name));
        let first = candidates.next()?;
        let certain = !first.is_free() && candidates.all(|other| first.charges_as(other));
        certain.then(|| Arc::clone(first))
    }

    fn insert(&mut self, model: &str, price: Price) {
        let name: Arc<str> = model.into();
        if self.prices.insert(Arc::clone(&name), Arc::new(price)).is_none()
            && let Some((_, rest)) = model.split_once('/')
        {
            self.unprefixed.entry(rest.into()).or_default().push(name);
        }
    }
}

impl fmt::Debug for PriceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriceTable").field("models", &self.prices.len()).finish_non_exhaustive()
    }
}

/// The name before a date of this century at its end, if there is one.
fn without_date(model: &str) -> Option<&str> {
    let dated = |digits: &str| {
        digits.len() == 8
            && digits.bytes().all(|b| b.is_ascii_digit())
            && digits.starts_with("20")
            && ("01"..="12").contains(&&digits[4..6])
            && ("01"..="31").contains(&&digits[6..])
    };
    let cut = |length: usize| {
        let (name, date) = model.split_at_checked(model.len().checked_sub(length)?)?;
        (!name.is_empty() && date.is_ascii()).then_some((name, date))
    };
    if let Some((name, date)) = cut(11)
        && date.as_bytes()[0] == b'-'
        && date.as_bytes()[5] == b'-'
        && date.as_bytes()[8] == b'-'
        && dated(&date.replace('-', ""))
    {
        return Some(name);
    }
    let (name, date) = cut(9)?;
    (date.as_bytes()[0] == b'-' && dated(&date[1..])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Rate;
    use crate::pricing::{Listed, ListedRates};

    fn price(input: u64, output: u64) -> Price {
        let rates =
            ListedRates { input: Some(Rate::from_pico(input)), output: Some(Rate::from_pico(output)), ..ListedRates::default() };
        Listed { rates, ..Listed::default() }.resolve().expect("a price")
    }

    fn table(names: &[(&str, u64)]) -> PriceTable {
        let mut table = PriceTable::default();
        for (name, input) in names {
            table.set(name, price(*input, *input));
        }
        table
    }

    #[test]
    fn a_model_never_borrows_a_price() {
        let table = table(&[
            ("m-big", 1),
            ("a/shared", 2),
            ("b/shared", 3),
            ("a/same", 4),
            ("b/same", 4),
            ("host/maker/open", 5),
            ("free/nothing", 0),
            ("dated", 6),
            ("dated-2025-01-02", 7),
        ]);
        let long = "x".repeat(100_000);
        for (asked, right) in [
            ("m-big", Some(1)),
            ("m-big ", None),
            ("M-BIG", None),
            ("m-bi", None),
            ("m-big2", None),
            ("ft:m-big:org::1", None),
            ("unknown", None),
            ("", None),
            (&long, None),
            ("shared", None),
            ("a/shared", Some(2)),
            ("c/shared", None),
            ("same", Some(4)),
            ("maker/open", Some(5)),
            ("open", None),
            ("free/nothing", Some(0)),
            ("nothing", None),
            ("m-big-2025-08-07", Some(1)),
            ("m-big-20250929", Some(1)),
            ("same-20250929", Some(4)),
            ("m-big-2025-13-07", None),
            ("m-big-2025-08-00", None),
            ("m-big-19990101", None),
            ("m-big-12345678", None),
            ("m-big-2025-8-7", None),
            ("m-big2025-08-07", None),
            ("-20250929", None),
            ("m-----------", None),
            ("m-big-2025\u{2013}08-07", None),
            ("dated-2025-01-02", Some(7)),
            ("dated-2025-01-03", Some(6)),
        ] {
            let input = table.get(asked).map(|price| price.rates().input.pico());
            assert_eq!(input, right, "{:?}", &asked[..asked.len().min(40)]);
        }
    }

    #[test]
    fn a_known_providers_own_price_comes_first() {
        let table = table(&[("m", 1), ("azure/m", 2), ("a/shared", 3), ("b/shared", 4), ("groq/maker/open", 5)]);
        for (provider, asked, right) in [
            ("azure", "m", Some(2)),
            ("azure", "m-2025-08-07", Some(2)),
            ("openai", "m", Some(1)),
            ("a", "shared", Some(3)),
            ("b", "shared", Some(4)),
            ("c", "shared", None),
            ("groq", "maker/open", Some(5)),
            ("azure", "M", None),
            ("", "m", Some(1)),
        ] {
            let input = table.get_at(provider, asked).map(|price| price.rates().input.pico());
            assert_eq!(input, right, "{provider} {asked}");
        }
    }

    #[test]
    fn an_override_replaces_the_rates_and_keeps_the_facts() {
        let mut table = PriceTable::builtin();
        table.set("gpt-4o", price(7, 8));
        let price = table.get("gpt-4o").expect("a price");
        assert_eq!((price.rates().input.pico(), price.rates().cached_input.pico()), (7, 7));
        assert_eq!(price.max_output_tokens, Some(16_384));

        table.set("gemini/gemini-2.5-pro", self::price(9, 9));
        assert_eq!(table.get("gemini-2.5-pro").expect("a price").rates().input.pico(), 9, "under its short name too");
    }
}
