//! What the stand-in model says, and what it reports to have used. The same request always gets the same answer.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{ask::Ask, fault::Fault, schema};
use crate::wire::{Api, Usage};

/// The text every plain answer is cut from. Each piece is exactly one token of `o200k_base` and of `cl100k_base`, in every
/// order that occurs here, so the output that a reply reports can be counted by its reader.
const PIECES: [&str; 35] = [
    " Thank",
    " you",
    " for",
    " writing",
    " in",
    ".",
    " Your",
    " order",
    " left",
    " our",
    " warehouse",
    " this",
    " morning",
    " and",
    " should",
    " arrive",
    " on",
    " Friday",
    ".",
    " If",
    " it",
    " does",
    " not",
    ",",
    " please",
    " tell",
    " us",
    " and",
    " we",
    " will",
    " look",
    " at",
    " it",
    " again",
    ".",
];

/// The longest answer, whatever a request asks for.
const LONGEST: u64 = 200_000;

/// One answer, before a format writes it down.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Differs per request.
    pub id: String,
    /// Unix time, seconds.
    pub created: u64,
    pub model: String,
    pub content: Content,
    /// Whether the output cap cut it short.
    pub cut_short: bool,
    /// What the whole reply uses, all choices together.
    pub usage: Usage,
    pub style: UsageStyle,
}

/// What an answer consists of, in pieces as a stream would send them.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(Vec<Piece>),
    Tool { call_id: String, name: String, arguments: Vec<Piece> },
}

/// A piece of text and the tokens in it.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub text: String,
    pub tokens: u64,
}

/// How a reply states its usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageStyle {
    Honest,
    Missing,
    EveryChunk,
    Garbage,
}

impl Answer {
    /// Thinks of an answer.
    pub(super) fn of(ask: &Ask, fault: Option<Fault>, input: u64, cached_percent: u8, id: String) -> Self {
        let (mut content, whole) = content(ask, &id);
        let cap = ask.cap.unwrap_or(u64::MAX);
        let tokens = cut(content.pieces_mut(), cap);
        let generated = tokens.saturating_mul(ask.billed);
        let style = match fault {
            Some(Fault::NoUsage) => UsageStyle::Missing,
            Some(Fault::GarbageUsage) => UsageStyle::Garbage,
            Some(Fault::UsageEveryChunk) => UsageStyle::EveryChunk,
            _ => UsageStyle::Honest,
        };
        Self {
            id,
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            model: ask.model.clone(),
            cut_short: tokens < whole,
            usage: usage(ask, fault, input, cached_percent, generated),
            content,
            style,
        }
    }

    /// The whole text or the whole arguments.
    pub(super) fn text(&self) -> String {
        self.content.pieces().iter().map(|piece| piece.text.as_str()).collect()
    }
}

impl Content {
    pub(super) fn pieces(&self) -> &[Piece] {
        match self {
            Self::Text(pieces) | Self::Tool { arguments: pieces, .. } => pieces,
        }
    }

    fn pieces_mut(&mut self) -> &mut Vec<Piece> {
        match self {
            Self::Text(pieces) | Self::Tool { arguments: pieces, .. } => pieces,
        }
    }
}

/// The content and its length in tokens before any cap.
fn content(ask: &Ask, id: &str) -> (Content, u64) {
    let content = if let Some((name, schema)) = &ask.tool {
        let arguments = schema::example(schema).to_string();
        Content::Tool { call_id: format!("call_{id}"), name: name.clone(), arguments: split(&arguments) }
    } else if let Some(schema) = &ask.schema {
        Content::Text(split(&schema::example(schema).to_string()))
    } else {
        let wanted = ask.length.unwrap_or(24 + ask.hash % 73).min(LONGEST);
        // One piece is one token, so what the cap will cut off need not be made.
        let made = wanted.min(ask.cap.unwrap_or(u64::MAX));
        return (Content::Text(prose(made)), wanted);
    };
    let whole = content.pieces().iter().map(|piece| piece.tokens).sum();
    (content, whole)
}

/// So many tokens of prose.
fn prose(tokens: u64) -> Vec<Piece> {
    let words = PIECES.iter().cycle().take(tokens as usize).enumerate();
    words.map(|(at, word)| Piece { text: if at == 0 { word.trim_start() } else { word }.to_owned(), tokens: 1 }).collect()
}

/// JSON in the pieces its own tokenizer makes of it.
fn split(text: &str) -> Vec<Piece> {
    let tokenizer = bpe_openai::o200k_base();
    let pieces = tokenizer.split(text);
    pieces.map(|piece| Piece { text: piece.to_owned(), tokens: tokenizer.count(piece) as u64 }).collect()
}

/// Drops the pieces beyond the cap and says how many tokens are left.
fn cut(pieces: &mut Vec<Piece>, cap: u64) -> u64 {
    let mut tokens = 0;
    let kept = pieces.iter().take_while(|piece| {
        let fits = tokens + piece.tokens <= cap;
        tokens += if fits { piece.tokens } else { 0 };
        fits
    });
    let kept = kept.count();
    pieces.truncate(kept);
    tokens
}

fn usage(ask: &Ask, fault: Option<Fault>, input: u64, cached_percent: u8, output: u64) -> Usage {
    let percent = if fault == Some(Fault::Cached) { 50 } else { u64::from(cached_percent.min(100)) };
    let cache_read = input * percent / 100;
    let cache_write = if fault == Some(Fault::Cached) && ask.api == Api::Messages { input / 4 } else { 0 };
    let output = if ask.api.generates() { output } else { 0 };
    Usage {
        uncached_input: input - cache_read - cache_write,
        cache_read,
        cache_write,
        output,
        service_tier: ask.api.generates().then(|| ask.service_tier.into()),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_as_many_tokens_as_it_claims() {
        for tokenizer in [bpe_openai::o200k_base(), bpe_openai::cl100k_base()] {
            for tokens in 0..150 {
                let text: String = prose(tokens).into_iter().map(|piece| piece.text).collect();
                assert_eq!(tokenizer.count(&text) as u64, tokens, "{text}");
            }
        }
    }

    #[test]
    fn a_cap_cuts_at_a_piece_and_never_passes_it() {
        let mut pieces = split(r#"{"city":"Lisbon","days":1}"#);
        let all: u64 = pieces.iter().map(|piece| piece.tokens).sum();
        assert_eq!(cut(&mut pieces.clone(), u64::MAX), all);
        assert!(cut(&mut pieces, all - 1) < all);
    }
}
