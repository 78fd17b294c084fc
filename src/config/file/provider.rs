//! `[upstreams]`, `[pools]`, `[models]` and `[pricing]`, as written.

use super::super::choice::{OnAbort, Window};
use super::super::node::{Node, Value};
use super::super::policy::{Counts, Unpriced};
use super::super::problem::{Findings, Place};
use super::super::read::{At, Known as _, Read, table};
use super::super::secret::SecretSource;
use super::super::value::{Fraction, Pattern, Timeout, Wait};
use crate::domain::{NanoUsd, Rate};
use crate::wire::Dialect;

table! {
    /// `[upstreams.NAME]`
    Upstream {
        /// The URL in place of `/v1`.
        base_url: At<String>,
        /// The provider key.
        api_key: At<SecretSource>,
        /// The formats it speaks.
        dialect: Dialect,
        /// How long a connection may take.
        connect_timeout: Timeout,
        /// How long the first byte may take.
        first_byte_timeout: Timeout,
        /// How long a reply may pause.
        idle_timeout: Timeout,
        /// How long an idle connection is kept.
        pool_idle_timeout: Timeout,
        /// Whether `stream_options.include_usage` may be added.
        include_usage: bool,
        /// What happens to a stream whose client left.
        on_abort: OnAbort,
    }

    /// `[pools.NAME]`
    Pool {
        /// Its upstream.
        upstream: At<String>,
        /// Patterns of models.
        models: At<Vec<At<Pattern>>>,
        /// The account limits as the provider states them.
        ceiling: Ceiling,
        /// The part of the refill that is used.
        headroom: At<Fraction>,
        /// How the provider's minute works.
        window: Window,
        /// How the provider counts tokens.
        counts: At<Counts>,
        /// How long background work may wait.
        background_wait: Wait,
    }

    /// `[pools.NAME] ceiling`
    Ceiling {
        /// Requests per minute.
        rpm: At<u64>,
        /// Tokens per minute.
        tpm: At<u64>,
        /// Input tokens per minute.
        input_tpm: At<u64>,
        /// Output tokens per minute.
        output_tpm: At<u64>,
        /// Requests per day.
        rpd: At<u64>,
        /// Tokens per day.
        tpd: At<u64>,
    }

    /// `[models."NAME"]`
    Model {
        /// The cheaper model that may answer instead.
        fallback: Fallback,
        /// The smallest output cap worth having.
        output_floor: u64,
        /// The most it can put out.
        max_output_tokens: u64,
        /// What it costs, in place of the built-in price.
        price: ModelPrice,
    }

    /// `fallback` in full.
    FallbackTable {
        /// The cheaper model.
        model: At<String>,
        /// The system prompt it gets in place of the request's.
        system: At<String>,
        /// Whether it may be a model of another upstream.
        other_provider: At<bool>,
    }

    /// `[models."NAME"] price`: dollars per million tokens.
    ModelPrice {
        /// Input.
        input: Rate,
        /// Input read from the prompt cache; absent = as input.
        cached_input: Rate,
        /// Input written to the cache at the short lifetime; absent = as input.
        cache_write: Rate,
        /// Input written to the cache at the long lifetime; absent = as the short one.
        cache_write_long: Rate,
        /// Output.
        output: Rate,
        /// Reasoning output; absent = as output.
        reasoning: Rate,
        /// Audio input; absent = as input.
        audio_input: Rate,
        /// Audio output; absent = as output.
        audio_output: Rate,
        /// What it costs above a size of the prompt.
        long_context: LongContext,
        /// Dollars for one web search of the provider.
        web_search_call: NanoUsd,
    }

    /// `price.long_context`: the whole request costs this when its input is above a size.
    LongContext {
        /// Input tokens above which it applies.
        above: At<u64>,
        /// Input.
        input: Rate,
        /// Cached input.
        cached_input: Rate,
        /// Cache write.
        cache_write: Rate,
        /// Cache write at the long lifetime.
        cache_write_long: Rate,
        /// Output.
        output: Rate,
    }

    /// `[pricing]`
    Pricing {
        /// A price file in LiteLLM's format.
        file: At<String>,
        /// What happens to models without a price.
        unpriced: Unpriced,
        /// What is held for features without a bound.
        features: Features,
    }

    /// `[pricing] features`
    Features {
        /// Input tokens assumed for context stored at the provider.
        stored_context_tokens: u64,
        /// Dollars held for a request with tools that run at the provider.
        server_tools: NanoUsd,
    }
}

/// `fallback`: a model's name, or the table.
#[derive(Clone, Debug)]
pub struct Fallback(pub FallbackTable);

impl Read for Fallback {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        if !matches!(node.value, Value::Table(_)) {
            let model = At::read(node, place, findings)?;
            return Some(Self(FallbackTable { model: Some(model), ..FallbackTable::empty(place.clone()) }));
        }
        let table = FallbackTable::read(node, place, findings)?;
        if table.model.is_none() {
            findings.missing(place, "model", "write the model that may answer instead");
        }
        Some(Self(table))
    }
}
