//! What is read out of a reply, event by event or at once.

use super::summary::{Anomalies, ReplyError, Summary, label};
use super::{chat, messages, responses};
use crate::wire::delivered::{Collector, Delivered, TextCounter};
use crate::wire::pick::pick;
use crate::wire::sse::Event;
use crate::wire::usage::{Record, Shape};
use crate::wire::{Api, Dialect};
use memchr::memmem::Finder;
use std::borrow::Cow;

/// All that has been read so far. The modules of the APIs fill it in.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) api: Api,
    pub(super) record: Record,
    pub(super) collector: Collector,
    pub(super) model: Option<String>,
    pub(super) reply_id: Option<String>,
    pub(super) error: Option<ReplyError>,
    /// A terminal event was seen: nothing that follows matters.
    pub(super) over: bool,
    /// A chat choice has finished: the end of the stream would be a proper one.
    pub(super) finishing: bool,
    /// Content has passed: text, reasoning, a tool call, audio.
    pub(super) content: bool,
    /// Events whose head was looked at for id and model in vain.
    pub(super) heads: u8,
    /// Web searches that have ended, in a stream of responses.
    pub(super) searches: u64,
    /// Content has passed after the usage was stated.
    outdated: bool,
    oversized: bool,
    complete_body: bool,
    /// Bytes of a JSON body that cannot be read, since its end is missing.
    partial: u64,
}

impl Reading {
    pub(super) fn new(api: Api, count: TextCounter) -> Self {
        let shape = match api.dialect() {
            Dialect::OpenAi => Shape::OpenAi,
            Dialect::Anthropic => Shape::Anthropic,
        };
        Self {
            api,
            record: Record::new(shape),
            collector: Collector::new(api, count),
            model: None,
            reply_id: None,
            error: None,
            over: false,
            finishing: false,
            content: false,
            heads: 0,
            searches: 0,
            outdated: false,
            oversized: false,
            complete_body: false,
            partial: 0,
        }
    }

    /// Reads one event. True when it is a usage-only chunk, which a client that did not ask for it must not see.
    pub(super) fn event(&mut self, bytes: &[u8]) -> bool {
        let event = Event::parse(bytes);
        if event.data.is_empty() {
            return false;
        }
        match self.api {
            Api::Chat | Api::Completions => return chat::event(self, &event.data),
            Api::Responses => responses::event(self, &event),
            Api::Messages => messages::event(self, &event),
            Api::Embeddings
            | Api::CountTokens
            | Api::Models
            | Api::AnthropicModels
            | Api::Jobs(_)
            | Api::Triage(_)
            | Api::Unknown(_) => {}
        }
        false
    }

    /// Reads a whole reply that is no stream.
    pub(super) fn body(&mut self, bytes: &[u8]) {
        // Checked first, which is quick: only what is no UTF-8 needs a copy.
        let json = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
        let Some([id, model, tier, usage, error]) = pick(&json, ["id", "model", "service_tier", "usage", "error"]) else {
            return;
        };
        self.complete_body = true;
        self.head(id, model, tier);
        self.usage(usage);
        self.failed(error);
        if self.api == Api::Responses {
            self.record.saw_searches(responses::searches(&json));
        }
        if self.api.generates() && !self.record.output_known() {
            self.collector.push_and_look(json.as_bytes());
        }
    }

    /// Takes id, model and service tier from wherever they were found.
    pub(super) fn head(&mut self, id: Option<&str>, model: Option<&str>, tier: Option<&str>) {
        self.reply_id = id.and_then(label).or_else(|| self.reply_id.take());
        self.model = model.and_then(label).or_else(|| self.model.take());
        self.record.read_tier(tier);
    }

    /// Takes the error a reply states, if it states one; some servers spell "none" as an empty string.
    pub(super) fn failed(&mut self, error: Option<&str>) {
        if let Some(error) = error.filter(|json| *json != "\"\"") {
            self.error = Some(ReplyError::read(error));
        }
    }

