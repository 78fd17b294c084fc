//! Request bodies: what the gateway needs of them, read once, without copying the prompt.
//!
//! [`parse`] walks a body in one pass and is strict wherever two JSON parsers might disagree: a key given twice, a metered key in other
//! letter case, half a surrogate pair, more than 128 levels, anything behind the object. What it lets through, the provider reads the same
//! way. What it does not know it passes over: unknown fields are forwarded untouched.
//!
//! The prompt stays where it is: [`Request::segments`] are byte ranges of the body. [`Request::apply`] (in [`super::edit`]) writes the few
//! fields that the gateway changes into the original bytes.

mod chat;
mod common;
mod completions;
mod draft;
mod embeddings;
mod error;
mod features;
mod mentions;
mod messages;
mod number;
mod read;
mod responses;
mod text_input;
mod tools;

#[cfg(test)]
mod tests;

pub use error::{BodyError, FieldName};
pub use features::{Features, ServerTool, UserIds};
pub use mentions::Mentions;

use super::Api;
use super::cursor::{Cursor, Kind};
use super::edit::Places;
use draft::Draft;
use std::ops::Range;

/// The longest model name, bytes.
pub const MAX_MODEL_BYTES: usize = 256;

/// The most segments of one request; Anthropic takes 100,000 messages, nobody takes more.
pub const MAX_SEGMENTS: usize = 100_000;

/// Everything the gateway needs of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose body this is.
    pub api: Api,
    /// The model asked for: 1 to [`MAX_MODEL_BYTES`] bytes, without control characters, otherwise as sent.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// The output cap as asked, tokens per choice. With both of chat's fields present the larger one: OpenAI refuses that, others take either.
    pub output_cap: Option<u64>,
    /// How many outputs are produced and billed, at least 1: `n` or `best_of`, times the number of prompts.
    pub choices: u64,
    /// The service tier asked for.
    pub service_tier: Option<String>,
    /// `stream_options.include_usage` as asked.
    pub include_usage: Option<bool>,
    /// The pieces of the prompt that cost tokens, in the order of the body; at most [`MAX_SEGMENTS`].
    pub segments: Vec<Segment>,
    /// What else the request asks for.
    pub features: Features,
    /// What else it mentions.
    pub mentions: Mentions,
    /// Where the fields stand that may be changed.
    pub(super) places: Places,
}

/// One piece of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it is, and so how it is counted.
    pub kind: SegmentKind,
    /// Where its JSON value stands in the body, quotes and brackets included.
    pub range: Range<usize>,
}

/// What a [`Segment`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Chat: one element of `messages`, an object.
    ChatMessage,
    /// Chat: `tools`, an array of objects that is not empty.
    ChatTools,
    /// Chat: the older `functions`, an array of objects that is not empty.
    ChatFunctions,
    /// Chat: `response_format`; Messages: `output_config.format` or `output_format`. An object.
    ResponseFormat,
    /// `tool_choice` of any API, or chat's older `function_call`: a string or an object.
    ToolChoice,
    /// Chat: `prediction`. Costs no input; what the model rejects of it is billed as output.
    Prediction,
    /// Responses: `instructions`.
    Instructions,
    /// Responses: `input` where it is one string.
    ResponsesText,
    /// Responses: one element of `input`, an object.
    ResponsesItem,
    /// Responses: `tools`, an array of objects that is not empty.
    ResponsesTools,
    /// Responses: `text.format`, an object.
    ResponsesFormat,
    /// Messages: `system`, a string or an array of blocks.
    System,
    /// Messages: one element of `messages`, an object.
    Message,
    /// Messages: `tools`, an array of objects that is not empty.
    AnthropicTools,
    /// Completions: `prompt`, whole: a string, an array of strings, an array of token numbers, or an array of such arrays.
    Prompt,
    /// Completions: `suffix`, a string.
    Suffix,
    /// Embeddings: `input`, whole, in the shapes of [`SegmentKind::Prompt`].
    Input,
}

impl Request {
    /// The most output tokens per choice that the request asks for: its cap, or its thinking budget where that is larger (some models think
    /// beyond the cap). `None` without a cap, which is then the model's own.
    #[must_use]
    pub fn output_bound(&self) -> Option<u64> {
        self.output_cap.map(|cap| cap.max(self.features.thinking_budget.unwrap_or(0)))
    }
}

/// Reads a body. Of an API without a body only `model` is read.
///
/// A byte order mark at the start is tolerated and not forwarded: RFC 8259 forbids sending one, and not every provider tolerates it.
///
/// # Errors
/// See [`BodyError`]; always the client's fault, always a 400.
pub fn parse(api: Api, body: &[u8]) -> Result<Request, BodyError> {
    let text = std::str::from_utf8(body).map_err(|error| BodyError::NotUtf8 { at: error.valid_up_to() })?;
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut cursor = Cursor::new(text, start);
    if cursor.at_end() {
        return Err(BodyError::Empty);
    }
    if cursor.kind()? != Kind::Object {
        return Err(BodyError::NotAnObject);
    }
    let mut draft = Draft::new(api);
    let mut keys = read::Keys::default();
    let root = cursor.object(|cursor, key| {
        let key = keys.admit(key)?;
        let known = common::field(&mut draft, cursor, key)?
            || match api {
                Api::Chat => chat::field(&mut draft, cursor, key)?,
                Api::Responses => responses::field(&mut draft, cursor, key)?,
                Api::Completions => completions::field(&mut draft, cursor, key)?,
                Api::Embeddings => embeddings::field(&mut draft, cursor, key)?,
                Api::Messages | Api::CountTokens => messages::field(&mut draft, cursor, key)?,
                Api::Models | Api::AnthropicModels | Api::Jobs(_) | Api::Triage(_) | Api::Unknown(_) => false,
            };
        if known { Ok(()) } else { cursor.skip().map(drop) }
    })?;
    if !cursor.at_end() {
        return Err(BodyError::TrailingData { at: cursor.offset() });
    }
    let request = draft.finish(start, root.range.start + 1, body.len())?;
    Ok(Request { mentions: Mentions::of(api, body), ..request })
}
