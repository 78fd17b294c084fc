//! The providers' formats: what a request asks for, what a reply used, how an error looks. No limits in here.

pub mod api;
mod cursor;
pub mod delivered;
pub mod edit;
pub mod error;
pub mod meter;
pub(crate) mod pick;
pub mod request;
pub mod retry_after;
pub mod shorten;
pub mod sse;
pub mod usage;
pub mod whole;

pub use api::{Api, Dialect};
pub use usage::Usage;
