//! A TCP stream that HTTP and a fault can share.
//!
//! hyper must not be able to tidy up after a fault: a cut answer has to be cut on the wire. So the socket is shared between
//! hyper ([`Socket`]) and the handler ([`Line`]), which may write bytes past hyper, hang up, or reset the connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// The handler's end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Line {
    stream: Arc<TcpStream>,
    hung_up: CancellationToken,
}

/// hyper's end of a connection.
#[derive(Debug)]
pub(super) struct Socket(Arc<TcpStream>);

/// Splits a stream in the two ends.
pub(super) fn share(stream: TcpStream) -> (Line, Socket) {
    let stream = Arc::new(stream);
    (Line { stream: Arc::clone(&stream), hung_up: CancellationToken::new() }, Socket(stream))
}

impl Line {
    /// Writes bytes past hyper, which must not be writing itself.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the connection with a FIN, whatever hyper was about to write.
    pub(super) fn hang_up(&self) {
        self.hung_up.cancel();
    }

    /// Ends the connection with a RST.
    pub(super) fn reset(&self) {
        // Fails only on a socket that is closed already, which is what was wanted.
        let _ = self.stream.set_zero_linger();
        self.hung_up.cancel();
    }

    /// Resolves when the handler has ended the connection.
    pub(super) async fn ended(&self) {
        self.hung_up.cancelled().await;
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buf.initialize_unfilled()) {
                Ok(read) => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(bufs) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The last owner's drop closes the socket; a shutdown here would turn a reset into a polite goodbye.
        Poll::Ready(Ok(()))
    }
}
