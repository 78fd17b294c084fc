//! The usage a reply has stated so far, and its translation into [`Usage`].
//!
//! Providers state usage once, several times, or in parts, always cumulatively. So there is one record per reply in which each number
//! that is stated and not null replaces the one before; nothing is ever added up.

use super::Usage;
use super::number::{MAX_TOKENS, Number, number};
use crate::wire::pick::{pick, string};

/// How a provider's numbers relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `prompt_tokens` (or `input_tokens`) includes what was cached, written to a cache, or audio.
    OpenAi,
    /// `input_tokens` is only what no cache served or stored.
    Anthropic,
}

/// What is wrong with the numbers a reply stated. Each is worth a metric and a log line; none fails the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// How often a cumulative number became smaller; the later one was taken.
    pub decreased: u32,
    /// A number was negative or none at all, or the usage no object; it was ignored.
    pub garbage: bool,
    /// A number was above [`MAX_TOKENS`] and was taken as that.
    pub capped: bool,
}

/// The latest of each number a reply has stated.
#[derive(Clone, Debug)]
pub struct Record {
    shape: Shape,
    input: Option<u64>,
    cache_read: Option<u64>,
    /// Both lifetimes together.
    cache_write: Option<u64>,
    cache_write_short: Option<u64>,
    cache_write_long: Option<u64>,
    audio_input: Option<u64>,
    output: Option<u64>,
    audio_output: Option<u64>,
    reasoning: Option<u64>,
    web_searches: Option<u64>,
    service_tier: Option<Box<str>>,
    output_known: bool,
    oddities: Oddities,
}

impl Record {
    /// Nothing stated yet.
    #[must_use]
    pub const fn new(shape: Shape) -> Self {
        Self {
            shape,
            input: None,
            cache_read: None,
            cache_write: None,
            cache_write_short: None,
            cache_write_long: None,
            audio_input: None,
            output: None,
            audio_output: None,
            reasoning: None,
            web_searches: None,
            service_tier: None,
            output_known: false,
            oddities: Oddities { decreased: 0, garbage: false, capped: false },
        }
    }

    /// Reads a usage object.
    pub fn read(&mut self, json: &str) {
        let mut flags = Flags::default();
        let had_output = self.output_known;
        let output = match self.shape {
            Shape::OpenAi => self.read_openai(json, &mut flags),
            Shape::Anthropic => self.read_anthropic(json, &mut flags),
        };
        match output {
            None => flags.garbage = true,
            Some(output) => {
                // A placeholder (see `read_placeholder`) that is corrected downwards is no decrease.
                if !had_output && output.is_some() {
                    self.output = None;
                }
                self.output_known |= keep(&mut self.output, output, &mut flags);
            }
        }
        self.note(flags);
    }

    /// Reads the usage of Anthropic's `message_start`, whose `output_tokens` only holds the place: the true number follows.
    pub fn read_placeholder(&mut self, json: &str) {
        let mut flags = Flags::default();
        match self.read_anthropic(json, &mut flags) {
            None => flags.garbage = true,
            Some(output) => _ = keep(&mut self.output, output, &mut flags),
        }
        self.note(flags);
    }

    /// Reads the usage of an embedding, for which some servers state nothing but `total_tokens`.
    pub fn read_embedding(&mut self, json: &str) {
        self.read(json);
        if self.input.is_none()
            && let Some([total]) = pick(json, ["total_tokens"])
        {
            let mut flags = Flags::default();
            keep(&mut self.input, total, &mut flags);
            self.note(flags);
        }
    }

    /// Takes the service tier a reply says it ran in, given as the raw text of a JSON string.
    pub fn read_tier(&mut self, json: Option<&str>) {
        const LONGEST: usize = 64; // a name; anything longer is no tier of any price list
        if let Some(tier) = json.and_then(string).filter(|tier| !tier.is_empty() && tier.len() <= LONGEST) {
            self.service_tier = Some(tier.into());
        }
    }

    /// Takes the number of web searches seen so far among the output of a reply.
    pub fn saw_searches(&mut self, count: u64) {
        if count > 0 {
            self.web_searches = self.web_searches.max(Some(count.min(MAX_TOKENS)));
        }
    }

