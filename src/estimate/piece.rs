//! The parts of a request that become prompt tokens.

pub use crate::wire::request::SegmentKind;

/// One part of a request body: the raw JSON bytes of a value, and what they are.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// How to read the value.
    pub kind: SegmentKind,
    /// The value as it stands in the body.
    pub json: &'a [u8],
}
