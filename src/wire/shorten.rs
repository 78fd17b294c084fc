//! Asking for a shorter answer: a line at the end of the prompt, and less reasoning.
//!
//! Both are changes to a few bytes of the body. The line goes to the end of the last thing the user said: what stands before it stays as it
//! was, so the provider's prompt cache still knows it, and a conversation that goes on later without the line loses nothing of the cache.

use super::Api;
use super::edit::Change;
use super::request::{Request, SegmentKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Efforts that leave nothing to lower.
const LOW: [&str; 3] = ["none", "minimal", "low"];

/// Models that reason with an effort that can be stated, where the request states none.
const TAKES_EFFORT: [&str; 3] = ["gpt-5", "o3", "o4"];

/// The last message of a prompt, as far as it matters here.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Where efforts stand.
#[derive(Deserialize)]
struct Efforts<'a> {
    #[serde(borrow)]
    reasoning_effort: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    output_config: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Effort<'a> {
    #[serde(borrow)]
    effort: Option<&'a RawValue>,
}

impl Request {
    /// The change that appends `line` to the last user message. `None` where the prompt does not end with one, or not with text: then
    /// nothing may be put into somebody's mouth.
    #[must_use]
    pub fn append(&self, body: &[u8], line: &str) -> Option<Change> {
        let last = self.segments.iter().rev().find(|segment| {
            matches!(
                segment.kind,
                SegmentKind::ChatMessage | SegmentKind::Message | SegmentKind::ResponsesItem | SegmentKind::ResponsesText
            )
        })?;
        let json = std::str::from_utf8(body.get(last.range.clone())?).ok()?;
        if last.kind == SegmentKind::ResponsesText {
            return at_end_of(json, last.range.start, self.api, line);
        }
        let message: Message<'_> = serde_json::from_str(json).ok()?;
        let speaks = message.role.as_deref() == Some("user") && message.kind.as_deref().is_none_or(|kind| kind == "message");
        let content = message.content.filter(|_| speaks)?.get();
        at_end_of(content, last.range.start + offset(json, content), self.api, line)
    }

    /// The change that lowers the reasoning effort to `low`; `None` where it is that low already, or where the model may not know the field.
    #[must_use]
    pub fn lower_effort(&self, body: &[u8]) -> Option<Change> {
        let stated = self.features.reasoning_effort.as_deref();
        if stated.is_some_and(|effort| LOW.contains(&effort)) {
            return None;
        }
        let json = std::str::from_utf8(body.get(self.places.start..)?).ok()?;
        let efforts: Efforts<'_> = serde_json::from_str(json).ok()?;
        let start = self.places.start;
        let nested = |object: Option<&RawValue>| {
            let object = object?.get();
            let effort = serde_json::from_str::<Effort<'_>>(object).ok()?.effort?.get();
            Some(start + offset(json, effort)..start + offset(json, effort) + effort.len())
        };
        let place = match self.api {
            Api::Chat => efforts.reasoning_effort.map(RawValue::get).map(|effort| {
                let at = start + offset(json, effort);
                at..at + effort.len()
            }),
            Api::Responses => nested(efforts.reasoning),
            Api::Messages => nested(efforts.output_config),
            _ => None,
        };
        match place {
            Some(at) => stated.map(|_| Change { at, json: "\"low\"".into() }),
            None => self.state_effort(json),
        }
    }

    fn state_effort(&self, json: &str) -> Option<Change> {
        let (field, json_of_it) = match self.api {
            Api::Chat => ("\"reasoning_effort\"", "\"reasoning_effort\":\"low\","),
            Api::Responses => ("\"reasoning\"", "\"reasoning\":{\"effort\":\"low\"},"),
            _ => return None,
        };
        let takes = TAKES_EFFORT.iter().any(|prefix| self.model.starts_with(prefix));
        // Stated as null, or in an object with other members: a second one would be a doubled key. A prompt that holds the word is left
        // alone too, which costs nothing but the saving.
        let is_there = memchr::memmem::find(json.as_bytes(), field.as_bytes()).is_some();
        let inside = self.places.inside;
        (takes && !is_there).then(|| Change { at: inside..inside, json: json_of_it.into() })
    }
}

/// The change that puts `line` at the end of a message's content, which stands at `start`.
fn at_end_of(content: &str, start: usize, api: Api, line: &str) -> Option<Change> {
    let end = start + content.len() - 1;
    let inner = content.get(1..content.len().checked_sub(1)?)?;
    let json = match content.as_bytes().first()? {
        b'"' => {
            let quoted = serde_json::Value::from(format!("\n\n{line}")).to_string();
            quoted.get(1..quoted.len() - 1)?.to_owned()
        }
        b'[' => {
            let kind = if api == Api::Responses { "input_text" } else { "text" };
            let comma = if inner.trim().is_empty() { "" } else { "," };
            format!("{comma}{{\"type\":\"{kind}\",\"text\":{}}}", serde_json::Value::from(line))
        }
        _ => return None,
    };
    Some(Change { at: end..end, json })
}

