//! The inside of strings: where they end, and whether their escapes are whole characters.

use super::{BodyError, Cursor, Step};

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

/// How many bytes at the start are neither a quote nor a backslash nor a control character, eight at a time: prompts are long.
pub(super) fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Marks the high bit of each byte below `limit` (<= 128); bytes above the first marked one may be marked wrongly.
    const fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(ONES * limit) & !word & HIGH
    }
    let mut chunks = bytes.chunks_exact(8);
    let mut passed = 0;
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        let special = below(word, 0x20) | below(quote, 1) | below(backslash, 1);
        if special != 0 {
            return passed + special.trailing_zeros() as usize / 8;
        }
        passed += 8;
    }
    passed + chunks.remainder().iter().take_while(|byte| **byte >= 0x20 && !matches!(**byte, b'"' | b'\\')).count()
}
