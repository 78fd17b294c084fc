//! A client that sends what no HTTP library would.

use crate::bed::Bed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long anything may take that needs no time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection under a test's control.
pub struct Raw {
    pub stream: TcpStream,
    read: Vec<u8>,
}

/// An answer off the wire.
#[derive(Debug)]
pub struct RawReply {
    pub status: u16,
    /// Status line and headers, in small letters.
    pub head: String,
    pub body: Vec<u8>,
}

impl Raw {
    pub async fn connect(bed: &Bed) -> Self {
        Self { stream: TcpStream::connect(bed.address).await.expect("the gateway listens"), read: Vec::new() }
    }

    /// Sends all of these bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the gateway reads");
    }

    /// The next answer, read by its framing. 100 is an answer like others here.
    pub async fn reply(&mut self) -> RawReply {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await > 0, "an answer, not {:?}", String::from_utf8_lossy(&self.read));
        };
        let head: Vec<u8> = self.read.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        let body = match head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()) {
            Some(length) => self.take(length.parse().expect("a length")).await,
            None if head.contains("transfer-encoding: chunked") => self.chunks().await,
            None => Vec::new(),
        };
        RawReply { status, head, body }
    }

    /// Whether the gateway has closed the connection and sent nothing more before that.
    pub async fn is_closed(&mut self) -> bool {
        assert!(self.read.is_empty(), "nothing more: {:?}", String::from_utf8_lossy(&self.read));
        self.more().await == 0
    }

    async fn more(&mut self) -> usize {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read)).await;
        // A reset is an end as well: it is what TCP says when bytes were left unread.
        read.expect("something within ten seconds").unwrap_or(0)
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.read.len() < length {
            assert!(self.more().await > 0, "the whole body");
        }
        self.read.drain(..length).collect()
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.extend(self.take(1).await);
            }
            let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).expect("a chunk size");
            body.extend(self.take(size).await);
            self.take(2).await;
            if size == 0 {
                return body;
            }
        }
    }
}

/// The head of a chat by this customer, up to the framing headers that the caller adds.
pub fn head(customer: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer sk-test\r\ncontent-type: \
         application/json\r\nx-customer-id: {customer}\r\n"
    )
}

/// A whole request with a content length.
pub fn whole(customer: &str, body: &str) -> String {
    format!("{}content-length: {}\r\n\r\n{body}", head(customer), body.len())
}
