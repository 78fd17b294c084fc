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

/// Words of eight bytes that are looked at one by one before a search is set up.
const SHORT: usize = 4;

/// How many bytes at the start are neither a quote nor a backslash nor a control character. Most strings are short; prompts are long.
pub(super) fn plain_bytes(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().take(SHORT).enumerate() {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return at * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    if words.len() <= SHORT {
        return words.len() * 8 + rest.iter().take_while(|byte| **byte >= 0x20 && !matches!(**byte, b'"' | b'\\')).count();
    }
    SHORT * 8 + long(&bytes[SHORT * 8..])
}

/// The same of what is long: two quick passes.
fn long(bytes: &[u8]) -> usize {
    let plain = &bytes[..memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len())];
    // Eight at a time, and without a branch: nearly always there is none.
    let (words, rest) = plain.as_chunks::<8>();
    let controls = words.iter().fold(0, |marks, word| marks | below(u64::from_le_bytes(*word), 0x20));
    if controls == 0 && rest.iter().all(|byte| *byte >= 0x20) {
        return plain.len();
    }
    plain.iter().take_while(|byte| **byte >= 0x20).count()
}

const ONES: u64 = u64::MAX / 255;

/// Marks the high bit of the first of eight bytes that is a quote, a backslash or a control character; those above it maybe wrongly.
const fn specials(word: u64) -> u64 {
    below(word, 0x20) | below(word ^ (ONES * b'"' as u64), 1) | below(word ^ (ONES * b'\\' as u64), 1)
}

/// Marks the high bit of the first byte below `limit` (<= 128); those above it maybe wrongly. Zero exactly if there is none.
const fn below(word: u64, limit: u64) -> u64 {
    word.wrapping_sub(ONES * limit) & !word & ONES << 7
}
