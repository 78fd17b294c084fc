//! Changing a few fields of a body and no other byte.
//!
//! Prompt caches, signatures and reviewers see the bytes: order, spelling of numbers, escapes and white space of everything else stay as the
//! client sent them. A field that is there is overwritten in place; one that is not is put first in its object.

mod system;

use super::Api;
use super::request::Request;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// What the gateway changes before a body goes on. A field that already has the wanted value keeps its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// The model, where another one is to answer.
    pub model: Option<String>,
    /// The system prompt, in place of the request's own: the field of the API (`instructions`, `system`), and the system or developer
    /// messages that a conversation begins with. Later ones stay: they belong to the conversation. Completions and embeddings have none.
    pub system: Option<Arc<str>>,
    /// The output cap, tokens per choice. Written into the field that the request uses (chat: both, where it uses both), otherwise into
    /// `max_completion_tokens`, `max_output_tokens` (Responses) or `max_tokens` (Completions, Messages). Embeddings have none.
    pub output_cap: Option<u64>,
    /// Ask for the usage of a stream: `stream_options.include_usage: true`. Only done for streams of Chat and Completions; the other APIs,
    /// and calls that do not stream, refuse the field.
    pub include_usage: bool,
    /// Who the provider is told the user is, where the request does not say itself: `safety_identifier` (Chat, Responses), `user`
    /// (Completions, Embeddings) or `metadata.user_id` (Messages).
    pub user_id: Option<String>,
    /// Further changes, found in the same body. Their places never overlap those of the fields above.
    pub changes: Vec<Change>,
}

/// A piece of a body and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The bytes that go; empty = something is put before this offset.
    pub at: Range<usize>,
    /// What comes.
    pub json: String,
}

/// Where the fields stand that may be changed, as byte offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The length of the body.
    pub length: usize,
    /// Where the JSON text starts, behind a byte order mark.
    pub start: usize,
    /// Just behind the outer brace.
    pub inside: usize,
    /// The value of `model`.
    pub model: Range<usize>,
    /// The output caps that are there, at most two.
    pub caps: Vec<Cap>,
    /// `stream_options.include_usage`
    pub usage: Nested,
    /// `metadata.user_id`
    pub metadata: Nested,
    /// The value of `instructions` (Responses) or `system` (Messages), also where it is `null`.
    pub system: Option<Range<usize>>,
    /// The API's own field for the user, other than in `metadata`.
    pub user: Option<Range<usize>>,
}

/// One output cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cap {
    /// Its field.
    pub field: &'static str,
    /// Where its value stands.
    pub value: Range<usize>,
    /// What it says; `None` for `null`.
    pub asked: Option<u64>,
}

/// Where a member of an object stands or could be put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Nested {
    /// There is no such object.
    #[default]
    Absent,
    /// `null` stands there.
    Null(Range<usize>),
    /// There is the object.
    Object {
        /// Just behind its brace.
        inside: usize,
        /// Whether it has no members.
        empty: bool,
        /// The value of the member.
        member: Option<Range<usize>>,
    },
}

impl Request {
    /// The body as it goes on. Without a change these are the same bytes, not a copy; only a byte order mark is always left out.
    ///
    /// # Panics
    /// If `body` is not the body that this request was parsed from.
    #[must_use]
    pub fn apply(&self, body: &Bytes, edits: &Edits) -> Bytes {
        let Edits { model, system, output_cap, include_usage, user_id, changes } = edits;
        let places = &self.places;
        assert_eq!(body.len(), places.length, "a request is applied to its own body");
        let mut patch = Patch { inside: places.inside, changes: Vec::new() };
        if let Some(model) = model.as_ref().filter(|model| **model != self.model) {
            patch.replace(&places.model, quoted(model));
        }
        if let Some(prompt) = system {
            self.write_system(&mut patch, body, prompt);
        }
        if let Some(cap) = *output_cap {
            self.write_cap(&mut patch, cap);
        }
        let streams = self.stream && matches!(self.api, Api::Chat | Api::Completions);
        if *include_usage && streams && self.include_usage != Some(true) {
            patch.nested(&places.usage, "stream_options", "include_usage", "true".into());
        }
        if let Some(user) = user_id {
            self.write_user(&mut patch, user);
        }
        for change in changes {
            patch.replace(&change.at, change.json.clone());
        }
        patch.apply(body, places.start)
    }

