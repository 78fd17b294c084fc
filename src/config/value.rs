//! The kinds of values a setting may have: durations, sizes, rates, dollars, fractions, patterns. All exact, none through a float.

use super::node::{Node, Value};
use super::problem::{Findings, Place};
use super::read::{Read, number, text};
use crate::domain::{NanoUsd, Rate};
use crate::limit::bucket::MAX_EXACT;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

impl Read for bool {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        match &node.value {
            Value::Bool(value) => Some(*value),
            other => {
                findings.problem(place, format!("must be true or false, not {}", other.kind()), "");
                None
            }
        }
    }
}

impl Read for String {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let text = text(node, place, "it in quotes", findings)?;
        if text.is_empty() {
            findings.problem(place, "is empty", "leave the key out instead");
            return None;
        }
        Some(text.to_owned())
    }
}

impl Read for u64 {
    /// Whole numbers up to 2⁵³, the largest that every store keeps exactly.
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let digits = number(node, place, "a whole number such as 60", findings)?;
        let reason = match digits.parse() {
            Ok(n) if n <= MAX_EXACT => return Some(n),
            _ if digits.bytes().all(|b| b.is_ascii_digit()) => format!("{digits} is too large"),
            _ if digits.starts_with('-') => format!("{digits} is negative"),
            _ => format!("{digits} is not a whole number"),
        };
        findings.problem(place, reason, format!("write a whole number from 0 to {MAX_EXACT}"));
        None
    }
}

/// A duration that may be zero: a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Duration);

/// A duration that may not be zero: a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub Duration);

/// Longer waits are misspelt units.
const LONGEST: Duration = Duration::from_secs(86_400);

impl Read for Wait {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXAMPLE: &str = "a duration with its unit, such as \"500ms\", \"6s\", \"2m\" or \"1h\"";
        let text = text(node, place, EXAMPLE, findings)?;
        match humantime::parse_duration(text) {
            Ok(duration) if duration <= LONGEST => return Some(Self(duration)),
            Ok(_) => findings.problem(place, format!("{text:?} is too long"), "write at most \"24h\""),
            Err(_) => findings.problem(place, format!("{text:?} is not a duration"), format!("write {EXAMPLE}")),
        }
        None
    }
}

impl Read for Timeout {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let Wait(duration) = Wait::read(node, place, findings)?;
        if duration.is_zero() {
            findings.problem(place, "is zero, so nothing could ever succeed", "write at least \"1ms\"");
            return None;
        }
        Some(Self(duration))
    }
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep(pub Duration);

/// Nobody asks for anything after a year and a month.
const LONGEST_KEPT: Duration = Duration::from_secs(400 * 86_400);

impl Read for Keep {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXAMPLE: &str = "a duration with its unit, such as \"30m\", \"24h\" or \"7d\", from 1m to 400d";
        let text = text(node, place, EXAMPLE, findings)?;
        let bounds = Duration::from_secs(60)..=LONGEST_KEPT;
        let kept = humantime::parse_duration(text).ok().filter(|duration| bounds.contains(duration));
        if kept.is_none() {
            findings.problem(place, format!("{text:?} is not a time to keep something"), format!("write {EXAMPLE}"));
        }
        kept.map(Self)
    }
}

/// How long something is kept, if at all: zero keeps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepOrNot(pub Duration);

impl Read for KeepOrNot {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let nothing = match &node.value {
            Value::Number(digits) => digits == "0",
            Value::Text(text) => humantime::parse_duration(text).is_ok_and(|duration| duration.is_zero()),
            _ => false,
        };
        if nothing { Some(Self(Duration::ZERO)) } else { Keep::read(node, place, findings).map(|keep| Self(keep.0)) }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

impl Read for Size {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXAMPLE: &str = "a size such as \"32MiB\", \"512KiB\" or \"10MB\", from 1KiB to 1GiB";
        let text = match &node.value {
            Value::Number(digits) => digits,
            _ => text(node, place, EXAMPLE, findings)?,
        };
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor = match unit.trim() {
            "" | "B" => Some(1),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            "KB" | "kB" => Some(1_000),
            "MB" => Some(1_000_000),
            "GB" => Some(1_000_000_000),
            _ => None,
        };
        let bytes = digits.parse::<usize>().ok().zip(factor).and_then(|(n, factor)| n.checked_mul(factor));
        let bytes = bytes.filter(|bytes| (1 << 10..=1 << 30).contains(bytes));
        if bytes.is_none() {
            findings.problem(place, format!("{text:?} is not a size"), format!("write {EXAMPLE}"));
        }
        bytes.map(Self)
    }
}

