//! A request while its body is being read.

use super::error::{BodyError, FieldName};
use super::number::MAX_COUNT;
use super::{Features, MAX_SEGMENTS, Mentions, Request, Segment, SegmentKind, read};
use crate::wire::Api;
use crate::wire::cursor::{Cursor, Kind};
use crate::wire::edit::{Cap, Nested, Places};
use std::ops::Range;

/// What is known of the request so far.
pub(super) struct Draft {
    pub api: Api,
    pub model: Option<(String, Range<usize>)>,
    pub stream: bool,
    pub n: Option<u64>,
    pub best_of: Option<u64>,
    /// Prompts in the body, each of which gets its own choices.
    pub prompts: u64,
    pub service_tier: Option<String>,
    pub include_usage: Option<bool>,
    pub segments: Vec<Segment>,
    pub features: Features,
    /// Whether the field that holds the prompt was there.
    pub has_prompt: bool,
    pub places: Places,
}

impl Draft {
    pub(super) fn new(api: Api) -> Self {
        Self {
            api,
            model: None,
            stream: false,
            n: None,
            best_of: None,
            prompts: 1,
            service_tier: None,
            include_usage: None,
            segments: Vec::new(),
            features: Features::default(),
            has_prompt: false,
            places: Places::default(),
        }
    }

    /// Adds a piece of the prompt.
    pub(super) fn push(&mut self, field: &'static str, kind: SegmentKind, range: Range<usize>) -> Result<(), BodyError> {
        if self.segments.len() == MAX_SEGMENTS {
            return Err(BodyError::TooManyItems { field: field.into(), max: MAX_SEGMENTS });
        }
        self.segments.push(Segment { kind, range });
        Ok(())
    }

    /// A value of any type that is one piece of the prompt, unless it is `null`.
    pub(super) fn segment(&mut self, cursor: &mut Cursor<'_>, field: &'static str, kind: SegmentKind) -> Result<(), BodyError> {
        let present = cursor.kind()? != Kind::Null;
        let range = cursor.skip()?;
        if present { self.push(field, kind, range) } else { Ok(()) }
    }

    /// A string that is one piece of the prompt, unless it is `null`.
    pub(super) fn text_segment(
        &mut self,
        cursor: &mut Cursor<'_>,
        field: &'static str,
        kind: SegmentKind,
    ) -> Result<(), BodyError> {
        if !matches!(cursor.kind()?, Kind::Null | Kind::String) {
            return Err(BodyError::WrongType { field: field.into(), expected: "a string or null" });
        }
        self.segment(cursor, field, kind)
    }

    /// An array of objects, each a piece of the prompt; this is the API's required field.
    pub(super) fn messages(&mut self, cursor: &mut Cursor<'_>, kind: SegmentKind) -> Result<(), BodyError> {
        const FIELD: &str = "messages";
        match cursor.kind()? {
            Kind::Null => return cursor.skip().map(drop),
            Kind::Array => self.has_prompt = true,
            _ => return Err(BodyError::WrongType { field: FIELD.into(), expected: "an array of objects" }),
        }
        let element = |cursor: &mut Cursor<'_>, index: usize| {
            if cursor.kind()? != Kind::Object {
                return Err(BodyError::WrongType { field: element_name(FIELD, index), expected: "an object" });
            }
            let range = cursor.skip()?;
            self.push(FIELD, kind, range)
        };
        cursor.array(element).map(drop)
    }

    /// A description of the reply's format: an object with a `type`, or `null`.
    pub(super) fn format(&mut self, cursor: &mut Cursor<'_>, field: &'static str, kind: SegmentKind) -> Result<(), BodyError> {
        let mut json = false;
        let span = read::fields(cursor, field, &["type"], |cursor, _| {
            if cursor.kind()? != Kind::String {
                return cursor.skip().map(drop);
            }
            json = cursor.string()? != "text";
            Ok(())
        });
        let Some(span) = span? else { return Ok(()) };
        self.features.json_schema |= json;
        self.push(field, kind, span.range)
    }

    /// An output cap.
    pub(super) fn cap(&mut self, cursor: &mut Cursor<'_>, field: &'static str, min: u64) -> Result<(), BodyError> {
        let (asked, value) = cursor.spanned(|cursor| read::count(cursor, field, min))?;
        self.places.caps.push(Cap { field, value, asked });
        Ok(())
    }

    /// `stream_options` of chat and completions.
    pub(super) fn stream_options(&mut self, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
        let value = |cursor: &mut Cursor<'_>| read::boolean(cursor, "stream_options.include_usage");
        (self.include_usage, self.places.usage) =
            nested(cursor, "stream_options", &["include_usage", "include_obfuscation"], value)?;
        Ok(())
    }

    /// The finished request. `start` is the offset behind a byte order mark, `inside` the one behind the outer brace.
    pub(super) fn finish(self, start: usize, inside: usize, length: usize) -> Result<Request, BodyError> {
        let missing = |field: &'static str| Err(BodyError::Missing { field: FieldName::Borrowed(field) });
        let Some((model, model_place)) = self.model else { return missing("model") };
        match self.api {
            Api::Chat | Api::Messages | Api::CountTokens if !self.has_prompt => return missing("messages"),
            // With stored context there may be nothing to add.
            Api::Responses if !self.has_prompt && !self.features.stored_context => return missing("input"),
            Api::Completions if !self.has_prompt => return missing("prompt"),
            Api::Embeddings if !self.has_prompt => return missing("input"),
            _ => {}
        }
        let output_cap = self.places.caps.iter().filter_map(|cap| cap.asked).max();
        if self.api == Api::Messages && output_cap.is_none() {
            return missing("max_tokens");
        }
        let choices = self.n.max(self.best_of).unwrap_or(1).max(1) * self.prompts;
        if choices > MAX_COUNT {
            return Err(BodyError::TooLarge { field: "n".into(), max: MAX_COUNT / self.prompts });
        }
        Ok(Request {
            api: self.api,
            model,
            stream: self.stream,
            output_cap,
            choices,
            service_tier: self.service_tier,
            include_usage: self.include_usage,
            segments: self.segments,
            features: self.features,
            mentions: Mentions::default(),
            places: Places { length, start, inside, model: model_place, ..self.places },
        })
    }
}

/// The name of one element of a list, for errors.
pub(super) fn element_name(list: &str, index: usize) -> FieldName {
    FieldName::Owned(format!("{list}[{index}]"))
}

/// The first of the `names` in an object that may be `null`: its value, and where it stands or could be put. The other names are only
/// checked for being given twice.
pub(super) fn nested<T>(
    cursor: &mut Cursor<'_>,
    object: &'static str,
    names: &[&'static str],
    read: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, BodyError>,
) -> Result<(Option<T>, Nested), BodyError> {
    let (mut value, mut member) = (None, None);
    let (span, range) = cursor.spanned(|cursor| {
        read::fields(cursor, object, names, |cursor, name| {
            if name != names[0] {
                return cursor.skip().map(drop);
            }
            let (found, place) = cursor.spanned(&read)?;
            (value, member) = (found, Some(place));
            Ok(())
        })
    })?;
    let place = match span {
        None => Nested::Null(range),
        Some(span) => Nested::Object { inside: span.range.start + 1, empty: span.empty, member },
    };
    Ok((value, place))
}
