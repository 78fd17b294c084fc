//! Splits text into the pieces that the encodings merge within, as their patterns say, without a regular expression: that took a third of a
//! new prompt's instructions, and its caches are behind a lock for all threads but one.
//!
//! A piece depends on nothing before it, so each is found by itself. Where it takes a character that is not in our tables, to end it or to see
//! that it has ended, the library's expression finds that one.

use super::{
    Encoding,
    class::{self, BLANK, CASELESS, Class, DIGIT, LETTER, LOWER, MARK, NEWLINE, SPACE, UNKNOWN, UPPER},
};

/// Where the piece ends that begins at `at`, which is before the end; `None` where the library has to say.
///
/// The patterns are lists of alternatives, of which the first that matches counts. No two of them but those about letters match at the same
/// place, once it is known whether a letter follows the first character; so the order of the questions here is theirs.
#[inline]
pub(super) fn end(encoding: Encoding, text: &str, at: usize) -> Option<usize> {
    let (first, length) = class::at(text, at);
    if first & LETTER != 0 {
        return word(encoding, text, at);
    }
    if first == DIGIT {
        return digits(text, at);
    }
    if encoding == Encoding::Cl100k && text.as_bytes()[at] == b'\'' {
        let end = contraction(text, at)?;
        if end > at {
            return Some(end);
        }
    }
    if first & (MARK | BLANK) != 0 {
        let next = at + length;
        let (second, _) = class::at(text, next);
        if second == UNKNOWN {
            return None;
        }
        // Any one of them belongs to the word that follows.
        if second & LETTER != 0 {
            return word(encoding, text, next);
        }
        if first == MARK {
            return marks(encoding, text, next);
        }
        // Of the blanks only this one belongs to marks.
        if second == MARK && text.as_bytes()[at] == b' ' {
            return marks(encoding, text, next);
        }
    }
    if first & SPACE != 0 { space(text, at) } else { None }
}

/// The first place from `at` on that is not in the set.
#[inline]
fn skip(text: &str, at: usize, set: Class) -> Option<usize> {
    let (class, end) = class::skip(text, at, set);
    (class != UNKNOWN).then_some(end)
}

/// The end of the word whose letters begin at `at`.
///
/// `cl100k_base`: `\p{L}+`. `o200k_base` ends a word where its case turns from lower to upper:
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`, else `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`, each with a
/// contraction.
#[inline]
fn word(encoding: Encoding, text: &str, at: usize) -> Option<usize> {
    if encoding == Encoding::Cl100k {
        return skip(text, at, LETTER);
    }
    let upper = skip(text, at, UPPER | CASELESS)?;
    let lower = skip(text, upper, LOWER | CASELESS)?;
    if lower > upper {
        return contraction(text, lower);
    }
    contraction(text, last_caseless(text, at, upper).unwrap_or(upper))
}

/// The end of the last caseless letter: where no lower case follows, the first of the two alternatives gives back letters until it ends with
/// one that may stand for lower case.
fn last_caseless(text: &str, at: usize, end: usize) -> Option<usize> {
    let (before, last) = text[at..end].char_indices().rfind(|&(_, letter)| class::of(letter) == CASELESS)?;
    Some(at + before + last.len_utf8())
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)?` at `at`. The long s, which is also an `s` of either case, is not in our tables.
fn contraction(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.get(at) != Some(&b'\'') {
        return Some(at);
    }
    if class::at(text, at + 1).0 == UNKNOWN {
        return None;
    }
    let lower = |at: usize| bytes.get(at).map(u8::to_ascii_lowercase);
    let length = match (lower(at + 1), lower(at + 2)) {
        (Some(b's' | b't' | b'm' | b'd'), _) => 2,
        (Some(b'r' | b'v'), Some(b'e')) | (Some(b'l'), Some(b'l')) => 3,
        _ => 0,
    };
    Some(at + length)
}

/// `\p{N}{1,3}`, the first of which is at `at`.
fn digits(text: &str, mut at: usize) -> Option<usize> {
    for _ in 0..3 {
        let (class, length) = class::at(text, at);
        if class != DIGIT {
            return (class != UNKNOWN).then_some(at);
        }
        at += length;
    }
    Some(at)
}

/// `[^\s\p{L}\p{N}]*` and the newlines behind it, in `o200k_base` slashes too.
fn marks(encoding: Encoding, text: &str, at: usize) -> Option<usize> {
    let mut end = skip(text, at, MARK)?;
    while let Some(byte) = text.as_bytes().get(end) {
        match byte {
            b'\r' | b'\n' => {}
            b'/' if encoding == Encoding::O200k => {}
            _ => break,
        }
        end += 1;
    }
    Some(end)
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`: all until the last newline; else all at the end of the text; else all but the last, which goes to the word
/// behind it, unless there is only one.
fn space(text: &str, at: usize) -> Option<usize> {
    let (mut here, mut last, mut lines) = (at, at, at);
    loop {
        let (class, length) = class::at(text, here);
        if class == UNKNOWN {
            return None;
        }
        if class & SPACE == 0 {
            break;
        }
        last = here;
        here += length;
        if class == NEWLINE {
            lines = here;
        }
    }
    if lines > at {
        Some(lines)
    } else if here == text.len() || last == at {
        Some(here)
    } else {
        Some(last)
    }
}

#[cfg(test)]
mod tests;
