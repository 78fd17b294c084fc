//! What a reply used, in the same buckets for every provider.

pub mod number;
pub mod record;

pub use record::{Record, Shape};

/// Tokens of one request, in buckets that are priced separately and never overlap (except [`Usage::reasoning`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Text input that no cache served or stored.
    pub uncached_input: u64,
    /// Input read from the provider's prompt cache.
    pub cache_read: u64,
    /// Input written to the prompt cache at the short lifetime (Anthropic 5 min, OpenAI 30 min).
    pub cache_write: u64,
    /// Input written to the prompt cache at the long lifetime (Anthropic 1 h, OpenAI 12 h).
    pub cache_write_long: u64,
    /// Audio input.
    pub audio_input: u64,
    /// Output other than audio, reasoning included.
    pub output: u64,
    /// Audio output.
    pub audio_output: u64,
    /// Reasoning tokens: a part of `output`, for the log only.
    pub reasoning: u64,
    /// Web searches a server-side tool made, priced by the piece.
    pub web_searches: u64,
    /// The service tier that really ran, where the reply says so; it decides the price.
    pub service_tier: Option<Box<str>>,
}

impl Usage {
    /// All input buckets together: what the long-context price tier looks at.
    #[must_use]
    pub const fn input(&self) -> u64 {
        self.uncached_input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_write_long)
            .saturating_add(self.audio_input)
    }

    /// All output together.
    #[must_use]
    pub const fn total_output(&self) -> u64 {
        self.output.saturating_add(self.audio_output)
    }
}
