//! Takes the chunks off a reply.

/// Where in the chunks we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size(usize),
    Extension(usize),
    Data(usize),
    AfterData,
    Trailer(usize),
    End,
}

/// A decoder of `transfer-encoding: chunked`, one reply long.
#[derive(Debug)]
pub struct Chunks {
    at: At,
}

impl Chunks {
    /// At the beginning of a body.
    pub const fn new() -> Self {
        Self { at: At::Size(0) }
    }

    /// Whether the last chunk has been seen.
    pub fn ended(&self) -> bool {
        self.at == At::End
    }

    /// Appends what is data in `bytes`.
    ///
    /// # Errors
    /// When the framing is broken.
    pub fn feed(&mut self, mut bytes: &[u8], data: &mut Vec<u8>) -> Result<(), String> {
        while let [first, rest @ ..] = bytes {
            self.at = match self.at {
                At::Data(left) => {
                    let take = left.min(bytes.len());
                    data.extend_from_slice(&bytes[..take]);
                    bytes = &bytes[take..];
                    self.at = if take == left { At::AfterData } else { At::Data(left - take) };
                    continue;
                }
                At::Size(size) => match first {
                    b'\r' => At::Size(size),
                    b'\n' if size == 0 => At::Trailer(0),
                    b'\n' => At::Data(size),
                    b';' => At::Extension(size),
                    digit => {
                        let digit = char::from(*digit).to_digit(16).ok_or("a chunk has no size")? as usize;
                        At::Size(size.checked_mul(16).ok_or("a chunk is too large")? + digit)
                    }
                },
                At::Extension(size) if *first == b'\n' => {
                    if size == 0 {
                        At::Trailer(0)
                    } else {
                        At::Data(size)
                    }
                }
                At::Extension(size) => At::Extension(size),
                At::AfterData if *first == b'\n' => At::Size(0),
                At::AfterData => At::AfterData,
                At::Trailer(0) if *first == b'\n' => At::End,
                At::Trailer(length) => match first {
                    b'\n' => At::Trailer(0),
                    b'\r' => At::Trailer(length),
                    _ => At::Trailer(length + 1),
                },
                At::End => return Err("there is more after the last chunk".to_owned()),
            };
            bytes = rest;
        }
        Ok(())
    }
}
