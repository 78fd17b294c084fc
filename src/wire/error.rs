//! Errors in the providers' own formats: written for our refusals, read from a provider's replies.
//!
//! The SDKs choose their exception class by the status and read `code`, `type` and `param` from these bodies, so a refusal of ours must
//! look exactly like one of the provider's.

mod read;
mod verdict;
mod write;

pub use read::{UpstreamError, read};
pub use verdict::Verdict;
pub use write::{ErrorBody, render, render_event};

/// The longest start of a text that has at most `max` bytes and ends between characters.
fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