    /// Everything but the output, which is returned (`None` inside: not stated); `None` outside when `json` is no object.
    #[expect(clippy::option_option, reason = "no object at all, and an object without the member, are two things")]
    fn read_openai<'a>(&mut self, json: &'a str, flags: &mut Flags) -> Option<Option<&'a str>> {
        let [prompt, input, completion, output, prompt_details, input_details, completion_details, output_details, hit, miss] =
            pick(json, OPENAI)?;
        let details = prompt_details.or(input_details).and_then(|json| pick(json, OPENAI_INPUT));
        let [cached, written, audio, lifetimes] = details.unwrap_or_default();
        let lifetimes = lifetimes.and_then(|json| pick(json, ["ttl_30m_tokens", "ttl_12h_tokens"]));
        let [short, long] = lifetimes.unwrap_or_default();
        keep(&mut self.input, prompt.or(input), flags);
        keep(&mut self.cache_read, cached.or(hit), flags);
        keep(&mut self.cache_write, written, flags);
        keep(&mut self.cache_write_short, short, flags);
        keep(&mut self.cache_write_long, long, flags);
        keep(&mut self.audio_input, audio, flags);
        // DeepSeek's pair adds up to the prompt.
        if let (None, Some(hit), Some(miss)) = (self.input, hit, miss)
            && let (Number::Tokens(hit), Number::Tokens(miss)) = (number(hit), number(miss))
        {
            self.input = Some(hit + miss);
        }
        let details = completion_details.or(output_details).and_then(|json| pick(json, ["reasoning_tokens", "audio_tokens"]));
        let [reasoning, audio] = details.unwrap_or_default();
        keep(&mut self.reasoning, reasoning, flags);
        keep(&mut self.audio_output, audio, flags);
        Some(completion.or(output))
    }

    /// As [`Record::read_openai`].
    #[expect(clippy::option_option, reason = "no object at all, and an object without the member, are two things")]
    fn read_anthropic<'a>(&mut self, json: &'a str, flags: &mut Flags) -> Option<Option<&'a str>> {
        let [input, written, cached, lifetimes, output, details, tools, tier, speed] = pick(json, ANTHROPIC)?;
        let lifetimes = lifetimes.and_then(|json| pick(json, ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]));
        let [short, long] = lifetimes.unwrap_or_default();
        keep(&mut self.input, input, flags);
        keep(&mut self.cache_read, cached, flags);
        keep(&mut self.cache_write, written, flags);
        keep(&mut self.cache_write_short, short, flags);
        keep(&mut self.cache_write_long, long, flags);
        let [thinking] = details.and_then(|json| pick(json, ["thinking_tokens"])).unwrap_or_default();
        keep(&mut self.reasoning, thinking, flags);
        let [searches] = tools.and_then(|json| pick(json, ["web_search_requests"])).unwrap_or_default();
        keep(&mut self.web_searches, searches, flags);
        self.read_tier(tier);
        // Fast mode is stated beside the tier and priced as if it were one.
        if speed == Some("\"fast\"") {
            self.read_tier(speed);
        }
        Some(output)
    }

    fn note(&mut self, flags: Flags) {
        self.oddities.decreased = self.oddities.decreased.saturating_add(u32::from(flags.decreased));
        self.oddities.garbage |= flags.garbage;
        self.oddities.capped |= flags.capped;
    }

    /// What was wrong with the numbers so far.
    #[must_use]
    pub const fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// Whether the provider has stated the input.
    #[must_use]
    pub const fn input_known(&self) -> bool {
        self.input.is_some()
    }

    /// Whether the provider has stated the output, other than by a placeholder.
    #[must_use]
    pub const fn output_known(&self) -> bool {
        self.output_known
    }

    /// The numbers as buckets that do not overlap, `None` when none was stated; and whether they fit together (parts that are larger
    /// than their whole are taken as stated, and what would be left of the whole as zero).
    #[must_use]
    pub fn usage(&self) -> (Option<Usage>, bool) {
        let stated = [self.input, self.cache_read, self.cache_write, self.output, self.web_searches];
        if stated.iter().all(Option::is_none) {
            return (None, true);
        }
        let cache_read = self.cache_read.unwrap_or(0);
        let cache_write_long = self.cache_write_long.unwrap_or(0);
        // A later statement may name only the sum; what the known long part leaves of it is short.
        let cache_write = match self.cache_write {
            Some(both) => both.saturating_sub(cache_write_long),
            None => self.cache_write_short.unwrap_or(0),
        };
        let audio_input = self.audio_input.unwrap_or(0);
        let audio_output = self.audio_output.unwrap_or(0);
        let input = self.input.unwrap_or(0);
        let output = self.output.unwrap_or(0);
        let parts = match self.shape {
            Shape::OpenAi => cache_read + cache_write + cache_write_long + audio_input,
            Shape::Anthropic => 0,
        };
        let usage = Usage {
            uncached_input: input.saturating_sub(parts),
            cache_read,
            cache_write,
            cache_write_long,
            audio_input,
            output: output.saturating_sub(audio_output),
            audio_output,
            reasoning: self.reasoning.unwrap_or(0),
            web_searches: self.web_searches.unwrap_or(0),
            service_tier: self.service_tier.clone(),
        };
        (Some(usage), parts <= input && audio_output <= output)
    }
}

const OPENAI: [&str; 10] = [
    "prompt_tokens",
    "input_tokens",
    "completion_tokens",
    "output_tokens",
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
    "prompt_cache_hit_tokens",
    "prompt_cache_miss_tokens",
];

const OPENAI_INPUT: [&str; 4] = ["cached_tokens", "cache_write_tokens", "audio_tokens", "cache_write_tokens_details"];

const ANTHROPIC: [&str; 9] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "output_tokens",
    "output_tokens_details",
    "server_tool_use",
    "service_tier",
    "speed",
];

/// What went wrong within one usage object.
#[derive(Default)]
struct Flags {
    decreased: bool,
    garbage: bool,
    capped: bool,
}

/// Replaces a number by the one just stated, if it is one; says whether.
fn keep(slot: &mut Option<u64>, stated: Option<&str>, flags: &mut Flags) -> bool {
    let Some(stated) = stated else { return false };
    let tokens = match number(stated) {
        Number::Tokens(tokens) => tokens,
        Number::TooMany => {
            flags.capped = true;
            MAX_TOKENS
        }
        Number::Garbage => {
            flags.garbage = true;
            return false;
        }
    };
    flags.decreased |= slot.is_some_and(|before| tokens < before);
    *slot = Some(tokens);
    true
}

#[cfg(test)]
mod tests;
