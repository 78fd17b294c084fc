//! What short pieces came to, since the same words come again and again.

use std::cell::RefCell;

use super::Encoding;

/// Pieces that are remembered; of those that share a place the last.
const PLACES: usize = 4096;
const PLACE_BITS: u32 = PLACES.ilog2();

/// A longer piece is not remembered.
const LONGEST: usize = 15;

/// The pieces of one encoding that a thread has counted: 64 KiB.
///
/// An entry is the piece's bytes and, in the highest, its length in the lower half and its tokens in the upper: all of it, so that no two are
/// taken for each other. Zero is free: no piece is empty.
pub(super) struct Words(Box<[u128]>);

/// Both encodings of a thread, at most 128 KiB; each only once it is counted in, since most gateways need one of them.
struct OfThread {
    cl100k: Option<Words>,
    o200k: Option<Words>,
}

thread_local! {
    static WORDS: RefCell<OfThread> = const { RefCell::new(OfThread { cl100k: None, o200k: None }) };
}

/// Does something with what this thread remembers of `encoding`.
pub(super) fn with<T>(encoding: Encoding, work: impl FnOnce(&mut Words) -> T) -> T {
    WORDS.with_borrow_mut(|words| {
        let words = match encoding {
            Encoding::Cl100k => &mut words.cl100k,
            Encoding::O200k => &mut words.o200k,
        };
        work(words.get_or_insert_with(Words::new))
    })
}

/// The piece of `text` from `at` to `end` as an entry without its tokens; `None` for a long one.
pub(super) fn key(text: &[u8], at: usize, end: usize) -> Option<u128> {
    let length = end - at;
    if length > LONGEST {
        return None;
    }
    // Sixteen bytes at once where there are as many, since a copy of so many as there are is a call.
    let word = match text.get(at..at + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
        Some(bytes) => u128::from_le_bytes(bytes) & ((1 << (8 * length)) - 1),
        None => text[at..end].iter().rev().fold(0, |word, &byte| (word << 8) | u128::from(byte)),
    };
    Some(word | ((length as u128) << TOP))
}

/// Where the byte of length and tokens begins.
const TOP: u32 = 120;
/// Where the tokens begin.
const TOKENS: u32 = 124;

/// The place of a piece among as many as `bits` can tell apart. It need not be hard to foresee: pieces that meet on one are counted each time, no
/// slower than if nothing was remembered.
pub(super) fn place(key: u128, bits: u32) -> usize {
    let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - bits)) as usize
}

impl Words {
    fn new() -> Self {
        Self(vec![0; PLACES].into_boxed_slice())
    }

    /// The tokens of the piece from `at` to `end`; `count` counts those that are not remembered, and gets the key of a short one.
    pub(super) fn tokens(
        &mut self,
        text: &str,
        at: usize,
        end: usize,
        count: impl FnOnce(&[u8], Option<u128>) -> usize,
    ) -> usize {
        let text = text.as_bytes();
        let key = key(text, at, end);
        let count = || count(&text[at..end], key);
        let Some(key) = key else { return count() };
        let entry = &mut self.0[place(key, PLACE_BITS)];
        if *entry & ((1 << TOKENS) - 1) == key {
            return (*entry >> TOKENS) as usize;
        }
        let tokens = count();
        // At most one a byte, so at most fifteen.
        *entry = key | ((tokens as u128) << TOKENS);
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, PLACES, Words};

    #[test]
    fn a_thread_remembers_less_than_a_quarter_of_a_megabyte() {
        assert!(2 * PLACES * size_of::<u128>() < 256 * 1024);
    }

    #[test]
    fn a_piece_is_counted_once_and_told_from_all_others() {
        let mut words = Words::new();
        let text = "abcdefghijklmnop and more";
        let mut counted = 0;
        for again in [false, true] {
            for end in 1..=LONGEST + 1 {
                let tokens = words.tokens(text, 0, end, |piece, _| {
                    counted += 1;
                    piece.len()
                });
                assert_eq!(tokens, end, "{again}");
            }
        }
        assert_eq!(counted, LONGEST + 2);
    }

    #[test]
    fn the_same_piece_is_found_at_the_end_of_a_text_and_with_zeros_at_its_own() {
        let mut words = Words::new();
        for text in ["ab\0", "ab\0 and sixteen more of them", "ab", "ab and sixteen more of them"] {
            let length = if text.contains('\0') { 3 } else { 2 };
            assert_eq!(words.tokens(text, 0, length, |_, _| length), length);
        }
        assert_eq!(words.tokens("xxab", 2, 4, |_, _| unreachable!("it was counted")), 2);
        assert_eq!(words.tokens("xxab\0", 2, 5, |_, _| unreachable!("it was counted")), 3);
    }
}
