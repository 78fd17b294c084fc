//! What tokens cost: the price table, the cost of a request, the import of LiteLLM's file.

/// Prices by model name.
#[derive(Debug, Default)]
pub struct PriceTable;
