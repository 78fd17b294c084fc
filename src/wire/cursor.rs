//! A reading position in a JSON text: strict, in one pass, without recursion and without copies.
//!
//! The gateway needs some fields and the byte positions of others, and must be sure that the provider's parser sees the same. So the
//! whole text is validated (grammar, depth, surrogates), but only what is asked for is decoded.

mod strings;
#[cfg(test)]
mod tests;

use super::request::BodyError;
use std::borrow::Cow;
use std::ops::Range;

/// The most levels of objects and arrays, the outermost counted as one.
pub(super) const MAX_DEPTH: u32 = 128;

/// What kind of value comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectSpan {
    /// From the opening to the closing brace.
    pub range: Range<usize>,
    /// Whether it has no members.
    pub empty: bool,
}

/// A position in a JSON text, before a value unless said otherwise.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

type Step<T> = Result<T, BodyError>;

impl<'a> Cursor<'a> {
    /// Starts at a byte offset, which must be a character boundary.
    pub(super) const fn new(text: &'a str, at: usize) -> Self {
        Self { text, at, depth: 0 }
    }

    /// The text of a range this cursor gave out.
    pub(super) fn slice(&self, range: &Range<usize>) -> &'a str {
        &self.text[range.clone()]
    }

    /// Whether only white space is left; moves to what else there is.
    pub(super) fn at_end(&mut self) -> bool {
        self.blanks();
        self.at == self.text.len()
    }

    /// The byte offset.
    pub(super) const fn offset(&self) -> usize {
        self.at
    }

    /// What comes next, without moving past it.
    pub(super) fn kind(&mut self) -> Step<Kind> {
        self.blanks();
        match self.peek() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::String),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => Err(self.wrong("a value was expected")),
            None => Err(self.wrong("the text ends early")),
        }
    }

    /// Reads a value by `read` and says where it stood.
    pub(super) fn spanned<T>(&mut self, read: impl FnOnce(&mut Self) -> Step<T>) -> Step<(T, Range<usize>)> {
        self.blanks();
        let start = self.at;
        let value = read(self)?;
        Ok((value, start..self.at))
    }

    /// Moves past one object. `member` is called before each value and must move past it.
    pub(super) fn object(&mut self, mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Step<()>) -> Step<ObjectSpan> {
        let start = self.open(b'{')?;
        let empty = self.closes(b'}');
        if !empty {
            loop {
                let key = self.key()?;
                member(self, key)?;
                if !self.more(b'}')? {
                    break;
                }
            }
        }
        Ok(ObjectSpan { range: start..self.at, empty })
    }

    /// Moves past one array. `element` is called before each value, with its index, and must move past it.
    pub(super) fn array(&mut self, mut element: impl FnMut(&mut Self, usize) -> Step<()>) -> Step<Range<usize>> {
        let start = self.open(b'[')?;
        if !self.closes(b']') {
            for index in 0.. {
                element(self, index)?;
                if !self.more(b']')? {
                    break;
                }
            }
        }
        Ok(start..self.at)
    }

    /// Moves past one string and decodes it; borrowed unless it has escapes.
    pub(super) fn string(&mut self) -> Step<Cow<'a, str>> {
        self.blanks();
        let start = self.at;
        self.expect(b'"', "a string was expected")?;
        let escaped = self.string_rest()?;
        if !escaped {
            return Ok(Cow::Borrowed(&self.text[start + 1..self.at - 1]));
        }
        let decoded = serde_json::from_str(&self.text[start..self.at]);
        decoded.map(Cow::Owned).map_err(|_| BodyError::Syntax { what: "a string cannot be decoded", at: start })
    }

    /// Moves past one value of any kind and says where it stood.
    pub(super) fn skip(&mut self) -> Step<Range<usize>> {
        self.blanks();
        let start = self.at;
        let outside = self.depth;
        // One bit for each level that was opened here, the innermost lowest: 1 = object. MAX_DEPTH bits are enough.
        let mut objects: u128 = 0;
        loop {
            let ended = match self.kind()? {
                Kind::Object => {
                    self.open(b'{')?;
                    let empty = self.closes(b'}');
                    if !empty {
                        objects = objects << 1 | 1;
                        self.pass_key()?;
                    }
                    empty
                }
                Kind::Array => {
                    self.open(b'[')?;
                    let empty = self.closes(b']');
                    if !empty {
                        objects <<= 1;
                    }
                    empty
                }
                Kind::String => {
                    self.at += 1;
                    self.string_rest()?;
                    true
                }
                Kind::Number => self.number()?,
                Kind::Bool | Kind::Null => self.word()?,
            };
            if !ended {
                continue;
            }
            while self.depth > outside {
                let object = objects & 1 == 1;
                if self.more(if object { b'}' } else { b']' })? {
                    if object {
                        self.pass_key()?;
                    }
                    break;
                }
                objects >>= 1;
            }
            if self.depth == outside {
                return Ok(start..self.at);
            }
        }
    }

    // === grammar ===

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    const fn wrong(&self, what: &'static str) -> BodyError {
        BodyError::Syntax { what, at: self.at }
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Step<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(if self.peek().is_none() { self.wrong("the text ends early") } else { self.wrong(otherwise) })
    }

    /// Enters an object or array; gives the offset of its first byte.
    fn open(&mut self, brace: u8) -> Step<usize> {
        self.blanks();
        let start = self.at;
        self.expect(brace, "an object or array was expected")?;
        if self.depth == MAX_DEPTH {
            return Err(BodyError::TooDeep);
        }
        self.depth += 1;
        Ok(start)
    }

    /// Whether the object or array just entered is empty; then leaves it.
    fn closes(&mut self, brace: u8) -> bool {
        self.blanks();
        let closes = self.peek() == Some(brace);
        if closes {
            self.at += 1;
            self.depth -= 1;
        }
        closes
    }

    /// After a value: whether another one follows; otherwise leaves the object or array.
    fn more(&mut self, brace: u8) -> Step<bool> {
        if self.closes(brace) {
            return Ok(false);
        }
        self.expect(b',', "a comma or the closing bracket was expected").map(|()| true)
    }

    fn key(&mut self) -> Step<Cow<'a, str>> {
        let key = self.string()?;
        self.colon().map(|()| key)
    }

    /// Like [`Cursor::key`], without decoding.
    fn pass_key(&mut self) -> Step<()> {
        self.blanks();
        self.expect(b'"', "a string was expected")?;
        self.string_rest()?;
        self.colon()
    }

    fn colon(&mut self) -> Step<()> {
        self.blanks();
        self.expect(b':', "a colon was expected")
    }

    /// `true`, `false` or `null`.
    fn word(&mut self) -> Step<bool> {
        let rest = &self.text.as_bytes()[self.at..];
        let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
        self.at += word.ok_or_else(|| self.wrong("a value was expected"))?.len();
        Ok(true)
    }

    fn number(&mut self) -> Step<bool> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(true)
    }

    /// One digit or more.
    fn digits(&mut self) -> Step<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong("a digit was expected")) } else { Ok(()) }
    }
}
