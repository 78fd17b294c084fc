//! The parts of a request that become prompt tokens.

/// What kind of JSON value a piece holds, which decides how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SegmentKind {
    /// Chat Completions: one element of `messages`.
    ChatMessage,
    /// Chat Completions: `tools`.
    ChatTools,
    /// Chat Completions: the deprecated `functions`.
    ChatFunctions,
    /// Chat Completions: `response_format`.
    ResponseFormat,
    /// Any API: `tool_choice` (also the deprecated `function_call`).
    ToolChoice,
    /// Responses: `instructions`, a string.
    Instructions,
    /// Responses: `input` given as a string.
    ResponsesText,
    /// Responses: one element of an `input` list.
    ResponsesItem,
    /// Responses: `tools`.
    ResponsesTools,
    /// Responses: `text`, or its member `format`.
    ResponsesFormat,
    /// Anthropic: `system`, a string or a list of blocks.
    System,
    /// Anthropic: one element of `messages`.
    Message,
    /// Anthropic: `tools`.
    AnthropicTools,
    /// Legacy completions: `prompt` (string, strings, tokens or token lists); also `suffix`.
    Prompt,
    /// Embeddings: `input` (string, strings, tokens or token lists).
    Input,
}

/// One part of a request body: the raw JSON bytes of a value, and what they are.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// How to read the value.
    pub kind: SegmentKind,
    /// The value as it stands in the body.
    pub json: &'a [u8],
}
