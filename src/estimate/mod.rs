//! Counts prompt tokens before the call: what a request will claim.
//!
//! Two numbers matter. The *best* estimate is what the provider will probably count (exact byte-pair encoding for OpenAI's models, the nearest encoding times
//! a learned factor for others); rate limits rest on it. The *upper* bound is never passed by the provider's number; dollars rest on it: text never has more
//! tokens than UTF-8 bytes, media cost the most their rules allow. (One exception: a PDF's pages are guessed where the file hides them.)
//!
//! Counting is linear in the length of the text and remembered per piece, since system prompts, tools and history come again each turn: a prompt seen before
//! costs a hash. A long new text belongs on a blocking thread: [`Estimator::count_if_quick`] says so, [`Estimator::count`] does it.
//!
//! ```
//! use tollgate::{estimate::{Estimator, Piece, SegmentKind}, wire::Api};
//!
//! let estimator = Estimator::new(10_000);
//! let hello = Piece { kind: SegmentKind::ChatMessage, json: br#"{"role":"user","content":"hi"}"# };
//! assert_eq!(estimator.count("gpt-4o", Api::Chat, &[hello]).unwrap().best, 8);
//! ```
//!
//! What it cannot know: content that only the provider has (`previous_response_id`, file ids, remote documents). Such references inside a piece cost a floor
//! and are reported in [`InputCount::unseen`]; those outside the pieces are the caller's to reserve for. Nothing is ever fetched.

mod anthropic;
mod chat;
mod encoding;
mod factor;
mod family;
mod image;
mod json;
mod media;
mod memory;
mod parts;
mod piece;
mod responses;
mod tally;
#[cfg(test)]
mod tests;
mod tools;
mod vision;

pub use piece::{Piece, SegmentKind};

use crate::wire::Api;
use factor::Factors;
use family::Family;
use json::{Json, ParseError};
use memory::{Key, Memory};
use tally::{PieceCount, Tally};

/// New text that may be counted on an async thread: at most half a millisecond of prose, two of the worst text.
const QUICK_NEW_BYTES: usize = 16 * 1024;
/// Bytes that may be hashed on an async thread.
const QUICK_BYTES: usize = 128 * 1024;

/// Tokens that open the answer of a chat.
const PRIMING: u64 = 3;
/// Bound for what a provider hides around a request: a few tokens for OpenAI's reasoning models ...
const HIDDEN: u64 = 32;
/// ... and system preambles of compatible servers, up to 185 tokens seen, and 214 more with tools.
const HIDDEN_ELSEWHERE: u64 = 256;

/// What a request's input comes to, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCount {
    /// The best estimate, learned factor included: what rate limits rest on.
    pub best: u64,
    /// The bound that the provider's number does not pass: what dollars rest on. Never below `best`.
    pub upper: u64,
    /// Text and framing by our encoding, before the factor.
    pub raw: u64,
    /// Media and prompts that the provider adds, which the factor does not touch. A part of `best`.
    pub fixed: u64,
    /// References to content that only the provider has (file ids, remote documents, stored items). Each is in `best` with 1,000 tokens and in `upper`
    /// with 10,000; more is a matter of policy.
    pub unseen: u32,
}

/// A piece that cannot be counted because no provider could read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON in the request: {reason}")]
pub struct CountError {
    /// The place of the piece in the list that was counted.
    pub piece: usize,
    /// What is wrong, without the content: a lone surrogate, bytes that are not UTF-8, nesting over 128 levels.
    pub reason: String,
}

/// Counts requests and texts. Shared by all threads.
///
/// A model is always given with the API it is called through: a name that nobody knows is counted as one of Anthropic's on Anthropic's routes.
#[derive(Debug)]
pub struct Estimator {
    memory: Memory,
    factors: Factors,
}

impl Estimator {
    /// An estimator that remembers the counts of `memory_entries` pieces (about 100 bytes each; 0 remembers none).
    #[must_use]
    pub fn new(memory_entries: usize) -> Self {
        Self { memory: Memory::new(memory_entries), factors: Factors::default() }
    }