/// Where a part of a text stands in it.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::edit::Edits;
    use crate::wire::request::parse;
    use bytes::Bytes;

    fn changed(api: Api, body: &str, change: impl Fn(&Request, &[u8]) -> Option<Change>) -> Option<String> {
        let body = Bytes::from(body.to_owned());
        let request = parse(api, &body).expect("a body");
        let change = change(&request, &body)?;
        let edited = request.apply(&body, &Edits { changes: vec![change], ..Edits::default() });
        serde_json::from_slice::<serde_json::Value>(&edited).expect("still JSON");
        Some(String::from_utf8(edited.to_vec()).expect("still text"))
    }

    #[test]
    fn the_line_ends_the_last_thing_the_user_said_and_nothing_else_changes() {
        for (api, body, right) in [
            (
                Api::Chat,
                r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user", "content":"h\u0069 \"x\""}],"n":1}"#,
                Some(
                    r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user", "content":"h\u0069 \"x\"\n\nBe \"brief\"."}],"n":1}"#,
                ),
            ),
            (
                Api::Chat,
                r#"{"model":"m","messages":[{"content":[{"type":"text","text":"a"}],"role":"user"}]}"#,
                Some(
                    r#"{"model":"m","messages":[{"content":[{"type":"text","text":"a"},{"type":"text","text":"Be \"brief\"."}],"role":"user"}]}"#,
                ),
            ),
            (
                Api::Messages,
                r#"{"model":"c","max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#,
                Some(r#"{"model":"c","max_tokens":9,"messages":[{"role":"user","content":"a\n\nBe \"brief\"."}]}"#),
            ),
            (Api::Responses, r#"{"model":"m","input":"a"}"#, Some(r#"{"model":"m","input":"a\n\nBe \"brief\"."}"#)),
            (
                Api::Responses,
                r#"{"model":"m","input":[{"role":"user","content":[ ]}]}"#,
                Some(r#"{"model":"m","input":[{"role":"user","content":[ {"type":"input_text","text":"Be \"brief\"."}]}]}"#),
            ),
            (Api::Chat, r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#, None),
            (Api::Chat, r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"1","content":"a"}]}"#, None),
            (Api::Responses, r#"{"model":"m","input":[{"type":"function_call_output","call_id":"1","output":"a"}]}"#, None),
            (Api::Completions, r#"{"model":"m","prompt":"a"}"#, None),
        ] {
            let edited = changed(api, body, |request, body| request.append(body, "Be \"brief\"."));
            assert_eq!(edited.as_deref(), right, "{body}");
        }
    }

    #[test]
    fn the_effort_is_lowered_where_it_stands_and_stated_where_the_model_takes_it() {
        for (api, body, right) in [
            (
                Api::Chat,
                r#"{"model":"o3","messages":[],"reasoning_effort": "high"}"#,
                Some(r#"{"model":"o3","messages":[],"reasoning_effort": "low"}"#),
            ),
            (
                Api::Responses,
                r#"{"model":"x","input":"a","reasoning":{"summary":"auto","effort":"medium"}}"#,
                Some(r#"{"model":"x","input":"a","reasoning":{"summary":"auto","effort":"low"}}"#),
            ),
            (
                Api::Messages,
                r#"{"model":"c","max_tokens":9,"messages":[],"output_config":{"effort":"max"}}"#,
                Some(r#"{"model":"c","max_tokens":9,"messages":[],"output_config":{"effort":"low"}}"#),
            ),
            (
                Api::Chat,
                r#"{"model":"gpt-5","messages":[]}"#,
                Some(r#"{"reasoning_effort":"low","model":"gpt-5","messages":[]}"#),
            ),
            (
                Api::Responses,
                r#"{"model":"o4-mini","input":"a"}"#,
                Some(r#"{"reasoning":{"effort":"low"},"model":"o4-mini","input":"a"}"#),
            ),
            (Api::Responses, r#"{"model":"o4-mini","input":"a","reasoning":{"summary":"auto"}}"#, None),
            (Api::Chat, r#"{"model":"gpt-5","messages":[],"reasoning_effort":null}"#, None),
            (Api::Chat, r#"{"model":"gpt-5","messages":[],"reasoning_effort":"minimal"}"#, None),
            (Api::Chat, r#"{"model":"gpt-4o","messages":[]}"#, None),
            (Api::Messages, r#"{"model":"c","max_tokens":9,"messages":[]}"#, None),
        ] {
            let edited = changed(api, body, Request::lower_effort);
            assert_eq!(edited.as_deref(), right, "{body}");
        }
    }
}
