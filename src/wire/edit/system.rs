//! Another system prompt in place of a request's own.

use super::{Patch, quoted};
use crate::wire::Api;
use crate::wire::pick::{pick, string};
use crate::wire::request::{Request, SegmentKind};
use bytes::Bytes;
use std::ops::Range;

/// A message that stands for the operator rather than for the user or the model.
struct Own {
    range: Range<usize>,
    /// `system` or `developer`, as the request spells it: some models know only one of them.
    role: &'static str,
}

impl Request {
    /// Writes the system prompt where the API has it.
    pub(super) fn write_system(&self, patch: &mut Patch, body: &Bytes, prompt: &str) {
        match self.api {
            Api::Chat => self.write_first_message(patch, body, prompt),
            Api::Responses => {
                self.remove_leading(patch, body);
                patch.set(self.places.system.as_ref(), "instructions", quoted(prompt));
            }
            Api::Messages | Api::CountTokens => patch.set(self.places.system.as_ref(), "system", quoted(prompt)),
            Api::Completions
            | Api::Embeddings
            | Api::Models
            | Api::AnthropicModels
            | Api::Jobs(_)
            | Api::Triage(_)
            | Api::Unknown(_) => {}
        }
    }

    /// Chat: the first of the leading system messages gets the prompt, the others go; without any, a new one stands first.
    fn write_first_message(&self, patch: &mut Patch, body: &Bytes, prompt: &str) {
        let leading = self.leading(body, SegmentKind::ChatMessage);
        let message = |role: &str| format!("{{\"role\":\"{role}\",\"content\":{}}}", quoted(prompt));
        if let (Some(first), Some(last)) = (leading.first(), leading.last()) {
            patch.replace(&first.range, message(first.role));
            if last.range.end > first.range.end {
                patch.replace(&(first.range.end..last.range.end), String::new());
            }
            return;
        }
        let first = self.segments.iter().find(|segment| segment.kind == SegmentKind::ChatMessage);
        // Without any message there is no place to put one, and nothing to answer either.
        if let Some(first) = first.map(|segment| segment.range.start) {
            patch.replace(&(first..first), format!("{},", message("system")));
        }
    }

    /// Responses: system messages that `input` begins with, since `instructions` take their place. If there is nothing behind them they
    /// stay, because an empty input is no request.
    fn remove_leading(&self, patch: &mut Patch, body: &Bytes) {
        let leading = self.leading(body, SegmentKind::ResponsesItem);
        let Some(first) = leading.first() else { return };
        let mut items = self.segments.iter().filter(|segment| segment.kind == SegmentKind::ResponsesItem);
        if let Some(next) = items.nth(leading.len()) {
            patch.replace(&(first.range.start..next.range.start), String::new());
        }
    }

