//! What tokens cost: the price table, the cost of a request, the import of LiteLLM's file.
//!
//! A [`PriceTable`] is filled once (built-in prices, then an optional price file, then the operator's overrides) and only read
//! afterwards. A request takes its [`Price`] at admission and keeps it to the end, so a reload in mid-stream never mixes two prices.
//!
//! Rates are integers in pico-dollars per token ([`crate::domain::Rate`]); a request's cost is summed unrounded and rounded up to
//! nano-dollars once. A model that is not in the table has no price; it is never free by accident and never borrows another's.

mod builtin;
mod decimal;
mod listed;
mod litellm;
mod price;
mod table;
mod worst;

pub use listed::{Listed, ListedRates, ListedTier, PriceError};
pub use litellm::{PriceFileError, Warning};
pub use price::{Gaps, LongContext, Price, Rates};
pub use table::PriceTable;
pub use worst::{Asked, CacheWrites, Worst};
