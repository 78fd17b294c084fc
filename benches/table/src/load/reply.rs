//! Reads one reply of HTTP/1.1 from a connection.

use super::chunks::Chunks;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Most headers of a reply.
const HEADERS: usize = 128;

/// How a body ends.
enum Framing {
    Length(usize),
    Chunked(Chunks),
}

/// Reads replies, one after another; keeps its memory.
#[derive(Default)]
pub struct Reader {
    raw: Vec<u8>,
    /// The body of the last reply, as far as it has come and was not taken away.
    pub body: Vec<u8>,
}

impl Reader {
    /// Reads a reply to its end and gives its status; `piece` sees the body each time that some of it has come, and may take it away.
    ///
    /// # Errors
    /// When the connection or the framing breaks.
    pub async fn read(&mut self, socket: &mut TcpStream, mut piece: impl FnMut(u16, &mut Vec<u8>)) -> Result<u16, String> {
        self.raw.clear();
        self.body.clear();
        let (status, head, mut framing) = loop {
            self.more(socket).await?;
            if let Some(head) = parse(&self.raw)? {
                break head;
            }
        };
        let mut from = head;
        loop {
            let ended = match &mut framing {
                Framing::Length(left) => {
                    let come = self.raw.len() - from;
                    if come > *left {
                        return Err("there is more than the promised length".to_owned());
                    }
                    *left -= come;
                    self.body.extend_from_slice(&self.raw[from..]);
                    *left == 0
                }
                Framing::Chunked(chunks) => {
                    chunks.feed(&self.raw[from..], &mut self.body)?;
                    chunks.ended()
                }
            };
            piece(status, &mut self.body);
            if ended {
                return Ok(status);
            }
            self.raw.clear();
            from = 0;
            self.more(socket).await?;
        }
    }

    async fn more(&mut self, socket: &mut TcpStream) -> Result<(), String> {
        self.raw.reserve(4_096);
        match socket.read_buf(&mut self.raw).await {
            Ok(0) => Err("the connection was closed".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Status, length of the head, framing; `None` while the head is not whole.
fn parse(raw: &[u8]) -> Result<Option<(u16, usize, Framing)>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut reply = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = reply.parse(raw).map_err(|error| error.to_string())? else { return Ok(None) };
    let mut framing = Framing::Length(0);
    for header in reply.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|text| text.parse().ok());
            framing = Framing::Length(length.ok_or("the length is no number")?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked(Chunks::new());
            break;
        }
    }
    Ok(Some((reply.code.unwrap_or(0), head, framing)))
}
