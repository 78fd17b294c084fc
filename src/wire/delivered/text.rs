//! Where the text is in an event or a whole reply of each API.
//!
//! Whole replies and stream events of one API name the same things alike, so one walk serves both. Whatever is not where it is expected
//! is skipped.

use crate::wire::Api;
use crate::wire::pick::{items, pick, string};

/// Appends the text that `json`, an event's data or a reply's body, delivers; gives the characters of base64 that hold sound.
pub(crate) fn append_text(api: Api, json: &str, text: &mut String) -> u64 {
    match api {
        Api::Chat | Api::Completions => return chat(json, text),
        Api::Responses => responses(json, text),
        Api::Messages => messages(json, text),
        Api::Embeddings | Api::CountTokens | Api::Models | Api::AnthropicModels | Api::Jobs(_) | Api::Triage(_) => {}
    }
    0
}

fn push(json: Option<&str>, text: &mut String) {
    if let Some(string) = json.and_then(string) {
        text.push_str(&string);
    }
}

/// `choices[]` with `delta` (stream), `message` (reply) or `text` (legacy completions).
fn chat(json: &str, text: &mut String) -> u64 {
    let mut audio = 0;
    let [choices] = pick(json, ["choices"]).unwrap_or_default();
    for choice in choices.into_iter().flat_map(items) {
        let [delta, message, legacy] = pick(choice, ["delta", "message", "text"]).unwrap_or_default();
        push(legacy, text);
        if let Some(message) = delta.or(message) {
            audio += chat_message(message, text);
        }
    }
    audio
}

fn chat_message(json: &str, text: &mut String) -> u64 {
    let names = ["reasoning_content", "reasoning", "content", "refusal", "tool_calls", "function_call", "audio"];
    let [reasoning_content, reasoning, content, refusal, tool_calls, function_call, audio] =
        pick(json, names).unwrap_or_default();
    // Servers that send both names send the same text under both.
    push(reasoning_content.or(reasoning), text);
    push(content, text);
    for part in content.into_iter().flat_map(items) {
        let [part_text] = pick(part, ["text"]).unwrap_or_default();
        push(part_text, text);
    }
    push(refusal, text);
    for call in tool_calls.into_iter().flat_map(items) {
        let [function, custom] = pick(call, ["function", "custom"]).unwrap_or_default();
        function.or(custom).into_iter().for_each(|call| called(call, text));
    }
    function_call.into_iter().for_each(|call| called(call, text));
    let [transcript, data] = audio.and_then(|json| pick(json, ["transcript", "data"])).unwrap_or_default();
    push(transcript, text);
    data.and_then(string).map_or(0, |data| data.len() as u64)
}

/// A function's name and arguments, or a custom tool's name and input.
fn called(json: &str, text: &mut String) {
    let [name, arguments, input] = pick(json, ["name", "arguments", "input"]).unwrap_or_default();
    push(name, text);
    push(arguments.or(input), text);
}

/// `delta` (stream), the name of an `item` that begins (stream), or `output[]` (reply).
fn responses(json: &str, text: &mut String) {
    let [delta, item, output] = pick(json, ["delta", "item", "output"]).unwrap_or_default();
    push(delta, text);
    let [name] = item.and_then(|json| pick(json, ["name"])).unwrap_or_default();
    push(name, text);
    for item in output.into_iter().flat_map(items) {
        called(item, text);
        let [summary, content, code] = pick(item, ["summary", "content", "code"]).unwrap_or_default();
        for part in summary.into_iter().chain(content).flat_map(items) {
            let [part_text, refusal, transcript] = pick(part, ["text", "refusal", "transcript"]).unwrap_or_default();
            push(part_text.or(refusal).or(transcript), text);
        }
        push(code, text);
    }
}

/// `delta` and `content_block` (stream), or `content[]` (reply).
fn messages(json: &str, text: &mut String) {
    let [delta, block, content] = pick(json, ["delta", "content_block", "content"]).unwrap_or_default();
    let [delta_text, thinking, partial_json] =
        delta.and_then(|json| pick(json, ["text", "thinking", "partial_json"])).unwrap_or_default();
    push(delta_text.or(thinking).or(partial_json), text);
    for block in block.into_iter().chain(content.into_iter().flat_map(items)) {
        let [block_text, thinking, name, input] = pick(block, ["text", "thinking", "name", "input"]).unwrap_or_default();
        push(block_text.or(thinking), text);
        push(name, text);
        // The input of a tool is an object; a block that only begins has an empty one, and deltas follow.
        if let Some(input) = input.filter(|input| !input.trim_matches(['{', '}', ' ']).is_empty()) {
            text.push_str(input);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_every_kind_of_event_and_reply_is_found() {
        for (api, json, want) in [
            (Api::Chat, r#"{"choices":[{"delta":{"role":"assistant","content":"Hi \u4eac"},"finish_reason":null}]}"#, "Hi 京"),
            (Api::Chat, r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}"#, "ab"),
            (Api::Chat, r#"{"choices":[{"delta":{"reasoning_content":"r","reasoning":"r","content":null}}]}"#, "r"),
            (Api::Chat, r#"{"choices":[{"delta":{"reasoning":"why","refusal":"no"}}]}"#, "whyno"),
            (
                Api::Chat,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}"#,
                r#"f{"a":1}"#,
            ),
            (Api::Chat, r#"{"choices":[{"delta":{"function_call":{"name":"g","arguments":"{}"}}}]}"#, "g{}"),
            (Api::Chat, r#"{"choices":[{"message":{"content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}}]}"#, "xy"),
            (Api::Chat, r#"{"choices":[{"delta":{"audio":{"data":"AAAA","transcript":"said"}}}]}"#, "said"),
            (Api::Chat, r#"{"choices":[{"delta":{"content":"\ud83c"}}],"obfuscation":"zz"}"#, r"\ud83c"),
            (Api::Chat, r#"{"choices":{"delta":1},"x":[]}"#, ""),
            (Api::Completions, r#"{"choices":[{"text":"once","index":0}]}"#, "once"),
            (Api::Responses, r#"{"type":"response.output_text.delta","delta":"Hi","logprobs":[]}"#, "Hi"),
            (
                Api::Responses,
                r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}"#,
                "f",
            ),
            (
                Api::Responses,
                r#"{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},{"type":"message","content":[{"type":"output_text","text":"t"},{"type":"refusal","refusal":"n"}]},{"type":"function_call","name":"f","arguments":"{}"}]}"#,
                "stnf{}",
            ),
            (Api::Messages, r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#, "Hi"),
            (Api::Messages, r#"{"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#, r#"{"a""#),
            (Api::Messages, r#"{"delta":{"type":"thinking_delta","thinking":"hm"}}"#, "hm"),
            (Api::Messages, r#"{"delta":{"type":"signature_delta","signature":"AAAA"}}"#, ""),
            (Api::Messages, r#"{"content_block":{"type":"tool_use","id":"t1","name":"look","input":{}}}"#, "look"),
            (
                Api::Messages,
                r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Hi"},{"type":"tool_use","name":"f","input":{"a":1}}]}"#,
                r#"hmHif{"a":1}"#,
            ),
            (Api::Embeddings, r#"{"data":[{"embedding":[0.1]}]}"#, ""),
        ] {
            let mut text = String::new();
            append_text(api, json, &mut text);
            assert_eq!(text, want, "{json}");
        }
    }
}
