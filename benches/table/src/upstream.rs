//! The upstream of streams, a process of its own: `table upstream ADDRESS PIECES MICROSECONDS`.
//!
//! Every answer is a stream of so many pieces of text, one in each so many microseconds, each with the time at which it was written; then
//! the usage, and the end. Raw sockets, since it must not be what is measured.

use crate::pieces;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// What every stream says of its input.
pub const PROMPT_TOKENS: u64 = 500;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req-bench\r\ntransfer-encoding: chunked\r\n\r\n";
const LONGEST_HEAD: usize = 64 * 1024;

/// Serves until it is killed.
pub fn main(address: &str, pieces: &str, gap: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let (pieces, gap) = (number(pieces)?, Duration::from_micros(number(gap)?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let socket = TcpSocket::new_v4().map_err(|error| error.to_string())?;
        socket.set_reuseaddr(true).and_then(|()| socket.bind(address)).map_err(|error| error.to_string())?;
        let listener = socket.listen(4_096).map_err(|error| error.to_string())?;
        loop {
            let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
            tokio::spawn(async move {
                // A caller that leaves is no failure.
                let _ = serve(stream, pieces, gap).await;
            });
        }
    })
}

async fn serve(mut stream: TcpStream, pieces: u64, gap: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(8_192);
    while request(&mut stream, &mut buffer).await?.is_some() {
        stream.write_all(HEAD.as_bytes()).await?;
        let (mut event, mut frame) = (String::new(), String::new());
        // Each at its own moment, or all of them would write at once.
        let first = Instant::now() + gap.mul_f64(fastrand::f64());
        let mut ticks = interval_at(first, gap);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for _ in 0..pieces {
            ticks.tick().await;
            event.clear();
            pieces::write(&mut event);
            send(&mut stream, &mut frame, &event).await?;
        }
        let total = PROMPT_TOKENS + pieces;
        event = format!(
            "data: {{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\",\
             \"choices\":[],\"usage\":{{\"prompt_tokens\":{PROMPT_TOKENS},\"completion_tokens\":{pieces},\"total_tokens\":{total}}}}}\n\n\
             data: [DONE]\n\n"
        );
        send(&mut stream, &mut frame, &event).await?;
        stream.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

async fn send(stream: &mut TcpStream, frame: &mut String, event: &str) -> std::io::Result<()> {
    use std::fmt::Write as _;
    frame.clear();
    let _ = write!(frame, "{:x}\r\n{event}\r\n", event.len());
    stream.write_all(frame.as_bytes()).await
}

/// Reads one request; gives the length of its head, `None` when there is no more.
pub async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    let broken = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    buffer.clear();
    let head = loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break end + 4;
        }
        if buffer.len() > LONGEST_HEAD {
            return Err(broken("the head has no end"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let text = std::str::from_utf8(&buffer[..head]).map_err(|_| broken("the head is no text"))?;
    let length =
        text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.and_then(|(_, value)| value.trim().parse().ok()).ok_or_else(|| broken("no length"))?;
    while buffer.len() < head + length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(broken("half a request"));
        }
    }
    Ok(Some(head))
}
