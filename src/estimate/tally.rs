//! The running count of one piece.

use super::{family::Family, json::Json};

/// What one piece of a request comes to. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceCount {
    /// Tokens of text and framing, which a learned factor scales.
    pub(crate) tokens: u64,
    /// Tokens of media and of prompts that the provider adds, which it does not.
    pub(crate) fixed: u64,
    /// A bound on all of them.
    pub(crate) upper: u64,
    /// References to content that the gateway cannot see.
    pub(crate) unseen: u32,
    /// There are tools, and so (Anthropic) a prompt that explains them.
    pub(crate) tools: bool,
    /// The caller forces a tool, which makes that prompt longer.
    pub(crate) forced: bool,
}

impl PieceCount {
    /// Adds what another piece came to.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { tokens, fixed, upper, unseen, tools, forced } = other;
        self.tokens = self.tokens.saturating_add(tokens);
        self.fixed = self.fixed.saturating_add(fixed);
        self.upper = self.upper.saturating_add(upper);
        self.unseen = self.unseen.saturating_add(unseen);
        self.tools |= tools;
        self.forced |= forced;
    }
}

/// An estimate and its bound, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) best: u64,
    pub(crate) upper: u64,
}

impl Cost {
    /// A cost that is known.
    pub(crate) const fn exact(tokens: u64) -> Self {
        Self { best: tokens, upper: tokens }
    }
}

/// Content behind an id or an address, which nobody here has seen: a page or two as the estimate, a long document as the bound.
const UNSEEN: Cost = Cost { best: 1_000, upper: 10_000 };

/// Bound for what surrounds a message: markers, role, channel.
pub(crate) const MESSAGE_BOUND: u64 = 16;

/// Bound for a number written in a prompt.
const NUMBER_BOUND: u64 = 32;

/// Counts a piece by the rules of a family.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) family: &'static Family,
    pub(crate) count: PieceCount,
}

impl Tally {
    /// An empty count.
    pub(crate) fn new(family: &'static Family) -> Self {
        Self { family, count: PieceCount::default() }
    }

    /// Text that the model reads.
    pub(crate) fn text(&mut self, text: &str) {
        self.scaled(self.family.encoding.count(text), text.len() as u64);
    }

    /// A string that the model probably does not read (an id, a signature): only in the bound.
    pub(crate) fn aside(&mut self, json: &Json<'_>) {
        match json {
            Json::Text(text) => self.scaled(0, text.len() as u64),
            Json::Null | Json::Bool(_) => {}
            Json::Number(_) => self.scaled(0, NUMBER_BOUND),
            other => self.scaled(0, other.render().len() as u64),
        }
    }

    /// A value that the model reads as JSON.
    pub(crate) fn rendered(&mut self, json: &Json<'_>) {
        if !json.is_void() {
            self.text(&json.render());
        }
    }

    /// A number somewhere in content.
    pub(crate) fn number(&mut self) {
        self.scaled(2, NUMBER_BOUND);
    }

    /// Tokens around a message.
    pub(crate) fn message(&mut self) {
        self.scaled(self.family.per_message, MESSAGE_BOUND);
    }

    /// Tokens that the provider's own format adds, `best` of them, at most `upper`.
    pub(crate) fn scaled(&mut self, best: u64, upper: u64) {
        self.count.tokens = self.count.tokens.saturating_add(best);
        self.count.upper = self.count.upper.saturating_add(upper.max(best));
    }

    /// Tokens that do not depend on the encoding.
    pub(crate) fn fixed(&mut self, cost: Cost) {
        self.count.fixed = self.count.fixed.saturating_add(cost.best);
        self.count.upper = self.count.upper.saturating_add(cost.upper.max(cost.best));
    }

    /// A reference to content that only the provider has.
    pub(crate) fn unseen(&mut self) {
        self.fixed(UNSEEN);
        self.count.unseen = self.count.unseen.saturating_add(1);
    }
}
