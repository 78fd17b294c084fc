//! What a provider answered, and how it stands in a cell of a Markdown table.

use crate::domain::NanoUsd;
use crate::pricing::Price;
use crate::upstream::{ProviderReply, peek};
use crate::wire::meter::{Meter, MeterOptions};
use crate::wire::whole::text_of;
use crate::wire::{Api, error};
use http::header::CONTENT_TYPE;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The longest answer that is read.
const LONGEST: usize = 8 << 20;
/// Characters of a text that stand in a cell.
const SHOWN: usize = 600;

/// An answer, and what it took.
#[derive(Debug)]
pub(super) struct Answer {
    pub text: String,
    pub input: u64,
    pub output: u64,
    pub cost: NanoUsd,
}

/// Reads a reply to its end.
pub(super) async fn read_answer(
    api: Api,
    reply: ProviderReply,
    price: Option<&Price>,
    patience: Duration,
) -> Result<Answer, String> {
    let (head, body) = reply.into_parts();
    let (bytes, _) = peek(body, LONGEST, patience).await;
    if !head.status.is_success() {
        let error = error::read(api.dialect(), head.status.as_u16(), &bytes);
        return Err(format!("{}: {}", head.status.as_u16(), error.message.unwrap_or_default()));
    }
    let json: Value =
        serde_json::from_slice(&bytes).map_err(|_| "the answer is no JSON, or too long, or came too late".to_owned())?;
    let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let options = MeterOptions { api, hide_usage_chunk: false, count: Arc::new(|_: &str| 0) };
    let (mut meter, mut passed) = (Meter::for_reply(options, kind), VecDeque::new());
    meter.feed(bytes, &mut passed);
    meter.finish(&mut passed);
    let usage = meter.summary().usage.unwrap_or_default();
    let cost = price.map_or(NanoUsd::ZERO, |price| price.cost(&usage, None));
    Ok(Answer { text: text_of(&json), input: usage.input(), output: usage.total_output(), cost })
}

/// The last thing that a request says: what the answers are about.
pub(super) fn last_words(body: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join(" "),
    };
    let last = [&body["messages"], &body["input"]].into_iter().find_map(Value::as_array).and_then(|list| list.last());
    match last {
        Some(message) => text(&message["content"]),
        None => text(if body["input"].is_null() { &body["prompt"] } else { &body["input"] }),
    }
}

/// A text that leaves the table whole: one line, its bars escaped, nothing in it that a terminal would obey, and not endless.
pub(super) fn cell(text: &str) -> String {
    let mut cell = String::new();
    for c in text.chars().take(SHOWN) {
        match c {
            '|' => cell.push_str("\\|"),
            '\\' => cell.push_str("\\\\"),
            c if c.is_whitespace() => cell.push(' '),
            // Marks that turn the direction of writing are no letters of an answer either.
            c if c.is_control() || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {}
            c => cell.push(c),
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        cell.push('…');
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_cannot_leave_its_table() {
        assert_eq!(cell("a | b\n\\| \u{1b}[31mred\u{202e}\ttab"), "a \\| b \\\\\\| [31mred tab");
        assert_eq!(cell(&"x".repeat(SHOWN + 1)).chars().count(), SHOWN + 1);
        assert!(cell(&"x".repeat(SHOWN + 1)).ends_with('…') && !cell(&"x".repeat(SHOWN)).ends_with('…'));
    }

    #[test]
    fn the_question_is_found_in_every_api() {
        for (body, right) in [
            (json!({ "messages": [{ "role": "system", "content": "s" }, { "role": "user", "content": "q" }] }), "q"),
            (
                json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }] }),
                "a b",
            ),
            (json!({ "input": "q" }), "q"),
            (json!({ "input": [{ "role": "user", "content": "q" }] }), "q"),
            (json!({ "prompt": "q" }), "q"),
            (json!({ "messages": [] }), ""),
        ] {
            assert_eq!(last_words(&body), right, "{body}");
        }
    }
}
