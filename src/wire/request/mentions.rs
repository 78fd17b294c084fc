//! Words of a body that make its prompt dearer, wherever they stand.

use crate::wire::Api;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// What a search needs to know of its needle is found out once.
static CACHE_CONTROL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("cache_control"));
static CACHE_RETENTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("prompt_cache_retention"));
static INPUT_AUDIO: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("input_audio"));

/// Which fields a body mentions, at any depth. A word of the prompt may look like one: then what rests on it is a little high, never low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Messages: `cache_control`. Elsewhere it says nothing, and is not looked for.
    pub cache_control: bool,
    /// Chat and Responses: `prompt_cache_retention`.
    pub cache_retention: bool,
    /// `input_audio`.
    pub input_audio: bool,
}

impl Mentions {
    /// Of a body of this API.
    pub(super) fn of(api: Api, body: &[u8]) -> Self {
        let mentions = |field: &LazyLock<Finder<'static>>| field.find(body).is_some();
        Self {
            cache_control: api == Api::Messages && mentions(&CACHE_CONTROL),
            cache_retention: matches!(api, Api::Chat | Api::Responses) && mentions(&CACHE_RETENTION),
            input_audio: api.has_body() && mentions(&INPUT_AUDIO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_a_prompt_of_this_api_dearer_is_looked_for() {
        let body = br#"{"a":[{"cache_control":1,"prompt_cache_retention":2,"b":{"input_audio":3}}]}"#;
        let mentions = |cache_control, cache_retention, input_audio| Mentions { cache_control, cache_retention, input_audio };
        for (api, right) in [
            (Api::Messages, mentions(true, false, true)),
            (Api::Chat, mentions(false, true, true)),
            (Api::Responses, mentions(false, true, true)),
            (Api::Embeddings, mentions(false, false, true)),
        ] {
            assert_eq!(Mentions::of(api, body), right, "{api:?}");
            assert_eq!(Mentions::of(api, b"{}"), Mentions::default(), "{api:?}");
        }
    }
}
