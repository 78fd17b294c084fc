//! The trace that a request belongs to: continued from the caller's `traceparent` (W3C Trace Context), or begun here.

use http::{HeaderMap, HeaderValue};

const TRACEPARENT: &str = "traceparent";
/// All of something, in millionths.
const ALL: u32 = 1_000_000;
/// Spans of one request that get an id of their own.
pub const MOST_SPANS: usize = 100;

/// Which trace, under which span, and whether it is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: u128,
    /// The span of the request. Its low byte is zero: the spans inside count on from there, so they need no dice of their own.
    pub span: u64,
    /// The caller's span, where there is one.
    pub parent: Option<u64>,
    /// Whether its spans are exported.
    pub sampled: bool,
}

impl Context {
    /// A trace that begins here, of which this part is exported (millionths).
    #[must_use]
    pub fn begun(sample: u32) -> Self {
        Self { trace: fastrand::u128(1..), span: own(), parent: None, sampled: fastrand::u32(0..ALL) < sample }
    }

    /// The caller's trace, which the caller decided to export or not; `None` without a usable `traceparent`.
    #[must_use]
    pub fn continued(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?.as_bytes();
        if values.next().is_some() {
            return None;
        }
        let (known, more) = value.split_at_checked(55)?;
        let [version, trace, span, flags] = known.splitn(4, |byte| *byte == b'-').collect::<Vec<_>>()[..] else { return None };
        // A later version may have more behind it; this one may not.
        let ends = if version == b"00" { more.is_empty() } else { more.is_empty() || more.starts_with(b"-") };
        let sizes = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
        if !ends || !sizes || version == b"ff" {
            return None;
        }
        hex(version)?;
        let trace = hex(trace).filter(|trace| *trace != 0)?;
        let parent = hex(span).and_then(|span| u64::try_from(span).ok()).filter(|span| *span != 0)?;
        Some(Self { trace, span: own(), parent: Some(parent), sampled: hex(flags)? & 1 == 1 })
    }

    /// The id of the span inside that is this many from the first.
    #[must_use]
    pub const fn inner(&self, index: usize) -> u64 {
        self.span + 1 + index as u64
    }

    /// What tells the next one in line of this trace, under this span.
    #[must_use]
    pub fn header(&self, span: u64) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("00-{:032x}-{span:016x}-{:02x}", self.trace, u8::from(self.sampled))).ok()
    }
}

/// A random id that is never zero, with room behind it.
fn own() -> u64 {
    (fastrand::u64(..) | 1 << 63) & !0xff
}

/// Digits in small letters only, as the format has it.
fn hex(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0, |sum, byte| match byte {
        b'0'..=b'9' => Some(sum << 4 | u128::from(byte - b'0')),
        b'a'..=b'f' => Some(sum << 4 | u128::from(byte - b'a' + 10)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn continued(value: &str) -> Option<Context> {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_str(value).expect("a header"));
        Context::continued(&headers)
    }

    #[test]
    fn a_sound_traceparent_is_continued_and_anything_else_is_not() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let known = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
        for (value, sampled) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(true)),
            (format!("00-{trace}-00f067aa0ba902b7-00"), Some(false)),
            (format!("00-{trace}-00f067aa0ba902b7-03"), Some(true)),
            (format!("cc-{trace}-00f067aa0ba902b7-01-what-comes-later"), Some(true)),
            (format!("cc-{trace}-00f067aa0ba902b7-01what"), None),
            (format!("00-{trace}-00f067aa0ba902b7-01-more"), None),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            (format!("00-{trace}-0000000000000000-01"), None),
            (format!("00-{trace}-00f067aa0ba902b7-0"), None),
            (format!("00-{trace}-00f067aa0ba902b-701"), None),
            (String::new(), None),
            ("x".repeat(55), None),
        ] {
            let context = continued(&value);
            assert_eq!(context.map(|context| context.sampled), sampled, "{value}");
            let Some(context) = context else { continue };
            assert_eq!((context.trace, context.parent), (known, Some(0x00f0_67aa_0ba9_02b7)), "{value}");
            let header = context.header(context.inner(0)).expect("a header");
            let flags = if context.sampled { "01" } else { "00" };
            assert_eq!(header, format!("00-{trace}-{:016x}-{flags}", context.span + 1));
        }
        let mut two = HeaderMap::new();
        for _ in 0..2 {
            two.append(TRACEPARENT, HeaderValue::from_str(&format!("00-{trace}-00f067aa0ba902b7-01")).expect("a header"));
        }
        assert_eq!(Context::continued(&two), None, "two of them are none");
    }

    #[test]
    fn a_trace_begun_here_is_exported_by_its_share() {
        let sampled = |sample| (0..1_000).filter(|_| Context::begun(sample).sampled).count();
        assert_eq!((sampled(0), sampled(ALL)), (0, 1_000));
        assert!((300..700).contains(&sampled(ALL / 2)));
    }
}
