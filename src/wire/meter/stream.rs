//! Passes a stream on and reads a copy of it; can leave out the usage chunk that the client did not ask for.
//!
//! Without leaving anything out every piece goes on as it came. With it, an event that is split over pieces is held back until it is
//! whole (no client can use a part of an event) or larger than a usage chunk can be. What goes out is the same either way, wherever the
//! stream is split.

use super::reading::Reading;
use crate::wire::sse::{Frame, Splitter};
use bytes::Bytes;
use std::collections::VecDeque;

/// The largest event that is read. One legal event may be 8 MB (an image in base64); what is larger is passed on unread.
pub(super) const MAX_EVENT: usize = 8 * 1024 * 1024 + 64 * 1024;

/// The largest event that can be a usage chunk, without the line ends behind it. A larger one is never left out.
pub(super) const MAX_HIDDEN: usize = 16 * 1024;

/// As much of an event as is held back: a usage chunk and the two line ends behind it.
const MAX_HELD: usize = MAX_HIDDEN + 4;

/// Room kept between events for those that are split over pieces.
const KEPT_ROOM: usize = 4 * 1024;

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct Stream {
    splitter: Splitter,
    /// The present event as far as it came in earlier pieces.
    pending: Vec<u8>,
    /// The present event has outgrown [`MAX_EVENT`]; the rest of it is passed on unread.
    skipping: bool,
    /// Usage chunks are left out.
    hide: bool,
    /// All of `pending` is still to be passed on.
    held: bool,
    /// The last event was left out, and so is a line end that belongs to it.
    hid_last: bool,
    /// A comment has passed.
    commented: bool,
}

impl Stream {
    pub(super) fn new(hide: bool) -> Self {
        Self {
            splitter: Splitter::default(),
            pending: Vec::new(),
            skipping: false,
            hide,
            held: false,
            hid_last: false,
            commented: false,
        }
    }

    pub(super) const fn commented(&self) -> bool {
        self.commented
    }

    /// The room the accounting copy takes at the moment.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.pending.capacity()
    }

    /// Takes a piece, which is not empty.
    pub(super) fn feed(&mut self, piece: Bytes, reading: &mut Reading, out: &mut VecDeque<Bytes>) {
        // Where the present frame begins, and what of the piece is still to be passed on.
        let (mut from, mut unpassed) = (0, 0);
        if self.splitter.takes_lf(&piece) {
            from = 1;
            if self.splitter.is_between() {
                unpassed = usize::from(self.hid_last);
            } else {
                unpassed = self.append(&piece, 0, 1, out);
            }
        }
        while from < piece.len() {
            let (len, frame) = self.splitter.next(&piece[from..]);
            let to = from + len;
            match frame {
                Frame::Comment | Frame::CommentPart => {
                    self.commented = true;
                    self.hid_last = false;
                }
                Frame::EventPart => {
                    self.pass(&piece, unpassed, from, out);
                    unpassed = self.append(&piece, from, to, out);
                }
                Frame::Event if self.pending.is_empty() && !self.skipping => {
                    self.hid_last = self.read(&piece[from..to], reading);
                    if self.hid_last {
                        self.pass(&piece, unpassed, from, out);
                        unpassed = to;
                    }
                }
                Frame::Event => {
                    self.pass(&piece, unpassed, from, out);
                    unpassed = self.append(&piece, from, to, out);
                    self.end_pending(reading, out);
                }
            }
            from = to;
        }
        if unpassed == 0 || !self.hide {
            out.push_back(piece);
        } else if unpassed < piece.len() {
            out.push_back(piece.slice(unpassed..));
        }
    }

    /// The stream has ended, in whatever way: an event without its blank line is read all the same, and nothing stays held back.
    pub(super) fn end(&mut self, reading: &mut Reading, out: &mut VecDeque<Bytes>) {
        self.end_pending(reading, out);
    }

    /// Passes a part of a piece on, if that is for us to do.
    fn pass(&self, piece: &Bytes, from: usize, to: usize, out: &mut VecDeque<Bytes>) {
        if self.hide && from < to {
            out.push_back(piece.slice(from..to));
        }
    }

    /// Adds `piece[from..to]` to the pending event, and returns where in the piece the part begins that is still to be passed on.
    fn append(&mut self, piece: &Bytes, from: usize, to: usize, out: &mut VecDeque<Bytes>) -> usize {
        let begins = self.pending.is_empty() && !self.skipping;
        let total = self.pending.len() + (to - from);
        if begins {
            self.held = self.hide && total <= MAX_HELD;
        } else if self.held && total > MAX_HELD {
            out.push_back(Bytes::copy_from_slice(&self.pending));
            self.held = false;
        }
        if total > MAX_EVENT {
            self.skipping = true;
            self.pending = Vec::new();
        } else if !self.skipping {
            self.pending.extend_from_slice(&piece[from..to]);
        }
        if self.held { to } else { from }
    }

    /// Reads the pending event, which is whole now, and passes it on or leaves it out if it was held back.
    fn end_pending(&mut self, reading: &mut Reading, out: &mut VecDeque<Bytes>) {
        let mut event = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.skipping) {
            reading.passed_unread();
        }
        let hidden = !event.is_empty() && self.read(&event, reading);
        let held = std::mem::take(&mut self.held);
        self.hid_last = hidden && held;
        if held && !hidden {
            out.push_back(Bytes::from(event));
        } else if event.capacity() <= KEPT_ROOM {
            event.clear();
            self.pending = event;
        }
    }

    /// Reads one whole event; true when it is to be left out.
    fn read(&self, event: &[u8], reading: &mut Reading) -> bool {
        if event.len() > MAX_EVENT {
            reading.passed_unread();
            return false;
        }
        // Without the line ends, of which the last may come only with the next piece.
        let length = event.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        reading.event(event) && self.hide && length <= MAX_HIDDEN
    }
}
