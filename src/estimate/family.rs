//! What is known of each family of models: its encoding, and the constants around the text.
//!
//! A model belongs to the family with the longest matching prefix, so `gpt-4o` and `gpt-4.1` never fall under `gpt-4`. A name that no family
//! knows is counted with `o200k` and learns its factor; through Anthropic's API it is counted as the costliest Claude.

use super::{
    encoding::Encoding::{self, Cl100k, O200k},
    vision::{Detail, Fit, ImageRule, Patches},
};
use crate::wire::{Api, Dialect};
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// The rules for one family of models.
#[derive(Debug)]
pub(crate) struct Family {
    /// Names start with one of these.
    prefixes: &'static [&'static str],
    pub(crate) encoding: Encoding,
    /// Where the encoding is not the model's own: the factor to begin with, in thousandths. None: exact, nothing to learn.
    pub(crate) factor_permille: Option<u32>,
    pub(crate) image: ImageRule,
    /// Tokens around each chat message.
    pub(crate) per_message: u64,
    /// Tokens that a message's `name` adds besides its text.
    pub(crate) per_name: i64,
    /// Tokens around each function definition.
    pub(crate) per_function: u64,
    /// Anthropic's hidden tool-use prompt with `tool_choice` auto or none, and with any or tool.
    pub(crate) tool_prompt: (u64, u64),
    /// Anthropic's built-in bash tool.
    pub(crate) bash_tool: u64,
    /// Audio input, tokens per 10 seconds.
    pub(crate) audio_per_10s: u64,
}

const OPENAI: Family = Family {
    prefixes: &[],
    encoding: O200k,
    factor_permille: None,
    image: ImageRule::Tiles { base: 85, tile: 170 },
    per_message: 3,
    per_name: 1,
    per_function: 7,
    tool_prompt: (0, 0),
    bash_tool: 0,
    audio_per_10s: 100,
};

/// Before Claude 4.7.
const CLAUDE: Family = Family {
    factor_permille: Some(1_200),
    image: ImageRule::Claude { edge: 1_568, tokens: 1_568 },
    per_message: 4,
    per_name: 0,
    tool_prompt: (346, 346),
    bash_tool: 244,
    ..OPENAI
};

/// From Claude 4.7 on: about 30 % more tokens for the same text, and larger images.
const CLAUDE_4_7: Family = Family {
    factor_permille: Some(1_560),
    image: ImageRule::Claude { edge: 2_576, tokens: 4_784 },
    tool_prompt: (675, 804),
    bash_tool: 325,
    ..CLAUDE
};

const fn tiles(prefixes: &'static [&'static str], base: u64, tile: u64) -> Family {
    Family { prefixes, image: ImageRule::Tiles { base, tile }, ..OPENAI }
}

const fn patches(prefixes: &'static [&'static str], rule: &'static Patches) -> Family {
    Family { prefixes, image: ImageRule::Patches(rule), ..OPENAI }
}

const fn claude(prefixes: &'static [&'static str], auto: u64, forced: u64) -> Family {
    Family { prefixes, tool_prompt: (auto, forced), ..CLAUDE }
}

const fn claude_4_7(prefixes: &'static [&'static str], auto: u64, forced: u64) -> Family {
    Family { prefixes, tool_prompt: (auto, forced), ..CLAUDE_4_7 }
}

/// Models that shrink to 1,536 patches by the documentation and to 6,144 by others' measurements.
const fn small_patches(permille: u64) -> Patches {
    let fit = Fit::new(2_048, 1_536);
    Patches { low: fit, high: fit, original: fit, auto: Detail::High, permille, bound: Fit::new(2_048, 6_144) }
}

/// GPT-5.4: 2,500 patches at high detail, 10,000 at original.
const fn patches_5_4(permille: u64) -> Patches {
    Patches {
        low: Fit::new(2_048, 6_144),
        high: Fit::new(2_048, 2_500),
        original: Fit::new(6_000, 10_000),
        auto: Detail::High,
        permille,
        bound: Fit::new(2_048, 2_500),
    }
}

static SMALL_1_2: Patches = small_patches(1_200);
static SMALL_1_62: Patches = small_patches(1_620);
static SMALL_1_72: Patches = small_patches(1_720);
static SMALL_2_46: Patches = small_patches(2_460);
static P_5_4: Patches = patches_5_4(1_200);
static P_5_4_MINI: Patches = patches_5_4(1_620);
static P_5_4_NANO: Patches = patches_5_4(2_460);
static P_5_5: Patches = Patches {
    low: Fit::side(512),
    high: Fit::new(2_048, 2_500),
    original: Fit::new(6_000, 10_000),
    auto: Detail::Original,
    permille: 1_200,
    bound: Fit::side(512),
};
static P_5_6: Patches = Patches {
    low: Fit::side(512),
    high: Fit::new(2_048, 2_500),
    original: Fit::NONE,
    auto: Detail::Original,
    permille: 1_200,
    bound: Fit::side(512),
};
static P_6: Patches = Patches {
    low: Fit::side(512),
    high: Fit::budget(2_500),
    original: Fit::NONE,
    auto: Detail::Original,
    permille: 1_200,
    bound: Fit::side(512),
};

