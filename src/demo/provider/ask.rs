//! What a request asks the stand-in provider for.

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::errors::Problem;
use crate::wire::Api;

/// A request, as far as the answer depends on it.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub api: Api,
    pub model: String,
    pub stream: bool,
    /// Whether a stream should state its usage in a chunk of its own.
    pub include_usage: bool,
    pub has_stream_options: bool,
    /// The output cap, per choice.
    pub cap: Option<u64>,
    /// Choices to answer with.
    pub n: u64,
    /// Choices to bill (`best_of` generates more than it shows).
    pub billed: u64,
    /// The tool to call and the schema of its arguments.
    pub tool: Option<(String, Value)>,
    /// The JSON schema that the text must fit; `Value::Null` asks for any JSON object.
    pub schema: Option<Value>,
    pub service_tier: &'static str,
    pub background: bool,
    /// The exact length asked for with `[N tokens]`.
    pub length: Option<u64>,
    /// Embeddings: one per input.
    pub inputs: usize,
    pub dimensions: usize,
    pub base64: bool,
    /// A number that stands for the request, so that equal requests get equal answers.
    pub hash: u64,
}

#[derive(Deserialize)]
struct Body<'a> {
    model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    n: Option<u64>,
    best_of: Option<u64>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    response_format: Option<Value>,
    text: Option<Value>,
    output_config: Option<Value>,
    output_format: Option<Value>,
    service_tier: Option<String>,
    background: Option<bool>,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// Reads a body.
///
/// # Errors
/// The 400 the real provider would answer with, where the stand-in knows better than to answer.
pub(super) fn read(api: Api, bytes: &[u8]) -> Result<Ask, Problem> {
    let body: Body<'_> = serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("We could not parse the JSON body of your request: {error}."), None))?;
    check(api, &body)?;
    let text = body.text.as_ref().and_then(|text| text.get("format"));
    let output = body.output_config.as_ref().and_then(|config| config.get("format")).or(body.output_format.as_ref());
    let format = body.response_format.as_ref().or(text).or(output);
    let cap = body.max_completion_tokens.or(body.max_output_tokens).or(body.max_tokens);
    let n = body.n.unwrap_or(1).clamp(1, 128);
    let prompts = if api == Api::Completions { body.prompt.map_or(1, items) as u64 } else { 1 };
    Ok(Ask {
        api,
        stream: body.stream.unwrap_or(false) && api.generates(),
        include_usage: body.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false),
        has_stream_options: body.stream_options.is_some(),
        cap: if api == Api::Completions { cap.or(Some(16)) } else { cap },
        n: n * prompts,
        billed: n.max(body.best_of.unwrap_or(1).min(20)) * prompts,
        tool: tool(&body, bytes),
        schema: format.and_then(schema),
        service_tier: match (api, body.service_tier.as_deref()) {
            (Api::Messages, _) => "standard",
            (_, Some("priority" | "fast")) => "priority",
            (_, Some("flex")) => "flex",
            _ => "default",
        },
        background: body.background.unwrap_or(false),
        length: wanted_length(bytes),
        inputs: body.input.map_or(1, items),
        dimensions: body.dimensions.unwrap_or_else(|| default_dimensions(body.model.as_deref())).clamp(1, 4_096),
        base64: body.encoding_format.as_deref() == Some("base64"),
        hash: hash(bytes),
        model: body.model.unwrap_or_default(),
    })
}

fn check(api: Api, body: &Body<'_>) -> Result<(), Problem> {
    if body.model.as_deref().unwrap_or_default().is_empty() {
        return Err(Problem::invalid("you must provide a model parameter", Some("model")));
    }
    let needed = match api {
        Api::Chat | Api::Messages | Api::CountTokens => (body.messages.is_some(), "messages"),
        Api::Responses | Api::Embeddings => (body.input.is_some(), "input"),
        Api::Completions => (body.prompt.is_some(), "prompt"),
        Api::Models | Api::AnthropicModels | Api::Jobs(_) | Api::Triage(_) | Api::Unknown(_) => (true, ""),
    };
    if !needed.0 {
        return Err(Problem::invalid(format!("Missing required parameter: '{}'.", needed.1), Some(needed.1)));
    }
    if api == Api::Messages && body.max_tokens.is_none() {
        return Err(Problem::invalid("max_tokens: Field required", Some("max_tokens")));
    }
    if api == Api::Chat && body.max_tokens.is_some() && body.max_completion_tokens.is_some() {
        let message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return Err(Problem::invalid(message, Some("max_tokens")));
    }
    if body.stream_options.is_some() {
        if api.dialect() == crate::wire::Dialect::Anthropic {
            return Err(Problem::invalid("stream_options: Extra inputs are not permitted", Some("stream_options")));
        }
        if body.stream != Some(true) {
            let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
            return Err(Problem::invalid(message, Some("stream_options")));
        }
    }
    if api == Api::Responses && body.max_output_tokens.is_some_and(|cap| cap < 16) {
        let message = "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.";
        return Err(Problem::invalid(message, Some("max_output_tokens")));
    }
    Ok(())
}

