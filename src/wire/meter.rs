//! Reads a copy of a reply as it passes and knows afterwards what it used.
//!
//! ```text
//! piece ─► Meter ─┬─► Stream ─► sse::Splitter ─► Reading ─► chat | responses | messages ─► usage::Record, delivered::Collector
//!                 └─► Body ─────(at the end)───► Reading
//! ```
//!
//! What goes out is what came in, byte for byte and piece by piece; the one exception is the usage chunk of a chat stream which the
//! client did not ask for ([`MeterOptions::hide_usage_chunk`]). Nothing a provider sends is an error here: what cannot be read is passed on
//! and not counted. Memory per reply is bounded: at most 21 KB for a stream of ordinary events, 16 MB for the largest event or body.
//!
//! The meter reads bytes as they are: a compressed reply has to be asked for uncompressed, or decoded before.

mod body;
mod chat;
mod messages;
mod reading;
mod responses;
mod stream;
mod summary;

use self::body::Body;
use self::reading::Reading;
use self::stream::Stream;
use super::Api;
use super::delivered::{Delivered, TextCounter};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;

pub use self::summary::{Anomalies, ReplyError, Summary};

/// What a meter needs to know about the request.
#[derive(Clone)]
pub struct MeterOptions {
    /// Which API was called.
    pub api: Api,
    /// The usage chunk was asked for by us, not by the client: the chunk of a chat or completions stream with an empty `choices` array
    /// and a usage is left out, and nothing else.
    pub hide_usage_chunk: bool,
    /// Counts delivered text that no longer fits in memory.
    pub count: TextCounter,
}

impl fmt::Debug for MeterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeterOptions")
            .field("api", &self.api)
            .field("hide_usage_chunk", &self.hide_usage_chunk)
            .finish_non_exhaustive()
    }
}

/// Reads a copy of a reply as it passes.
#[derive(Debug)]
pub struct Meter {
    reading: Reading,
    form: Form,
    hide_usage_chunk: bool,
    ended: bool,
}

/// What kind of bytes a reply is.
#[derive(Debug)]
enum Form {
    /// Nothing but white space came so far.
    Unknown {
        declared_stream: bool,
    },
    Stream(Stream),
    Body(Body),
}

impl Meter {
    /// A meter for a reply with this `Content-Type`.
    ///
    /// Whether the reply is a stream is decided by its first byte where that leaves no doubt, for a JSON object never begins like an
    /// event and the other way round; else by the content type. What the request asked for does not matter: servers answer JSON to
    /// streaming calls and events to others, also under the wrong type.
    #[must_use]
    pub fn for_reply(options: MeterOptions, content_type: Option<&str>) -> Self {
        let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        let declared_stream = media_type.eq_ignore_ascii_case("text/event-stream");
        let hide_usage_chunk = options.hide_usage_chunk && matches!(options.api, Api::Chat | Api::Completions);
        Self {
            reading: Reading::new(options.api, options.count),
            form: Form::Unknown { declared_stream },
            hide_usage_chunk,
            ended: false,
        }
    }

    /// Reads one piece and appends what is to be passed on to `out`: the same bytes, not copied. Nothing may be appended while an event
    /// is held back that could be a usage chunk.
    pub fn feed(&mut self, mut piece: Bytes, out: &mut VecDeque<Bytes>) {
        if let Form::Unknown { declared_stream } = self.form {
            // A byte order mark is skipped like white space: neither format knows it.
            let blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
            let Some(start) = piece.iter().position(|byte| !blank(byte)) else {
                if !piece.is_empty() {
                    out.push_back(piece);
                }
                return;
            };
            let is_stream = match piece[start] {
                b'{' | b'[' => false,
                b'd' | b'e' | b'i' | b'r' | b':' => true, // data, event, id, retry, or a comment
                _ => declared_stream,
            };
            self.form = if is_stream { Form::Stream(Stream::new(self.hide_usage_chunk)) } else { Form::Body(Body::default()) };
            if start > 0 {
                out.push_back(piece.split_to(start));
            }
        }
        if piece.is_empty() {
            return;
        }
        match &mut self.form {
            Form::Unknown { .. } => {}
            Form::Stream(stream) => stream.feed(piece, &mut self.reading, out),
            Form::Body(body) => {
                body.feed(piece.clone());
                out.push_back(piece);
            }
        }
    }

    /// The provider has ended the reply in good order: the rest is read, and what was held back is released.
    pub fn finish(&mut self, out: &mut VecDeque<Bytes>) {
        self.ended = true;
        self.cut(out);
    }

    /// The reply has broken off (connection lost, time run out): as [`Meter::finish`], but without a proper end.
    pub fn cut(&mut self, out: &mut VecDeque<Bytes>) {
        match &mut self.form {
            Form::Unknown { .. } => {}
            Form::Stream(stream) => stream.end(&mut self.reading, out),
            Form::Body(body) => body.read(&mut self.reading),
        }
    }

    /// What is known about the reply so far; may be asked at any time. Of a reply that is no stream nothing is known before its end.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.reading.summary(self.ended)
    }

    /// What the reply delivered so far, whether or not the provider has stated its usage. Of a reply that is no stream it is only
    /// collected where the usage is missing.
    #[must_use]
    pub fn delivered(&self) -> Delivered {
        self.reading.delivered()
    }

    /// Whether the terminal event of a stream has passed: the request is over, whatever the connection does.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.reading.over
    }

    /// Whether the client has got something: text, reasoning, a tool call, a comment, or the first byte of a reply that is no stream.
    #[must_use]
    pub const fn has_content(&self) -> bool {
        match &self.form {
            Form::Unknown { .. } => false,
            Form::Stream(stream) => self.reading.content || stream.commented(),
            Form::Body(_) => true,
        }
    }

    /// Whether the reply has said that it failed: an error event, a failed response, an error object. Of a reply that is no stream only
    /// known at its end.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.reading.error.is_some()
    }

    /// Whether the reply turned out to be a stream of events.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self.form, Form::Stream(_))
    }
}

#[cfg(test)]
mod tests;