/// A rate: so much in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerPeriod {
    /// How much.
    pub amount: u64,
    /// In how many microseconds.
    pub period: u64,
}

impl PerPeriod {
    /// Reads `5/m`, `1/s`, `120/h`, `10/d` and decimals such as `0.7/s` (7 in 10 s).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (amount, unit) = text.split_once('/')?;
        let seconds = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        let (whole, fraction) = amount.trim().split_once('.').unwrap_or((amount.trim(), ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 6 {
            return None;
        }
        let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
        let amount: u64 = format!("{whole}{fraction}").parse().ok().filter(|n| *n <= MAX_EXACT)?;
        Some(Self { amount, period: seconds * 1_000_000 * scale })
    }
}

impl Read for PerPeriod {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXAMPLE: &str = "a rate such as \"5/m\", \"1/s\", \"120/h\" or \"10/d\"";
        let text = text(node, place, EXAMPLE, findings)?;
        let rate = Self::parse(text);
        if rate.is_none() {
            findings.problem(place, format!("{text:?} is not a rate"), format!("write {EXAMPLE}"));
        }
        rate
    }
}

impl Read for NanoUsd {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let digits = number(node, place, "dollars such as 0.50", findings)?;
        let advice = format!("write dollars from 0 to {}, with at most nine decimals", Self::MAX);
        Self::from_usd(digits).map_err(|error| findings.problem(place, format!("{digits} {error}"), advice)).ok()
    }
}

impl Read for Rate {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let digits = number(node, place, "dollars per million tokens such as 2.50", findings)?;
        let advice = "write dollars per million tokens, from 0, with at most six decimals";
        Self::per_million(digits).map_err(|error| findings.problem(place, format!("{digits} {error}"), advice)).ok()
    }
}

/// A part of something, from 0 to 1, in exact millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(pub u32);

impl Read for Fraction {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let digits = number(node, place, "a part such as 0.97", findings)?;
        // A rate reads six exact decimals, which makes its pico-dollars our millionths.
        let millionths =
            Rate::per_million(digits).ok().and_then(|rate| u32::try_from(rate.pico()).ok()).filter(|n| *n <= 1_000_000);
        if millionths.is_none() {
            findings.problem(
                place,
                format!("{digits} is not a part"),
                "write a number from 0 to 1 with at most six decimals, such as 0.97",
            );
        }
        millionths.map(Self)
    }
}

/// A name, or its beginning followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub Box<str>);

impl Pattern {
    /// Whether everything that `other` matches is matched by this pattern too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => other.0.trim_end_matches('*').starts_with(beginning),
            None => self == other,
        }
    }
}

/// Whether a pattern (`*` only at its end) matches a name.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

impl Read for Pattern {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        let text = String::read(node, place, findings)?;
        if text.trim_end_matches('*').len() + 1 < text.len() || text[..text.len() - 1].contains('*') {
            findings.problem(place, format!("{text:?} has a `*` before its end"), "write the beginning of the name and then `*`");
            return None;
        }
        Some(Self(text.into()))
    }
}

/// A value, or `"unlimited"`: an explicit absence that an inherited value does not fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limitable<T> {
    /// No limit.
    Unlimited,
    /// This much.
    Set(T),
}

impl<T: Read> Read for Limitable<T> {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text == "unlimited" => Some(Self::Unlimited),
            _ => T::read(node, place, findings).map(Self::Set),
        }
    }
}

impl Read for SocketAddr {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXAMPLE: &str = "an address and a port such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
        let text = text(node, place, EXAMPLE, findings)?;
        let text = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
        let refused = |_| findings.problem(place, format!("{text:?} is not an address and a port"), format!("write {EXAMPLE}"));
        text.parse().map_err(refused).ok()
    }
}

impl Read for IpNet {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const EXAMPLE: &str = "a network such as \"10.0.0.0/8\" or an address such as \"10.1.2.3\"";
        let text = text(node, place, EXAMPLE, findings)?;
        let net = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(Self::from));
        if net.is_none() {
            findings.problem(place, format!("{text:?} is not a network"), format!("write {EXAMPLE}"));
        }
        net
    }
}