    /// Builds the tokenizers, which takes some hundred milliseconds: call it at start, on a blocking thread.
    pub fn warm_up() {
        encoding::warm_up();
    }

    /// Counts a request whose text is mostly known or short. None where it would take an async thread too long, or where a piece is malformed: then
    /// call [`Self::count`] on a blocking thread, which also finds what was counted so far remembered.
    #[must_use]
    pub fn count_if_quick(&self, model: &str, api: Api, pieces: &[Piece<'_>]) -> Option<InputCount> {
        if pieces.iter().map(|piece| piece.json.len()).sum::<usize>() > QUICK_BYTES {
            return None;
        }
        self.count_if_known(model, api, pieces)
    }

    /// The same without a bound on what is known, for a thread that may hash a large request.
    #[must_use]
    pub fn count_if_known(&self, model: &str, api: Api, pieces: &[Piece<'_>]) -> Option<InputCount> {
        let mut new_bytes = 0;
        self.count_with(model, api, pieces, |piece| {
            new_bytes += piece.json.len();
            new_bytes <= QUICK_NEW_BYTES
        })
        .ok()
    }

    /// Counts a request of any length, in time linear in it.
    ///
    /// # Errors
    /// Where a piece is not valid JSON by the provider's measure (a lone surrogate, for one): the request deserves a 400.
    pub fn count(&self, model: &str, api: Api, pieces: &[Piece<'_>]) -> Result<InputCount, CountError> {
        self.count_with(model, api, pieces, |_| true).map_err(|stop| match stop {
            Stop::Malformed(error) => error,
            Stop::TooLong => unreachable!("every piece may be counted"),
        })
    }

    /// The tokens of a text that the model wrote or reads, by itself: for the delivered part of an answer.
    #[must_use]
    pub fn count_text(&self, model: &str, api: Api, text: &str) -> u64 {
        let family = Family::of(model, api);
        let tokens = family.encoding.count(text);
        scale(tokens, self.permille(model, family)).min(text.len() as u64)
    }

    /// Learns from the provider's own number of input tokens, caches included, how this model's text is really counted.
    ///
    /// OpenAI's models have nothing to learn. Nor is anything learned where the text is short, where media make up most of the request, or where it refers to
    /// content nobody saw; for a request with such references outside its pieces (`previous_response_id`) do not call this.
    pub fn learn(&self, model: &str, api: Api, counted: &InputCount, actual: u64) {
        let telling = counted.unseen == 0 && counted.fixed <= counted.raw;
        if let Some(start) = Family::of(model, api).factor_permille.filter(|_| telling) {
            self.factors.learn(model, start, counted.raw, actual.saturating_sub(counted.fixed));
        }
    }

    /// The factor that text of this model is multiplied with, in thousandths: 1,000 for OpenAI's.
    #[must_use]
    pub fn factor_permille(&self, model: &str, api: Api) -> u32 {
        self.permille(model, Family::of(model, api))
    }

    fn permille(&self, model: &str, family: &Family) -> u32 {
        family.factor_permille.map_or(1_000, |start| self.factors.permille(model, start))
    }

    /// Counts the pieces; those that are not remembered only as long as `may_count` says so.
    fn count_with(
        &self,
        model: &str,
        api: Api,
        pieces: &[Piece<'_>],
        mut may_count: impl FnMut(&Piece<'_>) -> bool,
    ) -> Result<InputCount, Stop> {
        let index = Family::index_of(model, api);
        let family = Family::at(index);
        let rules = u16::try_from(index).expect("there are few families");
        let mut sum = PieceCount::default();
        for (at, piece) in pieces.iter().enumerate() {
            let key = (piece.json.len() >= memory::SMALLEST).then(|| Key::of(piece, rules));
            let count = match key.and_then(|key| self.memory.get(key)) {
                Some(count) => count,
                None if may_count(piece) => {
                    let count = count_piece(family, piece).map_err(|reason| Stop::Malformed(CountError { piece: at, reason }))?;
                    if let Some(key) = key {
                        self.memory.put(key, count);
                    }
                    count
                }
                None => return Err(Stop::TooLong),
            };
            sum.add(count);
        }
        Ok(self.assemble(model, api, family, sum))
    }

    /// Adds what belongs to the request as a whole.
    fn assemble(&self, model: &str, api: Api, family: &Family, sum: PieceCount) -> InputCount {
        let converses = !matches!(api, Api::Completions | Api::Embeddings);
        let raw = sum.tokens.saturating_add(if converses { PRIMING } else { 0 });
        let (auto, forced) = if sum.tools { family.tool_prompt } else { (0, 0) };
        let fixed = sum.fixed.saturating_add(if sum.forced { forced } else { auto });
        let hidden = match (converses, family.factor_permille) {
            (false, _) => 0,
            (true, None) => HIDDEN,
            (true, Some(_)) if sum.tools && !family.is_claude() => 2 * HIDDEN_ELSEWHERE,
            (true, Some(_)) => HIDDEN_ELSEWHERE,
        };
        let upper = sum.upper.saturating_add(auto.max(forced)).saturating_add(hidden);
        let best = scale(raw, self.permille(model, family)).saturating_add(fixed).min(upper);
        InputCount { best, upper, raw, fixed, unseen: sum.unseen }
    }
}

/// Why a count ended early.
enum Stop {
    Malformed(CountError),
    TooLong,
}

/// `tokens` times a factor in thousandths, rounded up.
fn scale(tokens: u64, permille: u32) -> u64 {
    u64::try_from((u128::from(tokens) * u128::from(permille)).div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Counts one piece by the rules of `family`; the error says what is malformed.
fn count_piece(family: &'static Family, piece: &Piece<'_>) -> Result<PieceCount, String> {
    let mut tally = Tally::new(family);
    match piece.kind {
        SegmentKind::Prompt | SegmentKind::Suffix | SegmentKind::Input => {
            tally.prompt(piece.json).map_err(describe)?;
            return Ok(tally.count);
        }
        // A prediction costs no input; what the model rejects of it is a part of the output it reports.
        SegmentKind::Prediction => return Ok(tally.count),
        _ => {}
    }
    let json = match Json::parse(piece.json) {
        Ok(json) => json,
        Err(ParseError::TooManyValues) => {
            // No honest message has that many parts. Counted as the text that it is, which costs no memory.
            let text = std::str::from_utf8(piece.json).map_err(|error| error.to_string())?;
            tally.text(text);
            return Ok(tally.count);
        }
        Err(malformed) => return Err(describe(malformed)),
    };
    match piece.kind {
        SegmentKind::ChatMessage => tally.chat_message(&json),
        SegmentKind::ChatTools | SegmentKind::ChatFunctions | SegmentKind::ResponsesTools => tally.openai_tools(&json),
        SegmentKind::ResponseFormat => tally.format(&json),
        SegmentKind::ToolChoice => tally.tool_choice(&json),
        SegmentKind::Instructions => tally.responses_text("system", &json),
        SegmentKind::ResponsesText => tally.responses_text("user", &json),
        SegmentKind::ResponsesItem => tally.responses_item(&json),
        SegmentKind::ResponsesFormat => tally.responses_format(&json),
        SegmentKind::System => tally.system(&json),
        SegmentKind::Message => tally.anthropic_message(&json),
        SegmentKind::AnthropicTools => tally.anthropic_tools(&json),
        SegmentKind::Prompt | SegmentKind::Suffix | SegmentKind::Input | SegmentKind::Prediction => unreachable!("counted above"),
    }
    Ok(tally.count)
}

fn describe(error: ParseError) -> String {
    match error {
        ParseError::TooManyValues => "too many values".to_owned(),
        ParseError::Malformed(error) => error.to_string(),
    }
}
