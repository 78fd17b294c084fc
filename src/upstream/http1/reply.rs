//! The body of a reply, read from its connection as it is asked for.

use super::framing::Framing;
use super::{Connection, Unsent, closed};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// See the module. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(in super::super) struct ReplyBody {
    /// `None` once it is over.
    connection: Option<Connection>,
    /// The rest of a request that was answered before it was sent.
    unsent: Unsent,
    framing: Framing,
    /// Whether the server lets the connection be used once more.
    persists: bool,
}

impl ReplyBody {
    pub(super) const fn new(connection: Connection, unsent: Unsent, framing: Framing, persists: bool) -> Self {
        Self { connection: Some(connection), unsent, framing, persists }
    }

    /// The connection, once the reply is over, where it can take another request: then nothing of this one is left to be sent, and
    /// nothing has come that belongs to none.
    pub(in super::super) fn connection(&mut self) -> Option<Connection> {
        if self.framing != Framing::Over {
            return None;
        }
        let free = self.persists && self.unsent.left() == 0;
        self.connection.take().filter(|connection| free && connection.read.is_empty())
    }

    /// The buffer that it keeps for what is still to come.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.connection.as_ref().map_or(0, |connection| connection.read.capacity())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(None)) };
        if self.unsent.left() > 0 && self.unsent.poll(connection, cx).is_err() {
            // It has answered; what more it would have been told is its own business.
            (self.unsent, self.persists) = (Unsent::default(), false);
        }
        loop {
            if let Some(data) = self.framing.take(&mut connection.read)? {
                return Poll::Ready(Ok(Some(data)));
            }
            if self.framing == Framing::Over {
                return Poll::Ready(Ok(None));
            }
            if ready!(connection.poll_fill(cx))? == 0 {
                self.persists = false;
                return Poll::Ready(if self.framing.closed() { Ok(None) } else { Err(closed()) });
            }
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = ready!(self.poll(cx));
        if polled.is_err() {
            self.connection = None;
        }
        Poll::Ready(polled.transpose().map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.framing == Framing::Over
    }

    fn size_hint(&self) -> SizeHint {
        match &self.framing {
            Framing::Over => SizeHint::with_exact(0),
            Framing::Length(left) => SizeHint::with_exact(*left),
            Framing::Chunked(_) | Framing::UntilClose => SizeHint::default(),
        }
    }
}
