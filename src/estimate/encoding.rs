//! Text to tokens: the two byte-pair encodings of OpenAI's models.
//!
//! Text is always *ordinary* text: `<|endoftext|>` written by a user is seven tokens, as the provider counts it, never one.
//! Time is linear in the length for every input (a million equal letters, random letters, runs of whitespace): the text is split by looking ahead at most
//! twice over a stretch, the merge inside a piece visits each position once, and what short pieces came to is remembered.

mod class;
mod split;
#[cfg(test)]
mod tests;
mod vocabulary;
mod words;

use bpe_openai::Tokenizer;
use vocabulary::Vocabulary;

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
        let (tokenizer, vocabulary) = (self.tokenizer(), Vocabulary::of(self));
        words::with(self, |words| {
            let (mut tokens, mut at) = (0, 0);
            while at < text.len() {
                let found = split::end(self, text, at).or_else(|| Some(at + tokenizer.split(&text[at..]).next()?.len()));
                // The library ends silently where nothing matches. Its patterns cover every character, but what it left is worth at most a token a byte.
                let Some(end) = found else { return tokens + (text.len() - at) };
                tokens += words.tokens(text, at, end, |piece, key| match key {
                    Some(key) if vocabulary.has(&tokenizer.bpe, piece, key) => 1,
                    _ => tokenizer.bpe.count(piece),
                });
                at = end;
            }
            tokens
        }) as u64
    }
}

/// Builds both tokenizers, which takes some hundred milliseconds that the first request should not pay.
pub(crate) fn warm_up() {
    for encoding in [Encoding::Cl100k, Encoding::O200k] {
        encoding.count("warm up");
    }
}
