//! HTTP/1.1 to a provider over one TCP connection: a request at a time.
//!
//! hyper's client gives each connection a task and a channel of its own, with a buffer to read into and one to write from, and keeps all
//! of that as long as a reply streams. This one is driven by whoever waits for the reply, and has a buffer only while there is something
//! in it: an open stream costs little more than its socket, and a piece wakes nobody but the one who passes it on.
//!
//! What makes up a reply is decided in `head` and `framing`, which take no more than hyper does.

mod framing;
mod head;
mod reply;
#[cfg(test)]
mod tests;

pub(super) use reply::ReplyBody;

use bytes::{Buf, Bytes, BytesMut};
use framing::Framing;
use http::uri::Authority;
use http::{Request, Response};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

/// What is read at once: at first, and of what comes in large pieces.
const LEAST_READ: usize = 4 * 1024;
const MOST_READ: usize = 128 * 1024;
/// What is sent at once, before others have a turn on the thread: a megabyte would keep it for half a millisecond.
const MOST_SENT: usize = 128 * 1024;

/// What a server sent that is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Broken(&'static str);

impl From<Broken> for io::Error {
    fn from(Broken(what): Broken) -> Self {
        Self::new(io::ErrorKind::InvalidData, what)
    }
}

/// A connection, and what was read of it and not yet used. Dropped, it is closed.
#[derive(Debug)]
pub(super) struct Connection {
    tcp: TcpStream,
    read: BytesMut,
    /// How much is read next time.
    room: usize,
}

/// What of a request is still to be sent.
#[derive(Debug, Default)]
struct Unsent {
    head: Bytes,
    body: Bytes,
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) struct NoReply {
    /// The request, where nothing of it was sent.
    pub(super) unsent: Option<Request<Bytes>>,
    /// What happened.
    pub(super) error: io::Error,
}

impl Connection {
    /// Of a stream that was just connected.
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, read: BytesMut::new(), room: LEAST_READ }
    }

    /// Whether it can take a request: the server has not closed it, and has said nothing that nobody asked for. The system is asked, since
    /// the runtime may not have been told yet.
    pub(super) fn is_usable(&self) -> bool {
        let heard = socket2::SockRef::from(&self.tcp).peek(&mut [MaybeUninit::uninit()]);
        self.read.is_empty() && heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the reply's head.
    pub(super) async fn send(mut self, host: &Authority, request: Request<Bytes>) -> Result<Response<ReplyBody>, NoReply> {
        let (path, body) = (request.uri().path_and_query(), request.body().clone());
        let head = head::written(request.method(), path, host, request.headers(), body.len());
        let whole = head.len() + body.len();
        let mut unsent = Unsent { head, body };
        match self.exchange(&mut unsent, request.method()).await {
            Ok((reply, framing)) => Ok(reply.map(|persists| ReplyBody::new(self, unsent, framing, persists))),
            Err(error) => Err(NoReply { unsent: (unsent.left() == whole).then_some(request), error }),
        }
    }

    /// The head of the reply to a request that is being sent, with whether the connection can be used after it, and how its body ends.
    async fn exchange(&mut self, unsent: &mut Unsent, method: &http::Method) -> io::Result<(Response<bool>, Framing)> {
        let (mut looked, mut failed) = (0, None);
        let reply = poll_fn(|cx| {
            if failed.is_none() {
                failed = unsent.poll(self, cx).err();
            }
            // Also while the request is being sent and after that has failed: a server may say no before it has read everything.
            self.poll_head(&mut looked, cx).map_err(|error| failed.take().unwrap_or(error))
        });
        let reply = reply.await?;
        let framing = Framing::of(method, reply.status(), reply.version(), reply.headers())?;
        let persists = framing::persists(reply.status(), reply.version(), reply.headers());
        Ok((reply.map(|()| persists), framing))
    }

    fn poll_head(&mut self, looked: &mut usize, cx: &mut Context<'_>) -> Poll<io::Result<Response<()>>> {
        loop {
            if let Some(reply) = head::take(&mut self.read, looked)? {
                return Poll::Ready(Ok(reply));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(closed()));
            }
        }
    }

    /// Reads what has come; zero when the server has closed the connection. Without anything to read there is no buffer either.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let polled = match self.tcp.poll_read_ready(cx)? {
            Poll::Ready(()) => {
                if self.spare() < self.room / 4 {
                    self.read.reserve(self.room);
                }
                let spare = self.spare();
                let polled = poll_read_buf(Pin::new(&mut self.tcp), cx, &mut self.read)?;
                polled.map(|length| {
                    self.room = match length {
                        _ if length == spare => (self.room * 2).min(MOST_READ),
                        _ if length < self.room / 4 => (self.room / 2).max(LEAST_READ),
                        _ => self.room,
                    };
                    length
                })
            }
            Poll::Pending => Poll::Pending,
        };
        if polled.is_pending() && self.read.is_empty() {
            self.read = BytesMut::new();
        }
        polled.map(Ok)
    }

    fn spare(&self) -> usize {
        self.read.capacity() - self.read.len()
    }
}

impl Unsent {
    fn left(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Sends on, as far as the server takes it.
    fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> io::Result<()> {
        let mut sent = 0;
        while self.left() > 0 {
            if sent >= MOST_SENT {
                cx.waker().wake_by_ref();
                break;
            }
            let piece = &self.body[..self.body.len().min(MOST_SENT)];
            let pieces = [IoSlice::new(&self.head), IoSlice::new(piece)];
            // One that is empty says nothing, and a write of it alone would be taken for the end.
            let pieces = if self.head.is_empty() { &pieces[1..] } else { &pieces[..] };
            let Poll::Ready(length) = Pin::new(&mut connection.tcp).poll_write_vectored(cx, pieces)? else { break };
            if length == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let of_head = length.min(self.head.len());
            self.head.advance(of_head);
            self.body.advance(length - of_head);
            sent += length;
        }
        if self.body.is_empty() {
            // Nobody keeps what was sent.
            self.body = Bytes::new();
        }
        Ok(())
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection before the end of its reply")
}
