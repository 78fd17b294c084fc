//! Where the body of a reply ends (RFC 9112, 6.3), and what of the bytes that are read belongs to it.
//!
//! As strict as hyper, and with its bounds: whoever reads a body's end from something that a proxy in between reads another way takes the
//! next reply for a part of this one.

use super::Broken;
use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

/// The most bytes of chunk extensions and trailers, of which nothing is used, in one reply.
const MOST_ASIDE: usize = 16 * 1024;

/// How much of a body is still to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks, to the one that is empty.
    Chunked(Chunked),
    /// All until the server closes the connection.
    UntilClose,
    /// Nothing.
    Over,
}

/// Where in a body of chunks one stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    at: At,
    /// What extensions and trailers have taken so far.
    aside: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum At {
    /// Before the line that says how long a chunk is.
    Size,
    /// Inside a chunk of which so much is to come.
    Data(u64),
    /// Before the line end behind it.
    DataEnd,
    /// Behind the last chunk: trailers, up to an empty line.
    Trailers,
}

impl Framing {
    /// How the body of a reply is framed, to a request of this method.
    ///
    /// # Errors
    /// Where nobody can tell.
    pub(super) fn of(method: &Method, status: StatusCode, version: Version, headers: &HeaderMap) -> Result<Self, Broken> {
        if *method == Method::HEAD || status.is_informational() || matches!(status.as_u16(), 204 | 304) {
            return Ok(Self::Over);
        }
        // Above a length, should both be there.
        if let Some(last) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
            if version == Version::HTTP_10 {
                return Err(Broken("a transfer encoding in a reply of HTTP/1.0"));
            }
            let last = last.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default();
            let chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            return Ok(if chunked { Self::Chunked(Chunked { at: At::Size, aside: 0 }) } else { Self::UntilClose });
        }
        let mut length = None;
        for stated in headers.get_all(CONTENT_LENGTH).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let stated = digits(stated.trim_ascii()).ok_or(Broken("a length that is no number"))?;
            if length.replace(stated).is_some_and(|other| other != stated) {
                return Err(Broken("two lengths that differ"));
            }
        }
        Ok(match length {
            None => Self::UntilClose,
            Some(0) => Self::Over,
            Some(length) => Self::Length(length),
        })
    }

    /// Takes what belongs to the body from the bytes that were read; `None` where more have to be read, or where it is over.
    ///
    /// # Errors
    /// When the chunks are none.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> Result<Option<Bytes>, Broken> {
        if let Self::Chunked(chunked) = self
            && chunked.pass(read)?
        {
            *self = Self::Over;
        }
        let left = match self {
            Self::Over => return Ok(None),
            Self::Chunked(Chunked { at: At::Data(left), .. }) | Self::Length(left) => *left,
            Self::Chunked(_) => return Ok(None),
            Self::UntilClose => u64::MAX,
        };
        let length = read.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(None);
        }
        let data = read.split_to(length).freeze();
        let left = left - length as u64;
        match self {
            Self::Length(_) => *self = if left == 0 { Self::Over } else { Self::Length(left) },
            Self::Chunked(chunked) => {
                chunked.at = if left == 0 { At::DataEnd } else { At::Data(left) };
                // The end of all of it often comes along with its last piece: then it is known to be the last.
                if chunked.pass(read)? {
                    *self = Self::Over;
                }
            }
            Self::UntilClose | Self::Over => {}
        }
        Ok(Some(data))
    }

    /// The server closed the connection: whether the body is whole.
    pub(super) fn closed(&mut self) -> bool {
        let whole = matches!(self, Self::UntilClose | Self::Over);
        *self = Self::Over;
        whole
    }
}

impl Chunked {
    /// Moves past everything between the data of chunks, as far as it is there; whether the body is over.
    fn pass(&mut self, read: &mut BytesMut) -> Result<bool, Broken> {
        loop {
            match self.at {
                At::Data(_) => return Ok(false),
                At::DataEnd => {
                    if read.len() < 2 {
                        return Ok(false);
                    }
                    if !read.starts_with(b"\r\n") {
                        return Err(Broken("a chunk that is longer than it says"));
                    }
                    read.advance(2);
                    self.at = At::Size;
                }
                At::Size => {
                    let Some(length) = self.line(read)? else { return Ok(false) };
                    let (size, rest) = size_of_chunk(&read[..length])?;
                    self.set_aside(rest)?;
                    read.advance(length + 2);
                    self.at = if size == 0 { At::Trailers } else { At::Data(size) };
                }
                At::Trailers => {
                    let Some(length) = self.line(read)? else { return Ok(false) };
                    self.set_aside(length + 2)?;
                    read.advance(length + 2);
                    if length == 0 {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// The length of the line that comes next, without its end; `None` as long as that is not there.
    fn line(&self, read: &[u8]) -> Result<Option<usize>, Broken> {
        let Some(end) = memchr::memchr(b'\n', read) else {
            return if read.len() > MOST_ASIDE { Err(Broken("a line between chunks that does not end")) } else { Ok(None) };
        };
        // A line feed alone ends a line for some parsers, and not for others.
        match end.checked_sub(1).filter(|before| read[*before] == b'\r') {
            Some(length) => Ok(Some(length)),
            None => Err(Broken("a line between chunks that ends with a line feed alone")),
        }
    }

    fn set_aside(&mut self, bytes: usize) -> Result<(), Broken> {
        self.aside += bytes;
        if self.aside > MOST_ASIDE { Err(Broken("more extensions or trailers than anybody needs")) } else { Ok(()) }
    }
}

/// The size that a line states, and how many bytes of it are something else.
fn size_of_chunk(line: &[u8]) -> Result<(u64, usize), Broken> {
    const NO_SIZE: Broken = Broken("a chunk without a size");
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at(end);
    if !matches!(rest.trim_ascii_start().first(), None | Some(b';')) || digits.is_empty() {
        return Err(NO_SIZE);
    }
    let add = |size: u64, digit: &u8| size.checked_mul(16)?.checked_add(u64::from(char::from(*digit).to_digit(16)?));
    digits.iter().try_fold(0, add).map(|size| (size, rest.len())).ok_or(NO_SIZE)
}

/// A number of nothing but digits.
fn digits(text: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
}

/// Whether the server lets the connection be used once more.
pub(super) fn persists(status: StatusCode, version: Version, headers: &HeaderMap) -> bool {
    let says = |word: &str| {
        let values = headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes);
        values
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|said| said.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    status != StatusCode::SWITCHING_PROTOCOLS && !says("close") && (version == Version::HTTP_11 || says("keep-alive"))
}

#[cfg(test)]
mod tests;
