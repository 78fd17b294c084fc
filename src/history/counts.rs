//! What is counted, and the names of the counters in the store. They can never change meaning: rows are kept for a year.

use crate::store::series::Name;

macro_rules! counters {
    ($(#[$doc:meta])* $type:ident { $($(#[$about:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$about])* $name,)* }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name in the store.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

counters! {
    /// Counters of a customer's or everybody's hour.
    Count {
        /// Requests, each in exactly one of the six that follow.
        Requests = "req",
        /// Answered by the model that was asked for, unabridged.
        Served = "ok",
        /// Answered with something given up.
        Degraded = "deg",
        /// Handed off to a person.
        HandedOff = "hand",
        /// Turned away by the gateway.
        Refused = "ref",
        /// Failed at the provider, or broke off.
        Failed = "fail",
        /// Its client left before there was an answer.
        Left = "left",
        /// Input tokens that were booked.
        Input = "in",
        /// Those of them that were read from the provider's cache.
        CachedInput = "cin",
        /// Output tokens that were booked.
        Output = "out",
        /// Nano-dollars that were booked.
        Cost = "cost",
    }
}

counters! {
    /// Largest minutes.
    Peaks {
        /// Requests that asked the limits: what the message bucket counts.
        Messages = "pm",
        /// Requests that were admitted: what RPM counts.
        Requests = "pr",
        /// Tokens, in and out, in the minute of their request's admission: what TPM counts.
        Tokens = "pt",
    }
}

counters! {
    /// Counters of a model's day.
    ModelCount {
        /// Requests that it was asked.
        Requests = "req",
        /// Input tokens, cached ones among them.
        Input = "in",
        /// Input tokens that were read from the provider's cache.
        CachedInput = "cin",
        /// Input tokens that were written to it.
        CacheWrite = "cw",
        /// Output tokens, reasoning among them.
        Output = "out",
        /// Output tokens that were reasoning.
        Reasoning = "rsn",
        /// Nano-dollars.
        Cost = "cost",
    }
}

/// Before the name of a plan: requests under it.
pub const PLAN: &str = "p:";
/// Before a cause: requests refused for it.
pub const CAUSE: &str = "x:";
/// Before a limit of a proposed plan: requests it would have refused.
pub const SHADOW: &str = "w:";

/// The name of a counter in an hour of a day.
pub fn in_hour(hour: u32, name: &str) -> Name {
    format!("{:02}.{name}", hour % 24).into()
}

/// Why a request was refused: the limit, as `scope.limit`, or the code of its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// This limit of this scope.
    Limit(&'static str, &'static str),
    /// This code.
    Code(&'static str),
}

impl Cause {
    /// As it is shown.
    pub fn name(self) -> String {
        match self {
            Self::Limit(scope, limit) => format!("{scope}.{limit}"),
            Self::Code(code) => code.to_owned(),
        }
    }
}

/// A name that others chose, fit to be part of a counter's or a row's: bounded, and nothing but visible ASCII.
pub fn plain(name: &str) -> String {
    const LONGEST: usize = 100;
    let visible = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    name.chars().take(LONGEST).map(visible).collect()
}
