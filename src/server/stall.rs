//! A connection whose peer takes no bytes is given up: without this, clients that ask for long answers and read nothing would hold
//! slots and reservations for as long as they like.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a peer may take nothing at all of what is ready for it. A slow reader takes something all the while.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A stream that fails when its peer takes nothing for [`PATIENCE`].
pub struct Impatient<S> {
    stream: S,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    /// Watches over `stream`.
    pub const fn new(stream: S) -> Self {
        Self { stream, stalled: None }
    }

    /// Progress stops the clock; waiting starts it, and fails once it has run out.
    fn watch<T>(&mut self, progress: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stalled = None;
            return progress;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + PATIENCE)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no bytes")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(progress, cx)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(progress, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(progress, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(progress, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(8);
        let started = Instant::now();
        let error = Impatient::new(ours).write_all(&[0; 9]).await.expect_err("the peer never reads");
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let reading = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..16 {
                tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await; // paused time
                theirs.read_exact(&mut byte).await.expect("a byte");
            }
            theirs
        });
        Impatient::new(ours).write_all(&[0; 24]).await.expect("one byte at a time is progress");
        drop(reading.await.expect("read"));
    }
}
