//! The handshake: bounded in time and number, and a word for those who speak plain HTTP.

use crate::config::policy::Tls;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::HandshakeLabels;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes at once at one listener. Whoever has said nothing yet does not count, and nobody counts for longer than a handshake may
/// take; it bounds what a crowd can have computed at the same time.
pub(super) const AT_ONCE: usize = 1_024;

/// The first byte of a handshake (RFC 8446, 5.1: content type 22).
const HANDSHAKE: u8 = 22;

/// How long somebody who spoke plain HTTP has to take the answer, and how much of what they sent meanwhile is read so that they do.
const LAST_WORDS: Duration = Duration::from_secs(1);
const MOST_UNREAD: u64 = 64 << 10;

const PLAIN_HTTP: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 60\r\nconnection: close\r\n\r\n\
    This port speaks HTTPS only; write https:// in front of it.\n";

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoHands {
    /// Nothing came of it in time.
    #[error("no handshake in time")]
    Timeout,
    /// Not TLS at all; was told so.
    #[error("plain HTTP")]
    PlainHttp,
    /// The client showed no certificate, or none that counts.
    #[error("no valid certificate: {0}")]
    Certificate(io::Error),
    /// Anything else.
    #[error("{0}")]
    Failed(io::Error),
}

impl NoHands {
    /// The label in metrics.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::PlainHttp => "plain_http",
            Self::Certificate(_) => "no_certificate",
            Self::Failed(_) => "failed",
        }
    }
}

/// Shakes hands, once fewer than [`AT_ONCE`] others do.
pub(super) async fn shake_hands(stream: TcpStream, tls: &Tls, turns: &Semaphore) -> Result<TlsStream<TcpStream>, NoHands> {
    timeout(tls.handshake_timeout, shake(stream, tls, turns)).await.unwrap_or(Err(NoHands::Timeout))
}

/// Counts how it ended, and logs what an operator may want to know: there is no request yet whose line could say it.
pub(super) fn tell<S>(hands: Result<S, NoHands>, listener: &'static str, peer: SocketAddr, metrics: &Metrics) -> Option<S> {
    let result = hands.as_ref().map_or_else(NoHands::as_str, |_| "ok");
    metrics.tls.handshakes.get_or_create(&HandshakeLabels { listener, result }).inc();
    match hands {
        Ok(stream) => Some(stream),
        // Anybody can cause these, as many as they like; the metric counts them.
        Err(error @ (NoHands::Timeout | NoHands::Failed(_))) => {
            tracing::debug!(%error, %peer, listener, "no TLS handshake");
            None
        }
        Err(error) => {
            tracing::info!(%error, %peer, listener, "refused at the TLS handshake");
            None
        }
    }
}

async fn shake(stream: TcpStream, tls: &Tls, turns: &Semaphore) -> Result<TlsStream<TcpStream>, NoHands> {
    let mut first = [0];
    match stream.peek(&mut first).await.map_err(NoHands::Failed)? {
        0 => return Err(NoHands::Failed(io::ErrorKind::UnexpectedEof.into())),
        _ if first[0] != HANDSHAKE && first[0].is_ascii_uppercase() => {
            let _ = timeout(LAST_WORDS, answer(stream)).await;
            return Err(NoHands::PlainHttp);
        }
        _ => {}
    }
    let _turn = turns.acquire().await.map_err(|_| NoHands::Timeout)?;
    let accepted = TlsAcceptor::from(tls.config.clone()).accept(stream).await;
    accepted.map_err(|error| if about_certificate(&error) { NoHands::Certificate(error) } else { NoHands::Failed(error) })
}

fn about_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)))
}

/// Says that this is no place for plain HTTP. What the client still sends is read: otherwise the system would take the answer back.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN_HTTP).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(MOST_UNREAD), &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_is_as_long_as_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
