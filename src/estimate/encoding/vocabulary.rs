//! The pieces that are tokens by themselves, which most are: a lookup instead of an encoder with its allocations.

use std::sync::LazyLock;

use super::{Encoding, words};
use bpe_openai::byte_pair_encoding::BytePairEncoding;

/// The tokens of an encoding that may be a short piece, by their bytes. All threads share it: 2 MiB for `o200k_base`, 1 MiB for `cl100k_base`.
pub(super) struct Vocabulary {
    /// Numbers of tokens plus one; 0 is free. A token that finds its place taken has the next free one.
    places: Box<[u32]>,
    bits: u32,
}

impl Vocabulary {
    /// That of `encoding`.
    pub(super) fn of(encoding: Encoding) -> &'static Self {
        static CL100K: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&bpe_openai::cl100k_base().bpe));
        static O200K: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&bpe_openai::o200k_base().bpe));
        match encoding {
            Encoding::Cl100k => &CL100K,
            Encoding::O200k => &O200K,
        }
    }

    fn new(bpe: &BytePairEncoding) -> Self {
        let tokens = u32::try_from(bpe.num_tokens()).expect("there are fewer than a quarter of a million");
        // Between two and four places for each, so that a piece that is no token soon meets a free one.
        let bits = (2 * tokens).next_power_of_two().ilog2();
        let mut vocabulary = Self { places: vec![0; 1 << bits].into_boxed_slice(), bits };
        for token in 0..tokens {
            if let Some(key) = words::key(bpe.token_bytes(token), 0, bpe.token_len(token)) {
                let mut place = words::place(key, bits);
                while vocabulary.places[place] != 0 {
                    place = vocabulary.after(place);
                }
                vocabulary.places[place] = token + 1;
            }
        }
        vocabulary
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Whether a piece, whose key is `key`, is a token. Such a piece is never anything but this token: the library makes sure of it for each when
    /// it is built.
    #[inline(never)]
    pub(super) fn has(&self, bpe: &BytePairEncoding, piece: &[u8], key: u128) -> bool {
        let mut place = words::place(key, self.bits);
        while let Some(token) = self.places[place].checked_sub(1) {
            if bpe.token_bytes(token) == piece {
                return true;
            }
            place = self.after(place);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoding, Vocabulary, words};

    #[test]
    fn has_every_short_token_and_nothing_else() {
        for encoding in [Encoding::Cl100k, Encoding::O200k] {
            let (vocabulary, bpe) = (Vocabulary::of(encoding), &encoding.tokenizer().bpe);
            let has = |piece: &[u8]| words::key(piece, 0, piece.len()).is_some_and(|key| vocabulary.has(bpe, piece, key));
            for token in 0..bpe.num_tokens() as u32 {
                let bytes = bpe.token_bytes(token);
                assert_eq!(has(bytes), bytes.len() <= 15, "{bytes:?}");
                // With another byte it is a token only where the library says so.
                if token % 16 == 0 {
                    let longer = [bytes, b"q"].concat();
                    assert!(!has(&longer) || bpe.count(&longer) == 1, "{longer:?}");
                }
            }
        }
    }
}