/// Every known family. The place in the list is part of the keys under which counts are remembered.
static FAMILIES: &[Family] = &[
    // Names nobody knows: first for the OpenAI dialect, then for Anthropic's.
    Family { prefixes: &[], factor_permille: Some(1_000), image: ImageRule::Unknown, ..OPENAI },
    Family { prefixes: &["claude-"], ..CLAUDE_4_7 },
    // OpenAI.
    tiles(&["gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5"], 85, 170),
    tiles(&["gpt-4o-mini"], 2_833, 5_667),
    tiles(&["gpt-5"], 70, 140),
    tiles(&["o1", "o3"], 75, 150),
    tiles(&["computer-use-preview"], 65, 129),
    patches(&["gpt-4.1-mini", "gpt-5-mini"], &SMALL_1_62),
    patches(&["gpt-4.1-nano", "gpt-5-nano"], &SMALL_2_46),
    patches(&["o4-mini"], &SMALL_1_72),
    patches(&["gpt-5.2", "gpt-5.3"], &SMALL_1_2),
    patches(&["gpt-5.4"], &P_5_4),
    patches(&["gpt-5.4-mini"], &P_5_4_MINI),
    patches(&["gpt-5.4-nano"], &P_5_4_NANO),
    patches(&["gpt-5.5"], &P_5_5),
    patches(&["gpt-5.6"], &P_5_6),
    patches(&["gpt-6"], &P_6),
    Family { prefixes: &["gpt-oss-"], image: ImageRule::Unknown, ..OPENAI },
    Family {
        prefixes: &[
            "gpt-4",
            "gpt-3.5",
            "gpt-35-turbo",
            "text-embedding-3-",
            "text-embedding-ada-002",
            "davinci-002",
            "babbage-002",
        ],
        encoding: Cl100k,
        per_function: 10,
        ..OPENAI
    },
    Family { prefixes: &["gpt-3.5-turbo-0301"], encoding: Cl100k, per_function: 10, per_message: 4, per_name: -1, ..OPENAI },
    // Anthropic, both spellings of the version.
    claude(&["claude-3-", "claude-2", "claude-instant"], 346, 346),
    claude(&["claude-3-5-haiku", "claude-3.5-haiku", "claude-haiku-3-5"], 264, 355),
    claude(
        &["claude-haiku-4-5", "claude-haiku-4.5", "claude-sonnet-4-5", "claude-sonnet-4.5", "claude-opus-4-5", "claude-opus-4.5"],
        496,
        588,
    ),
    claude(&["claude-sonnet-4-6", "claude-sonnet-4.6", "claude-opus-4-6", "claude-opus-4.6"], 497, 589),
    claude(&["claude-sonnet-4"], 346, 346),
    claude(&["claude-opus-4"], 313, 315),
    claude_4_7(&["claude-opus-4-7", "claude-opus-4.7"], 675, 804),
    Family { bash_tool: 325, ..claude_4_7(&["claude-opus-4-8", "claude-opus-4.8"], 290, 410) },
    claude_4_7(&["claude-opus-5"], 286, 406),
    Family { bash_tool: 244, ..claude_4_7(&["claude-sonnet-5"], 354, 474) },
    // Google, through its OpenAI-compatible API.
    Family { prefixes: &["gemini-"], factor_permille: Some(1_000), image: ImageRule::Gemini, audio_per_10s: 320, ..OPENAI },
];

/// Prefixes, and the numbers of their families.
type Prefixes = Vec<(&'static [u8], usize)>;

/// The prefixes of all families and the families' numbers, by first letter, longest first: models are looked up several times a request.
static BY_LETTER: LazyLock<Vec<Prefixes>> = LazyLock::new(|| {
    let mut letters = vec![Vec::new(); 256];
    for (index, family) in FAMILIES.iter().enumerate() {
        for prefix in family.prefixes.iter().map(|prefix| prefix.as_bytes()) {
            letters[usize::from(prefix[0])].push((prefix, index));
        }
    }
    for letter in &mut letters {
        letter.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    }
    letters
});

/// Clouds spell Anthropic's models so.
static BEHIND_VENDOR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("anthropic.claude-"));

const UNKNOWN: usize = 0;
const UNKNOWN_CLAUDE: usize = 1;

