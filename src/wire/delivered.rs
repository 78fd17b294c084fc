//! The text a reply delivered, kept in bounded memory, to be counted where the provider states no usage.
//!
//! Nearly every reply states its usage at the end, and then this text is never looked at. So a stream's deltas are only set aside as
//! they are (`RAW_BYTES`) and decoded when that room runs out or somebody asks. Decoded text is kept up to `TEXT_BYTES`, beyond which it
//! is folded into a number of tokens. Both bounds together are what a stream costs, however long it is.

mod text;

use super::Api;
use std::fmt;
use std::sync::Arc;

pub(crate) use text::append_text;

/// Deltas set aside undecoded, in bytes: every open stream has this room.
const RAW_BYTES: usize = 1_024;

/// Decoded text kept before it is counted, in bytes; also the most that is counted in one go.
const TEXT_BYTES: usize = 8 * 1024;

/// Separates deltas set aside: a control character, which JSON text cannot contain.
const SEPARATOR: u8 = 0x1e;

/// Counts the tokens of a text. Called with at most 8 KB at a time, and only when a reply delivers more than that.
pub type TextCounter = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

/// What a reply delivered: text, reasoning, refusals, and names and arguments of tool calls, in order of arrival.
///
/// Several choices of one reply interleave in here, so a count of it is close, not exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// The text not counted yet, at most 8 KB.
    pub text: String,
    /// The tokens of all text before that.
    pub folded: u64,
    /// Characters of base64 that hold sound.
    pub audio: u64,
}

/// Characters of base64 for a token of sound: a token is a twentieth of a second, and a second of the one format that is streamed (16 bit,
/// 24 kHz) is 48,000 bytes. What is compressed is counted too low by that, but not as nothing.
const AUDIO_CHARACTERS: u64 = 3_200;

impl Delivered {
    /// All tokens delivered.
    #[must_use]
    pub fn tokens(&self, count: impl Fn(&str) -> u64) -> u64 {
        if self.text.is_empty() { self.folded } else { self.folded.saturating_add(count(&self.text)) }
    }

    /// The tokens of the sound delivered, by its length; begun tokens count.
    #[must_use]
    pub const fn audio_tokens(&self) -> u64 {
        self.audio.div_ceil(AUDIO_CHARACTERS)
    }

    /// Whether nothing was delivered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.folded == 0 && self.audio == 0
    }

    /// Counts text away until what is left is within the bound.
    fn fold(&mut self, count: &TextCounter) {
        if self.text.len() <= TEXT_BYTES {
            return;
        }
        let mut rest = self.text.as_str();
        while rest.len() > TEXT_BYTES {
            let boundary = (0..=TEXT_BYTES).rev().find(|&at| rest.is_char_boundary(at)).expect("0 is a boundary");
            let (head, tail) = rest.split_at(boundary);
            self.folded = self.folded.saturating_add(count(head));
            rest = tail;
        }
        self.text = rest.to_owned();
    }
}

/// Collects what a reply delivers.
pub(crate) struct Collector {
    api: Api,
    count: TextCounter,
    /// JSON of deltas, each followed by [`SEPARATOR`].
    raw: Vec<u8>,
    decoded: Delivered,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("api", &self.api).field("raw", &self.raw.len()).field("decoded", &self.decoded).finish()
    }
}

impl Collector {
    /// Nothing delivered yet.
    pub(crate) const fn new(api: Api, count: TextCounter) -> Self {
        Self { api, count, raw: Vec::new(), decoded: Delivered { text: String::new(), folded: 0, audio: 0 } }
    }

    /// Sets a delta aside.
    pub(crate) fn push(&mut self, json: &[u8]) {
        if self.raw.len() + json.len() >= RAW_BYTES {
            decode(self.api, &self.raw, &mut self.decoded, &self.count);
            self.raw.clear();
            if json.len() >= RAW_BYTES {
                decode(self.api, json, &mut self.decoded, &self.count);
                return;
            }
        }
        if self.raw.capacity() == 0 {
            self.raw.reserve_exact(RAW_BYTES);
        }
        self.raw.extend_from_slice(json);
        self.raw.push(SEPARATOR);
    }

    /// Takes a delta (or whole reply) at once and says whether there was any text in it.
    pub(crate) fn push_and_look(&mut self, json: &[u8]) -> bool {
        decode(self.api, &self.raw, &mut self.decoded, &self.count);
        self.raw.clear();
        let size = |all: &Delivered| (all.text.len(), all.folded, all.audio);
        let before = size(&self.decoded);
        decode(self.api, json, &mut self.decoded, &self.count);
        before != size(&self.decoded)
    }

    /// Takes sound that came in an event of its own.
    pub(crate) const fn audio(&mut self, characters: u64) {
        self.decoded.audio = self.decoded.audio.saturating_add(characters);
    }

    /// All that was delivered.
    pub(crate) fn delivered(&self) -> Delivered {
        let mut all = self.decoded.clone();
        decode(self.api, &self.raw, &mut all, &self.count);
        all
    }
}

/// Decodes deltas that were set aside.
fn decode(api: Api, raw: &[u8], into: &mut Delivered, count: &TextCounter) {
    for json in raw.split(|byte| *byte == SEPARATOR).filter(|json| !json.is_empty()) {
        let audio = append_text(api, &String::from_utf8_lossy(json), &mut into.text);
        into.audio = into.audio.saturating_add(audio);
        into.fold(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(text: &str) -> Vec<u8> {
        serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}).to_string().into_bytes()
    }

    /// A counter by which every byte is a token, so that nothing may get lost in a fold.
    fn bytes() -> TextCounter {
        Arc::new(|text: &str| {
            assert!(text.len() <= TEXT_BYTES, "a counter never gets more than it was promised");
            text.len() as u64
        })
    }

    #[test]
    fn long_replies_are_folded_in_bounded_memory() {
        let mut collector = Collector::new(Api::Chat, bytes());
        let chunk = "北京 is a city. ".repeat(20);
        for _ in 0..1_000 {
            collector.push(&delta(&chunk));
            assert_eq!(collector.raw.capacity(), RAW_BYTES);
            assert!(collector.decoded.text.len() <= TEXT_BYTES);
        }
        let all = collector.delivered();
        assert_eq!(all.tokens(|text| text.len() as u64), 1_000 * chunk.len() as u64);
        assert!(all.folded > 0);
    }

    #[test]
    fn a_delta_larger_than_all_room_is_counted_whole() {
        let mut collector = Collector::new(Api::Chat, bytes());
        collector.push(&delta("first"));
        collector.push(&delta(&"👍".repeat(250_000)));
        collector.push(&delta("last"));
        let all = collector.delivered();
        assert_eq!(all.tokens(|text| text.len() as u64), 5 + 1_000_000 + 4);
        assert!(all.text.ends_with("👍last"), "the order is that of arrival");
    }

    #[test]
    fn only_text_counts_as_text() {
        let mut collector = Collector::new(Api::Chat, bytes());
        assert!(!collector.push_and_look(&delta("")));
        assert!(!collector.push_and_look(b"{bad"));
        assert!(!collector.push_and_look(b"\xff\xfe"));
        assert!(collector.delivered().is_empty());
        collector.push(&delta("a"));
        assert!(!collector.push_and_look(&delta("")), "what was set aside before is not this delta's");
        assert!(collector.push_and_look(&delta("b")));
        assert_eq!(collector.delivered().text, "ab");
    }
}
