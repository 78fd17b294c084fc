//! Settings that are one of some words.

use super::node::Node;
use super::policy::{BodySource, ClientAuth, Counts, LostHold, Step, Unpriced};
use super::problem::{Findings, Place, suggestion};
use super::read::{Read, text};
use crate::domain::Priority;
use crate::wire::Dialect;

/// One of some words.
pub(crate) fn choice<T: Copy>(node: &Node, place: &Place, words: &[(&str, T)], findings: &mut Findings) -> Option<T> {
    let all = || words.iter().map(|(word, _)| *word);
    let list = all().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
    let text = text(node, place, &list, findings)?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    if found.is_none() {
        findings.problem(place, format!("{text:?} is unknown"), suggestion(text, all()));
    }
    found
}

macro_rules! choices {
    ($($type:ty: $($word:literal = $value:expr),+;)*) => {$(
        impl Read for $type {
            fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
                choice(node, place, &[$(($word, $value)),+], findings)
            }
        }
    )*};
}

choices! {
    Step: "wait" = Self::Wait, "cheaper" = Self::Cheaper, "handoff" = Self::Handoff;
    Dialect: "openai" = Self::OpenAi, "anthropic" = Self::Anthropic;
    Unpriced: "refuse" = Self::Refuse, "free" = Self::Free;
    Priority: "live" = Self::Live, "internal" = Self::Internal, "background" = Self::Background;
    BodySource: "metadata.user_id" = Self::MetadataUserId, "safety_identifier" = Self::SafetyIdentifier, "user" = Self::User;
    Counts: "reserved" = Self::Reserved, "input_output" = Self::InputOutput, "actual" = Self::Actual;
    Window: "bucket" = Self::Bucket, "sliding" = Self::Sliding;
    AuthMode: "passthrough" = Self::Passthrough, "keys" = Self::Keys;
    LostHold: "charge" = Self::Charge, "release" = Self::Release;
    Store: "embedded" = Self::Embedded, "redis" = Self::Redis;
    UnknownCustomers: "default_plan" = Self::DefaultPlan, "refuse" = Self::Refuse;
    ClientAuth: "required" = Self::Required, "optional" = Self::Optional;
    OnAbort: "cancel" = Self::Cancel, "drain" = Self::Drain;
}

/// How a rate limit decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A token bucket.
    Bucket,
    /// At most the limit in any 60 s.
    Sliding,
}

/// `[auth] mode`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// The caller's own provider key.
    Passthrough,
    /// Gateway keys.
    Keys,
}

/// `[store] kind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In this process.
    Embedded,
    /// In Redis.
    Redis,
}

/// `[identity] unknown_customers`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCustomers {
    /// They get the default plan.
    DefaultPlan,
    /// They are refused.
    Refuse,
}

/// `[upstreams.*] on_abort`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAbort {
    /// The provider call is cancelled at once.
    Cancel,
    /// The stream is read to its end.
    Drain,
}