    fn write_cap(&self, patch: &mut Patch, cap: u64) {
        let default = match self.api {
            Api::Chat => "max_completion_tokens",
            Api::Responses => "max_output_tokens",
            Api::Completions | Api::Messages => "max_tokens",
            Api::Embeddings
            | Api::CountTokens
            | Api::Models
            | Api::AnthropicModels
            | Api::Jobs(_)
            | Api::Triage(_)
            | Api::Unknown(_) => return,
        };
        let caps = &self.places.caps;
        if caps.iter().any(|field| field.asked.is_some()) {
            for field in caps.iter().filter(|field| field.asked.is_some_and(|asked| asked != cap)) {
                patch.replace(&field.value, cap.to_string());
            }
        } else {
            let null = caps.iter().find(|field| field.field == default);
            patch.set(null.map(|field| &field.value), default, cap.to_string());
        }
    }

    fn write_user(&self, patch: &mut Patch, user: &str) {
        let ids = &self.features.user_ids;
        let (field, given) = match self.api {
            Api::Chat | Api::Responses => ("safety_identifier", &ids.safety_identifier),
            Api::Completions | Api::Embeddings => ("user", &ids.user),
            Api::Messages => {
                if ids.metadata_user_id.is_none() {
                    patch.nested(&self.places.metadata, "metadata", "user_id", quoted(user));
                }
                return;
            }
            Api::CountTokens | Api::Models | Api::AnthropicModels | Api::Jobs(_) | Api::Triage(_) | Api::Unknown(_) => return,
        };
        if given.is_none() {
            patch.set(self.places.user.as_ref(), field, quoted(user));
        }
    }
}

/// Changes to a body: ranges and what stands there instead.
struct Patch {
    inside: usize,
    changes: Vec<(Range<usize>, String)>,
}

impl Patch {
    fn replace(&mut self, range: &Range<usize>, json: String) {
        self.changes.push((range.clone(), json));
    }

    /// Puts a member first in the object that starts just before `inside`.
    fn put(&mut self, inside: usize, empty: bool, field: &str, json: &str) {
        let comma = if empty { "" } else { "," };
        self.changes.push((inside..inside, format!("\"{field}\":{json}{comma}")));
    }

    /// Writes a field of the outer object, which is never empty since it has a model.
    fn set(&mut self, value: Option<&Range<usize>>, field: &str, json: String) {
        match value {
            Some(range) => self.replace(range, json),
            None => self.put(self.inside, false, field, &json),
        }
    }

    /// Writes a member of an object in the outer object.
    fn nested(&mut self, place: &Nested, object: &str, field: &str, json: String) {
        match place {
            Nested::Absent => self.put(self.inside, false, object, &format!("{{\"{field}\":{json}}}")),
            Nested::Null(range) => self.replace(range, format!("{{\"{field}\":{json}}}")),
            Nested::Object { member: Some(range), .. } => self.replace(range, json),
            Nested::Object { inside, empty, member: None } => self.put(*inside, *empty, field, &json),
        }
    }

    fn apply(mut self, body: &Bytes, start: usize) -> Bytes {
        if self.changes.is_empty() {
            return body.slice(start..);
        }
        // Stable: what is put at one place stays in the order in which it was put. The ranges never overlap.
        self.changes.sort_by_key(|(range, _)| range.start);
        let added: usize = self.changes.iter().map(|(_, json)| json.len()).sum();
        let mut edited = Vec::with_capacity(body.len() + added);
        let mut done = start;
        for (range, json) in &self.changes {
            edited.extend_from_slice(&body[done..range.start]);
            edited.extend_from_slice(json.as_bytes());
            done = range.end;
        }
        edited.extend_from_slice(&body[done..]);
        edited.into()
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