impl Family {
    /// The family of `model` when it is called through `api`.
    pub(crate) fn of(model: &str, api: Api) -> &'static Self {
        &FAMILIES[Self::index_of(model, api)]
    }

    /// The number of that family, below the length of the list.
    pub(crate) fn index_of(model: &str, api: Api) -> usize {
        let name = base_name(model).as_bytes();
        let alike = name.first().map_or(&[][..], |first| &BY_LETTER[usize::from(first.to_ascii_lowercase())]);
        let longest =
            alike.iter().find(|(prefix, _)| name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix)));
        match (longest, api.dialect()) {
            (Some((_, index)), _) => *index,
            (None, Dialect::OpenAi) => UNKNOWN,
            (None, Dialect::Anthropic) => UNKNOWN_CLAUDE,
        }
    }

    /// The family with that number.
    pub(crate) fn at(index: usize) -> &'static Self {
        &FAMILIES[index]
    }

    /// Whether it is one of Anthropic's.
    pub(crate) const fn is_claude(&self) -> bool {
        matches!(self.image, ImageRule::Claude { .. })
    }
}

/// The model's own name: what follows `ft:` for a fine-tune, without the vendor that routers and clouds put before it.
fn base_name(model: &str) -> &str {
    let model = match model.strip_prefix("ft:") {
        Some(tuned) => tuned.split(':').next().unwrap_or(tuned),
        None => model,
    };
    let name = model.rsplit('/').next().unwrap_or(model);
    BEHIND_VENDOR.find(name.as_bytes()).map_or(name, |at| &name[at + "anthropic.".len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_encoding() {
        for (encoding, models) in [
            (
                O200k,
                "gpt-4o gpt-4o-2024-08-06 gpt-4o-mini chatgpt-4o-latest gpt-4.1 gpt-4.1-nano gpt-4.5-preview gpt-5 gpt-5-mini gpt-5.1 gpt-5.6-x gpt-6 gpt-6_future o1 o1-pro o3-mini o4-mini",
            ),
            (O200k, "gpt-oss-120b ft:gpt-4o-mini-2024-07-18:org::id openai/gpt-4o GPT-4o o4 m-big llama-3 claude-opus-5"),
            (
                Cl100k,
                "gpt-4 gpt-4-turbo gpt-4-0613 gpt-4-1106-preview gpt-3.5-turbo gpt-35-turbo text-embedding-3-small text-embedding-ada-002 davinci-002 babbage-002 ft:gpt-3.5-turbo:acme/x::1",
            ),
        ] {
            for model in models.split(' ') {
                assert_eq!(Family::of(model, Api::Chat).encoding, encoding, "{model}");
            }
        }
    }

    #[test]
    fn other_providers_begin_with_a_factor_and_openai_has_none() {
        for (model, api, factor) in [
            ("gpt-4o", Api::Chat, None),
            ("text-embedding-3-large", Api::Embeddings, None),
            ("m-big", Api::Chat, Some(1_000)),
            ("o4", Api::Chat, Some(1_000)),
            ("", Api::Chat, Some(1_000)),
            ("gemini-2.5-flash", Api::Chat, Some(1_000)),
            ("c-big", Api::Messages, Some(1_560)),
            ("claude-sonnet-4-5-20250929", Api::Messages, Some(1_200)),
            ("claude-3-5-haiku-latest", Api::Messages, Some(1_200)),
            ("claude-opus-4-20250514", Api::Chat, Some(1_200)),
            ("anthropic/claude-opus-4.7", Api::Chat, Some(1_560)),
            ("us.anthropic.claude-opus-4-5-20250929-v1:0", Api::Messages, Some(1_200)),
            ("claude-something-9", Api::Messages, Some(1_560)),
        ] {
            assert_eq!(Family::of(model, api).factor_permille, factor, "{model}");
        }
    }

    #[test]
    fn the_tool_prompt_is_the_models_own() {
        for (model, prompt) in [
            ("claude-opus-5", (286, 406)),
            ("claude-opus-4-8", (290, 410)),
            ("claude-opus-4-7", (675, 804)),
            ("claude-opus-4-6", (497, 589)),
            ("claude-opus-4-5", (496, 588)),
            ("claude-opus-4-1-20250805", (313, 315)),
            ("claude-opus-4-20250514", (313, 315)),
            ("claude-sonnet-5", (354, 474)),
            ("claude-sonnet-4-6", (497, 589)),
            ("claude-sonnet-4-5", (496, 588)),
            ("claude-haiku-4-5", (496, 588)),
            ("claude-3-5-haiku-20241022", (264, 355)),
            ("gpt-4o", (0, 0)),
        ] {
            assert_eq!(Family::of(model, Api::Messages).tool_prompt, prompt, "{model}");
        }
    }
}
