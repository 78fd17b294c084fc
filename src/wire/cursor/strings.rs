//! The inside of strings: where they end, and whether their escapes are whole characters.

use super::{BodyError, Cursor, Step};
use memchr::memchr2;

impl Cursor<'_> {
    /// From behind the opening quote to behind the closing one; whether there were escapes.
    pub(super) fn string_rest(&mut self) -> Step<bool> {
        let mut escaped = false;
        loop {
            self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(self.wrong("a control character stands in a string")),
                None => return Err(self.wrong("a string does not end")),
            }
        }
    }

    fn escape(&mut self) -> Step<()> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => match self.code_unit()? {
                0xd800..=0xdbff if self.text.as_bytes()[self.at..].starts_with(b"\\u") => {
                    self.at += 1;
                    let low = self.code_unit()?;
                    if matches!(low, 0xdc00..=0xdfff) { Ok(()) } else { Err(BodyError::LoneSurrogate { at: start }) }
                }
                0xd800..=0xdfff => Err(BodyError::LoneSurrogate { at: start }),
                _ => Ok(()),
            },
            _ => Err(self.wrong("an unknown escape stands in a string")),
        }
    }

    /// `u` and four hexadecimal digits.
    fn code_unit(&mut self) -> Step<u16> {
        let digits = self.text.as_bytes().get(self.at + 1..self.at + 5).ok_or_else(|| self.wrong("a string does not end"))?;
        let mut unit = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16).ok_or_else(|| self.wrong("an unknown escape stands in a string"))?;
            unit = unit << 4 | value as u16;
        }
        self.at += 5;
        Ok(unit)
    }
}

/// How many bytes at the start are neither a quote nor a backslash nor a control character. Two quick passes, since prompts are long.
pub(super) fn plain_bytes(bytes: &[u8]) -> usize {
    let plain = &bytes[..memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len())];
    // The smallest first: that takes no branch a byte.
    if plain.iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= 0x20 {
        return plain.len();
    }
    plain.iter().take_while(|byte| **byte >= 0x20).count()
}