    /// `total`: its length, of which `bytes` may be only the end.
    pub(super) fn cut_body(&mut self, bytes: &[u8], total: u64) {
        self.body(bytes);
        if !self.complete_body && bytes.trim_ascii_start().starts_with(b"{") {
            self.partial = total;
        }
    }

    /// Takes a delta that came after the usage; if it has anything in it, what was stated was not the whole.
    pub(super) fn late_delta(&mut self, json: &[u8]) {
        let has_content = self.collector.push_and_look(json);
        self.outdated |= has_content;
        self.content |= has_content;
    }

    pub(super) fn usage(&mut self, json: Option<&str>) {
        let Some(json) = json else { return };
        self.outdated = false;
        match self.api {
            Api::Embeddings => self.record.read_embedding(json),
            _ => self.record.read(json),
        }
    }

    /// Takes a delta: decoded at once while it is open whether content has begun, set aside after that.
    pub(super) fn delta(&mut self, json: &[u8]) {
        if self.content {
            self.collector.push(json);
        } else {
            self.content = self.collector.push_and_look(json);
        }
    }

    /// An event was too large to be read. Whatever it was, the client has it.
    pub(super) fn passed_unread(&mut self) {
        self.oversized = true;
        self.content = true;
    }

    pub(super) fn delivered(&self) -> Delivered {
        self.collector.delivered()
    }

    /// `ended`: the provider has ended the reply in good order.
    pub(super) fn summary(&self, ended: bool) -> Summary {
        let (usage, consistent) = self.record.usage();
        let oddities = self.record.oddities();
        let input_known = self.record.input_known();
        let output_known = if self.api.generates() { self.record.output_known() && !self.outdated } else { input_known };
        Summary {
            output_at_least: usage.as_ref().filter(|_| self.outdated).map_or(0, |usage| usage.output),
            partial_bytes: self.partial,
            usage,
            input_known,
            output_known,
            delivered: if output_known { Delivered::default() } else { self.delivered() },
            model: self.model.clone(),
            reply_id: self.reply_id.clone(),
            error: self.error.clone(),
            complete: self.over || (ended && (self.finishing || self.complete_body)),
            anomalies: Anomalies {
                usage_decreased: oddities.decreased,
                garbage_usage: oddities.garbage,
                capped_usage: oddities.capped,
                inconsistent_usage: !consistent,
                oversized_event: self.oversized,
            },
        }
    }
}

/// A key to look for before any parsing is done: most events have nothing to say that matters.
pub(super) struct Mention(Finder<'static>);

impl Mention {
    /// `quoted` is the key with its quotes.
    pub(super) fn of(quoted: &'static str) -> Self {
        Self(Finder::new(quoted))
    }

    /// Whether the key occurs, at any depth, with a value (not `null` or, as some servers spell that, an empty string). Text inside a
    /// string cannot fool it: quotes are escaped there.
    pub(super) fn is_in(&self, json: &[u8]) -> bool {
        self.0.find_iter(json).any(|at| {
            let behind = json[at + self.0.needle().len()..].trim_ascii_start();
            let value = behind.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
            value.is_some_and(|value| !value.starts_with(b"null") && !value.starts_with(b"\"\""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_mentioned_only_with_a_value() {
        let usage = Mention::of("\"usage\"");
        for (json, want) in [
            (r#"{"usage":{"a":1}}"#, true),
            (r#"{"usage" : 5}"#, true),
            (r#"{"usage":null,"x_groq":{"usage":{}}}"#, true),
            (r#"{"usage":null}"#, false),
            (r#"{"usage": null}"#, false),
            (r#"{"usage":""}"#, false),
            (r#"{"text":"usage","b":"\"usage\":1"}"#, false),
            (r#"{"usages":1}"#, false),
            (r#"{"usage""#, false),
        ] {
            assert_eq!(usage.is_in(json.as_bytes()), want, "{json}");
        }
    }
}
