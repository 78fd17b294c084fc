//! The parts of a message's content, of every API: their type names do not collide, so one walk reads them all.
//!
//! What is not known is counted as text, never left out: a new kind of part costs too much for a while rather than nothing.

use std::borrow::Cow;

use super::{
    json::Json,
    media::Data,
    tally::{Cost, Tally},
    vision::Detail,
};

/// An earlier spoken answer, fed again by its id: half a minute as the estimate, two minutes as the bound (20 tokens a second).
const EARLIER_AUDIO: Cost = Cost { best: 300, upper: 2_400 };

/// Tokens around a call or the result of one.
const AROUND_CALL: u64 = 5;

impl Tally {
    /// Content: a string, or a list of parts.
    pub(crate) fn content(&mut self, content: &Json<'_>) {
        match content {
            Json::Text(text) => self.text(text),
            Json::Array(parts) => parts.iter().for_each(|part| self.part(part)),
            other => self.part(other),
        }
    }

    /// One part of content.
    pub(crate) fn part(&mut self, part: &Json<'_>) {
        let Json::Object(members) = part else { return self.anything(part) };
        match part.str_of("type") {
            "image_url" | "input_image" | "computer_screenshot" => self.image_part(part),
            "input_audio" => self.audio_part(part),
            "video_url" | "input_video" => {
                let video = part.get("video_url").or_else(|| part.get("input_video"));
                let url = video.map(|video| video.as_str().unwrap_or_else(|| video.str_of("url"))).unwrap_or_default();
                self.video(Data::from_url(url));
            }
            "file" => self.file_part(part.get("file").unwrap_or(part)),
            "input_file" => self.file_part(part),
            "image" => self.source_part(part, true),
            "document" => self.source_part(part, false),
            "container_upload" | "item_reference" => self.unseen(),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                self.scaled(AROUND_CALL, 16);
                members.iter().for_each(|(key, value)| match &**key {
                    "name" => self.content(value),
                    "input" => self.rendered(value),
                    _ => self.member(key, value),
                });
            }
            "tool_result" => {
                self.scaled(AROUND_CALL, 16);
                self.members(members);
            }
            _ => self.members(members),
        }
    }

    /// The members of a part or item that is counted as what its strings say.
    pub(crate) fn members(&mut self, members: &[(Cow<'_, str>, Json<'_>)]) {
        for (key, value) in members {
            self.member(key, value);
        }
    }

    /// One member. Names that carry text by convention cost their value; names of ids and switches only widen the bound; others cost their name too.
    pub(crate) fn member(&mut self, key: &str, value: &Json<'_>) {
        match (key, value) {
            ("text" | "refusal" | "thinking" | "content" | "output" | "summary" | "title" | "context" | "transcript", _) => {
                self.content(value)
            }
            ("encrypted_content" | "encrypted_index" | "data", Json::Text(sealed)) => self.sealed(sealed),
            (
                "type" | "id" | "call_id" | "tool_use_id" | "tool_call_id" | "status" | "signature" | "cache_control"
                | "is_error" | "annotations" | "logprobs" | "index" | "citations" | "caller",
                _,
            ) => self.aside(value),
            (_, Json::Null) => {}
            _ => {
                self.text(key);
                self.scaled(1, 6); // quotes, colon, comma
                self.anything(value);
            }
        }
    }

    /// A value of unknown meaning: all its text counts, media inside `data:` URLs as media.
    pub(crate) fn anything(&mut self, value: &Json<'_>) {
        match value {
            Json::Null => {}
            Json::Bool(_) => self.scaled(1, 5),
            Json::Number(_) => self.number(),
            Json::Text(text) => match Data::from_url(text).filter(|data| data.media_type.contains('/')) {
                Some(data) => self.document(data, ""),
                None => self.text(text),
            },
            Json::Array(items) => items.iter().for_each(|item| self.anything(item)),
            Json::Object(_) => self.part(value),
        }
    }

    /// A call that the assistant made earlier: `{function: {name, arguments}}`, or `{name, arguments}` itself.
    pub(crate) fn call(&mut self, call: &Json<'_>) {
        let Json::Object(members) = call else { return self.anything(call) };
        self.scaled(AROUND_CALL, 16);
        for (key, value) in members {
            match (&**key, value) {
                ("function" | "custom", Json::Object(inner)) => {
                    inner.iter().for_each(|(key, value)| self.call_member(key, value))
                }
                _ => self.call_member(key, value),
            }
        }
    }

    fn call_member(&mut self, key: &str, value: &Json<'_>) {
        match (key, value) {
            ("name" | "arguments" | "input" | "namespace", Json::Text(text)) => self.text(text),
            ("arguments" | "input" | "action" | "operation", _) => self.rendered(value),
            _ => self.member(key, value),
        }
    }

    /// `audio: {id}` of an assistant message.
    pub(crate) fn earlier_audio(&mut self, audio: &Json<'_>) {
        if !audio.is_void() {
            self.fixed(EARLIER_AUDIO);
        }
    }

    /// `{image_url: {url, detail}}`, `{image_url: "...", detail}` or `{file_id}`.
    fn image_part(&mut self, part: &Json<'_>) {
        let image = part.get("image_url");
        let url = image.and_then(|image| image.as_str().or_else(|| image.get("url").and_then(Json::as_str)));
        let detail = match image.map(|image| image.str_of("detail")) {
            Some(word) if !word.is_empty() => word,
            _ => part.str_of("detail"),
        };
        self.image_url(url.unwrap_or_default(), Detail::of(detail));
    }

    fn audio_part(&mut self, part: &Json<'_>) {
        let audio = part.get("input_audio").unwrap_or(part);
        let data = audio.str_of("data");
        self.audio(Data::from_url(data).unwrap_or(Data { media_type: "", base64: data }));
    }

    /// `{file_data | file_url | file_id, filename}`.
    fn file_part(&mut self, file: &Json<'_>) {
        let (data, name) = (file.str_of("file_data"), file.str_of("filename"));
        self.text(name);
        if data.is_empty() {
            self.unseen();
        } else {
            self.document(Data::from_url(data).unwrap_or(Data { media_type: "", base64: data }), name);
        }
    }

    /// Anthropic's `{source: {type, media_type, data | url | file_id | content}}`.
    fn source_part(&mut self, part: &Json<'_>, image: bool) {
        let Json::Object(members) = part else { return };
        for (key, value) in members {
            if key == "source" {
                let data = Data { media_type: value.str_of("media_type"), base64: value.str_of("data") };
                match (value.str_of("type"), image) {
                    ("base64", true) => self.image(Some(data), Detail::Auto),
                    (_, true) => self.image(None, Detail::Auto),
                    ("base64", false) => self.document(data, ""),
                    ("text", false) => self.text(data.base64),
                    ("content", false) => self.content(value.get("content").unwrap_or(&Json::Null)),
                    (_, false) => self.unseen(),
                }
            } else {
                self.member(key, value);
            }
        }
        if part.get("source").is_none() {
            self.unseen();
        }
    }
}
