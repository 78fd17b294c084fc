//! Server-sent events: where they end and what they say, whatever the pieces they arrive in.
//!
//! Lines end `\n`, `\r\n` or `\r`, also mixed; a blank line ends an event; a line that starts with `:` is a comment. [`Splitter`] finds
//! the ends in one pass over the bytes and keeps two bits of state per stream; [`Event`] reads one whole event. Nothing is copied unless
//! the data of an event is spread over several `data:` lines.

use memchr::{memchr2, memchr2_iter};
use std::borrow::Cow;

const CR: u8 = b'\r';
const LF: u8 = b'\n';

/// What a stretch of a stream is. The `Part` kinds run to the end of the piece and go on in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A comment line before an event, with its line end. It stands on its own: no event has to be awaited to pass it on.
    Comment,
    /// As much of such a line as there is.
    CommentPart,
    /// An event up to and with the blank line that ends it; a lone blank line is an empty event.
    Event,
    /// As much of an event as there is.
    EventPart,
}

/// Finds the ends of events in a stream that is split at any byte.
#[derive(Debug)]
pub struct Splitter {
    /// The present line has no byte yet.
    line_empty: bool,
    /// No line of the present event has begun, so a comment would stand on its own.
    event_empty: bool,
    /// The present line is such a comment.
    comment: bool,
    /// The last byte seen was a CR; a LF that follows belongs to it.
    after_cr: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { line_empty: true, event_empty: true, comment: false, after_cr: false }
    }
}

impl Splitter {
    /// Whether `piece` begins with the LF that completes a CR at the end of the piece before; that LF is then taken.
    ///
    /// To be asked once for each piece that is not empty, before [`Splitter::next`].
    pub fn takes_lf(&mut self, piece: &[u8]) -> bool {
        std::mem::take(&mut self.after_cr) && piece.first() == Some(&LF)
    }

    /// Whether the stream stands between two frames, so that what [`Splitter::takes_lf`] took belongs to the frame before.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        self.event_empty && self.line_empty
    }

    /// The first frame of `bytes` (not empty), and its length; the next call goes on behind it.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Frame) {
        if self.is_between() && bytes.first() == Some(&b':') {
            self.comment = true;
        }
        let mut at = 0;
        loop {
            let Some(found) = memchr2(LF, CR, &bytes[at..]) else {
                if at < bytes.len() {
                    (self.line_empty, self.event_empty) = (false, false);
                }
                return (bytes.len(), if self.comment { Frame::CommentPart } else { Frame::EventPart });
            };
            let blank = self.line_empty && found == 0;
            at += found + 1;
            if bytes[at - 1] == CR {
                match bytes.get(at) {
                    Some(&LF) => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.line_empty = true;
            if blank || self.comment {
                self.event_empty = true;
                return (at, if std::mem::take(&mut self.comment) { Frame::Comment } else { Frame::Event });
            }
            self.event_empty = false;
        }
    }
}

/// One event: its name, and its `data:` lines joined with `\n`.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event:` field; empty when there is none.
    pub name: &'a [u8],
    /// The data; empty when there is none.
    pub data: Cow<'a, [u8]>,
}

impl<'a> Event<'a> {
    /// Reads the bytes of one event. Unknown fields, comments, `id:` and `retry:` are skipped; nothing is an error.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Self {
        let mut event = Self { name: &[], data: Cow::Borrowed(&[]) };
        let mut any_data = false;
        let mut from = 0;
        // The last line of a stream may lack its end.
        for to in memchr2_iter(LF, CR, bytes).chain(Some(bytes.len())) {
            let line = &bytes[from..to];
            from = to + 1;
            if let Some(value) = field(line, b"data") {
                if any_data {
                    let joined = event.data.to_mut();
                    joined.push(LF);
                    joined.extend_from_slice(value);
                } else {
                    event.data = Cow::Borrowed(value);
                    any_data = true;
                }
            } else if let Some(value) = field(line, b"event") {
                event.name = value;
            }
        }
        event
    }
}

/// The value of a line `name: value`, of which one space after the colon is no part.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All frames of a stream given in these pieces, parts glued together.
    fn frames(pieces: &[&[u8]]) -> Vec<(Frame, Vec<u8>)> {
        let (mut splitter, mut frames, mut part) = (Splitter::default(), Vec::<(Frame, Vec<u8>)>::new(), Vec::new());
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let mut at = 0;
            if splitter.takes_lf(piece) {
                at = 1;
                if splitter.is_between() {
                    frames.last_mut().expect("a frame ended with CR").1.push(LF);
                } else {
                    part.push(LF);
                }
            }
            while at < piece.len() {
                let (len, frame) = splitter.next(&piece[at..]);
                part.extend_from_slice(&piece[at..at + len]);
                if matches!(frame, Frame::Comment | Frame::Event) {
                    frames.push((frame, std::mem::take(&mut part)));
                }
                at += len;
            }
        }
        frames
    }

    #[test]
    fn events_end_at_a_blank_line_of_any_spelling() {
        for (stream, want) in [
            ("data: a\n\ndata: b\n\n", vec!["data: a\n\n", "data: b\n\n"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["data: a\r\n\r\n", "data: b\r\n\r\n"]),
            ("data: a\r\rdata: b\r\r", vec!["data: a\r\r", "data: b\r\r"]),
            ("data: a\n\r\ndata: b\r\n\rdata: c\r\n\n", vec!["data: a\n\r\n", "data: b\r\n\r", "data: c\r\n\n"]),
            ("event: x\ndata: a\n\n\ndata", vec!["event: x\ndata: a\n\n", "\n"]),
            (": hi\n: you\r\n\r\ndata: a\n: in\n\n", vec![": hi\n", ": you\r\n", "\r\n", "data: a\n: in\n\n"]),
        ] {
            let bytes = stream.as_bytes();
            for cut in 0..=bytes.len() {
                let got = frames(&[&bytes[..cut], &bytes[cut..]]);
                let texts: Vec<_> = got.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
                assert_eq!(texts, want, "{stream:?} cut at {cut}");
                for (frame, bytes) in got {
                    assert_eq!(frame == Frame::Comment, bytes[0] == b':', "{stream:?} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn the_fields_of_an_event_are_read_leniently() {
        for (bytes, name, data) in [
            ("data: a\n\n", "", "a"),
            ("data:a\n\n", "", "a"),
            ("data:  a\n\n", "", " a"),
            ("data: {\"a\":\r\ndata: 1}\r\n\r\n", "", "{\"a\":\n1}"),
            ("data: a\rdata: b\revent: x\r\r", "x", "a\nb"),
            ("event: x\nid: 7\nretry: 5\nfoo: 1\n: c\ndata: a\n\n", "x", "a"),
            ("data\ndatax: 1\n data: 2\n\n", "", ""),
            ("data:\ndata: b\n\n", "", "\nb"),
            ("data: [DONE]", "", "[DONE]"),
            ("\n", "", ""),
        ] {
            let event = Event::parse(bytes.as_bytes());
            assert_eq!((event.name, &*event.data), (name.as_bytes(), data.as_bytes()), "{bytes:?}");
        }
    }
}