/// The tool an answer calls: the one demanded, else the first, unless the request forbids tools or brings a tool's result.
fn tool(body: &Body<'_>, bytes: &[u8]) -> Option<(String, Value)> {
    let tools = body.tools.as_ref().filter(|tools| !tools.is_empty())?;
    let choice = body.tool_choice.as_ref();
    let mode = choice.and_then(|choice| choice.as_str().or_else(|| choice.get("type")?.as_str())).unwrap_or("auto");
    let result_of_tool = ["\"tool_result\"", "\"role\":\"tool\"", "\"role\": \"tool\"", "\"function_call_output\""];
    let must_call = matches!(mode, "required" | "any" | "tool" | "function");
    if mode == "none" || (!must_call && result_of_tool.iter().any(|mark| memmem::find(bytes, mark.as_bytes()).is_some())) {
        return None;
    }
    let demanded = choice.and_then(|choice| choice.pointer("/function/name").or_else(|| choice.get("name"))?.as_str());
    tools
        .iter()
        .map(|tool| tool.get("function").unwrap_or(tool))
        .filter_map(|tool| {
            let schema = tool.get("parameters").or_else(|| tool.get("input_schema")).cloned().unwrap_or(Value::Null);
            Some((tool.get("name")?.as_str()?.to_owned(), schema))
        })
        .find(|(name, _)| demanded.is_none_or(|demanded| demanded == name))
}

/// The schema in `response_format`, `text.format` or `output_config.format`.
fn schema(format: &Value) -> Option<Value> {
    match format.get("type")?.as_str()? {
        "json_schema" => {
            let schema = format.pointer("/json_schema/schema").or_else(|| format.get("schema"));
            Some(schema.cloned().unwrap_or(Value::Null))
        }
        "json_object" => Some(Value::Null),
        _ => None,
    }
}

/// How many inputs an embeddings `input` or a completions `prompt` holds: a string or an array of tokens is one.
fn items(raw: &RawValue) -> usize {
    match serde_json::from_str::<Vec<Value>>(raw.get()) {
        Ok(list) if !list.iter().all(Value::is_u64) => list.len().clamp(1, 2_048),
        _ => 1,
    }
}

fn default_dimensions(model: Option<&str>) -> usize {
    if model.is_some_and(|model| model.contains("large")) { 3_072 } else { 1_536 }
}

/// The number in `[N tokens]`.
fn wanted_length(bytes: &[u8]) -> Option<u64> {
    let end = memmem::find(bytes, b" tokens]")?;
    let start = memchr::memrchr(b'[', &bytes[..end])? + 1;
    std::str::from_utf8(&bytes[start..end]).ok()?.parse().ok()
}

fn hash(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
}

/// The counter used unless the options bring one: about 1.3 tokens a word over every string in the body, and three per
/// message.
#[must_use]
pub fn count_words(_model: &str, body: &[u8]) -> u64 {
    fn words(value: &Value) -> (u64, u64) {
        match value {
            Value::String(text) => (text.split_whitespace().count() as u64, 0),
            Value::Number(_) => (1, 0),
            Value::Array(list) => list.iter().map(words).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
            Value::Object(map) => {
                let own = (0, u64::from(map.contains_key("role")));
                map.values().map(words).fold(own, |sum, one| (sum.0 + one.0, sum.1 + one.1))
            }
            Value::Null | Value::Bool(_) => (0, 0),
        }
    }
    let Ok(Value::Object(map)) = serde_json::from_slice::<Value>(body) else { return 0 };
    let counted = ["messages", "input", "prompt", "system", "instructions", "tools"];
    let (words, messages) = map
        .iter()
        .filter(|(key, _)| counted.contains(&key.as_str()))
        .map(|(_, value)| words(value))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (words * 13).div_ceil(10) + messages * 3
}
