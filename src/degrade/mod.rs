//! What is given up when there is not enough for everybody: decisions only, on numbers and instants that are passed in.
//!
//! [`level`] says how much is given up, [`retry`] whether to try again and when, [`breaker`] whether to try at all, [`chain`] what is tried
//! instead of an error; the stack and the lab act on it with the same code.

pub mod breaker;
pub mod chain;
pub mod level;
pub mod personal;
pub mod retry;

use chain::Cause;

/// What was given up for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Degraded {
    /// It is a shorter one, because of the level.
    Short,
    /// The fallback model gave it.
    Cheaper(Cause),
    /// A person will.
    Handoff(Cause),
}

impl Degraded {
    /// The spelling of the kind in headers, logs and metrics.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Cheaper(_) => "cheaper",
            Self::Handoff(_) => "handoff",
        }
    }

    /// Why, in the same places.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Short => "level",
            Self::Cheaper(cause) | Self::Handoff(cause) => cause.as_str(),
        }
    }

    /// As an item of the header: a token with a parameter, as structured fields (RFC 9651) spell it.
    #[must_use]
    pub fn item(self) -> String {
        format!("{};cause={}", self.kind(), self.cause())
    }
}
