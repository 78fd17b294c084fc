//! The first bytes of a connection, which tell HTTP/2 from HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What every client of HTTP/2 says first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// HTTP/1.1, or nothing known.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A stream of which some bytes were read; whoever reads it gets them all the same.
pub(super) struct Begun<S> {
    stream: S,
    first: [u8; PREFACE.len()],
    /// What of `first` is still to be given.
    from: usize,
    to: usize,
}

/// Reads until it is clear what the stream speaks.
///
/// # Errors
/// When it cannot be read.
pub(super) async fn look<S: AsyncRead + Unpin>(stream: S) -> io::Result<(Begun<S>, Speaks)> {
    let mut begun = Begun { stream, first: [0; PREFACE.len()], from: 0, to: 0 };
    loop {
        let read = begun.stream.read(&mut begun.first[begun.to..]).await?;
        begun.to += read;
        let speaks = match begun.to {
            to if read == 0 || begun.first[..to] != PREFACE[..to] => Speaks::Http1,
            to if to == PREFACE.len() => Speaks::Http2,
            _ => continue,
        };
        return Ok((begun, speaks));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let given = buffer.remaining().min(this.to - this.from);
        buffer.put_slice(&this.first[this.from..this.from + given]);
        this.from += given;
        if given > 0 && buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // Together with what came behind them: of a head that is read in two parts hyper makes a buffer of twice the size, and keeps it.
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Pending if given > 0 => Poll::Ready(Ok(())),
            poll => poll,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn the_first_bytes_tell_and_are_not_lost() {
        let http2 = [&PREFACE[..], b"\0\0\0\x04"].concat();
        for (sent, want) in [
            (&b"POST /v1/chat/completions HTTP/1.1\r\n"[..], Speaks::Http1),
            (b"PRI * HTTP/1.1\r\n\r\n", Speaks::Http1),
            (b"PRI", Speaks::Http1),
            (b"", Speaks::Http1),
            (&http2, Speaks::Http2),
        ] {
            // As one piece, and byte by byte.
            for room in [64, 1] {
                let (mut theirs, ours) = tokio::io::duplex(room);
                let sent = sent.to_vec();
                let copy = sent.clone();
                let sending = tokio::spawn(async move { theirs.write_all(&copy).await });
                let (mut begun, speaks) = look(ours).await.expect("read");
                assert_eq!(speaks, want, "{}", String::from_utf8_lossy(&sent));
                let mut all = Vec::new();
                begun.read_to_end(&mut all).await.expect("read");
                assert_eq!(all, sent);
                sending.await.expect("no panic").expect("written");
            }
        }
    }

    #[tokio::test]
    async fn what_came_behind_them_comes_along() {
        let (mut theirs, ours) = tokio::io::duplex(1_024);
        theirs.write_all(&[b'G'; 100]).await.expect("written");
        let (mut begun, _) = look(ours).await.expect("read");
        let mut room = [0; 512];
        assert_eq!(begun.read(&mut room).await.expect("read"), 100);
        theirs.write_all(b"more").await.expect("written");
        assert_eq!(begun.read(&mut room).await.expect("read"), 4);
    }
}
