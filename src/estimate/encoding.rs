//! Text to tokens: the two byte-pair encodings of OpenAI's models.
//!
//! Text is always *ordinary* text: `<|endoftext|>` written by a user is seven tokens, as the provider counts it, never one.
//! Time is linear in the length for every input (a million equal letters, random letters, runs of whitespace): the text is split by an automaton that
//! does not backtrack, and the merge inside a piece visits each position once.

use bpe_openai::Tokenizer;

/// A byte-pair encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// GPT-4, GPT-3.5 and the embedding models.
    Cl100k,
    /// GPT-4o and everything after it, and the fallback for models of other providers. `o200k_harmony` has the same ranks.
    O200k,
}

impl Encoding {
    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::Cl100k => bpe_openai::cl100k_base(),
            Self::O200k => bpe_openai::o200k_base(),
        }
    }

    /// The number of tokens of `text`; never more than its bytes.
    pub(crate) fn count(self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        let tokenizer = self.tokenizer();
        let (mut tokens, mut seen) = (0, 0);
        for piece in tokenizer.split(text) {
            seen += piece.len();
            tokens += tokenizer.bpe.count(piece.as_bytes());
        }
        // The splitter ends silently where nothing matches. Its patterns cover every character, but what it left is worth at most a token a byte.
        (tokens + (text.len() - seen)) as u64
    }
}

/// Builds both tokenizers, which takes some hundred milliseconds that the first request should not pay.
pub(crate) fn warm_up() {
    for encoding in [Encoding::Cl100k, Encoding::O200k] {
        encoding.count("warm up");
    }
}

#[cfg(test)]
mod tests {
    use super::Encoding::{Cl100k, O200k};
    use proptest::prelude::*;

    fn both(text: &str) -> (u64, u64) {
        (O200k.count(text), Cl100k.count(text))
    }

    #[test]
    fn golden_vectors() {
        let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}";
        let harmony = "<|start|>assistant<|channel|>final<|message|>";
        for (text, o200k, cl100k) in [
            ("", 0, 0),
            ("hello world", 2, 2),
            ("Hello, world!", 4, 4),
            ("The quick brown fox jumps over the lazy dog.", 10, 10),
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 8, 9),
            (r#"{"a":1,"b":[true,null]}"#, 10, 10),
            ("fn main() {\n    println!(\"hi\");\n}\n", 10, 10),
            ("北京", 1, 1),
            (family, 11, 18),
            ("<|endoftext|>", 7, 7),
            ("<|im_start|>", 6, 6),
            ("<|endofprompt|>", 7, 7),
        ] {
            assert_eq!(both(text), (o200k, cl100k), "{text:?}");
        }
        assert_eq!(O200k.count(harmony), 17);
    }

    #[test]
    fn repeated_characters_count_as_the_reference_does() {
        for (unit, times, o200k, cl100k) in [
            ("A", 100_000, 12_500, 12_500),
            ("^", 100_000, 12_500, 25_000),
            (" ", 100_000, 782, 782),
            ("\n", 100_000, 6_250, 3_125),
            ("\u{12000}", 100, 400, 400),
            ("\u{10FFFF}", 10, 40, 40),
            ("ğ", 100, 100, 100),
            ("\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}", 100, 1_100, 1_800),
        ] {
            assert_eq!(both(&unit.repeat(times)), (o200k, cl100k), "{unit:?} x {times}");
        }
        assert_eq!(O200k.count(&"a".repeat(1_000_000)), 125_000);
        assert_eq!(O200k.count(&"<|endoftext|>".repeat(1_000)), 6_001);
    }

    #[test]
    fn long_hostile_runs_neither_panic_nor_take_for_ever() {
        let spaces = " ".repeat(2_000_000);
        for (text, at_most) in [
            (format!("{spaces}x"), 2_000_000 / 100),
            (spaces, 2_000_000 / 100),
            ("\n".repeat(1_000_000), 62_500),
            ("\t \t".repeat(350_000), 350_000),
        ] {
            for encoding in [O200k, Cl100k] {
                let tokens = encoding.count(&text);
                assert!(tokens > 0 && tokens <= at_most, "{tokens} of {}", text.len());
            }
        }
        let mixed = "\t \t".repeat(1_000);
        assert_eq!(O200k.count(&mixed), tiktoken_rs::o200k_base_singleton().encode_ordinary(&mixed).len() as u64);
    }

    #[test]
    fn random_letters_cost_about_half_a_token_each() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut letters = |n: usize| -> String { (0..n).map(|_| random.lowercase()).collect() };
        let short = O200k.count(&letters(100_000));
        assert!((51_000..52_600).contains(&short), "{short}");
        let long = O200k.count(&letters(1_000_000));
        assert!((510_000..526_000).contains(&long), "{long}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn agrees_with_the_reference_on_any_text(text in prop_oneof![
            "\\PC{0,60}",
            any::<String>(),
            "([ \t\r\n\u{a0}\u{3000}]{0,6}[a-zA-Z0-9'sSſtdé\u{301}/.^]{0,6}){0,12}",
        ]) {
            prop_assert_eq!(O200k.count(&text), tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len() as u64);
            prop_assert_eq!(Cl100k.count(&text), tiktoken_rs::cl100k_base_singleton().encode_ordinary(&text).len() as u64);
        }
    }
}