    /// The system and developer messages before the first of any other kind.
    fn leading(&self, body: &Bytes, kind: SegmentKind) -> Vec<Own> {
        let messages = self.segments.iter().filter(|segment| segment.kind == kind);
        let own = messages.map_while(|segment| {
            let json = std::str::from_utf8(body.get(segment.range.clone())?).ok()?;
            let [role] = pick(json, ["role"])?;
            let role = string(role?)?;
            let role = ["system", "developer"].into_iter().find(|known| *known == role)?;
            Some(Own { range: segment.range.clone(), role })
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::Api;
    use crate::wire::edit::Edits;
    use crate::wire::request::parse;
    use bytes::Bytes;

    fn edited(api: Api, body: &'static str, edits: &Edits) -> String {
        let body = Bytes::from_static(body.as_bytes());
        let out = parse(api, &body).expect("valid").apply(&body, edits);
        parse(api, &out).expect("still valid");
        String::from_utf8(out.to_vec()).expect("UTF-8")
    }

    #[test]
    fn the_prompt_stands_where_the_api_has_it_and_no_other_byte_changes() {
        let edits = Edits { system: Some("Be \"brief\".\nÄ".into()), ..Edits::default() };
        const PROMPT: &str = r#""Be \"brief\".\nÄ""#;
        for (api, body, right) in [
            (
                Api::Chat,
                r#"{"model":"m", "messages" : [ {"content":"old","role":"system","name":"x"} , {"role":"user","content":"\u00e9"} ],"x":1.50}"#,
                r#"{"model":"m", "messages" : [ {"role":"system","content":@} , {"role":"user","content":"\u00e9"} ],"x":1.50}"#,
            ),
            (
                Api::Chat,
                r#"{"messages":[{"role":"developer","content":[{"type":"text","text":"a"}]}, {"role":"system","content":"b"},{"role":"user","content":"u"},{"role":"system","content":"later"}],"model":"m"}"#,
                r#"{"messages":[{"role":"developer","content":@},{"role":"user","content":"u"},{"role":"system","content":"later"}],"model":"m"}"#,
            ),
            (
                Api::Chat,
                r#"{"model":"m","messages":[ {"role":"user","content":"u"}]}"#,
                r#"{"model":"m","messages":[ {"role":"system","content":@},{"role":"user","content":"u"}]}"#,
            ),
            (Api::Chat, r#"{"model":"m","messages":[]}"#, r#"{"model":"m","messages":[]}"#),
            (Api::Responses, r#"{"model":"m","input":"u"}"#, r#"{"instructions":@,"model":"m","input":"u"}"#),
            (Api::Responses, r#"{"model":"m","instructions":null,"input":"u"}"#, r#"{"model":"m","instructions":@,"input":"u"}"#),
            (
                Api::Responses,
                r#"{"model":"m","input":[{"role":"developer","content":"d"}, {"role":"user","content":"u"}],"instructions" : "old"}"#,
                r#"{"model":"m","input":[{"role":"user","content":"u"}],"instructions" : @}"#,
            ),
            (
                Api::Responses,
                r#"{"model":"m","input":[{"role":"developer","content":"d"}]}"#,
                r#"{"instructions":@,"model":"m","input":[{"role":"developer","content":"d"}]}"#,
            ),
            (
                Api::Messages,
                r#"{"model":"m","max_tokens":5,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[]}"#,
                r#"{"model":"m","max_tokens":5,"system":@,"messages":[]}"#,
            ),
            (
                Api::Messages,
                r#"{"model":"m","max_tokens":5,"messages":[]}"#,
                r#"{"system":@,"model":"m","max_tokens":5,"messages":[]}"#,
            ),
            (Api::Completions, r#"{"model":"m","prompt":"u"}"#, r#"{"model":"m","prompt":"u"}"#),
            (Api::Embeddings, r#"{"model":"m","input":"u"}"#, r#"{"model":"m","input":"u"}"#),
        ] {
            assert_eq!(edited(api, body, &edits), right.replace('@', PROMPT), "{body}");
        }
    }

    #[test]
    fn all_edits_go_together() {
        let edits = Edits {
            model: Some("small".into()),
            system: Some("S".into()),
            output_cap: Some(9),
            include_usage: true,
            user_id: Some("u".into()),
            changes: Vec::new(),
        };
        let body = r#"{"model":"big","stream":true,"max_tokens":50,"messages":[{"role":"system","content":"old"},{"role":"user","content":"u"}]}"#;
        let right = r#"{"safety_identifier":"u","stream_options":{"include_usage":true},"model":"small","stream":true,"max_tokens":9,"messages":[{"role":"system","content":"S"},{"role":"user","content":"u"}]}"#;
        let out = edited(Api::Chat, body, &edits);
        let sorted = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(sorted(&out), sorted(right));
        assert!(out.ends_with(r#""model":"small","stream":true,"max_tokens":9,"messages":[{"role":"system","content":"S"},{"role":"user","content":"u"}]}"#), "{out}");
    }
}
